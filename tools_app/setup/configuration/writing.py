"""A document as YAML: the same bytes for the same document. Fields with their default value are left out."""

from __future__ import annotations

from typing import Any, Final

import yaml

from tools_app.setup.configuration.document import Document, Limits, Part
from tools_app.sources.openapi.loading import resolved

HEADER: Final = (
    "# Written by `toolhub export`. It has no secrets: references stand for them.\n"
    "# `toolhub apply FILE --dry-run` shows what this file would change in a hub.\n"
)


class _Dumper(yaml.SafeDumper):
    """In Python: the C library breaks long lines in other places."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def _text(dumper: _Dumper, text: str) -> yaml.ScalarNode:
    """A text that version 1.2 or 1.1 of YAML would read as something else is quoted, and control characters escaped."""
    node = dumper.represent_str(text)
    if resolved(text) is not text or not text.isprintable():
        node.style = '"'
    return node


_Dumper.add_representer(str, _text)


def written(document: Document) -> bytes:
    data: dict[str, Any] = {"version": document.version}
    for kind, title in document.SECTIONS.items():
        if records := document.records(kind):
            data[title] = {name: _fields(record) for name, record in sorted(records.items())}
    text = yaml.dump(data, Dumper=_Dumper, sort_keys=False, allow_unicode=True, default_flow_style=False, width=120)
    return f"{HEADER}{text}".encode()


def _fields(record: Part) -> dict[str, Any]:
    """What it is first, then its limits."""
    fields = record.model_dump(mode="json", exclude_defaults=True)
    return {name: fields[name] for name in sorted(fields, key=Limits.model_fields.__contains__)}
