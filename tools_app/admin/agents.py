"""The agents that are connected now: what they are, by which door they came, and what they have called."""

from __future__ import annotations

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from tools_app.admin import links
from tools_app.admin.journal import JournalAdmin
from tools_app.admin.narrowing import CallerFilter
from tools_app.models import Agent


@admin.register(Agent)
class AgentAdmin(JournalAdmin[Agent]):
    change_list_template = "admin/tools_app/agent/change_list.html"
    list_display = ("who", "door", "speaks", "shown_toolset", "shown_caller", "connected", "last_call", "shown_calls")
    list_display_links = None
    list_filter = ("door", "era", CallerFilter)
    list_select_related = ("process",)
    search_fields = ("client", "caller_name")
    search_help_text = gettext_lazy("Client or caller")
    nothing_yet = (
        gettext_lazy("No connected agents"),
        gettext_lazy("Run “toolhub connect claude-code” to connect one. Connected agents are listed here."),
    )
    fields = (
        "who", "door", "speaks", "shown_toolset", "shown_caller", "connected", "seen", "last_call", "shown_calls",
        "shown_process",
    )  # fmt: skip
    readonly_fields = (
        "who", "speaks", "shown_toolset", "shown_caller", "connected", "seen", "last_call", "shown_calls",
        "shown_process",
    )  # fmt: skip

    def get_queryset(self, request: HttpRequest) -> QuerySet[Agent]:
        found: QuerySet[Agent] = super().get_queryset(request)
        return found.filter(pk__in=Agent.objects.connected().values("pk"))

    @admin.display(description=gettext_lazy("Client"))
    def who(self, agent: Agent) -> SafeString:
        address = links.address("agent", "change", agent.pk)
        shown = '<a class="hub-name" href="{}">{}</a>{}'
        return format_html(shown, address, agent.client or _("unnamed client"), links.sub(agent.version))

    @admin.display(description=gettext_lazy("Protocol"))
    def speaks(self, agent: Agent) -> SafeString:
        modern = agent.era == Agent.Era.MODERN
        words = _("stateless") if modern else _("session")
        return format_html('<span class="hub-whole">{}</span>{}', agent.protocol or links.NOTHING, links.sub(words))

    @admin.display(description=gettext_lazy("Tools"))
    def shown_toolset(self, agent: Agent) -> str:
        return agent.toolset or _("all")

    @admin.display(description=gettext_lazy("Caller"))
    def shown_caller(self, agent: Agent) -> SafeString:
        return links.to_calls_of(agent.caller_id, agent.caller_name, agent.caller_kind)

    @admin.display(description=gettext_lazy("Connected"))
    def connected(self, agent: Agent) -> SafeString:
        return links.when(agent.since)

    @admin.display(description=gettext_lazy("Last request"))
    def seen(self, agent: Agent) -> SafeString:
        return links.when(agent.seen_at)

    @admin.display(description=gettext_lazy("Last call"))
    def last_call(self, agent: Agent) -> SafeString:
        return links.when(agent.called_at)

    @admin.display(description=gettext_lazy("Calls"))
    def shown_calls(self, agent: Agent) -> SafeString:
        return format_html('<span class="hub-number">{}</span>', f"{agent.calls:,}")

    @admin.display(description=gettext_lazy("Process"))
    def shown_process(self, agent: Agent) -> SafeString:
        return links.to_process(agent.process)
