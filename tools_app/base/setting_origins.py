"""Where the values of settings come from."""

from __future__ import annotations

import os
from enum import StrEnum

from django.conf import settings

from tools_app.base import conf
from tools_app.base.setting_table import SETTINGS, Setting, shown


class Origin(StrEnum):
    """Where the value of a setting comes from. `PROGRAM`: a settings module or a command-line option."""

    ENVIRONMENT = "environment"
    ENV_FILE = ".env file"
    FILE = "file"
    PROGRAM = "program"
    DEFAULT = "default"


def is_site() -> bool:
    """True for the hub's own site, False if `tools_app` is installed in another project."""
    return conf.value("TOOLHUB_GIVEN") is not None


def origin(setting: Setting) -> tuple[Origin, str]:
    """Where the value of a setting comes from, and the variable that set it; empty if none did."""
    if not is_site():
        return Origin.PROGRAM if hasattr(settings, setting.name) else Origin.DEFAULT, ""
    source, variable = origin_of_variable(setting.name)
    if source is not Origin.DEFAULT or setting.default_text:
        return source, variable
    return source if shown(getattr(settings, setting.name)) == shown(setting.default) else Origin.PROGRAM, ""


def origin_of_variable(name: str) -> tuple[Origin, str]:
    """The same for any environment variable, as this process found them when it started."""
    names_at_start = conf.value("TOOLHUB_SET")
    for variable in (f"{name}_FILE", name):
        if os.environ.get(variable, "").strip() and (names_at_start is None or variable in names_at_start):
            if variable != name:
                return Origin.FILE, variable
            return Origin.ENVIRONMENT if conf.given(name) else Origin.ENV_FILE, variable
    return Origin.DEFAULT, ""


def deprecations() -> list[str]:
    """The deprecated settings that are set, each with what replaces it."""
    settings_in_use = (one for one in SETTINGS.values() if one.deprecated and origin(one)[0] is not Origin.DEFAULT)
    return [f"{one.name} is deprecated, and not read by the next release: {one.deprecated}" for one in settings_in_use]
