"""Figures for Prometheus: those of the whole hub, from its database, and those of the process that answers.

Their names and meanings: docs/metrics.md.
"""

from __future__ import annotations

import ipaddress
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from itertools import accumulate
from typing import Final

from django.http import HttpRequest, HttpResponse
from django.http.request import split_domain_port
from django.utils import timezone
from ninja import Router
from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    InfoMetricFamily,
    Metric,
)
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector

from tools_app.access import actions
from tools_app.api import limits
from tools_app.api.authentication import KeyAuthentication, require
from tools_app.base import conf, database
from tools_app.catalog import catalog
from tools_app.catalog.snapshot import Snapshot
from tools_app.journal import disk, insights
from tools_app.journal.insights import Totals
from tools_app.models import Agent, Alert, Approval, Connection, Process, Source, SourceStatus, Stop
from tools_app.models.figures import DURATIONS
from tools_app.sdk.context import Caller
from tools_app.setup.backup import status as status_of_backups

_BOUNDS: Final = (*(str(bound / 1000) for bound in DURATIONS), "+Inf")
_LOCAL: Final = Caller("local", "local:", "local", frozenset({actions.METRICS}))
# What a proxy adds: then the request is of another machine, whatever its address.
_FORWARDED: Final = ("Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Real-IP", "Via")


class _KeyUnlessLocal(KeyAuthentication):
    """A monitor on this machine needs no key."""

    async def __call__(self, request: HttpRequest) -> Caller:
        if not is_local(request):
            return await super().__call__(request)
        await limits.count_stranger(request)
        return _LOCAL


router = Router(auth=_KeyUnlessLocal(), tags=["hub"])


@router.get("metrics", include_in_schema=False, url_name="metrics")
async def show_metrics(request: HttpRequest) -> HttpResponse:
    """Show the figures of the hub. Requires `metrics:read`; nothing on its own machine."""
    require(request, actions.METRICS_READ)
    snapshot = await catalog.fresh()
    encode, content_type = choose_encoder(request.headers.get("Accept", ""))
    # Not on the event loop: with thousands of tools, writing takes as long as reading.
    text = await database.run(lambda: encode(_registry(snapshot)))
    response = HttpResponse(text, content_type=content_type)
    response["Cache-Control"] = "no-store"
    return response


def is_local(request: HttpRequest) -> bool:
    """Whether the request comes from this machine and is addressed to it: not through a proxy, nor from a page of a
    site whose name leads here."""
    host, _ = split_domain_port(request.get_host())
    return (
        _is_loopback(request.META.get("REMOTE_ADDR") or "")
        and (host == "localhost" or _is_loopback(host.strip("[]")))
        and not any(name in request.headers for name in (*_FORWARDED, "Authorization", "X-API-Key", "Origin"))
    )


def _is_loopback(address: str) -> bool:
    try:
        return ipaddress.ip_address(address).is_loopback
    except ValueError:
        return False


class _Collected(Collector):
    """Metrics that were read before."""

    def __init__(self, metrics: Sequence[Metric]) -> None:
        self._metrics = metrics

    def collect(self) -> Iterable[Metric]:
        return self._metrics


def _registry(snapshot: Snapshot) -> CollectorRegistry:
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Collected(_metrics(snapshot, timezone.now())))
    ProcessCollector(registry=registry)
    return registry


def counting_since(now: datetime) -> datetime:
    """When the counters last began at zero: with the month, in every process alike, or with the day if figures are
    deleted sooner. Prometheus takes a counter that decreases for one that was reset."""
    today = now.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    kept_days = min(conf.value("TOOLHUB_KEEP_FIGURES_DAYS"), conf.value("TOOLHUB_KEEP_CALLS_DAYS"))
    return today.replace(day=1) if kept_days > 31 else today


def _metrics(snapshot: Snapshot, now: datetime) -> list[Metric]:
    since = counting_since(now)
    return [
        InfoMetricFamily("toolhub", "Version of the hub.", {"version": conf.value("TOOLHUB_VERSION")}),
        *_of_calls(insights.totals(since)),
        _of_errors(since),
        *_of_tools(snapshot),
        *_of_upstreams(),
        *_of_attention(now),
        *_of_clients(now),
        *_of_storage(now),
    ]


