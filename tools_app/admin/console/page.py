"""The page on which a tool is tried. GET shows a form and runs nothing; what runs goes through the engine."""

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
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404
from django.template.response import TemplateResponse
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.clickjacking import xframe_options_deny
from django.views.decorators.csrf import csrf_protect
from django.views.decorators.http import require_http_methods

from tools_app import engine
from tools_app.access import access
from tools_app.admin import links, states, tool_page
from tools_app.admin.console import confirmation, form
from tools_app.admin.console.copies import KEY, copies
from tools_app.admin.console.fields import readable
from tools_app.admin.console.form import ArgumentsForm, JsonForm
from tools_app.admin.console.outcomes import Outcome, outcome_of
from tools_app.admin.console.past import PERMISSIONS, Past, past
from tools_app.catalog import catalog
from tools_app.catalog.entry import Entry
from tools_app.engine import Options, Result
from tools_app.models import Call, ToolRecord
from tools_app.sdk.context import Caller
from tools_app.sdk.errors import ToolError
from tools_app.sdk.names import folded
from tools_app.text import json_text
from tools_app.text.json_text import JsonError

EXECUTE: Final = "tools:execute"
MOST_IN_ADDRESS: Final = 8_192
MOST_EXAMPLES: Final = 20
# Requests with this header come from the page's own script: when it disconnects, the user pressed Cancel.
SCRIPT: Final = "X-Requested-With"


@dataclass
class Visit:
    """A user of the console, and what the page shows to them."""

    request: HttpRequest
    record: ToolRecord
    entry: Entry
    caller: Caller
    form: ArgumentsForm | JsonForm
    past: Past | None = None
    note: str = ""
    action: str = ""
    arguments: dict[str, Any] | None = None
    done: Result | ToolError | None = None
    token: str = ""
    examples: list[dict[str, Any]] = field(default_factory=list)


def view(pages: ModelAdmin[Any]) -> Any:
    """The view, as a page among those of the tools. Not inside a transaction: the journal could not commit."""

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
            await _act(visit, visit.arguments)
        return await sync_to_async(_shown)(pages, visit)

    return console


def address(record: ToolRecord, request: HttpRequest, **query: str) -> str:
    """Where a tool can be tried; empty where this user may not, or it is gone."""
    if record.retired_at is not None or not access.caller_of_user(request.user).may(EXECUTE):
        return ""
    return links.address("toolrecord", "try", record.pk, **query)


def again_address(call: Call, request: HttpRequest) -> str:
    """Where a call can be made again; empty where this user may not, or the tool is gone."""
    if not request.user.has_perms(PERMISSIONS):
        return ""
    record = ToolRecord.objects.present().filter(folded_name=folded(call.tool_name)).first()
    return address(record, request, call=call.pk) if record is not None else ""


# -------------------------------------------------------------------------------------------------------- arriving


def _arrive(pages: ModelAdmin[Any], request: HttpRequest, pk: int) -> Visit | HttpResponse:
    if not pages.admin_site.has_permission(request):
        return redirect_to_login(request.get_full_path(), reverse("admin:login", current_app=pages.admin_site.name))
    caller = access.caller_of_user(request.user)
    if not pages.has_view_or_change_permission(request) or not caller.may(EXECUTE):
        raise PermissionDenied
    record = get_object_or_404(ToolRecord, pk=pk)
    entry = catalog.current().seen_by(caller).find(record.name)
    if entry is None or entry.tool is None:
        return _page(pages, request, record, {})
    before = past(request, entry)
    visit = Visit(request, record, entry, caller, form.showing(entry.input_schema, {}), before)
    visit.examples = _examples(entry)
    (_take if request.method == "POST" else _prefill)(visit)
    return visit


def _prefill(visit: Visit) -> None:
    """Fills the form from the URL. Nothing is run."""
    asked, arguments = visit.request.GET, None
    again: frozenset[str] = frozenset()
    if visit.past is not None:
        arguments, again, visit.note = visit.past.arguments, visit.past.again, visit.past.why
    elif "call" in asked:
        visit.note = _("No such call of this tool, or you may not see its arguments.")
    elif (text := asked.get("arguments")) is not None:
        arguments = _from_address(text)
        if arguments is None:
            visit.note = _("The URL does not contain a JSON object of arguments, or it is too large.")
    elif (number := asked.get("example", "")).isdecimal() and int(number[:3]) < len(visit.examples):
        arguments = visit.examples[int(number[:3])]["parameters"]
    mode = form.JSON if asked.get("mode") == form.JSON else form.FIELDS
    visit.form = form.showing(visit.entry.input_schema, arguments or {}, mode=mode, again=again)


