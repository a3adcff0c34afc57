"""The sentences of a plan. Values of secrets are references, so that nothing has to be left out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from tools_app.governance.users import CUSTOM
from tools_app.sdk.errors import shortened
from tools_app.setup.configuration import document
from tools_app.setup.configuration.document import Kind, Part

MOST_SHOWN: Final = 200


def creates(kind: Kind, name: str, wanted: Part) -> str:
    values = wanted.model_dump(mode="json", exclude_defaults=True)
    told = [f"{part}: {shown(value)}" for part, value in values.items()]
    return f"creates {_record(kind, name)} ({', '.join(told)})" if told else f"creates {_record(kind, name)}"


def changes(
    kind: Kind,
    name: str,
    before: Mapping[str, Any],
    after: Mapping[str, Any],
    fields: Sequence[str],
    again: Sequence[str],
) -> Iterator[str]:
    """One sentence for each field. `again`: what was changed in the hub, not in the file."""
    for field in fields:
        was, now = before.get(field), after.get(field)
        if field in ("url", "secret") and was == now:
            words = f"its {field} is read again, as its value has changed"
        elif isinstance(was, list) and isinstance(now, list) and field != "command":
            added, removed = [one for one in now if one not in was], [one for one in was if one not in now]
            words = " ".join([f"{field}:", *(f"+{one}" for one in added), *(f"-{one}" for one in removed)])
        else:
            left_out = "default" if field == "enabled" else "none"
            words = f"{field}: {shown(was, left_out)} → {shown(now, left_out)}"
        back = ", which was changed in the hub" if field in again else ""
        yield f"changes {_record(kind, name)}: {words}{back}"
        if kind is Kind.USER and before.get(field) == CUSTOM:
            yield f"changes {_record(kind, name)}: its own groups and permissions of this hub are removed"
        if kind is Kind.SOURCE and field in ("location", "command"):
            yield f"changes {_record(kind, name)}: it is another server, so nothing that was approved of it holds"


def adopts(kind: Kind, number: int, file: str) -> str:
    title = document.Document.SECTIONS[kind].replace("_", " ")
    return f"manages {number:,} of the {title} by {file}: they are read-only elsewhere"


def removes(kind: Kind, name: str) -> str:
    match kind:
        case Kind.KEY:
            return f"revokes {_record(kind, name)}"
        case Kind.USER:
            return f"takes the role of {_record(kind, name)}"
        case Kind.TOOL:
            return f"resets what was decided about {_record(kind, name)}"
        case Kind.SOURCE:
            return f"removes {_record(kind, name)}, with its tools"
    return f"deletes {_record(kind, name)}"


def releases(kind: Kind, name: str) -> str:
    return f"releases {_record(kind, name)}, which the file does not name any more: it stays (--prune deletes it)"


def held(kind: Kind, name: str, keys: Sequence[str]) -> str:
    return f"{_record(kind, name)} stays, as keys that have ended are limited to it: {', '.join(map(shortened, keys))}"


def forgets(kind: Kind, name: str) -> str:
    return f"forgets {_record(kind, name)}, which has ended, or is not for files to decide"


def waits(name: str) -> str:
    return f"decides about tool {name} before its source lists it; what restricts it holds from the first listing on"


def ended(kind: Kind, name: str, state: str) -> str:
    return f"{_record(kind, name)} is {state}, and stays so: remove it from the file, or use another name"


def switched_off(kind: Kind, name: str) -> str:
    return f"{_record(kind, name)} was switched off in the hub, and stays off (--switch-on switches it on)"


def has_less(name: str, now: Part) -> str:
    role = shown(now.data.get("role"))
    return f"{_record(Kind.USER, name)} has a lower role in the hub: {role}, and keeps it (--switch-on undoes that)"


def next_steps(kind: Kind, name: str, wanted: Part) -> Iterator[str]:
    match wanted:
        case document.User():
            yield f"user {name} has no password: toolhub users link {name}"
        case document.Source(kind=str()):
            yield f"source {name}: agents get its tools when they are listed and approved: toolhub source review"
        case document.Connection(form="oauth"):
            yield f"connection {name}: a person has to sign in, in the admin"


def _record(kind: Kind, name: str) -> str:
    return f"{Kind(kind).label} {shortened(name)}"


def shown(value: Any, left_out: str = "none") -> str:
    """A value of a field."""
    if value in (None, "", [], {}):
        return left_out
    if isinstance(value, bool):
        return "yes" if value else "no"
    text = ", ".join(map(str, value)) if isinstance(value, list) else str(value)
    return text if len(text) <= MOST_SHOWN else f"{text[: MOST_SHOWN - 1]}…"
