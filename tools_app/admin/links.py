"""Links between records, and marks that every page uses. All output is escaped."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any, Final
from urllib.parse import urlencode

from django.template.loader import render_to_string
from django.urls import reverse
from django.utils import timezone
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString
from django.utils.timesince import timesince
from django.utils.translation import gettext as _

from tools_app.models import Call, Process
from tools_app.sdk.errors import ToolNotFoundError

NOTHING: Final = "–"
EMPTY: Final = SafeString("")  # a literal, so there is nothing to escape


def address(model: str, view: str, *arguments: Any, **query: Any) -> str:
    """The URL of an admin page; `query` values that are empty are left out."""
    path = reverse(f"admin:tools_app_{model}_{view}", args=arguments)
    query_values = {key: value for key, value in query.items() if value not in (None, "")}
    return f"{path}?{urlencode(query_values)}" if query_values else path


def link(address: str, text: object, look: str = "hub-link") -> SafeString:
    return format_html('<a class="{}" href="{}">{}</a>', look, address, text)


def named(address: str, text: object, below: object = "") -> SafeString:
    """The name of a row, with the link to its page and a second line."""
    return with_sub(link(address, text, "hub-name"), below)


def with_sub(text: object, below: object) -> SafeString:
    return format_html("{}{}", text, sub(below))


def number(number: int, address: str, look: str = "") -> SafeString:
    """A number with the link to what it counts; none for 0."""
    return link(address, f"{number:,}", f"hub-number {look}".rstrip()) if number else quiet(0)


def figure(number: int, title: str = "") -> SafeString:
    return format_html('<span class="hub-number" title="{}">{}</span>', title, f"{number:,}")


def switch(row: Any, address: str, *, may_switch: bool) -> SafeString:
    """The switch of a tool or source; a word for users who may not press it."""
    if not may_switch:
        return quiet(_("on") if row.enabled else _("off"))
    return render_to_string("admin/tools_app/toolrecord/switch.html", {"tool": row, "address": address})


def tags(pairs: Iterable[tuple[str, object]]) -> SafeString:
    """Links side by side: pairs of address and text."""
    return format_html_join(" ", '<a class="hub-tag" href="{}">{}</a>', pairs)


def quiet(text: object) -> SafeString:
    return format_html('<span class="hub-quiet">{}</span>', text)


def whole(text: object, title: str = "") -> SafeString:
    """A text that is not broken into lines."""
    return format_html('<span class="hub-whole" title="{}">{}</span>', title, text)


def cut(text: object) -> SafeString:
    """The beginning of a long text, and all of it as tooltip."""
    return format_html('<span class="hub-cut" title="{0}">{0}</span>', text)


def at(moment: datetime, link: SafeString) -> SafeString:
    """A link whose text is a time, and how long ago that was."""
    return whole(link, ago(moment))


def to_tool(name: str, code: str = "") -> SafeString:
    """A link to a tool. Unknown names and names of other things (`prompt:x`) stay text."""
    if not name or code == ToolNotFoundError.code or ":" in name:
        return format_html("{}", name or NOTHING)
    return link(address("toolrecord", "named", name=name), name)


def to_source(name: str, text: str = "") -> SafeString:
    if not name:
        return format_html("{}", text or NOTHING)
    return link(address("source", "named", name=name), text or name)


def to_call(call_id: str, text: str = "") -> SafeString:
    if not call_id:
        return format_html("{}", NOTHING)
    return link(address("call", "change", call_id), text or call_id)


def to_error(error_id: str, text: str = "") -> SafeString:
    if not error_id:
        return format_html("{}", NOTHING)
    return link(address("errorlog", "change", error_id), text or error_id)


def to_standing(standing_id: str, text: str = "") -> SafeString:
    if not standing_id:
        return format_html("{}", NOTHING)
    return link(address("standingapproval", "change", standing_id), text or standing_id)


def to_group(fingerprint: str, text: str) -> SafeString:
    return link(address("errorgroup", "change", fingerprint), text)


def to_calls_of(caller_id: str, name: str, kind: str) -> SafeString:
    """A caller, with the list of its calls behind it."""
    if not caller_id:
        return format_html("{}", NOTHING)
    calls = link(address("call", "changelist", caller=caller_id), name or caller_id)
    return whole(format_html("{} {}", calls, quiet(kind)))


def to_key(pk: object, name: str) -> SafeString:
    return link(address("apikey", "change", pk), name)


def to_process(process: Process) -> SafeString:
    return link(address("process", "change", process.pk), process)


def to_subject(subject: str) -> SafeString:
    """The subject of an audit entry: the name of a tool, or `kind:name` for anything else."""
    kind, _, name = subject.partition(":")
    if kind == "error" and name:
        return to_group(name, f"error:{name[:8]}…")
    if kind == "call" and name:
        return to_call(name, f"call:{name[:8]}…")
    if kind == "source" and name:
        return to_source(name, subject)
    if kind == "standing" and name:
        return to_standing(name, f"standing:{name[:8]}…")
    if kind == "approval" and name:
        return link(address("approval", "change", name), f"approval:{name[:8]}…")
    return format_html("{}", subject) if ":" in subject else to_tool(subject)


def errors_since(span: str, *, calls: bool, tool: str = "") -> str:
    """The URL of a list of errors: calls, or error events for users who may not see calls."""
    if calls:
        return address("call", "changelist", tool=tool, status="error", since=span)
    return address("errorlog", "changelist", tool=tool, since=span)


def sub(text: object) -> SafeString:
    """A second, smaller line in a cell, with the full text as tooltip."""
    return format_html('<span class="hub-sub" title="{0}">{0}</span>', text) if text else EMPTY


def mark(tone: str, text: str) -> SafeString:
    """A word with a coloured dot; the colour adds no information."""
    return format_html('<span class="hub-mark hub-{}">{}</span>', tone, text)


def status(call: Call) -> SafeString:
    """Status of a call, the number of calls that its row represents, and who answered if not the tool."""
    return render_to_string("admin/tools_app/status.html", {"call": call})


def when(moment: datetime | None) -> SafeString:
    """How long ago, with the exact time as tooltip."""
    if moment is None:
        return format_html("{}", NOTHING)
    return format_html('<time datetime="{}" title="{}">{}</time>', moment.isoformat(), exact(moment), ago(moment))


def countdown(moment: datetime) -> SafeString:
    """The time that is left, which a script counts down."""
    return format_html(
        '<time datetime="{}" title="{}" data-countdown>{}</time>', moment.isoformat(), exact(moment), ago(moment)
    )


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
    """Preformatted text that can be copied."""
    return render_to_string("admin/tools_app/preformatted.html", {"text": text}) if text else format_html("{}", NOTHING)
