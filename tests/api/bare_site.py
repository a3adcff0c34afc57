"""The addresses of a site that has the REST door and no admin."""

from __future__ import annotations

from django.urls import include, path

from toolhub import urls as site

urlpatterns = [path("", include("tools_app.api.urls"))]
handler404, handler500 = site.handler404, site.handler500
