"""The hub's processes: which are at work, and which have fallen silent."""

from __future__ import annotations

from django.contrib import admin
from django.db.models import Count, QuerySet
from django.http import HttpRequest
from django.utils import timezone
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from tools_app.admin import links
from tools_app.admin.journal import JournalAdmin
from tools_app.models import Process

MOST_SHOWN = 50


@admin.register(Process)
class ProcessAdmin(JournalAdmin[Process]):
    list_display = ("kind", "host", "pid", "since", "lease", "number_of_agents")
    nothing_yet = (
        gettext_lazy("No running processes"),
        gettext_lazy("Servers, agent connections and long-running commands are listed here."),
    )
    fields = ("id", "kind", "host", "pid", "since", "lease", "until", "shown_agents")
    readonly_fields = ("since", "lease", "until", "shown_agents")

    def get_queryset(self, request: HttpRequest) -> QuerySet[Process]:
        return super().get_queryset(request).annotate(agent_count=Count("agents"))

    @admin.display(description=gettext_lazy("Started"))
    def since(self, process: Process) -> SafeString:
        return links.when(process.started_at)

    @admin.display(description=gettext_lazy("Heartbeat"))
    def lease(self, process: Process) -> SafeString:
        if process.lease_until >= timezone.now():
            return links.mark("good", _("OK"))
        return links.mark("warn", _("missing since %(time)s") % {"time": links.stamp(process.lease_until)})

    @admin.display(description=gettext_lazy("Heartbeat valid until"))
    def until(self, process: Process) -> str:
        return links.in_full(process.lease_until)

    @admin.display(description=gettext_lazy("Agents"))
    def number_of_agents(self, process: Process) -> int:
        return int(getattr(process, "agent_count", 0))

    @admin.display(description=gettext_lazy("Agents"))
    def shown_agents(self, process: Process) -> SafeString:
        agents = process.agents.all()[:MOST_SHOWN]
        named = [(links.address("agent", "change", agent.pk), str(agent)) for agent in agents]
        if not named:
            return format_html("{}", _("none"))
        return format_html_join(" ", '<a class="hub-tag" href="{}">{}</a>', named)
