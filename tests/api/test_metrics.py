"""Metrics: who may read them, and that they are the figures of the hub in a form that Prometheus reads."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import pytest
from django.db import connection
from django.test import AsyncRequestFactory
from django.utils import timezone
from prometheus_client.openmetrics.parser import text_string_to_metric_families as openmetrics
from prometheus_client.parser import text_string_to_metric_families as plain

from tests.api.conftest import MakeKey
from tests.api.rest import Rest, failure
from tests.support.processes import CHECKOUT
from tests.support.tools import Programmable, eventually
from tools_app import engine, governance
from tools_app.api import metrics
from tools_app.base import database
from tools_app.governance.restoring import CHORE
from tools_app.journal import rows
from tools_app.models import ApiKey, Approval, Call, CallHour, Chore, Source, SourceStatus
from tools_app.sdk.context import Caller
from tools_app.sdk.errors import ToolError

Samples = dict[tuple[str, tuple[tuple[str, str], ...]], float]


@pytest.fixture
def monitor(rest: Rest, make_key: MakeKey) -> Rest:
    """A client with a key that can read metrics only."""
    rest.key = make_key("monitor", scopes=["metrics:read"])
    return rest


def read(monitor: Rest) -> Samples:
    response = monitor.get("/metrics")
    assert response.status_code == 200, response.content
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in plain(response.content.decode())
        for sample in family.samples
    }


def value(samples: Samples, name: str, **labels: str) -> float | None:
    return samples.get((name, tuple(sorted(labels.items()))))


def folded() -> None:
    """Calls that have ended are counted."""
    assert eventually(lambda: not Call.objects.filter(status="started").exists())
    while rows.fold():
        pass


def test_calls_are_counted_by_tool_and_outcome(monitor: Rest, programmable: Programmable, alice: Caller) -> None:
    programmable.outcomes = ["fine", ToolError("no")]
    engine.call_sync("programmable", {}, alice, door="code")
    with pytest.raises(ToolError):
        engine.call_sync("programmable", {}, alice, door="code")
    with pytest.raises(ToolError):
        engine.call_sync("programmable", {"unknown": 1}, alice, door="code")
    folded()
    samples = read(monitor)
    statuses = {
        status: value(samples, "toolhub_calls_total", tool="programmable", status=status) for status in Call.Status
    }
    assert {status: n for status, n in statuses.items() if n} == {"succeeded": 1, "failed": 1, "refused": 1}
    [(labels, number)] = [(labels, n) for (name, labels), n in samples.items() if name == "toolhub_errors_total"]
    assert (dict(labels)["tool"], number) == ("programmable", 1)
    # Refusals have no duration.
    assert value(samples, "toolhub_call_duration_seconds_count", tool="programmable") == 2
    assert value(samples, "toolhub_call_duration_seconds_bucket", tool="programmable", le="+Inf") == 2
    assert value(samples, "toolhub_response_bytes_total", tool="programmable") == sum(
        Call.objects.values_list("result_bytes", flat=True)
    )


def test_buckets_are_cumulative_and_in_seconds(monitor: Rest) -> None:
    day = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    CallHour.everything.create(
        hour=day, span="day", tool_name="t", caller_id="*", caller_name="", status="succeeded",
        calls=6, within_10=1, within_250=2, slower=3, total_ms=61_500, from_cache=1,
    )  # fmt: skip
    samples = read(monitor)
    buckets = {
        dict(labels)["le"]: n for (name, labels), n in samples.items() if name == "toolhub_call_duration_seconds_bucket"
    }
    assert buckets == {
        "0.01": 1, "0.05": 1, "0.1": 1, "0.25": 3, "0.5": 3, "1.0": 3, "2.5": 3, "5.0": 3, "10.0": 3, "+Inf": 6,
    }  # fmt: skip
    assert value(samples, "toolhub_call_duration_seconds_sum", tool="t") == 61.5
    assert value(samples, "toolhub_cached_calls_total", tool="t") == 1


def test_counters_begin_with_the_month_unless_figures_are_deleted_sooner(monitor: Rest, settings: Any) -> None:
    now = datetime(2026, 5, 17, 13, 30, tzinfo=UTC)
    assert metrics.counting_since(now) == datetime(2026, 5, 1, tzinfo=UTC)
    assert metrics.counting_since(now.astimezone(timezone.get_fixed_timezone(14 * 60))) == datetime(
        2026, 5, 1, tzinfo=UTC
    )
    settings.TOOLHUB_KEEP_FIGURES_DAYS = 31
    assert metrics.counting_since(now) == datetime(2026, 5, 17, tzinfo=UTC)
    settings.TOOLHUB_KEEP_FIGURES_DAYS, settings.TOOLHUB_KEEP_CALLS_DAYS = 730, 31
    assert metrics.counting_since(now) == datetime(2026, 5, 17, tzinfo=UTC)
    old = metrics.counting_since(datetime.now(UTC)) - timedelta(days=1)
    CallHour.everything.create(
        hour=old, span="day", tool_name="t", caller_id="*", caller_name="", status="succeeded", calls=6
    )
    assert value(read(monitor), "toolhub_calls_total", tool="t", status="succeeded") is None


def test_states_are_gauges_and_zero_is_a_value(monitor: Rest, programmable: Programmable) -> None:
    governance.set_enabled(["echo"], False, actor=governance.trusted("test"))
    governance.stop("hub", actor=governance.trusted("test"), reason="drill")
    samples = read(monitor)
    assert value(samples, "toolhub_tools", state="off") == 1
    assert value(samples, "toolhub_tools", state="held") == 0
    assert value(samples, "toolhub_kill_switches", kind="hub") == 1
    assert value(samples, "toolhub_kill_switches", kind="writes") == 0
    assert value(samples, "toolhub_agents", transport="stdio") == 0
    assert value(samples, "toolhub_pending_approvals") == 0
    assert value(samples, "toolhub_open_issues") == 0
    assert value(samples, "toolhub_last_backup_timestamp_seconds") is None
    assert (value(samples, "process_resident_memory_bytes") or 0) > 1_000_000


def test_a_source_that_is_down_is_0_and_one_that_is_off_is_missing(monitor: Rest) -> None:
    for name, enabled in (("down", True), ("off", False)):
        source = Source.objects.create(name=name, prefix=name, kind="mcp_http", location="http://x", enabled=enabled)
        SourceStatus.objects.create(source=source, availability="down")
    samples = read(monitor)
    assert value(samples, "toolhub_source_available", source="down", kind="mcp_http") == 0
    assert value(samples, "toolhub_source_available", source="off", kind="mcp_http") is None


def test_pending_approvals_are_those_that_can_still_be_decided(
    monitor: Rest, programmable: Programmable, alice: Caller
) -> None:
    governance.set_ask("programmable", True, actor=governance.trusted("test"))
    with pytest.raises(ToolError, match="approv"):
        engine.call_sync("programmable", {}, alice, door="code")
    assert value(read(monitor), "toolhub_pending_approvals") == 1
    Approval.objects.update(expires_at=timezone.now() - timedelta(seconds=1))
    assert value(read(monitor), "toolhub_pending_approvals") == 0


# ---- who may


def test_a_key_needs_its_scope_and_no_toolsets(monitor: Rest, make_key: MakeKey) -> None:
    assert value(read(monitor), "toolhub_open_issues") == 0
    failure(monitor.get("/v1/tools"), 403, "AUTHORIZATION_ERROR")
    told = failure(monitor.get("/metrics", key=make_key("agent")), 403, "AUTHORIZATION_ERROR")
    assert "metrics:read" in told["error"]
    governance.create_toolset("few", actor=governance.trusted("test"), names=["echo"])
    within = make_key("within", scopes=["metrics:read"], toolsets=["few"])
    failure(monitor.get("/metrics", key=within), 403, "AUTHORIZATION_ERROR")
    governance.revoke_key(ApiKey.objects.get(name="monitor"), actor=governance.trusted("test"))
    failure(monitor.get("/metrics"), 401, "AUTHENTICATION_ERROR")


def status(server: httpx.Client, **headers: str) -> int:
    """Of a request without a key."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return httpx.get(server.base_url.join("metrics"), headers=named, trust_env=False).status_code


