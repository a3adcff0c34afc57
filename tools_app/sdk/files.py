"""Files of this machine, for callers on it: below the directory that operators allow."""

from __future__ import annotations

import asyncio
import os
import stat
from pathlib import Path, PurePath

from tools_app.sdk.context import Context
from tools_app.sdk.errors import AuthorizationError, ConfigurationError, NotFoundError


async def read(context: Context, file_path: str, most: int, instead: str) -> bytes:
    """The first `most` + 1 bytes of a file, so that a longer one is recognised. `instead`: what else the caller can do.

    Raises:
        ToolError: the caller may not read files, or there is no such file.
    """
    if context.files is None:
        if context.caller.kind != "local":
            raise AuthorizationError(
                "Permission denied: files can only be read for callers on the hub's own machine", next_step=instead
            )
        raise ConfigurationError(
            "TOOLHUB_FILE_ROOT is not set: files cannot be read",
            next_step=f"An operator can set it. Or {instead[:1].lower()}{instead[1:]}",
        )
    return await asyncio.to_thread(_beginning, context.files, file_path, most + 1)


def _beginning(root: Path, file_path: str, size: int) -> bytes:
    """Of a regular file below `root`. All other files get the same error, so that it does not reveal what exists."""
    missing = NotFoundError(
        f"File not found: {PurePath(file_path).name or '?'}",
        context={"operation": "read file", "resourceType": "File", "resourceId": PurePath(file_path).name or "?"},
        next_step="The file must be inside the directory TOOLHUB_FILE_ROOT; paths are relative to it.",
    )
    try:
        base = root.resolve(strict=True)
        path = (base / file_path).resolve(strict=True)
        if not path.is_relative_to(base):
            raise missing
        # Check the opened file (race condition): symlinks created meanwhile are not followed, pipes do not block.
        with os.fdopen(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), "rb") as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise missing
            return file.read(size)
    except (OSError, ValueError, RuntimeError) as error:
        missing.detail = error
        raise missing from error
