"""The arguments of a call that was made, to make it again: only as far as they were kept as they were."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Final

from django.http import HttpRequest
from django.utils.translation import gettext as _

from tools_app.admin.journal import IDENTIFIER, may_read_payload
from tools_app.catalog.entry import Entry
from tools_app.models import Call
from tools_app.text import json_text
from tools_app.text.json_text import JsonError
from tools_app.text.redaction import CUT, MASK

PERMISSIONS: Final = ("tools_app.view_call", "tools_app.view_payload")


@dataclass(frozen=True, slots=True)
class Past:
    """A call, what is known of its arguments, which of them have to be typed in again, and why."""

    call_id: str
    arguments: dict[str, Any]
    again: frozenset[str] = frozenset()
    why: str = ""


def past(request: HttpRequest, entry: Entry) -> Past | None:
    """The call that the address names; None where it names none of this tool, or none that the user may read."""
    call_id = request.GET.get("call", "")
    if not IDENTIFIER.fullmatch(call_id) or not request.user.has_perms(PERMISSIONS):
        return None
    call = Call.objects.filter(pk=call_id, tool_name=entry.name).first()
    # To see it takes an entry in the audit trail; to send it does not show it again.
    if call is None or (request.method != "POST" and not may_read_payload(request, call.pk)):
        return None
    return _read(call, entry)


def _read(call: Call, entry: Entry) -> Past:
    if not call.arguments:
        return Past(call.pk, {}, _required(entry), _("Its arguments were not stored, or have been deleted."))
    try:
        given = json_text.parsed(call.arguments.encode())
    except JsonError:
        given = None
    if not isinstance(given, dict):
        return Past(call.pk, {}, _required(entry), _("Only the beginning of its arguments was stored."))
    whole = {name: value for name, value in given.items() if not _is_masked(value)}
    if again := frozenset(given) - whole.keys():
        return Past(call.pk, whole, again, _("Secrets and long values were not stored."))
    if len(json.dumps(given)) != call.argument_bytes:
        # Something was changed that leaves no mark, as invisible characters are.
        return Past(call.pk, {}, frozenset(given), _("Its arguments were stored in a changed form."))
    return Past(call.pk, whole)


def _required(entry: Entry) -> frozenset[str]:
    return frozenset(map(str, entry.input_schema.get("required", ())))


def _is_masked(value: Any) -> bool:
    waiting = [value]
    while waiting:
        match waiting.pop():
            case str() as text if MASK in text or text.startswith(CUT) or text.endswith(CUT):
                return True
            case dict() as found:
                waiting.extend((*found, *found.values()))
            case list() as found:
                waiting.extend(found)
    return False
