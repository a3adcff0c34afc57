"""Which address leads to which door."""

from __future__ import annotations

from django.contrib import admin
from django.urls import include, path

urlpatterns = [
    path("admin/language/", include("django.conf.urls.i18n")),
    path("admin/", admin.site.urls),
    path("", include("tools_app.api.urls")),
]

# Whatever reaches no view of ours is answered by the REST door, in JSON; people in the admin get pages.
handler400 = "tools_app.api.fallbacks.bad_request"
handler404 = "tools_app.api.fallbacks.page_not_found"
handler500 = "tools_app.api.fallbacks.server_error"
