"""The console page of a tool. GET only shows a form; calls go through the engine."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from asgiref.sync import sync_to_async
from django.contrib.admin import ModelAdmin
from django.contrib.auth.views import redirect_to_login
from django.core.exceptions import PermissionDenied
from django.db import transaction
from django.http import HttpRequest, HttpResponse, QueryDict
from django.shortcuts import get_object_or_404
from django.template.response import TemplateResponse
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.clickjacking import xframe_options_deny
from django.views.decorators.csrf import csrf_protect
from django.views.decorators.http import require_http_methods

from tools_app import engine
from tools_app.access import access, actions
from tools_app.admin import links, states, tool_page
from tools_app.admin.console import confirmation, form
from tools_app.admin.console.copies import KEY, copies
from tools_app.admin.console.fields import readable
from tools_app.admin.console.form import ArgumentsForm, JsonForm
from tools_app.admin.console.outcomes import ConsoleOutcome, outcome_of
from tools_app.admin.console.past import PastCall, may_read_past_calls, past_call
from tools_app.catalog import catalog, schema_table
from tools_app.catalog.entry import Entry
from tools_app.engine import Options, Result
from tools_app.engine.approvals import needed
from tools_app.models import Call, ToolRecord
from tools_app.sdk.context import Caller
from tools_app.sdk.errors import ToolError
from tools_app.sdk.names import folded
from tools_app.text import json_text
from tools_app.text.json_text import JsonError

MOST_IN_ADDRESS: Final = 8_192
MOST_EXAMPLES: Final = 20
# Requests with this header come from the page's own script: when it disconnects, the user pressed Cancel.
SCRIPT: Final = "X-Requested-With"


@dataclass
class Visit:
    """One request for the console page, and what the page will show."""

    request: HttpRequest
    record: ToolRecord
    entry: Entry
    caller: Caller
    form: ArgumentsForm | JsonForm
    past: PastCall | None = None
    note: str = ""
    action: str = ""
    arguments: dict[str, Any] | None = None
    result: Result | ToolError | None = None
    token: str = ""
    # The part of the form that was added or filled in.
    focus: str = ""
    examples: list[dict[str, Any]] = field(default_factory=list)


def view(pages: ModelAdmin[Any]) -> Any:
    """The view for the URLs of tools. Not in a transaction, in which the journal could not commit."""

    @transaction.non_atomic_requests
    @never_cache
    @xframe_options_deny
    @csrf_protect
    @require_http_methods(["GET", "HEAD", "POST"])
    async def console(request: HttpRequest, pk: int) -> HttpResponse:
        visit = await sync_to_async(_arrive)(pages, request, pk)
        if isinstance(visit, HttpResponse):
            return visit
        if visit.arguments is not None:
            await _execute(visit, visit.arguments)
        return await sync_to_async(_render)(pages, visit)

    return console


def address(record: ToolRecord, request: HttpRequest, **query: str) -> str:
    """The URL of a tool's console; empty if the user may not call tools, or the tool is retired."""
    if record.retired_at is not None or not actions.TOOLS_CALL.permits(access.caller_of_user(request.user)):
        return ""
    return links.address("toolrecord", "try", record.pk, **query)


def again_address(call: Call, request: HttpRequest) -> str:
    """The URL that prefills the console with a call; empty if the user may not, or the tool is retired."""
    if not may_read_past_calls(request.user):
        return ""
    record = ToolRecord.objects.present().filter(folded_name=folded(call.tool_name)).first()
    return address(record, request, call=call.pk) if record is not None else ""


# -------------------------------------------------------------------------------------------------------- arriving


def _arrive(pages: ModelAdmin[Any], request: HttpRequest, pk: int) -> Visit | HttpResponse:
    if not pages.admin_site.has_permission(request):
        return redirect_to_login(request.get_full_path(), reverse("admin:login", current_app=pages.admin_site.name))
    caller = access.caller_of_user(request.user)
    if not pages.has_view_or_change_permission(request) or not actions.TOOLS_CALL.permits(caller):
        raise PermissionDenied(actions.TOOLS_CALL)
    record = get_object_or_404(ToolRecord, pk=pk)
    entry = catalog.current().seen_by(caller).find(record.name)
    if entry is None:
        return _page(pages, request, record, {})
    before = past_call(request, entry)
    visit = Visit(request, record, entry, caller, form.form_for(entry.input_schema, {}), before)
    visit.examples = _examples(entry)
    (_take_form if request.method == "POST" else _prefill)(visit)
    return visit