def _from_address(text: str) -> dict[str, Any] | None:
    if len(text) > MOST_IN_ADDRESS:
        return None
    try:
        found = json_text.parsed(text.encode(errors="replace"))
    except JsonError:
        return None
    return found if isinstance(found, dict) else None


def _take(visit: Visit) -> None:
    """What was sent: to be run, or to be shown in the other kind of form."""
    sent, schema = visit.request.POST, visit.entry.input_schema
    again = visit.past.again if visit.past is not None else frozenset()
    whole = sent.get("mode") == form.JSON or not form.has_fields(schema)
    visit.form = JsonForm(sent) if whole else ArgumentsForm(schema, sent, again=again)
    visit.action = sent.get("action", "")
    arguments = visit.form.arguments()
    if visit.action == form.JSON and isinstance(visit.form, ArgumentsForm):
        visit.form = form.showing(schema, visit.form.drafted(), mode=form.JSON)
    elif visit.action == form.FIELDS and arguments is not None:
        visit.form = form.showing(schema, arguments, again=again)
        if isinstance(visit.form, JsonForm):
            visit.note = _("These arguments cannot be shown as fields and stay as JSON.")
    elif visit.action in ACTIONS and arguments is not None:
        if missing := sorted(again - arguments.keys()):
            said = _("Not stored, enter again: %(names)s") % {"names": ", ".join(missing)}
            visit.form.add_error(None, said)
            return
        visit.arguments = arguments
        if sent.get("shown") == form.FIELDS:
            # What was confirmed comes as one text, whatever it was typed into.
            visit.form = form.showing(schema, arguments, again=again)


# --------------------------------------------------------------------------------------------------------- running

DRY, RUN, CONFIRMED = "dry", "run", "confirmed"
ACTIONS: Final = frozenset({DRY, RUN, CONFIRMED})


async def _act(visit: Visit, arguments: Mapping[str, Any]) -> None:
    if visit.action == DRY:
        visit.done = await _called(visit, arguments, Options(dry_run=True))
    elif not visit.entry.hints.writes:
        visit.done = await _called(visit, arguments, Options())
    elif visit.action == CONFIRMED and (key := _confirmed(visit, arguments)) is not None:
        visit.done = await _called(visit, arguments, Options(idempotency_key=key))
    else:
        # No confirmation for a call that would be refused.
        visit.done = await _called(visit, arguments, Options(dry_run=True))
        if isinstance(visit.done, Result):
            visit.token = confirmation.token(visit.entry, arguments, visit.caller)


def _confirmed(visit: Visit, arguments: Mapping[str, Any]) -> str | None:
    sent = visit.request.POST
    key = confirmation.idempotency_key(sent.get("token", ""), visit.entry, arguments, visit.caller)
    if key is None:
        visit.note = _("Confirmation expired. Nothing was run.")
    elif visit.entry.hints.destroys and sent.get("certain") != "1":
        visit.note = _("Tick the box to confirm. Nothing was run.")
        return None
    return key


async def _called(visit: Visit, arguments: Mapping[str, Any], options: Options) -> Result | ToolError:
    """Raises: CancelledError, when the page's own script has hung up, which is how it cancels.

    A page that was sent without it may be left, reloaded or sent twice: the call continues until it ends or times out.
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


def _shown(pages: ModelAdmin[Any], visit: Visit) -> HttpResponse:
    request, entry = visit.request, visit.entry
    outcome: Outcome | None = None
    if visit.done is not None:
        outcome = outcome_of(visit.done, request.user.has_perm)
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
        "note": visit.note,
        "examples": visit.examples,
        "hints": tool_page.hints(entry.hints.as_dict()),
        "outcome": outcome,
        "question": visit.token,
        "whole": readable(visit.arguments) if visit.token else "",
        "copies": _copies(visit),
        "key_variable": KEY,
        "all_calls": links.address("call", "changelist", tool=entry.name, caller=visit.caller.id)
        if request.user.has_perm("tools_app.view_call")
        else "",
    }
    return _page(pages, request, visit.record, context)


def _copies(visit: Visit) -> Any:
    if visit.arguments is None:
        return ()
    return copies(visit.entry.name, visit.arguments, visit.request.build_absolute_uri(reverse("api:call")))


def _examples(entry: Entry) -> list[dict[str, Any]]:
    """The examples of the tool that can be filled in."""
    found = entry.tool.definition().get("examples") if entry.tool is not None else None
    usable = [one for one in found or () if isinstance(one, Mapping) and isinstance(one.get("parameters"), dict)]
    return [{**one, "address": f"?example={number}"} for number, one in enumerate(usable[:MOST_EXAMPLES])]


def _page(pages: ModelAdmin[Any], request: HttpRequest, record: ToolRecord, context: dict[str, Any]) -> HttpResponse:
    shown = {
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
    return TemplateResponse(request, "admin/tools_app/console/page.html", shown).render()
