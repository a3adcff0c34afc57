"""Settings: the only module in which ToolHub reads them.

`toolhub/settings.py` reads the environment and validates every value. Installed in another Django project,
`tools_app` takes the same names from that project's settings, or the defaults of the table, which `apps.py` hands in.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from django.conf import settings

from tools_app.sdk import variables
from tools_app.sdk.variables import UnreadableError

T = TypeVar("T")

_defaults: dict[str, Any] = {}


def use_defaults(defaults: Mapping[str, Any]) -> None:
    """What `value` returns for settings that the project does not have."""
    _defaults.update(defaults)


def value(name: str) -> Any:
    try:
        return getattr(settings, name)
    except AttributeError:
        return _defaults[name]


def home() -> Path | None:
    """The directory with this hub's state, if it has one."""
    directory = value("TOOLHUB_HOME")
    return Path(directory) if directory else None


def given(name: str) -> bool:
    """Whether an environment variable was set when this process started, and not by the settings file."""
    names = value("TOOLHUB_GIVEN")
    return name in os.environ and (names is None or name in names)


def own(name: str, parse: Callable[[str], T], default: T) -> T:
    """The value of an environment variable of a pack, or of the file that `NAME_FILE` names.

    Raises:
        UnreadableError: both are set, the file cannot be read, or the value is not valid.
    """
    return variables.read(os.environ, name, parse, default)


def unset(names: Iterable[str]) -> list[str]:
    """Which of a pack's environment variables are missing, or are in a file that cannot be read."""
    return [name for name in names if not _is_set(name)]


def _is_set(name: str) -> bool:
    try:
        return variables.text(os.environ, name) != ""
    except UnreadableError:
        return False