def _prefill(visit: Visit) -> None:
    """Fills the form from the URL. Nothing is run."""
    query, arguments = visit.request.GET, None
    again: frozenset[str] = frozenset()
    if visit.past is not None:
        arguments, again, visit.note = visit.past.arguments, visit.past.again, visit.past.note
    elif "call" in query:
        visit.note = _("No such call of this tool, or you may not see its arguments.")
    elif (text := query.get("arguments")) is not None:
        arguments = _from_address(text)
        if arguments is None:
            visit.note = _("The URL does not contain a JSON object of arguments, or it is too large.")
    elif (number := query.get("example", "")).isdecimal() and int(number[:3]) < len(visit.examples):
        arguments = visit.examples[int(number[:3])]["parameters"]
    mode = form.JSON if query.get("mode") == form.JSON else form.FIELDS
    visit.form = form.form_for(visit.entry.input_schema, arguments or {}, mode=mode, again=again)


def _from_address(text: str) -> dict[str, Any] | None:
    if len(text) > MOST_IN_ADDRESS:
        return None
    try:
        value = json_text.parsed(text.encode(errors="replace"))
    except JsonError:
        return None
    return value if isinstance(value, dict) else None


def _take_form(visit: Visit) -> None:
    """Read the submitted form: run it, or switch between fields and JSON."""
    data, schema = visit.request.POST, visit.entry.input_schema
    again = visit.past.again if visit.past is not None else frozenset()
    as_json = data.get("mode") == form.JSON or not form.has_fields(schema)
    visit.form = JsonForm(data) if as_json else ArgumentsForm(schema, data, again=again)
    visit.action = data.get("action", "")
    arguments = visit.form.arguments()
    kind, _colon, key = visit.action.partition(":")
    if kind in PART_ACTIONS:
        _change_part(visit, kind, key, again)
    elif visit.action == form.JSON and isinstance(visit.form, ArgumentsForm):
        visit.form = form.JsonForm.of(visit.form.draft())
    elif visit.action == form.FIELDS and arguments is not None:
        visit.form = form.form_for(schema, arguments, again=again)
        if isinstance(visit.form, JsonForm):
            visit.note = _("These arguments cannot be shown as fields and stay as JSON.")
    elif visit.action in ACTIONS and arguments is not None:
        if missing_names := sorted(again - arguments.keys()):
            message = _("Not stored, enter again: %(names)s") % {"names": ", ".join(missing_names)}
            visit.form.add_error(None, message)
            return
        visit.arguments = arguments
        if data.get("shown") == form.FIELDS:
            # A confirmed call is submitted as one JSON text, whichever form it came from.
            visit.form = form.form_for(schema, arguments, again=again)


ADD, REMOVE, SKELETON = "add", "remove", "skeleton"
PART_ACTIONS: Final = frozenset({ADD, REMOVE, SKELETON})


def _change_part(visit: Visit, kind: str, key: str, again: frozenset[str]) -> None:
    """Add or remove an item of a list, or fill in an example. Nothing is run, and no mistake is looked for."""
    data: QueryDict = visit.request.POST
    schema = visit.entry.input_schema
    if isinstance(visit.form, JsonForm):
        visit.form.add_skeleton(schema)
        return
    visit.focus = key
    if kind == ADD:
        visit.focus = f"{key}/{len(visit.form.items_of(key))}"
        data = form.with_item(data, key)
    elif kind == REMOVE:
        key, _slash, index = key.rpartition("/")
        if key and index.isdecimal():
            data, visit.focus = form.without_item(data, key, int(index[:4])), key
    draft = ArgumentsForm(schema, data, again=again, as_draft=True)
    if draft.has_too_many:
        visit.note = _("No more items fit into fields. Edit as JSON.")
        draft = ArgumentsForm(schema, visit.request.POST, again=again, as_draft=True)
    if kind == SKELETON and not draft.add_skeleton(key):
        visit.note = _("The text is not a JSON object. Correct or delete it first.")
    visit.form = draft


# --------------------------------------------------------------------------------------------------------- running

DRY, RUN, CONFIRMED = "dry", "run", "confirmed"
ACTIONS: Final = frozenset({DRY, RUN, CONFIRMED})