@pytest.mark.parametrize("host", ["localhost", "localhost:3000", "127.0.0.1:3000", "[::1]:3000"])
def test_this_machine_needs_no_key(server: httpx.Client, settings: Any, host: str) -> None:
    settings.ALLOWED_HOSTS = ["*"]
    assert status(server, Host=host) == 200


@pytest.mark.parametrize(
    "headers",
    [
        {"Host": "hub.example.org"},
        {"Host": "127.0.0.1.evil.example"},
        {"X_Forwarded_For": "192.0.2.1"},
        {"X_Forwarded_For": "127.0.0.1"},
        {"Forwarded": "for=192.0.2.1"},
        {"Via": "1.1 proxy"},
        {"Origin": "https://evil.example"},
        {"X_API_Key": "wrong"},
    ],
    ids=str,
)
def test_what_may_come_from_elsewhere_needs_a_key(server: httpx.Client, settings: Any, headers: dict[str, str]) -> None:
    settings.ALLOWED_HOSTS = ["*"]
    assert status(server, **headers) == 401


def test_another_machine_needs_a_key() -> None:
    request = AsyncRequestFactory().get("/metrics", headers={"Host": "localhost"})
    request.META |= {"REMOTE_ADDR": "192.0.2.7", "HTTP_HOST": "localhost"}
    assert not metrics.is_local(request)
    request.META["REMOTE_ADDR"] = "127.0.0.1"
    assert metrics.is_local(request)


def test_openmetrics_is_answered_to_those_that_accept_it(monitor: Rest) -> None:
    response = monitor.get("/metrics", Accept="application/openmetrics-text;version=1.0.0,text/plain;q=0.5")
    assert response.headers["Content-Type"].startswith("application/openmetrics-text")
    names = {family.name for family in openmetrics(response.content.decode())}
    assert {"toolhub_calls", "toolhub_call_duration_seconds", "toolhub_tools"} <= names


def test_a_database_that_does_not_answer_is_an_error(monitor: Rest, monkeypatch: pytest.MonkeyPatch) -> None:
    database.close()
    monkeypatch.setitem(connection.settings_dict, "NAME", "/nowhere/db")
    failure(monitor.get("/metrics"), 503, "STORAGE_BUSY")


# ---- names


def test_the_page_names_what_there_is_and_nothing_else(monitor: Rest) -> None:
    Chore.objects.create(name=CHORE, done_at=timezone.now())
    exported = set(re.findall(r"^# TYPE (toolhub_\w+)", monitor.get("/metrics").content.decode(), re.MULTILINE))
    rows = re.findall(r"^\| (`toolhub_.*?) \|", (CHECKOUT / "docs" / "metrics.md").read_text(), re.MULTILINE)
    assert set(re.findall(r"toolhub_\w+", " ".join(rows))) == exported
