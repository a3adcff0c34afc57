"""The hub's processes and their heartbeats."""

from __future__ import annotations

from django.contrib import admin
from django.db.models import Count, QuerySet
from django.http import HttpRequest
from django.urls import URLPattern, path
from django.utils import timezone
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from tools_app.admin import data_page, links, settings_page
from tools_app.admin.journal import JournalAdmin
from tools_app.admin.lists import Column
from tools_app.admin.live import pages as live
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

    def get_urls(self) -> list[URLPattern]:
        own = path("settings/", settings_page.view(self.admin_site), name="tools_app_process_settings")
        data = path("data/", data_page.view(self.admin_site), name="tools_app_process_data")
        return [own, data, *live.urls(self.admin_site), *super().get_urls()]

    def get_queryset(self, request: HttpRequest) -> QuerySet[Process]:
        return super().get_queryset(request).annotate(agent_count=Count("agents"))

    since = Column[Process](gettext_lazy("Started"), lambda process: links.when(process.started_at))

    @admin.display(description=gettext_lazy("Heartbeat"))
    def lease(self, process: Process) -> SafeString:
        if process.lease_until >= timezone.now():
            return links.mark("good", _("OK"))
        return links.mark("warn", _("missing since %(time)s") % {"time": links.stamp(process.lease_until)})

    until = Column[Process](gettext_lazy("Heartbeat valid until"), lambda process: links.in_full(process.lease_until))
    number_of_agents = Column[Process](gettext_lazy("Agents"), lambda process: int(getattr(process, "agent_count", 0)))

    @admin.display(description=gettext_lazy("Agents"))
    def shown_agents(self, process: Process) -> str:
        agents = process.agents.all()[:MOST_SHOWN]
        return links.tags((links.address("agent", "change", agent.pk), agent) for agent in agents) or _("none")
