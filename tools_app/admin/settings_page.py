"""The settings in force, for superusers: values, defaults and origins. Nothing can be changed here."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import chain
from typing import Final

from django.contrib.admin import AdminSite
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.utils.text import capfirst
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.views.decorators.http import require_safe

from tools_app.access import actions
from tools_app.admin.governed import require
from tools_app.base.setting_origins import Origin
from tools_app.base.setting_table import with_bounds
from tools_app.setup import settings_in_force
from tools_app.setup.settings_in_force import SettingInForce

ORIGINS: Final = {
    Origin.ENVIRONMENT: gettext_lazy("environment"),
    Origin.ENV_FILE: gettext_lazy(".env file"),
    Origin.FILE: gettext_lazy("file"),
    Origin.PROGRAM: gettext_lazy("program"),
    Origin.DEFAULT: gettext_lazy("default"),
}


@dataclass(frozen=True, slots=True)
class Row:
    setting: SettingInForce
    default: str
    origin: str
    help: str

    def has(self, text: str) -> bool:
        """Whether a search finds it, by name, value or description."""
        return text in f"{self.setting.name} {self.setting.value} {self.help}".lower()


@dataclass(frozen=True, slots=True)
class Section:
    title: str
    rows: list[Row]


def view(site: AdminSite) -> Callable[[HttpRequest], HttpResponse]:
    @require_safe
    def settings_view(request: HttpRequest) -> HttpResponse:
        require(request, actions.SETTINGS_READ)
        text, only_changed = request.GET.get("q", "").strip(), request.GET.get("values") == "changed"
        context = {
            **site.each_context(request),
            "title": _("Settings in force"),
            "sections": list(_sections(text.lower(), only_changed=only_changed)),
            "text": text,
            "only_changed": only_changed,
        }
        return TemplateResponse(request, "admin/tools_app/settings.html", context)

    return site.admin_view(settings_view)


def _sections(text: str, *, only_changed: bool) -> Iterator[Section]:
    for group in chain(settings_in_force.settings_of_hub(), settings_in_force.variables_of_packs()):
        rows = [_row(one) for one in group.settings if one.is_changed or not only_changed]
        if matching_rows := [row for row in rows if row.has(text)]:
            yield Section(capfirst(_(group.title)), matching_rows)


def _row(one: SettingInForce) -> Row:
    # A default that is described in words has spaces; a value has none.
    default = _(one.default) if " " in one.default else one.default
    return Row(one, default, str(ORIGINS[one.origin]), with_bounds(_(one.help), one.bounds))
