"""The forms of connections to sources outside: which names and values each has, and what is sent."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterable, Mapping
from typing import Final

from tools_app.models import Connection, Source
from tools_app.sdk.accounts import MOST_NAMES, MOST_OPTION, MOST_SECRET, PER_USER, Credentials, is_sendable
from tools_app.sdk.child_environment import refusal_of
from tools_app.sdk.errors import shortened

Form = Connection.Form

TOKEN: Final = "token"  # noqa: S105 – the name of the value
USER: Final = "user"
PASSWORD: Final = "password"  # noqa: S105
CLIENT_ID: Final = "client_id"
CLIENT_SECRET: Final = "client_secret"  # noqa: S105
# Options of the forms of OAuth.
SCOPES: Final = "scopes"
ISSUER: Final = "issuer"
TOKEN_URL: Final = "token_url"  # noqa: S105
# Forms whose names are fixed.
FIXED: Final[Mapping[Form, tuple[str, ...]]] = {
    Form.BEARER: (TOKEN,),
    Form.BASIC: (USER, PASSWORD),
    Form.CLIENT_CREDENTIALS: (CLIENT_ID, CLIENT_SECRET),
}
MOST_RESOLVED: Final = 64 * 1024
_SCOPE_LIST: Final = re.compile(r"[!#-\[\]-~]+( [!#-\[\]-~]+)*")
_ADDRESS: Final = re.compile(r"https?://[^\s/?#@\\]+(/[^\s?#\\]*)?")

_HEADER: Final = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,100}")
_PARAMETER: Final = re.compile(r"[A-Za-z0-9._~\[\]-]{1,100}")
# Headers of the transport and of the protocol.
_OURS: Final = frozenset(
    {
        *("connection", "content-encoding", "content-length", "content-type", "cookie", "cookie2", "expect", "host"),
        *("keep-alive", "last-event-id", "origin", "te", "trailer", "transfer-encoding", "upgrade"),
    }
)
_OUR_FAMILIES: Final = ("accept", "mcp-", "proxy-", "sec-")


def forms_of(source_kind: str) -> tuple[Form, ...]:
    """The forms that connections of such a source can have."""
    if source_kind == Source.Kind.MCP_STDIO:
        return (Form.ENVIRONMENT,)
    return (Form.HEADER, Form.BEARER, Form.BASIC, Form.QUERY, Form.OAUTH, Form.CLIENT_CREDENTIALS)


def fault_of_names(form: Form, names: Iterable[str]) -> tuple[str, str] | None:
    """The first name that a connection of this form cannot have, and why; None if there is none."""
    names = list(names)
    if (fixed := FIXED.get(form)) is not None:
        wanted = " and ".join(fixed)
        for name in (*names, *fixed):
            if name not in fixed or name not in names:
                return name, f"this form consists of {wanted}"
        return None
    if form is Form.OAUTH:
        is_valid = set(names) in ({CLIENT_ID}, {CLIENT_ID, CLIENT_SECRET}, set())
        return None if is_valid else ("", f"this form has {CLIENT_ID}, with or without {CLIENT_SECRET}, or nothing")
    if not 1 <= len(names) <= MOST_NAMES:
        return "", f"expected 1 to {MOST_NAMES} names with a value"
    for name in names:
        if fault := _fault_of_name(form, name):
            return name, fault
        if form is Form.HEADER and sum(name.lower() == other.lower() for other in names) > 1:
            return name, "this header is there twice"
    return None


def _fault_of_name(form: Form, name: str) -> str:
    if form is Form.ENVIRONMENT:
        return refusal_of(name)
    if form is Form.QUERY:
        return "" if _PARAMETER.fullmatch(name) else "a parameter has letters, digits and . _ ~ [ ] -, at most 100"
    if not _HEADER.fullmatch(name):
        return "this is not the name of a header"
    return "the hub sets this header itself" if is_own_header(name) else ""


def is_own_header(name: str) -> bool:
    """Whether the transport or the protocol decides about this header."""
    return name.lower() in _OURS or name.lower().startswith(_OUR_FAMILIES)


def fault_of_value(form: Form, name: str, value: str) -> str:
    """Why a value cannot be sent, without repeating it; empty if it can."""
    label = shortened(name)
    if form in (Form.HEADER, Form.BEARER):
        return "" if is_sendable(value) else f"{label} must be 1 to {MOST_SECRET:,} printable ASCII characters"
    if not value or len(value) > MOST_RESOLVED:
        return f"{label} is empty or longer than {MOST_RESOLVED:,} characters"
    if form is Form.ENVIRONMENT:
        # Keys have several lines.
        return f"{label} contains a character that no variable can have" if "\0" in value or not _is_text(value) else ""
    if not value.isprintable() or (form is Form.BASIC and name == USER and ":" in value):
        return f"{label} contains characters that are not allowed there"
    return ""


def _is_text(value: str) -> bool:
    try:
        return bool(value.encode())
    except UnicodeEncodeError:
        return False


def credentials(form: Form, values: Mapping[str, str]) -> Credentials:
    """What is sent for values that are valid."""
    match form:
        case Form.HEADER:
            return Credentials(headers=values)
        case Form.BEARER:
            return Credentials(headers={"Authorization": f"Bearer {values[TOKEN]}"})
        case Form.BASIC:
            pair = base64.b64encode(f"{values[USER]}:{values[PASSWORD]}".encode()).decode()
            return Credentials(headers={"Authorization": f"Basic {pair}"})
        case Form.QUERY:
            return Credentials(query=values)
        case Form.OAUTH | Form.CLIENT_CREDENTIALS:
            # They go to the authorization server; the source gets tokens.
            return Credentials()
    return Credentials(environment=values)


def options_of(form: Form) -> tuple[str, ...]:
    """The options that a connection of this form can have."""
    return {
        Form.OAUTH: (SCOPES, ISSUER, PER_USER),
        Form.CLIENT_CREDENTIALS: (SCOPES, ISSUER, TOKEN_URL),
    }.get(form, ())


def fault_of_option(form: Form, name: str, value: object) -> str:
    """Why a connection of this form cannot have this option; empty if it can."""
    if name not in options_of(form):
        return f"known are: {', '.join(options_of(form))}"
    if name == PER_USER:
        return "" if isinstance(value, bool) else "expected true or false"
    if name == SCOPES:
        is_valid = isinstance(value, str) and len(value) <= MOST_OPTION and _SCOPE_LIST.fullmatch(value) is not None
        return "" if is_valid else "expected scopes with a space between them"
    is_valid = isinstance(value, str) and len(value) <= MOST_OPTION and _ADDRESS.fullmatch(value) is not None
    return "" if is_valid else "expected a URL, without a user, query or fragment"
