"""The policy of a tool or a source: which values it may have, and how they change."""

from __future__ import annotations

from collections.abc import Mapping

from tools_app.models.tools import POLICY, PolicyColumns
from tools_app.sdk.errors import ValidationError


def check_policy(policy: Mapping[str, int | None]) -> None:
    """Raises: ValidationError."""
    for part, value in policy.items():
        if part not in POLICY:
            raise ValidationError(f"{part!r} is no policy; known are {', '.join(POLICY)}")
        low, high = POLICY[part]
        if value is not None and not low <= value <= high:
            raise ValidationError(f"{part} must be between {low} and {high}")


def policy_changes(row: PolicyColumns, policy: Mapping[str, int | None]) -> dict[str, list[int | None]]:
    """The parts that differ, with their values before and after.

    Raises:
        ValidationError: half a rate limit would remain.
    """
    changes = {part: [getattr(row, part), value] for part, value in policy.items() if getattr(row, part) != value}
    rate = [changes[part][1] if part in changes else getattr(row, part) for part in ("rate_calls", "rate_seconds")]
    if changes and (rate[0] is None) != (rate[1] is None):
        raise ValidationError("A rate limit needs both rate_calls and rate_seconds")
    return changes
