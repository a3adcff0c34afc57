"""Authentication of REST requests: a key in a header and nowhere else; without one, an admin session."""

from __future__ import annotations

from importlib import import_module
from typing import Any, Final

from django.conf import settings
from django.contrib.auth import get_user
from django.db import DatabaseError
from django.http import HttpRequest
from django.middleware.csrf import CsrfViewMiddleware
from ninja.security.base import AuthBase

from tools_app import governance
from tools_app.access import access
from tools_app.access.actions import Action
from tools_app.api import limits
from tools_app.api.arrival import take_body
from tools_app.base import database, secrets
from tools_app.sdk.context import Caller
from tools_app.sdk.errors import AuthenticationError, AuthorizationError, Problem, ValidationError, shortened
from tools_app.sdk.hub_errors import StoppedError, StorageBusyError
from tools_app.sdk.schemas import pointer

# Query parameter names, without - and _, under which people send keys.
_KEY_PARAMETERS: Final = frozenset(
    {"key", "apikey", "xapikey", "token", "accesstoken", "authtoken", "apitoken", "bearer", "auth", "authorization"}
)


class KeyAuthentication(AuthBase):
    """`Authorization: Bearer <key>` or `X-API-Key: <key>`; without either, the cookie of an admin session."""

    openapi_type = "http"
    openapi_scheme = "bearer"

    async def __call__(self, request: HttpRequest) -> Caller:
        try:
            caller = await _caller(request)
        except (AuthenticationError, StoppedError):
            await limits.count_stranger(request)
            raise
        request.auth = caller  # type: ignore[attr-defined]  # before counting: the journal names who exceeded the limit
        await limits.count_caller(request, caller)
        await take_body(request, caller)
        return caller


def caller_of(request: HttpRequest) -> Caller:
    """The caller that `KeyAuthentication` found; ninja keeps it on the request."""
    caller: Caller = request.auth  # type: ignore[attr-defined]
    return caller


def require(request: HttpRequest, action: Action) -> Caller:
    """The caller, if it may do this.

    Raises:
        AuthorizationError
    """
    caller = caller_of(request)
    action.require(caller)
    return caller


def actor_of(request: HttpRequest, action: Action) -> governance.Actor:
    """The caller as the one who makes a change. Raises as `require`."""
    return governance.of_caller(require(request, action))


def refuse_keys_in_query(request: HttpRequest) -> None:
    """Refuse a key in the query string: URLs end up in logs, browser histories and referrers.

    Raises:
        ValidationError
    """
    if not request.META.get("QUERY_STRING"):
        return
    for name, values in request.GET.lists():
        plain = name.lower().replace("-", "").replace("_", "")
        if plain in _KEY_PARAMETERS or any(map(secrets.well_formed, values)):
            problem = Problem(pointer([shortened(name)]), "Keys are not accepted in the URL")
            raise ValidationError(
                problems=[problem],
                next_step="Send the key as `Authorization: Bearer <key>` or `X-API-Key: <key>`, "
                "and revoke the key that was in the URL: it may already be in logs.",
            )


async def _caller(request: HttpRequest) -> Caller:
    credential = access.read_credential(request.headers.get("X-API-Key"), request.headers.get("Authorization"))
    if credential is None and settings.SESSION_COOKIE_NAME in request.COOKIES:
        caller = await database.run(_caller_of_session, request)
        _refuse_forged(request)
        return caller
    at = f"{request.scheme}://{request.get_host()}{request.path}"
    return await access.caller_of_key(credential, at, request.META.get("REMOTE_ADDR") or "")


def _caller_of_session(request: HttpRequest) -> Caller:
    """The user of the admin session. REST requests bypass the middleware that does this for pages."""
    engine = import_module(settings.SESSION_ENGINE)
    try:
        request.session = engine.SessionStore(request.COOKIES[settings.SESSION_COOKIE_NAME])
        user = get_user(request)
        if not user.is_staff or not governance.follow_session(request.session, is_page=False):
            raise AuthenticationError
        return access.caller_of_user(user)
    except DatabaseError as error:
        raise StorageBusyError(detail=error) from error


class _Csrf(CsrfViewMiddleware):
    """Django's check, returning the reason instead of an error page."""

    def _reject(self, request: HttpRequest, reason: str) -> Any:
        return reason


def _refuse_forged(request: HttpRequest) -> None:
    """CSRF protection: a foreign page can make a browser send our cookies, but it cannot read the token.

    Raises:
        AuthorizationError
    """
    check = _Csrf(_never)
    check.process_request(request)
    if check.process_view(request, _never, (), {}) is not None:
        raise AuthorizationError(
            "Changes with a session cookie need the CSRF token",
            next_step=f"Send the value of the cookie {settings.CSRF_COOKIE_NAME} as `X-CSRFToken`, or use a key.",
        )


def _never(*args: Any) -> Any:
    raise AssertionError("only the check runs, never a view")
