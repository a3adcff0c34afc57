"""The sign-in page, protection against guessing (lockout and rate limit), and the audit entries of sign-ins.

A name is locked for one address (django-axes), so that an attacker elsewhere cannot lock out the user. A rate limit per
address covers many names, and applies before the slow password hash is computed.
"""

from __future__ import annotations

import ipaddress
import math
from contextlib import suppress
from typing import Any, Final

from django.conf import settings
from django.contrib import admin
from django.contrib.auth import BACKEND_SESSION_KEY, get_user_model
from django.contrib.auth.signals import user_logged_in, user_logged_out, user_login_failed
from django.contrib.auth.views import LoginView
from django.core.exceptions import PermissionDenied
from django.db.models.signals import post_save
from django.dispatch import receiver
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import render
from django.urls import NoReverseMatch, reverse
from django.utils.deprecation import MiddlewareMixin
from django.utils.http import urlencode
from django.utils.module_loading import import_string
from django.utils.translation import gettext as _

from tools_app import governance
from tools_app.access import limits

# In the audit trail, by the backend of the session.
CHANNEL: Final = "admin"
# Requests that count as attempts.
_ATTEMPTS: Final = (
    ("POST", "admin:login"),
    ("POST", "second_factor_challenge"),
    ("GET", "sso_begin"),
    ("GET", "sso_callback"),
)
# Apps whose models are managed by this hub, or not used.
_HIDDEN_APPS: Final = frozenset({"account", "socialaccount", "mfa"})


def sign_in(request: HttpRequest) -> HttpResponseBase:
    """The page with the password form, the link to the provider, or both."""
    if request.method == "POST" and not settings.TOOLHUB_PASSWORD_SIGN_IN:
        return render(request, "admin/passwords_off.html", status=403)
    context: dict[str, Any] = {"passwords_off": not settings.TOOLHUB_PASSWORD_SIGN_IN}
    if settings.TOOLHUB_SSO_ISSUER:
        from toolhub.sso import provider

        query = urlencode({"next": request.GET.get("next", "")}) if request.GET.get("next") else ""
        context |= {"sso_host": provider.host(), "sso_url": f"{reverse('sso_begin')}?{query}".rstrip("?")}
    if request.method != "POST":
        return admin.site.login(request, extra_context=context)
    context |= {**admin.site.each_context(request), "title": _("Log in"), "app_path": request.get_full_path()}
    from toolhub.sign_in_form import SignInForm

    view = PasswordView.as_view(extra_context=context, authentication_form=SignInForm, template_name="admin/login.html")
    return view(request)


class PasswordView(LoginView):
    """The admin's own, which asks for the second factor of those who have one."""

    def form_valid(self, form: Any) -> HttpResponse:
        from toolhub.second_factor import factors, views

        user = form.get_user()
        if factors.is_on(user):
            return views.ask(self.request, user, self.get_success_url())
        return super().form_valid(form)


def remove_pages_of_libraries() -> None:
    """Remove the pages that libraries add to the admin: they would change accounts beside `governance`."""
    for model in list(admin.site._registry):
        if model._meta.app_label in _HIDDEN_APPS:
            admin.site.unregister(model)


class PasswordsOfLocalUsers:
    """Refuses passwords where they are switched off, and of people whose access the provider decides about."""

    def authenticate(self, request: HttpRequest | None, username: str | None = None, **credentials: Any) -> None:
        """Raises: PermissionDenied: no other backend is asked."""
        if "password" not in credentials:
            return
        if not settings.TOOLHUB_PASSWORD_SIGN_IN:
            raise PermissionDenied
        users = get_user_model()
        if username and users._default_manager.filter(username=username, socialaccount__isnull=False).exists():
            # As slow as for other names.
            users().set_password(credentials["password"])
            raise PermissionDenied


def address(request: HttpRequest) -> str | None:
    """The client's address; for IPv6 its /64 network, in which a client can choose any address."""
    try:
        ip_address = ipaddress.ip_address(request.META.get("REMOTE_ADDR", ""))
    except ValueError:
        return None  # A Unix socket has no address.
    if isinstance(ip_address, ipaddress.IPv4Address):
        return str(ip_address)
    if ip_address.ipv4_mapped is not None:
        return str(ip_address.ipv4_mapped)
    return str(ipaddress.IPv6Address(int(ip_address) >> 64 << 64))


def locked(request: HttpRequest, response: HttpResponse | None, credentials: dict[str, Any] | None) -> HttpResponse:
    """Refuse the attempt, and record the lock in the audit trail."""
    name = str((credentials or {}).get("username") or "")
    governance.note_lock(name, address(request) or "", within=settings.AXES_COOLOFF_TIME)
    return _refused(request, settings.TOOLHUB_LOGIN_SECONDS)


# Django sends these for every way to sign in. Code that signs in without a request, such as a test, is no channel.
@receiver(user_logged_in)
def signed_in(user: Any, request: HttpRequest | None = None, **kwargs: Any) -> None:
    if request is not None and _is_real(request):
        governance.note_sign_in(user, _channel(request))


@receiver(user_logged_out)
def signed_out(user: Any, request: HttpRequest | None = None, **kwargs: Any) -> None:
    if user is not None and request is not None and _is_real(request):
        governance.note_sign_out(user, _channel(request))
        governance.end_idle_session(request.session.session_key or "")


@receiver(post_save)
def saved(sender: Any, instance: Any, **_: Any) -> None:
    """A new password ends all sessions; the page that changes one's own then makes another for this browser."""
    # What `set_password` leaves on the user until it is saved. Django renews hashes without it.
    if sender is get_user_model() and getattr(instance, "_password", None) is not None:
        governance.end_all_sessions(instance)


@receiver(user_login_failed)
def sign_in_failed(credentials: dict[str, Any], request: HttpRequest | None = None, **kwargs: Any) -> None:
    if request is not None and _is_real(request):
        name = str(credentials.get("username") or "")
        governance.note_failed_sign_in(name, address(request) or "", within=settings.AXES_COOLOFF_TIME)


def _is_real(request: HttpRequest) -> bool:
    return request.method is not None


def _channel(request: HttpRequest) -> str:
    """That of the backend that began the session."""
    backend = request.session.get(BACKEND_SESSION_KEY)
    return getattr(import_string(backend), "channel", CHANNEL) if backend else CHANNEL


class SlowedDown(MiddlewareMixin):
    """Rate limit for attempts to sign in, per address and for all names."""

    def process_request(self, request: HttpRequest) -> HttpResponse | None:
        return slowed(request) if _is_attempt(request) else None


def _is_attempt(request: HttpRequest) -> bool:
    for method, name in _ATTEMPTS:
        with suppress(NoReverseMatch):  # Where a project has other URLs than the hub's own site.
            if request.method == method and request.path_info == reverse(name):
                return True
    return False


def slowed(request: HttpRequest) -> HttpResponse | None:
    """Count an attempt. The answer if there were too many."""
    status = limits.count_sign_in(request.META.get("REMOTE_ADDR", ""))
    if status is None or not status.wait:
        return None
    return _refused(request, math.ceil(status.wait), slowed=True)


def _refused(request: HttpRequest, seconds: int, *, slowed: bool = False) -> HttpResponse:
    context = {"minutes": -(-seconds // 60), "slowed": slowed}
    page = render(request, "admin/locked.html", context, status=429)
    page["Retry-After"] = str(seconds)
    return page
