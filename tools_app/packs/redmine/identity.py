"""Whose key a connection has, as Redmine sees it.

A key that Redmine does not know reads whatever is public, and everything looks well. So an account is looked at where
it shows: after the first answer, and before the first change, then again after some minutes.
"""

from __future__ import annotations

from typing import Any, Final

from tools_app.packs.redmine.memory import remembered
from tools_app.sdk.context import Context
from tools_app.sdk.errors import ApiError, ToolError

# For so long an account is what it was.
_TRUSTED_SECONDS: Final = 300.0
REFUSED: Final = frozenset({401, 403})


async def check(ctx: Context) -> None:
    """Make sure that Redmine knows the key.

    Raises:
        ToolError: it does not, and would take us for nobody.
    """
    try:
        await me(ctx)
    except ApiError as error:
        if error.context.get("statusCode") in REFUSED:
            raise
        ctx.log.warning("Redmine does not say whose key this is: %s", error.message)
    except ToolError as error:
        # What was asked for tells better what is wrong.
        ctx.log.warning("Redmine does not say whose key this is: %s", error.message)


async def me(ctx: Context) -> dict[str, Any]:
    """The user whose key this is; of what Redmine says of it only this is kept."""

    async def asked() -> dict[str, Any]:
        found = await ctx.http.get("users", "current", operation="check the key")
        user = found.get("user") if isinstance(found, dict) else None
        return {key: user.get(key) for key in ("id", "admin")} if isinstance(user, dict) else {}

    user: dict[str, Any] = await remembered(ctx, "me", _TRUSTED_SECONDS, asked)
    return user


async def is_administrator(ctx: Context) -> bool:
    return (await me(ctx)).get("admin") is True
