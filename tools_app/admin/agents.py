"""Connected agents: client, channel, caller and last call."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from tools_app.admin import connecting, links
from tools_app.admin.journal import JournalAdmin
from tools_app.admin.lists import Column
from tools_app.admin.narrowing import CallerFilter
from tools_app.models import Agent


@admin.register(Agent)
class AgentAdmin(JournalAdmin[Agent]):
    change_list_template = "admin/tools_app/agent/change_list.html"
    list_display = ("agent", "door", "speaks", "shown_toolset", "shown_caller", "joined_at", "last_call", "shown_calls")
    list_display_links = None
    follows = "agents"
    list_filter = ("door", "era", CallerFilter)
    list_select_related = ("process",)
    search_fields = ("client", "caller_name")
    search_help_text = gettext_lazy("Client or caller")
    nothing_yet = (
        gettext_lazy("No connected agents"),
        gettext_lazy("Run “toolhub connect claude-code” to connect one. Connected agents are listed here."),
    )
    fields = (
        "agent", "door", "speaks", "shown_toolset", "shown_caller", "joined_at", "last_request",
        "last_call", "shown_calls", "shown_process",
    )  # fmt: skip

    def list_context(self, request: HttpRequest) -> dict[str, Any]:
        return {**super().list_context(request), "mcp_address": connecting.endpoints(request).mcp}

    def get_queryset(self, request: HttpRequest) -> QuerySet[Agent]:
        agents: QuerySet[Agent] = super().get_queryset(request)
        return agents.filter(pk__in=Agent.objects.connected().values("pk"))

    @admin.display(description=gettext_lazy("Client"))
    def agent(self, agent: Agent) -> SafeString:
        address = links.address("agent", "change", agent.pk)
        return links.named(address, agent.client or _("unnamed client"), agent.version)

    @admin.display(description=gettext_lazy("Protocol"))
    def speaks(self, agent: Agent) -> SafeString:
        modern = agent.era == Agent.Era.MODERN
        words = _("stateless") if modern else _("session")
        return links.with_sub(links.whole(agent.protocol or links.NOTHING), words)

    shown_toolset = Column[Agent](gettext_lazy("Tools"), lambda agent: agent.toolset or _("all"))

    shown_caller = Column[Agent](
        gettext_lazy("Caller"),
        lambda agent: links.to_calls_of(agent.caller_id, agent.caller_name, agent.caller_kind),
    )

    joined_at = Column[Agent](gettext_lazy("Connected"), lambda agent: links.when(agent.since))
    last_request = Column[Agent](gettext_lazy("Last request"), lambda agent: links.when(agent.seen_at))
    last_call = Column[Agent](gettext_lazy("Last call"), lambda agent: links.when(agent.called_at))

    shown_calls = Column[Agent](gettext_lazy("Calls"), lambda agent: links.figure(agent.calls))
    shown_process = Column[Agent](gettext_lazy("Process"), lambda agent: links.to_process(agent.process))
