"""Records that a configuration file manages: pages name the file and what differs from it, forms are read-only."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, Final

from django.http import HttpRequest

from tools_app.models import ManagedRecord
from tools_app.setup import configuration

_KINDS: Final = {
    "user": ManagedRecord.Kind.USER,
    "source": ManagedRecord.Kind.SOURCE,
    "connection": ManagedRecord.Kind.CONNECTION,
    "toolset": ManagedRecord.Kind.TOOLSET,
    "toolrecord": ManagedRecord.Kind.TOOL,
    "apikey": ManagedRecord.Kind.KEY,
    "alertrule": ManagedRecord.Kind.ALERT_RULE,
}
# What pages of such records do not offer.
_NOT_OFFERED: Final = ("may_remove", "may_change_origin", "may_select", "may_set_hints", "may_edit")


@dataclass(frozen=True, slots=True)
class Managed:
    file: str
    # The fields that differ, as the file names them.
    drift: tuple[str, ...]

    @property
    def context(self) -> dict[str, Any]:
        return {"managed": self, **dict.fromkeys(_NOT_OFFERED, False)}


def managed(request: HttpRequest, model_name: str | None, record: Any) -> Managed | None:
    """None: no file manages the record. Looked up once for a page."""
    kind = _KINDS.get(model_name or "")
    if kind is None or record is None or record.pk is None:
        return None
    name = record.get_username() if kind is ManagedRecord.Kind.USER else record.name
    known: dict[tuple[str, str], Managed | None] = request.__dict__.setdefault("_managed", {})
    if (kind, name) not in known:
        found = configuration.drift_of(kind, name)
        known[kind, name] = None if found is None else Managed(found[0].file, tuple(found[1]))
    return known[kind, name]


def read_only(form: type[Any], editable: Collection[str]) -> type[Any]:
    """The form with fields that show the stored values, whatever is sent."""

    def init(self: Any, *args: Any, **kwargs: Any) -> None:
        form.__init__(self, *args, **kwargs)
        for name, field in self.fields.items():
            field.disabled = name not in editable

    return type(f"ReadOnly{form.__name__}", (form,), {"__init__": init})
