"""URLs of admin and REST."""

from __future__ import annotations

from django.contrib import admin
from django.urls import include, path

from toolhub import break_glass, signing_in, static
from toolhub.second_factor import views as second_factor
from toolhub.sso import views as sso

urlpatterns = [
    path("static/<path:path>", static.serve),
    path("admin/language/", include("django.conf.urls.i18n")),
    path("admin/sso/", sso.begin, name="sso_begin"),
    path("admin/sso/callback/", sso.callback, name="sso_callback"),
    path("admin/emergency/<str:token>/", break_glass.page, name="break_glass"),
    path("admin/second-factor/", second_factor.page, name="second_factor"),
    path("admin/second-factor/set-up/", second_factor.set_up, name="second_factor_set_up"),
    path("admin/second-factor/passkey/", second_factor.passkey, name="second_factor_passkey"),
    path("admin/second-factor/codes/", second_factor.codes, name="second_factor_codes"),
    path("admin/second-factor/remove/", second_factor.remove, name="second_factor_remove"),
    path("admin/second-factor/reset/", second_factor.reset, name="second_factor_reset"),
    path("admin/login/code/", second_factor.challenge, name="second_factor_challenge"),
    path("admin/login/", signing_in.sign_in),
    path("admin/", admin.site.urls),
    path("", include("tools_app.api.urls")),
]

# Errors are answered in JSON as by REST, and with pages in the admin.
handler400 = "tools_app.api.fallbacks.bad_request"
handler403 = "toolhub.denied.permission_denied"
handler404 = "tools_app.api.fallbacks.page_not_found"
handler500 = "tools_app.api.fallbacks.server_error"
