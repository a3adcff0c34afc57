"""Why a backup cannot be made or restored."""

from __future__ import annotations


class BackupError(Exception):
    """The message is one line: what is wrong, and what to do."""
