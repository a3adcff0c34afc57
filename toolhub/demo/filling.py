"""Fills the hub that the environment names: `python -m toolhub.demo.filling N8N_URL REDMINE_URL`, password on stdin."""

from __future__ import annotations

import os
import sys


def fill(n8n: str, redmine: str, password: str) -> str:
    """What there is afterwards, in words."""
    os.environ["DJANGO_SETTINGS_MODULE"] = "toolhub.settings"
    import django

    django.setup()
    from django.utils import timezone

    from toolhub.demo import history, people
    from toolhub.demo.clock import days_ago
    from tools_app import governance
    from tools_app.models import ErrorGroup, ToolRecord
    from tools_app.setup import installation

    now = timezone.now()
    with days_ago(now, history.DAYS):
        installation.set_up(lambda line: None)
        governance.create_admin("admin", password, actor=governance.trusted("system:demo"))
    callers = people.appear(now, n8n, redmine)
    calls = history.happen(now, callers)
    people.decide(now)
    people.come_in(now, callers)
    groups, tools = ErrorGroup.objects.count(), ToolRecord.objects.count()
    return f"{tools} tools, {calls:,} calls, {groups} kinds of errors, {len(callers)} callers"


if __name__ == "__main__":
    print(fill(sys.argv[1], sys.argv[2], sys.stdin.readline().strip()))
