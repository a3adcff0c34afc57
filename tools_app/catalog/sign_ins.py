"""What operators see of the tokens of a connection: whether there are any, until when, and never the tokens."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Literal

from tools_app.models import Connection, UpstreamToken

State = Literal["signed_in", "sign_in_required", "failing", "not_used"]
REQUIRED: Final = "sign_in_required"


@dataclass(frozen=True, slots=True)
class SignInState:
    """The tokens of all callers of a connection, or of one of them."""

    state: State
    caller: str = ""
    issuer: str = ""
    scopes: str = ""
    expires_at: datetime | None = None
    signed_in_at: datetime | None = None
    signed_in_by: str = ""
    error: str = ""


def state_of(connection: Connection) -> SignInState | None:
    """That of all callers; None if the hub requests no tokens for this connection."""
    if connection.form not in Connection.OAUTH:
        return None
    own = next((state for state in states_of(connection) if not state.caller), None)
    if own is not None:
        return own
    return SignInState(REQUIRED if connection.form == Connection.Form.OAUTH else "not_used")


def states_of(connection: Connection) -> Iterator[SignInState]:
    """Those that there are, of all callers and of single ones."""
    for row in sorted(connection.tokens.all(), key=lambda row: row.caller):
        yield SignInState(
            state=_state(row),
            caller=row.caller,
            issuer=row.server.get("issuer", ""),
            scopes=row.scopes,
            expires_at=row.expires_at,
            signed_in_at=row.signed_in_at,
            signed_in_by=row.signed_in_by,
            error=row.error,
        )


def _state(row: UpstreamToken) -> State:
    if row.needs_sign_in:
        return REQUIRED
    if row.error:
        return "failing"
    return "signed_in" if row.sealed else "not_used"
