"""Read the environment by the table of settings. Collects all errors, so that they can be fixed together.

django-environ reads the .env file and database URLs. Its casts are not used: they take `ture` for false, and replace a
secret that begins with `$` by another variable.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from django.core.exceptions import ImproperlyConfigured

from tools_app.base import secrets
from tools_app.base.setting_table import SETTINGS
from tools_app.sdk import variables
from tools_app.sdk.variables import UnreadableError

T = TypeVar("T")


class Environment:
    """The environment variables of the process."""

    def __init__(self, variables: Mapping[str, str]) -> None:
        self.variables = dict(variables)
        self.faults: list[str] = []
        self._values: dict[str, Any] = {}

    def __call__(self, name: str, default: Any = None) -> Any:
        """The value of a setting in the table. `default` replaces that of the table."""
        if name not in self._values:
            setting = SETTINGS[name]
            default = setting.default if default is None else default
            self._values[name] = self.read(name, setting.type, list(default) if isinstance(default, tuple) else default)
        return self._values[name]

    def values(self) -> dict[str, Any]:
        """All settings by name, without secrets."""
        return {name: self(name) for name, setting in SETTINGS.items() if not setting.is_secret}

    def read(self, name: str, parse: Callable[[str], T], default: T) -> T:
        try:
            return variables.read(self.variables, name, parse, default)
        except UnreadableError as error:
            self.faults.append(str(error))
            return default

    def require(self, name: str, value: T, fits: Callable[[T], bool], expected: str) -> T:
        """Check a value together with those of other settings. A variable has one error at most."""
        if not fits(value) and not any(fault.startswith(f"{name}:") for fault in self.faults):
            self.faults.append(str(UnreadableError.because(name, ValueError(f"expected {expected}"), str(value))))
        return value

    def secret(self, name: str, *keys: str) -> None:
        """Require strong secrets. Their values are never repeated."""
        if not all(map(secrets.is_strong, keys)):
            self.faults.append(
                f"{name}: too easy to guess; expected at least 32 random characters, as from `openssl rand -hex 32`"
            )

    def finish(self) -> None:
        """Raises: ImproperlyConfigured: names every invalid variable."""
        if self.faults:
            raise ImproperlyConfigured("\n".join(self.faults))
