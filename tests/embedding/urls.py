"""The project's addresses, with the hub's REST door below its root."""

from __future__ import annotations

from django.contrib import admin
from django.urls import include, path

urlpatterns = [path("admin/", admin.site.urls), path("", include("tools_app.api.urls"))]
