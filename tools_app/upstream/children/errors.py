"""Why there is no stream to a child."""

from __future__ import annotations

from datetime import datetime

from tools_app.base.ports import UnavailableError


class NotUpYet(UnavailableError):
    """It was still starting when the caller's time ran out. The start continues."""


class CannotStart(UnavailableError):
    """It cannot be started now. The message is for operators, and does not name the source."""

    def __init__(self, reason: str, next_try_at: datetime | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        # When an attempt will be made again, if one is asked for; None: at once.
        self.next_try_at = next_try_at
