"""The arguments of an earlier call, to repeat it: only those that were stored unchanged."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from django.http import HttpRequest
from django.utils.translation import gettext as _

from tools_app.access import actions
from tools_app.admin.journal import IDENTIFIER, may_read_payload
from tools_app.catalog.entry import Entry
from tools_app.models import Call
from tools_app.text import json_text
from tools_app.text.budget import size_of
from tools_app.text.json_text import JsonError
from tools_app.text.redaction import CUT, MASK


@dataclass(frozen=True, slots=True)
class PastCall:
    """A recorded call and its stored arguments. `again`: arguments to enter again; `note` says why."""

    call_id: str
    arguments: dict[str, Any]
    again: frozenset[str] = frozenset()
    note: str = ""


def may_read_past_calls(user: actions.User) -> bool:
    return actions.CALLS_READ.permits(user) and actions.PAYLOADS_READ.permits(user)


def past_call(request: HttpRequest, entry: Entry) -> PastCall | None:
    """The call named by the URL; None unless it is a call of this tool that the user may read."""
    call_id = request.GET.get("call", "")
    if not IDENTIFIER.fullmatch(call_id) or not may_read_past_calls(request.user):
        return None
    call = Call.objects.filter(pk=call_id, tool_name=entry.name).first()
    # Showing the arguments is audited; submitting the form does not show them again.
    if call is None or (request.method != "POST" and not may_read_payload(request, call.pk)):
        return None
    return _stored_call(call, entry)


def _stored_call(call: Call, entry: Entry) -> PastCall:
    if not call.arguments:
        return PastCall(call.pk, {}, _required_names(entry), _("Its arguments were not stored, or have been deleted."))
    try:
        arguments = json_text.parsed(call.arguments.encode())
    except JsonError:
        arguments = None
    if not isinstance(arguments, dict):
        return PastCall(call.pk, {}, _required_names(entry), _("Only the beginning of its arguments was stored."))
    stored_arguments = {name: value for name, value in arguments.items() if not _is_masked(value)}
    if again := frozenset(arguments) - stored_arguments.keys():
        return PastCall(call.pk, stored_arguments, again, _("Secrets and long values were not stored."))
    # Earlier releases counted the bytes of a longer form.
    if call.argument_bytes not in (size_of(arguments), len(json.dumps(arguments))):
        # Changed without a mark, for example by removing invisible characters.
        return PastCall(call.pk, {}, frozenset(arguments), _("Its arguments were stored in a changed form."))
    return PastCall(call.pk, stored_arguments)


def _required_names(entry: Entry) -> frozenset[str]:
    return frozenset(map(str, entry.input_schema.get("required", ())))


def _is_masked(value: Any) -> bool:
    values_to_check = [value]
    while values_to_check:
        match values_to_check.pop():
            case str() as text if MASK in text or text.startswith(CUT) or text.endswith(CUT):
                return True
            case dict() as members:
                values_to_check.extend((*members, *members.values()))
            case list() as items:
                values_to_check.extend(items)
    return False
