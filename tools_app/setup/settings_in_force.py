"""The settings that this process runs with, and where each comes from. Values of secrets are masked."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from django.conf import settings
from django.db import connection
from django.utils.translation import gettext_noop

from tools_app.base import conf, setting_origins
from tools_app.base.setting_origins import Origin
from tools_app.base.setting_table import GROUPS, SETTINGS, Setting, shown
from tools_app.catalog import accounts, catalog, connections
from tools_app.sdk.accounts import ConnectionKind

MASK: Final = "***"
INVALID: Final = "(invalid)"


@dataclass(frozen=True, slots=True)
class SettingInForce:
    """`variable`: the environment variable that set it, which can be `NAME_FILE`; empty if none did."""

    name: str
    value: str
    default: str
    origin: Origin
    variable: str
    help: str
    bounds: str = ""

    @property
    def is_changed(self) -> bool:
        return self.origin is not Origin.DEFAULT


@dataclass(frozen=True, slots=True)
class GroupInForce:
    title: str
    settings: tuple[SettingInForce, ...]


def settings_of_hub() -> Iterator[GroupInForce]:
    """The table of settings, without those of the site in another project, and without unset deprecated ones."""
    is_site = setting_origins.is_site()
    for group in GROUPS:
        rows = (_of_hub(one) for one in group.settings if is_site or not one.of_site)
        if own_settings := tuple(row for row in rows if row.is_changed or not SETTINGS[row.name].deprecated):
            yield GroupInForce(group.title, own_settings)


def variables_of_packs() -> Iterator[GroupInForce]:
    """The environment variables of recorded packs. Reads the database."""
    snapshot = catalog.current()
    faults = connections.unreadable(snapshot.connection_kinds, snapshot.required_variables)
    kinds = [kind for _, kind in sorted(snapshot.connection_kinds.items()) if not kind.optional]
    of_accounts = tuple(one for kind in kinds for one in _of_kind(kind, faults))
    # Packs do not say which of their other variables are secrets.
    names = snapshot.required_variables - {one.name for one in of_accounts}
    help_text = gettext_noop("required by tools of a pack")
    others = tuple(_variable(name, "", help_text, faults, is_secret=True) for name in sorted(names))
    if of_accounts or others:
        yield GroupInForce(gettext_noop("accounts at upstreams, from variables of packs"), of_accounts + others)


def _of_hub(setting: Setting) -> SettingInForce:
    origin, variable = setting_origins.origin(setting)
    return SettingInForce(
        setting.name, _value(setting), setting.shown_default, origin, variable, setting.help, setting.type.bounds
    )


def _value(setting: Setting) -> str:
    if setting.name == "DATABASE_URL":
        return _database()
    value = conf.value(setting.name) if not setting.of_site else getattr(settings, setting.name)
    return MASK if setting.is_secret and value else shown(value)


def _database() -> str:
    database = connection.settings_dict
    if connection.vendor == "sqlite":
        return f"sqlite:///{database['NAME']}"
    port = f":{database['PORT']}" if database["PORT"] else ""
    return f"postgres://{database['USER']}:{MASK}@{database['HOST']}{port}/{database['NAME']}"


def _of_kind(kind: ConnectionKind, faults: list[str]) -> Iterator[SettingInForce]:
    yield _variable(kind.url_variable, "", gettext_noop("address of the upstream"), faults)
    yield _variable(kind.secret_variable, "", gettext_noop("key or token for the upstream"), faults, is_secret=True)
    yield _variable(kind.allow_http_variable, "false", gettext_noop("plain http beyond this machine"), faults)
    yield _variable(kind.read_only_variable, "false", gettext_noop("true: tools that write are refused"), faults)
    default, help_text = gettext_noop("that of the call"), gettext_noop("timeout of a request, in ms")
    yield _variable(kind.timeout_variable, default, help_text, faults, bounds=accounts.TIME_LIMIT.bounds)
    for option in kind.options:
        yield _variable(kind.option_variable(option), shown(option.default), option.help, faults)


def _variable(
    name: str, default: str, help_text: str, faults: list[str], *, bounds: str = "", is_secret: bool = False
) -> SettingInForce:
    origin, variable = setting_origins.origin_of_variable(name)
    if any(re.match(rf"{name}(_FILE)?\b", fault) for fault in faults):
        value = INVALID
    else:
        text = conf.own(name, str, "")
        value = MASK if is_secret and text else text or default
    return SettingInForce(name, value, default, origin, variable, help_text, bounds)
