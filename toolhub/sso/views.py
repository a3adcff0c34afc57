"""The two pages of a sign-in at the provider: on the way there, and back."""

from __future__ import annotations

import logging
import secrets
from datetime import timedelta
from typing import Final

from axes.handlers.proxy import AxesProxyHandler
from django.conf import settings
from django.contrib.auth import login
from django.contrib.auth.signals import user_login_failed
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import render
from django.urls import reverse
from django.utils import timezone
from django.utils.http import url_has_allowed_host_and_scheme
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET

from toolhub import signing_in
from toolhub.sso import people, provider
from toolhub.sso.failures import SignInError
from toolhub.sso.provider import Provider

log = logging.getLogger("toolhub.sso")

BACKEND: Final = "toolhub.sso.people.Backend"
# Groups are read at the sign-in only: for this long at most, a session can outlive a removal from a group.
MOST_SESSION: Final = timedelta(hours=8)
MOST_NEXT: Final = 2_000
MOST_PARAMETER: Final = 8_000
_PARAMETERS: Final = ("state", "code", "iss", "error")


@never_cache
@require_GET
def begin(request: HttpRequest) -> HttpResponse:
    """To the provider. A link, not a form: the pages of the admin may send forms nowhere else."""
    if (refusal := _refused(request)) is not None:
        return refusal
    try:
        return HttpResponseRedirect(Provider(request).begin(_safe(request, request.GET.get("next", ""))))
    except SignInError as error:
        return _failed(request, error)


@never_cache
@require_GET
def callback(request: HttpRequest) -> HttpResponse:
    """Where the provider sends the browser back to."""
    if (refusal := _refused(request)) is not None:
        return refusal
    parameters = {name: request.GET[name][:MOST_PARAMETER] for name in _PARAMETERS if name in request.GET}
    try:
        claims, next_url = Provider(request).finish(parameters)
        user = people.user_of(claims)
    except SignInError as error:
        return _failed(request, error)
    login(request, user, backend=BACKEND)
    # A moment, not an age: what happens in the session does not prolong it.
    seconds = min(settings.SESSION_COOKIE_AGE, MOST_SESSION.total_seconds())
    request.session.set_expiry(timezone.now() + timedelta(seconds=seconds))
    return HttpResponseRedirect(_safe(request, next_url))


def _refused(request: HttpRequest) -> HttpResponse | None:
    """Raises: Http404: this hub has no provider."""
    if not settings.TOOLHUB_SSO_ISSUER:
        raise Http404
    credentials = _credentials()
    return None if AxesProxyHandler.is_allowed(request, credentials) else signing_in.locked(request, None, credentials)


def _failed(request: HttpRequest, error: SignInError) -> HttpResponse:
    reference = secrets.token_hex(4)
    log.warning("sign-in %s at %s failed: %s: %s", reference, provider.host(), type(error).__name__, error.detail)
    if error.is_attack:
        user_login_failed.send(sender=__name__, credentials=_credentials(), request=request)
    elif error.is_noted:
        signing_in.sign_in_failed({"username": error.values.get("name", "")}, request)
    context = {"error": error, "reference": reference, "host": provider.host()}
    return render(request, "admin/sign_in_failed.html", context, status=error.status)


def _credentials() -> dict[str, str]:
    """What locks count: before the provider has vouched for a name there is none, so it is one for all."""
    return {"username": f"sso:{provider.host()}"}


def _safe(request: HttpRequest, url: str) -> str:
    """An address of the admin of this hub; its first page in place of any other."""
    start = reverse("admin:index")
    is_own = url_has_allowed_host_and_scheme(url, allowed_hosts=None) and url.startswith(start)
    return url if is_own and len(url) <= MOST_NEXT else start