def _of_calls(totals: Sequence[Totals]) -> Iterator[Metric]:
    calls = CounterMetricFamily("toolhub_calls", "Calls that ended.", labels=("tool", "status"))
    cached = CounterMetricFamily("toolhub_cached_calls", "Calls answered from the cache.", labels=("tool",))
    sent = CounterMetricFamily("toolhub_response_bytes", "Size of the answers.", unit="bytes", labels=("tool",))
    durations = HistogramMetricFamily(
        "toolhub_call_duration_seconds", "Duration of calls that ran to their end.", labels=("tool",)
    )
    for one in totals:
        calls.add_metric((one.tool, one.status), one.calls)
    for tool, figures in insights.totals_by_tool(totals).items():
        cached.add_metric((tool,), figures.from_cache)
        sent.add_metric((tool,), figures.result_bytes)
        if any(figures.durations):
            buckets = [
                (bound, float(count)) for bound, count in zip(_BOUNDS, accumulate(figures.durations), strict=True)
            ]
            durations.add_metric((tool,), buckets, figures.timed_ms / 1000)
    yield from (calls, cached, sent, durations)


def _of_errors(since: datetime) -> Metric:
    errors = CounterMetricFamily("toolhub_errors", "Errors by code.", labels=("tool", "code"))
    for tool, code, count in insights.errors_by_code(since):
        errors.add_metric((tool, code), count)
    return errors


def _of_tools(snapshot: Snapshot) -> Iterator[Metric]:
    states = Counter(
        "off" if not entry.enabled else "held" if entry.is_held else "callable" if entry.callable else "unavailable"
        for entry in snapshot.all
    )
    yield _gauge("toolhub_tools", "Tools by state.", "state", states, ("callable", "held", "off", "unavailable"))


def _of_upstreams() -> Iterator[Metric]:
    sources = GaugeMetricFamily(
        "toolhub_source_available", "1: the source is available. Only sources that are on.", labels=("source", "kind")
    )
    rows = SourceStatus.objects.filter(source__enabled=True, source__removed_at=None)
    for name, kind, availability in rows.values_list("source__name", "source__kind", "availability").order_by("source"):
        sources.add_metric((name, Source.Kind(kind)), availability == SourceStatus.Availability.OK)
    connections = GaugeMetricFamily(
        "toolhub_connection_healthy", "1: the last test or call of the connection succeeded.", labels=("connection",)
    )
    tested = Connection.objects.filter(enabled=True, healthy__isnull=False).order_by("name")
    for name, healthy in tested.values_list("name", "healthy"):
        connections.add_metric((name,), bool(healthy))
    yield from (sources, connections)


def _of_attention(now: datetime) -> Iterator[Metric]:
    yield GaugeMetricFamily(
        "toolhub_pending_approvals", "Calls that wait for an operator.", Approval.objects.waiting(now).count()
    )
    yield GaugeMetricFamily("toolhub_open_issues", "Unresolved issues.", insights.open_error_groups())
    yield GaugeMetricFamily(
        "toolhub_open_alerts", "Unacknowledged alerts.", Alert.objects.filter(acknowledged_at=None).count()
    )
    stops = Counter(Stop.objects.active().values_list("kind", flat=True))
    yield _gauge("toolhub_kill_switches", "Active kill switches, and maintenance.", "kind", stops, Stop.Kind.values)


def _of_clients(now: datetime) -> Iterator[Metric]:
    agents = Counter(Agent.objects.connected().values_list("door", flat=True))
    yield _gauge("toolhub_agents", "Connected MCP clients.", "transport", agents, Agent.Door.values)
    processes = Counter(Process.objects.filter(lease_until__gte=now).values_list("kind", flat=True))
    yield _gauge("toolhub_processes", "Running processes of the hub.", "role", processes)


def _of_storage(now: datetime) -> Iterator[Metric]:
    made_at = status_of_backups.last_good()
    if made_at is not None:
        yield GaugeMetricFamily(
            "toolhub_last_backup_timestamp_seconds", "Time of the last good backup.", made_at.timestamp()
        )
    free = GaugeMetricFamily(
        "toolhub_disk_free_bytes", "Free space where the hub stores data.", labels=("host", "path")
    )
    used = GaugeMetricFamily("toolhub_stored_bytes", "Size of what the hub stores there.", labels=("host", "path"))
    for volume in disk.volumes(now):
        used.add_metric((volume.host, volume.path), volume.bytes)
        if volume.free is not None:
            free.add_metric((volume.host, volume.path), volume.free)
    yield from (free, used)


def _gauge(name: str, help_text: str, label: str, counts: Counter[str], known: Iterable[str] = ()) -> Metric:
    """A gauge for each value of a label, also for those that nothing has now: a series that is missing is no zero."""
    gauge = GaugeMetricFamily(name, help_text, labels=(label,))
    for value in sorted({*known, *counts}):
        gauge.add_metric((value,), counts[value])
    return gauge
