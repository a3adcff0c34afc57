"""Sources outside are listed when they are due: once, and none of them waits for another."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from typing import Any

import pytest
from django.db import connections
from django.utils import timezone

from tests.support.listings import Listings, await_listings, connected, tool
from tests.support.tools import eventually
from tools_app import sources
from tools_app.base.ports import UnavailableError
from tools_app.models import Source, SourceStatus, ToolRecord
from tools_app.sources import lister, outside, recording, sync
from tools_app.sources.lister import Lister, claim, due
from tools_app.sources.watcher import Watcher

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def servers() -> Iterator[Listings]:
    with connected() as listings:
        yield listings


@pytest.fixture
def start(servers: Listings) -> Iterator[Callable[..., Lister]]:
    """Starts listers, each like one of another process."""
    started: list[Lister] = []

    def begin(seconds: float = 0.02) -> Lister:
        started.append(Lister(seconds))
        started[-1].start()
        return started[-1]

    yield begin
    for one in started:
        one.stop()
    assert eventually(lambda: servers.now_open == 0)
    await_listings()


def observed(name: str, **values: Any) -> None:
    SourceStatus.objects.filter(source__name=name).update(**values)


def ago(seconds: float) -> Any:
    return timezone.now() - timedelta(seconds=seconds)


def held_until() -> datetime:
    until = SourceStatus.objects.get().lease_until
    assert until is not None
    return until


def names_due() -> list[str]:
    return due(timezone.now())


class TestWhatIsDue:
    def test_a_source_that_was_never_listed(self, servers: Listings) -> None:
        servers.add("srv")
        servers.add("off", enabled=False)
        servers.add("gone", removed_at=timezone.now())
        Source.objects.create(name="bare", prefix="bare", kind="mcp_http")
        assert names_due() == ["bare", "srv"]

    def test_http_sources_after_a_few_minutes(self, servers: Listings) -> None:
        for name, seconds in (("new", 10), ("old", 301)):
            servers.add(name)
            observed(name, described_at=ago(seconds))
        assert names_due() == ["old"]

    def test_children_only_if_they_always_run(self, servers: Listings) -> None:
        for name, begin in (("idle", "on_demand"), ("busy", "always")):
            servers.add(name, kind="mcp_stdio", location="", command=["server"], start=begin)
            observed(name, described_at=ago(3600))
        assert names_due() == ["busy"]
        outside.list_again("idle")
        assert sorted(names_due()) == ["busy", "idle"]

    def test_a_failed_source_when_its_time_has_come(self, servers: Listings) -> None:
        servers.add("srv")
        observed("srv", described_at=ago(3600), availability="down", next_try_at=ago(-60))
        assert names_due() == []
        observed("srv", next_try_at=ago(1))
        assert names_due() == ["srv"]

    def test_none_that_another_process_lists(self, servers: Listings) -> None:
        servers.add("srv")
        observed("srv", lease_holder="another", lease_until=ago(-10))
        assert names_due() == []
        observed("srv", lease_until=ago(1))
        assert names_due() == ["srv"], "that process has ended"


class TestTheLease:
    def test_one_of_many_gets_it(self, servers: Listings) -> None:
        servers.add("srv")
        barrier, holders = threading.Barrier(8), []

        def compete(number: int) -> None:
            barrier.wait()
            try:
                if claim("srv", f"process {number}"):
                    holders.append(f"process {number}")
            finally:
                connections.close_all()

        threads = [threading.Thread(target=compete, args=[number]) for number in range(8)]
        for one in threads:
            one.start()
        for one in threads:
            one.join(30)
        assert len(holders) == 1
        assert SourceStatus.objects.get().lease_holder == holders[0]

    def test_is_given_back_if_another_process_was_faster(self, servers: Listings) -> None:
        servers.add("srv")
        observed("srv", described_at=timezone.now())
        assert not claim("srv", "late")
        assert SourceStatus.objects.get().lease_until is None

    def test_of_a_killed_process_expires(self, servers: Listings) -> None:
        servers.add("srv")
        assert claim("srv", "killed")
        assert not claim("srv", "next")
        observed("srv", lease_until=ago(0.1))
        assert claim("srv", "next")

    def test_of_a_long_listing_is_renewed(
        self, servers: Listings, start: Callable[..., Lister], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(lister, "LEASE_SECONDS", 0.6)
        servers.add("srv", tool("read"))
        release = threading.Event()
        servers.before["srv"] = lambda: release.wait(20)
        start()
        assert eventually(lambda: servers.counts["srv"] == 1)
        first = held_until()
        start()
        assert eventually(lambda: held_until() > first + timedelta(seconds=0.6))
        release.set()
        assert eventually(lambda: SourceStatus.objects.get().lease_until is None)
        assert servers.counts["srv"] == 1


class TestListing:
    def test_a_new_source_is_listed(self, servers: Listings, start: Callable[..., Lister]) -> None:
        servers.add("srv", tool("read"))
        start()
        assert eventually(lambda: ToolRecord.objects.filter(name="srv_read").exists())
        assert eventually(lambda: SourceStatus.objects.get().lease_holder == "")
        assert names_due() == []

    def test_several_processes_list_each_once(self, servers: Listings, start: Callable[..., Lister]) -> None:
        names = [f"srv{number}" for number in range(6)]
        for name in names:
            servers.add(name, tool("read"))
        for _ in range(3):
            start()
        assert eventually(lambda: ToolRecord.objects.filter(pack__in=names).count() == 6, 30)
        assert eventually(lambda: not SourceStatus.objects.exclude(lease_holder="").exists())
        assert servers.counts == dict.fromkeys(names, 1)

    def test_a_change_is_looked_at_at_once(self, servers: Listings, start: Callable[..., Lister]) -> None:
        servers.add("srv", tool("read"))
        sync.describe(outside.OutsideProvider(*self._row("srv")), actor="test")
        start(600)
        servers.put("srv", tool("read"), tool("late"))
        outside.list_again("srv")
        assert eventually(lambda: ToolRecord.objects.filter(name="srv_late").exists())

    def test_one_that_hangs_delays_no_other(self, servers: Listings, start: Callable[..., Lister]) -> None:
        release = threading.Event()
        servers.add("aaa", tool("read"))
        servers.before["aaa"] = lambda: release.wait(20)
        servers.add("bbb", tool("read"))
        start()
        assert eventually(lambda: ToolRecord.objects.filter(name="bbb_read").exists())
        assert not ToolRecord.objects.filter(name="aaa_read").exists()
        release.set()
        assert eventually(lambda: ToolRecord.objects.filter(name="aaa_read").exists())

    def test_no_more_than_some_at_once(self, servers: Listings, start: Callable[..., Lister]) -> None:
        release = threading.Event()
        for number in range(12):
            servers.add(f"srv{number}", tool("read"))
            servers.before[f"srv{number}"] = lambda: release.wait(20)
        start()
        assert eventually(lambda: servers.now_open == lister.MOST_AT_ONCE)
        release.set()
        assert eventually(lambda: ToolRecord.objects.filter(original_name="read").count() == 12, 30)
        assert servers.most_open == lister.MOST_AT_ONCE

    def test_one_that_reports_changes_without_end_is_not_listed_without_end(
        self, servers: Listings, start: Callable[..., Lister]
    ) -> None:
        servers.add("srv", tool("read"))
        servers.before["srv"] = lambda: outside.list_again("srv")
        servers.add("other", tool("read"))
        start()
        assert eventually(lambda: servers.counts["srv"] == lister.MOST_LISTINGS)
        outside.list_again("other")
        assert eventually(lambda: servers.counts["other"] == 2)
        assert servers.counts["srv"] == lister.MOST_LISTINGS

    def test_a_failing_one_is_tried_again_later(self, servers: Listings, start: Callable[..., Lister]) -> None:
        servers.add("srv")
        servers.errors["srv"] = UnavailableError("connection refused")
        start()
        assert eventually(lambda: SourceStatus.objects.get().failures == 1)
        assert eventually(lambda: SourceStatus.objects.get().lease_holder == "")
        assert names_due() == []
        assert servers.counts["srv"] == 1

    def test_one_that_an_operator_wants_again_while_it_fails_does_not_wait(self, servers: Listings) -> None:
        servers.add("srv", tool("read"))
        servers.errors["srv"] = UnavailableError("it answers 502")
        observed("srv", next_try_at=ago(1), failures=5)
        # The password was corrected while the hub waited for an answer.
        servers.before["srv"] = lambda: outside.list_again("srv")
        provider = outside.provider("srv")
        assert provider is not None
        with pytest.raises(UnavailableError):
            sync.describe(provider, actor="test")
        assert due(timezone.now()) == ["srv"]
        servers.before.clear()
        with pytest.raises(UnavailableError):
            sync.describe(provider, actor="test")
        assert due(timezone.now()) == []

    def test_one_that_never_ends_is_given_up(
        self, servers: Listings, start: Callable[..., Lister], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(lister, "MOST_SECONDS", 0.0)
        monkeypatch.setattr(lister, "LEASE_SECONDS", 0.1)
        release = threading.Event()
        servers.add("srv", tool("read"))
        servers.before["srv"] = lambda: release.wait(20)
        start()
        assert eventually(lambda: SourceStatus.objects.get().failures == 1)
        assert "not listed within" in SourceStatus.objects.get().error
        release.set()

    def test_what_cannot_be_recorded_is_tried_again_later(
        self, servers: Listings, start: Callable[..., Lister], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        servers.add("srv", tool("read"))

        def broken(*_: Any) -> None:
            Source.objects.create(name="")  # A constraint of the database.

        monkeypatch.setattr(recording.Batch, "run", broken)
        start()
        assert eventually(lambda: SourceStatus.objects.get().failures == 1)
        assert SourceStatus.objects.get().error == "its listing cannot be recorded: IntegrityError"

    def test_the_watcher_of_a_process_has_one(self, servers: Listings) -> None:
        servers.add("srv", tool("read"))
        watcher = Watcher()
        watcher.start()
        try:
            outside.list_again("srv")
            assert eventually(lambda: ToolRecord.objects.filter(name="srv_read").exists())
        finally:
            watcher.stop()

    @staticmethod
    def _row(name: str) -> Any:
        row = Source.objects.get(name=name)
        return row, row.origin


def test_sources_are_found_by_name_whatever_they_are(servers: Listings) -> None:
    servers.add("srv")
    provider = sources.current().provider("srv")
    assert provider is not None
    assert provider.origin is not None
    assert sources.current().provider("code") is sources.current().code
    assert sources.current().provider("nothing") is None
