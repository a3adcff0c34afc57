"""Files of this machine, for callers on it: below the directory that operators allow."""

from __future__ import annotations

import asyncio
import os
import stat
from pathlib import Path, PurePath

from tools_app.sdk.context import Context
from tools_app.sdk.errors import AuthorizationError, ConfigurationError, NotFoundError, ValidationError


async def read(context: Context, file_path: str, most: int, instead: str) -> bytes:
    """The first `most` + 1 bytes of a file, so that a longer one is recognised. `instead`: what else the caller can do.

    Raises:
        ToolError: the caller may not read files, or there is no such file.
    """
    return await asyncio.to_thread(_beginning, _root(context, "read", instead), file_path, most + 1)


async def read_configured(
    context: Context, file_path: str, most: int, *, unless: object = None
) -> tuple[bytes | None, object]:
    """A file that an operator has named in an option of the connection, for all callers; and its stamp.

    Nothing is read if it has this stamp already.

    Raises:
        ToolError: there is no such file below TOOLHUB_FILE_ROOT, or it is larger than `most`.
    """
    if context.file_root is None:
        raise ConfigurationError(
            "TOOLHUB_FILE_ROOT is not set: files cannot be read", next_step="An operator can set it."
        )
    return await asyncio.to_thread(_changed, context.file_root, file_path, most, unless)


async def write(context: Context, file_path: str, content: bytes, instead: str) -> None:
    """Create a file. One that exists is never overwritten.

    Raises:
        ToolError: the caller may not write files, or the file cannot be created there.
    """
    await asyncio.to_thread(_create, _root(context, "written", instead), file_path, content)


def _root(context: Context, verb: str, instead: str) -> Path:
    if context.files is not None:
        return context.files
    if context.caller.kind != "local":
        raise AuthorizationError(
            f"Permission denied: files can only be {verb} for callers on the hub's own machine", next_step=instead
        )
    raise ConfigurationError(
        f"TOOLHUB_FILE_ROOT is not set: files cannot be {verb}",
        next_step=f"An operator can set it. Or {instead[:1].lower()}{instead[1:]}",
    )


def _create(root: Path, file_path: str, content: bytes) -> None:
    """Below `root`, in a directory that exists. What is outside gets the same error, whether it exists or not."""
    name = PurePath(file_path).name
    refused = ValidationError(
        f"File cannot be created: {name or '?'}",
        context={"field": "file_path"},
        next_step="Choose a new name, in an existing directory inside TOOLHUB_FILE_ROOT; paths are relative to it.",
    )
    try:
        base = root.resolve(strict=True)
        folder = (base / file_path).parent.resolve(strict=True)
        if not folder.is_relative_to(base) or name in ("", ".."):
            raise refused
        # The directory is held open: a link that is put into its place meanwhile leads nowhere.
        folder_number = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        try:
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
            with os.fdopen(os.open(name, flags, 0o600, dir_fd=folder_number), "wb") as file:
                file.write(content)
        finally:
            os.close(folder_number)
    except (OSError, ValueError, RuntimeError) as error:
        refused.detail = error
        raise refused from error


def _changed(root: Path, file_path: str, most: int, known: object) -> tuple[bytes | None, object]:
    try:
        state = (root / file_path).stat()
        stamp = state.st_mtime_ns, state.st_size, state.st_ino
    except (OSError, ValueError):
        stamp = None
    if stamp is not None and stamp == known:
        return None, stamp
    content = _beginning(root, file_path, most + 1)
    if len(content) > most:
        raise ValidationError(f"File is larger than {most:,} bytes", context={"field": "file_path"})
    return content, stamp


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
