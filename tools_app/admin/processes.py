"""The hub's processes: which are at work, and which have fallen silent."""

from __future__ import annotations

from django.contrib import admin
from django.utils import timezone
from django.utils.safestring import SafeString

from tools_app.admin import links
from tools_app.admin.journal import JournalAdmin
from tools_app.models import Process


@admin.register(Process)
class ProcessAdmin(JournalAdmin[Process]):
    list_display = ("kind", "host", "pid", "since", "lease")
    nothing_yet = ("No process is at work", "Servers, agents’ connections and long commands stand here while they run.")
    fields = ("id", "kind", "host", "pid", "since", "lease", "until")
    readonly_fields = ("since", "lease", "until")

    @admin.display(description="Since")
    def since(self, process: Process) -> SafeString:
        return links.when(process.started_at)

    @admin.display(description="Lease")
    def lease(self, process: Process) -> SafeString:
        if process.lease_until >= timezone.now():
            return links.mark("good", "alive")
        return links.mark("warn", f"silent since {links.stamp(process.lease_until)}")

    @admin.display(description="Lease until")
    def until(self, process: Process) -> str:
        return links.in_full(process.lease_until)
