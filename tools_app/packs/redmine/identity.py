"""The Redmine user of a connection's API key.

Redmine treats an unknown key as an anonymous user and returns public data without an error. So the key is checked after
the first response and before the first change, and again after some minutes.
"""

from __future__ import annotations

from typing import Any, Final

from tools_app.packs.redmine.memory import cached_answer
from tools_app.sdk.context import Context
from tools_app.sdk.errors import ApiError, ToolError

# How long a check is valid.
_TRUSTED_SECONDS: Final = 300.0
REFUSED: Final = frozenset({401, 403})


async def check(ctx: Context) -> None:
    """Check that Redmine accepts the key.

    Raises:
        ToolError: it does not; requests would be anonymous.
    """
    try:
        await me(ctx)
    except ApiError as error:
        if error.context.get("statusCode") in REFUSED:
            raise
        ctx.log.warning("Redmine does not say whose key this is: %s", error.message)
    except ToolError as error:
        # The actual request gives a better error.
        ctx.log.warning("Redmine does not say whose key this is: %s", error.message)


async def me(ctx: Context) -> dict[str, Any]:
    """The `id` and `admin` of the key's user; nothing else is cached."""

    async def fetch() -> dict[str, Any]:
        response = await ctx.http.get("users", "current", operation="check the key")
        user = response.get("user") if isinstance(response, dict) else None
        return {key: user.get(key) for key in ("id", "admin")} if isinstance(user, dict) else {}

    user: dict[str, Any] = await cached_answer(ctx, "me", _TRUSTED_SECONDS, fetch)
    return user


async def is_administrator(ctx: Context) -> bool:
    return (await me(ctx)).get("admin") is True
