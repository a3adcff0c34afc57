"""Ways from one record to another, and the small marks that every page shares. All of it escapes what it shows."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Final
from urllib.parse import urlencode

from django.template.loader import render_to_string
from django.urls import reverse
from django.utils import timezone
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.timesince import timesince
from django.utils.translation import gettext as _

from tools_app.models import Call, Process
from tools_app.sdk.errors import ToolNotFoundError

NOTHING: Final = "–"
EMPTY: Final = SafeString("")  # a literal, so there is nothing to escape


def address(model: str, view: str, *arguments: Any, **query: Any) -> str:
    """The address of a page of this app's admin, `query` added where it has a value."""
    path = reverse(f"admin:tools_app_{model}_{view}", args=arguments)
    asked = {key: value for key, value in query.items() if value not in (None, "")}
    return f"{path}?{urlencode(asked)}" if asked else path


def to_tool(name: str, code: str = "") -> SafeString:
    """A tool by its name. What was never found has no page and stays text, and so does what is no tool: `prompt:x`."""
    if not name or code == ToolNotFoundError.code or ":" in name:
        return format_html("{}", name or NOTHING)
    return format_html('<a class="hub-link" href="{}">{}</a>', address("toolrecord", "named", name=name), name)


def to_call(call_id: str, text: str = "") -> SafeString:
    if not call_id:
        return format_html("{}", NOTHING)
    return format_html('<a class="hub-link" href="{}">{}</a>', address("call", "change", call_id), text or call_id)


def to_error(error_id: str, text: str = "") -> SafeString:
    if not error_id:
        return format_html("{}", NOTHING)
    return format_html(
        '<a class="hub-link" href="{}">{}</a>', address("errorlog", "change", error_id), text or error_id
    )


def to_group(fingerprint: str, text: str) -> SafeString:
    return format_html('<a class="hub-link" href="{}">{}</a>', address("errorgroup", "change", fingerprint), text)


def to_calls_of(caller_id: str, name: str, kind: str) -> SafeString:
    """A caller, with the list of its calls behind it."""
    if not caller_id:
        return format_html("{}", NOTHING)
    shown = '<span class="hub-whole"><a class="hub-link" href="{}">{}</a> <span class="hub-quiet">{}</span></span>'
    return format_html(shown, address("call", "changelist", caller=caller_id), name or caller_id or NOTHING, kind)


def to_key(pk: object, name: str) -> SafeString:
    return format_html('<a class="hub-link" href="{}">{}</a>', address("apikey", "change", pk), name)


def to_process(process: Process) -> SafeString:
    return format_html('<a class="hub-link" href="{}">{}</a>', address("process", "change", process.pk), process)


def to_subject(subject: str) -> SafeString:
    """What an audit entry is about: a tool by its bare name, anything else with its kind in front."""
    kind, _, name = subject.partition(":")
    if kind == "error" and name:
        return to_group(name, f"error:{name[:8]}…")
    if kind == "call" and name:
        return to_call(name, f"call:{name[:8]}…")
    if kind == "approval" and name:
        shown = '<a class="hub-link" href="{}">approval:{}…</a>'
        return format_html(shown, address("approval", "change", name), name[:8])
    return format_html("{}", subject) if ":" in subject else to_tool(subject)


def errors_since(span: str, *, calls: bool, tool: str = "") -> str:
    """The list behind a number of errors: the calls, or the error events for users who may not see calls."""
    if calls:
        return address("call", "changelist", tool=tool, status="error", since=span)
    return address("errorlog", "changelist", tool=tool, since=span)


def sub(text: str) -> SafeString:
    """A second, smaller line in a cell; in full when pointed at."""
    return format_html('<span class="hub-sub" title="{0}">{0}</span>', text) if text else EMPTY


def mark(tone: str, text: str) -> SafeString:
    """A word with a coloured dot. The word says it all; the colour only helps to find it."""
    return format_html('<span class="hub-mark hub-{}">{}</span>', tone, text)


def status(call: Call) -> SafeString:
    """Status of a call, the number of calls that its row represents, and who answered if not the tool."""
    return render_to_string("admin/tools_app/status.html", {"call": call})


def when(moment: datetime | None) -> SafeString:
    """How long ago, with the exact time behind it."""
    if moment is None:
        return format_html("{}", NOTHING)
    return format_html('<time datetime="{}" title="{}">{}</time>', moment.isoformat(), exact(moment), ago(moment))


def stamp(moment: datetime) -> str:
    return f"{timezone.localtime(moment):%Y-%m-%d %H:%M:%S}"


def exact(moment: datetime) -> str:
    return f"{timezone.localtime(moment):%Y-%m-%d %H:%M:%S %Z}"


def in_full(moment: datetime | None) -> str:
    return f"{exact(moment)} ({ago(moment)})" if moment is not None else NOTHING


def ago(moment: datetime) -> str:
    now = timezone.now()
    if moment > now:
        return _("in %(time)s") % {"time": timesince(now, moment, depth=1)}
    seconds = (now - moment).total_seconds()
    return _("just now") if seconds < 60 else _("%(time)s ago") % {"time": timesince(moment, now, depth=1)}


def preformatted(text: str) -> SafeString:
    """Text exactly as it is, to be read and to be copied."""
    return render_to_string("admin/tools_app/preformatted.html", {"text": text}) if text else format_html("{}", NOTHING)
