"""URLs of admin and REST."""

from __future__ import annotations

from django.contrib import admin
from django.urls import include, path

from toolhub import static

urlpatterns = [
    path("static/<path:path>", static.serve),
    path("admin/language/", include("django.conf.urls.i18n")),
    path("admin/", admin.site.urls),
    path("", include("tools_app.api.urls")),
]

# Errors are answered in JSON as by REST, and with pages in the admin.
handler400 = "tools_app.api.fallbacks.bad_request"
handler404 = "tools_app.api.fallbacks.page_not_found"
handler500 = "tools_app.api.fallbacks.server_error"
