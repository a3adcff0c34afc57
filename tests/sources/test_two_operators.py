"""Two operators decide about one source at the same time, or one while it is listed: nothing is lost or done twice."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

import pytest
from django.db import connection

from tests.support.listings import Listings, connected, tool
from tools_app import governance
from tools_app.models import AuditEntry, Definition, Source, ToolRecord
from tools_app.sdk.errors import ToolError
from tools_app.sources import outside, sync

pytestmark = pytest.mark.django_db(transaction=True)

NAMES = [f"tool{number}" for number in range(30)]
ACTOR = governance.trusted("test")


@pytest.fixture
def servers() -> Iterator[Listings]:
    with connected() as listings:
        listings.add("srv", *map(tool, NAMES))
        describe()
        yield listings


def describe() -> None:
    provider = outside.provider("srv")
    assert provider is not None
    sync.describe(provider, actor="test")


def together(*works: Callable[[], object]) -> list[object]:
    """Run these at the same time. What each returns, or the error of a caller."""
    begin = threading.Barrier(len(works))
    outcomes: list[object] = [None] * len(works)

    def run(number: int, work: Callable[[], object]) -> None:
        try:
            begin.wait(30)
            outcomes[number] = work()
        except ToolError as error:
            outcomes[number] = error
        except BaseException as error:
            outcomes[number] = repr(error)
        finally:
            connection.close()

    threads = [threading.Thread(target=run, args=one) for one in enumerate(works)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not any(thread.is_alive() for thread in threads)
    return outcomes


def approve() -> list[str]:
    return governance.approve_tools("srv", enable=True, actor=ACTOR)


def test_each_tool_is_approved_once(servers: Listings) -> None:
    first, second = together(approve, approve)
    assert isinstance(first, list)
    assert isinstance(second, list)
    assert sorted(first + second) == sorted(f"srv_{name}" for name in NAMES)
    assert AuditEntry.objects.filter(action="definition.approve").count() == len(NAMES)
    assert ToolRecord.objects.filter(enabled=True).count() == len(NAMES)


def test_what_was_seen_is_approved_although_the_source_is_listed_meanwhile(servers: Listings) -> None:
    seen = set(Definition.objects.values_list("pk", flat=True))
    servers.put("srv", *(tool(name, f"Another text of {name}.") for name in NAMES))
    approved, listed = together(
        lambda: governance.approve_tools("srv", definitions=seen, actor=ACTOR),
        describe,
    )
    assert isinstance(approved, list), approved
    assert listed is None
    # Some versions were approved before the others came; none that no one has seen.
    accepted = Definition.objects.exclude(approved_at=None)
    assert set(accepted.values_list("pk", flat=True)) <= seen
    assert accepted.count() == len(approved)
    for record in ToolRecord.objects.select_related("definition", "offered"):
        latest = record.offered or record.definition
        assert latest is not None
        assert "Another text" in latest.body_text
        assert latest.approved_at is None


def test_a_removed_source_has_nothing_that_can_be_called(servers: Listings) -> None:
    approved, removed = together(approve, lambda: governance.remove_source("srv", actor=ACTOR))
    assert isinstance(removed, list), removed
    assert isinstance(approved, list) or getattr(approved, "code", "") == "NOT_FOUND", approved
    assert Source.objects.get(name="srv").removed_at is not None
    assert not ToolRecord.objects.present().exists()


def test_a_source_that_is_removed_while_it_is_listed_stays_removed(servers: Listings) -> None:
    servers.put("srv", *map(tool, [*NAMES, "new"]))
    removed, listed = together(lambda: governance.remove_source("srv", actor=ACTOR), describe)
    assert isinstance(removed, list), removed
    # The provider may be gone before it is asked, which `describe` above asserts.
    assert listed is None or "changed or removed" in str(listed) or "AssertionError" in str(listed)
    assert not ToolRecord.objects.present().exists()
