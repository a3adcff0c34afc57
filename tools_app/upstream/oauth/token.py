"""A token, and that there is none: what a transport knows of OAuth."""

from __future__ import annotations

from dataclasses import dataclass, field


class NoTokenError(Exception):
    """There is no token now. The reason is for operators and callers."""

    def __init__(self, reason: str, *, needs_sign_in: bool = False, retry_after: float | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        # Whether a person has to sign in.
        self.needs_sign_in = needs_sign_in
        self.retry_after = retry_after


@dataclass(frozen=True, slots=True)
class Token:
    value: str = field(repr=False)
    version: int
    # In seconds since 1970; None: its end is not known.
    renew_at: float | None
    obtained_at: float
