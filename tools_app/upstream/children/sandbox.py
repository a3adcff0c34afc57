"""What children are kept from: the files of this hub, where the kernel can do that."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from django.conf import settings

from tools_app.base import conf
from tools_app.sdk import child_environment
from tools_app.upstream.children.supervisor import landlock

NONE: Final = "none"
LANDLOCK: Final = "landlock"


def isolation() -> str:
    """How children are kept from the files of this hub. `none`: sources show that as "can read this hub's files"."""
    return LANDLOCK if conf.value("TOOLHUB_ISOLATE_PROGRAMS") and landlock.version() else NONE


def hidden_paths(runtime_directory: Path) -> list[str]:
    """What no child can read or change; empty if nothing can be hidden."""
    if isolation() == NONE:
        return []
    return sorted({str(path.absolute()) for path in (runtime_directory, *_paths())})


def _paths() -> Iterator[Path]:
    if (home := conf.home()) is not None:
        yield home
    for name in ("TOOLHUB_SECRETS_DIR", "TOOLHUB_TOOLS_DIR"):
        if directory := conf.value(name):
            yield Path(directory)
    # Not a device: /dev/null is how one goes without such a file, and programs need it.
    if (file := getattr(settings, "ENV_FILE", None)) is not None and Path(file).is_file():
        yield Path(file)
    for database in settings.DATABASES.values():
        if "sqlite" in database["ENGINE"] and database["NAME"] and Path(database["NAME"]).is_absolute():
            # Those beside it hold parts of its contents.
            yield from (Path(f"{database['NAME']}{ending}") for ending in ("", "-wal", "-shm", "-journal"))
    # Such as SECRET_KEY_FILE. What every child gets is no secret.
    for name, value in os.environ.items():
        if name.endswith("_FILE") and not child_environment.inherited({name: value}) and Path(value).is_file():
            yield Path(value)
