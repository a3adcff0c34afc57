"""Who calls the REST door: a key in a header, and nowhere else."""

from __future__ import annotations

from typing import Final

from django.http import HttpRequest
from ninja.security.base import AuthBase

from tools_app import access, secrets
from tools_app.errors import AuthenticationError, Problem, ValidationError, shortened
from tools_app.schemas import pointer
from tools_app.tool import Caller

# Under these names people put keys into addresses, whatever the spelling.
_TELLING: Final = frozenset(
    {"key", "apikey", "xapikey", "token", "accesstoken", "authtoken", "apitoken", "bearer", "auth", "authorization"}
)


class KeyAuthentication(AuthBase):
    """`Authorization: Bearer <key>` or `X-API-Key: <key>`. A session of the admin does not count."""

    openapi_type = "http"
    openapi_scheme = "bearer"

    async def __call__(self, request: HttpRequest) -> Caller:
        return await access.caller_of_key(_presented(request))


def caller_of(request: HttpRequest) -> Caller:
    """Whom `KeyAuthentication` let in; ninja has left it on the request."""
    caller: Caller = request.auth  # type: ignore[attr-defined]
    return caller


def refuse_keys_in_query(request: HttpRequest) -> None:
    """An address ends up in logs, histories and referrers: a key in it is refused, so that nobody gets used to it.

    Raises:
        ValidationError
    """
    if not request.META.get("QUERY_STRING"):
        return
    for name, values in request.GET.lists():
        plain = name.lower().replace("-", "").replace("_", "")
        if plain in _TELLING or any(map(secrets.well_formed, values)):
            problem = Problem(pointer([shortened(name)]), "Keys are not taken from the address")
            raise ValidationError(
                problems=[problem],
                next_step="Send the key as `Authorization: Bearer <key>` or `X-API-Key: <key>`, "
                "and revoke the one that was in the address: it may stand in logs by now.",
            )


def _presented(request: HttpRequest) -> str | None:
    own = request.headers.get("X-API-Key")
    scheme, _, bearer = request.headers.get("Authorization", "").partition(" ")
    if scheme.lower() != "bearer":
        return own
    bearer = bearer.strip()
    if own is not None and own != bearer:
        raise AuthenticationError("Two different keys were sent", next_step="Send one key, in one header.")
    return bearer