async def _execute(visit: Visit, arguments: Mapping[str, Any]) -> None:
    if visit.action == DRY:
        visit.result = await _call(visit, arguments, Options(dry_run=True))
    elif not visit.entry.hints.writes:
        visit.result = await _call(visit, arguments, Options())
    elif visit.action == CONFIRMED and (key := _confirmed_key(visit, arguments)) is not None:
        visit.result = await _call(visit, arguments, Options(idempotency_key=key))
    else:
        # No confirmation for a call that would be refused.
        visit.result = await _call(visit, arguments, Options(dry_run=True))
        if isinstance(visit.result, Result):
            visit.token = confirmation.token(visit.entry, arguments, visit.caller)


def _confirmed_key(visit: Visit, arguments: Mapping[str, Any]) -> str | None:
    data = visit.request.POST
    key = confirmation.idempotency_key(data.get("token", ""), visit.entry, arguments, visit.caller)
    if key is None:
        visit.note = _("Confirmation expired. Nothing was run.")
    elif visit.entry.hints.destroys and data.get("certain") != "1":
        visit.note = _("Tick the box to confirm. Nothing was run.")
        return None
    return key


async def _call(visit: Visit, arguments: Mapping[str, Any], options: Options) -> Result | ToolError:
    """Run the call.

    The page's script cancels by disconnecting. Without the script the page may be left, reloaded or sent twice: then
    the call continues until it ends or times out.

    Raises:
        CancelledError: the script disconnected.
    """
    call = engine.call(visit.entry.name, arguments, visit.caller, door="admin", options=options)
    work = asyncio.ensure_future(call)
    work.add_done_callback(_forget)
    try:
        return await (work if visit.request.headers.get(SCRIPT) == "fetch" else asyncio.shield(work))
    except ToolError as error:
        return error


def _forget(work: asyncio.Future[Result]) -> None:
    """Retrieves the exception, so that asyncio does not log it as never retrieved when the user has left."""
    if not work.cancelled():
        work.exception()


# --------------------------------------------------------------------------------------------------------- showing


def _render(pages: ModelAdmin[Any], visit: Visit) -> HttpResponse:
    request, entry = visit.request, visit.entry
    outcome: ConsoleOutcome | None = None
    if visit.result is not None:
        outcome = outcome_of(visit.result, request.user)
        visit.form.tell(outcome.problems)
    if outcome is not None and outcome.repeat:
        visit.token = request.POST.get("token", "")
    context = {
        "entry": entry,
        "form": visit.form,
        "mode": visit.form.mode,
        "has_fields": form.has_fields(entry.input_schema),
        "lines": visit.form.lines() if isinstance(visit.form, ArgumentsForm) else (),
        "past": visit.past,
        "needs_approval": needed(entry, visit.caller),
        "focus": visit.focus,
        "rows": schema_table.rows(entry.input_schema) if isinstance(visit.form, JsonForm) else (),
        "schema_json": readable(entry.input_schema) if isinstance(visit.form, JsonForm) else "",
        "note": visit.note,
        "examples": visit.examples,
        "hints": tool_page.hints(entry.hints.as_dict()),
        "outcome": outcome,
        "question": visit.token,
        "whole": readable(visit.arguments) if visit.token else "",
        "copies": _copies(visit),
        "key_variable": KEY,
        "all_calls": links.address("call", "changelist", tool=entry.name, caller=visit.caller.id)
        if actions.CALLS_READ.permits(request.user)
        else "",
    }
    return _page(pages, request, visit.record, context)


def _copies(visit: Visit) -> Any:
    if visit.arguments is None:
        return ()
    address = visit.request.build_absolute_uri(reverse("api:call"))
    return copies(visit.entry.name, visit.arguments, address, visit.entry.connection_parameter)


def _examples(entry: Entry) -> list[dict[str, Any]]:
    """The examples of the tool that can be filled in."""
    usable = [
        one
        for one in entry.spec.body.get("examples", ())
        if isinstance(one, Mapping) and isinstance(one.get("parameters"), dict)
    ]
    return [{**one, "address": f"?example={number}"} for number, one in enumerate(usable[:MOST_EXAMPLES])]


def _page(pages: ModelAdmin[Any], request: HttpRequest, record: ToolRecord, context: dict[str, Any]) -> HttpResponse:
    page_context = {
        **pages.admin_site.each_context(request),
        "title": _("Test %(tool)s") % {"tool": record.name},
        "opts": pages.opts,
        "original": record,
        "record": record,
        "condition": states.condition(record, catalog.current()),
        "tool_address": links.address("toolrecord", "change", record.pk),
        **context,
    }
    # Rendered here: Django would render later, on the event loop, where database queries are not allowed.
    return TemplateResponse(request, "admin/tools_app/console/page.html", page_context).render()
