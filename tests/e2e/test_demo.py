"""The demo, as a visitor sees it in two minutes."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from tests.packs.n8n.fake import N8n
from tests.support.processes import CHECKOUT, Home
from tests.support.redmine import FakeRedmine
from toolhub.demo import __main__ as demo

# What an operator would stumble over, asked of the hub itself.
DOUBTS = """
import json
from datetime import timedelta
from django.utils import timezone
from tools_app.access import access; from tools_app.catalog import catalog
from tools_app.sdk.context import Caller
from tools_app.models import ApiKey, AuditEntry, Call, Definition, ToolRecord
snapshot, beyond = catalog.current(), []
for key in ApiKey.objects.exclude(name="trial"):
    caller = Caller("key", f"key:{key.pk}", key.name, frozenset(key.scopes), key.reach)
    called = Call.objects.filter(caller_id=caller.id, status="succeeded").order_by().values_list("tool_name", flat=True)
    beyond += [f"{key.name}: {name}" for name in set(called) if snapshot.seen_by(caller).find(name) is None]
    beyond += [f"{key.name}: never used"] * (key.last_used_at is None) + [f"{key.name}: nobody's"] * (key.owner is None)
changes = AuditEntry.objects.exclude(action="source.sync")
print(json.dumps({
    "beyond their reach": beyond,
    "decided on so many days": len({entry.at.date() for entry in changes}),
    "decided just now": changes.filter(at__gt=timezone.now() - timedelta(minutes=1)).count(),
    "calls without arguments": Call.objects.filter(arguments="").count(),
    "calls of what was off": Call.objects.filter(
        status="succeeded", tool_name__in=ToolRecord.objects.filter(enabled=False).values("name"),
        started_at__gt=timezone.now() - timedelta(days=1)).count(),
    "tools with a history": Definition.objects.filter(version="1.3.0").count(),
}))
"""


def test_fills_a_hub_that_is_worth_looking_at() -> None:
    command = [sys.executable, "-m", "toolhub", "demo", "--fill-only"]
    filled = subprocess.run(command, cwd=CHECKOUT, capture_output=True, text=True, timeout=120, check=False)
    assert filled.returncode == 0, filled.stderr
    numbers = [int(word.replace(",", "")) for word in filled.stdout.split() if word[0].isdigit()]
    tools, calls, errors, callers = numbers
    assert tools >= 30
    assert calls >= 5_000
    assert (errors, callers) >= (5, 5)


def test_holds_nothing_that_contradicts_itself(tmp_path: Path) -> None:
    home = Home(tmp_path, {"TOOLHUB_TOOLS_DIR": str(demo.TOOLS)})
    with N8n() as n8n, FakeRedmine() as redmine:
        demo.fill(home.environment, n8n.url, redmine.url, "only-for-a-test-1")
    asked = home.run("shell", "-v", "0", "-c", DOUBTS)
    assert asked.returncode == 0, asked.stderr
    found = json.loads(asked.stdout.splitlines()[-1])
    assert found.pop("decided on so many days") >= 8
    assert found == {
        "beyond their reach": [],
        "decided just now": 0,
        "calls without arguments": 0,
        "calls of what was off": 0,
        "tools with a history": 1,
    }
