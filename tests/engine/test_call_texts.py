"""Arguments of calls reach the index behind the calls, and leave it with the arguments."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import Any

import pytest
from django.core.management import call_command
from django.db import DatabaseError, OperationalError, connection, transaction
from django.utils import timezone

from tests.retention.rows import call
from tests.support.tools import Hub, eventually
from tools_app import engine
from tools_app.journal import argument_search, retention, rows, texts
from tools_app.journal.argument_search import Reason
from tools_app.journal.refusals import Refusals
from tools_app.journal.writer import Writer
from tools_app.models import Call, CallText, Chore, PendingText, text_index
from tools_app.sdk.context import Caller
from tools_app.setup import installation

pytestmark = pytest.mark.django_db(transaction=True)

MINUTE = timedelta(minutes=1)
only_sqlite = pytest.mark.skipif(connection.vendor != "sqlite", reason="about FTS5")
only_postgres = pytest.mark.skipif(connection.vendor != "postgresql", reason="about locks of rows")


def ago(minutes: float) -> datetime:
    return timezone.now() - minutes * MINUTE


def ended(text: str, minutes: float = 0, **changes: Any) -> Call:
    """As the journal commits it."""
    made = call(ago(minutes), arguments=text, finished_at=ago(minutes), **changes)
    rows.insert_counts([(made, 1)])
    return made


def found(term: str, tool: str = "") -> list[str]:
    calls = Call.objects.filter(tool_name=tool) if tool else Call.objects.all()
    searched = argument_search.find(term, calls, 100, None, None)
    return [pk for pk, _ in searched.found]


def matches(*terms: str) -> list[int]:
    """The number of texts that the index itself yields for each, whatever became of their calls."""
    return [len(argument_search._candidates([term], 0, 2**63 - 1, 1_000)) for term in terms]


def read() -> None:
    rows.fold()
    while texts.read_new():
        pass


def test_the_journal_fills_the_index_of_a_running_hub(hub: Hub, alice: Caller) -> None:
    engine.call_sync("echo", {"message": "A needle in a haystack"}, alice, door="code")
    assert eventually(lambda: bool(found("needle in")), 10)


def test_texts_are_found_by_any_part_newest_first_and_with_filters() -> None:
    older = ended('{"query": "Grüße, 東京都の天気", "n": 100}', 5)
    newer = ended('{"path": "C:\\\\temp", "say": "\\"Grüße\\" 50%_off"}', 1, tool_name="calculate")
    ended('{"nothing": "of it"}')
    assert found("Grüße") == [], "not read yet"
    read()
    assert found("Grüße") == [newer.pk, older.pk]
    assert found("grüße") == [newer.pk, older.pk]
    assert found("Grüße", "echo") == [older.pk]
    assert found("京都の天") == [older.pk]
    assert found("C:\\temp") == found('"Grüße" 50') == found("50%_off") == [newer.pk], "as JSON writes it, too"
    assert found("50x_off") == found("query temp") == []


def test_of_short_texts_and_without_an_index_the_last_day_is_read_and_the_rest_named() -> None:
    ended('{"id": "zq"}', 25 * 60)
    newer = ended('{"id": "zq"}', 23 * 60)
    read()
    short = argument_search.find("zq", Call.objects.all(), 100, None, None)
    assert [pk for pk, _ in short.found] == [newer.pk]
    assert short.reason is Reason.SHORT
    assert short.unread_until is not None
    assert ago(24 * 60 + 1) < short.unread_until < ago(24 * 60 - 1)
    assert argument_search.find("zq", Call.objects.all(), 100, ago(60), None).reason is None, "asked for less"
    text_index.drop(connection)
    try:
        unindexed = argument_search.find('"zq"', Call.objects.all(), 100, None, None)
        assert [pk for pk, _ in unindexed.found] == [newer.pk]
        assert unindexed.reason is Reason.NO_INDEX
        assert unindexed.unread_until is not None
        ended('{"id": "of now"}')
        rows.fold()
        assert texts.read_new() == 1, "the queue does not grow"
        assert not PendingText.objects.exists()
    finally:
        CallText.objects.all().delete()
        text_index.create(connection)


def test_what_the_index_yields_is_bounded_and_the_rest_named(monkeypatch: pytest.MonkeyPatch) -> None:
    for minutes in range(6):
        ended('{"word": "frequent"}', minutes, tool_name="echo" if minutes == 5 else "calculate")
    read()
    monkeypatch.setattr(argument_search, "AT_ONCE", 2)
    monkeypatch.setattr(argument_search, "MOST_CANDIDATES", 3)
    all_echo = Call.objects.filter(tool_name="echo")
    searched = argument_search.find("frequent", all_echo, 1, None, None)
    assert searched.found == []
    assert searched.reason is Reason.MANY
    assert searched.unread_until is not None
    assert ago(3.5) < searched.unread_until < ago(2.5)
    reached = argument_search.find("frequent", all_echo, 1, None, ago(4.5))
    assert len(reached.found) == 1
    assert reached.unread_until is None


@pytest.mark.parametrize("way", ["forget", "prune the payload", "prune the call", "update", "delete"])
def test_a_text_leaves_the_index_with_its_arguments(way: str) -> None:
    gone, kept = ended('{"secret": "mulberry tree"}', 20), ended('{"secret": "other"}', caller_id="key:2")
    read()
    assert matches("mulberry", "other") == [1, 1]
    if way == "forget":
        retention.forget("key:1", actor="test")
    elif way == "update":
        Call.objects.filter(pk=gone.pk).update(arguments="")
    elif way == "delete":
        Call.objects.filter(pk=gone.pk).delete()
    else:
        days = 15 if way == "prune the payload" else 91
        Call.objects.filter(pk=gone.pk).update(started_at=timezone.now() - timedelta(days=days))
        retention.prune(timezone.now())
    assert list(CallText.objects.values_list("call_id", flat=True)) == [kept.pk]
    assert matches("mulberry", "other") == [0, 1]


def test_texts_that_another_program_left_are_not_found() -> None:
    """For example a restored index, or calls that were changed while the triggers were missing."""
    made = ended('{"secret": "mulberry tree"}')
    read()
    text_index.drop_triggers(connection)
    try:
        Call.objects.filter(pk=made.pk).update(arguments='{"secret": "***"}')
        assert matches("mulberry") == [1]
        assert found("mulberry") == []
    finally:
        CallText.objects.all().delete()
        text_index.create(connection)


def test_a_forgotten_text_is_not_in_the_file_of_the_index() -> None:
    if connection.vendor != "sqlite":
        pytest.skip("PostgreSQL removes deleted rows by VACUUM, as of every table")
    for number in range(400):
        ended(f'{{"of": "mulberry {number}"}}' if number % 2 else f'{{"of": "xylophone {number}"}}',
              caller_id=f"key:{number % 2}")  # fmt: skip
    read()
    with connection.cursor() as cursor:

        def stored() -> bytes:
            cursor.execute(f"SELECT block FROM {text_index.INDEX}_data")  # noqa: S608
            return b"".join(block for (block,) in cursor.fetchall())

        # Terms share the beginnings of those before them; these two begin a block of their own or are whole.
        assert b"xyl" in stored()
        assert b"ulb" in stored()
        retention.forget("key:1", actor="test")
        assert matches("mulberry", "xylophone") == [0, 200]
        assert b"ulb" not in stored()


def test_calls_of_before_are_read_by_the_watermark_in_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """After an upgrade, and of processes of the previous release, which queue nothing."""
    monkeypatch.setattr(texts, "WINDOW", 3)
    monkeypatch.setattr(texts, "MOST_BYTES", 100)
    old = [call(ago(60 * hours), arguments=f'{{"n": "number {hours}"}}', argument_bytes=60) for hours in range(1, 9)]
    call(ago(5), arguments='{"n": "number nine"}')
    expired = call(ago(15 * 24 * 60), arguments='{"n": "number ten"}')
    now = timezone.now()
    before = texts.reach(now)
    assert before.missing_from is not None
    assert before.missing_from < old[-1].started_at
    steps = 0
    while texts.read_older(now):
        steps += 1
    assert steps >= 4, "bounded by number and size"
    assert set(found("number")) == {one.pk for one in old}, "the newest are in the queue, or follow"
    assert expired.pk not in found("number ten")
    assert texts.reach(now).missing_from is None
    assert not texts.read_older(now)
    later = now + 30 * MINUTE
    texts.read_older(later)
    assert len(found("number nine")) == 1
    assert texts.reach(later).missing_from is None


def test_the_index_says_how_far_it_has_read() -> None:
    first = ended('{"a": "first text"}', 3)
    ended('{"a": "second text"}', 1)
    assert texts.reach(timezone.now()).until == first.finished_at, "not yet counted"
    rows.fold()
    assert texts.reach(timezone.now()).until == first.finished_at, "not yet read"
    read()
    now = timezone.now()
    assert texts.reach(now).until == now


def test_a_call_that_is_counted_twice_or_read_again_is_in_the_index_once() -> None:
    made = ended('{"a": "only once"}', 30)
    rows.insert_counts([(made, -1), (made, 1)])
    read()
    Chore.objects.filter(name=texts.CHORE).delete()
    texts.read_older(timezone.now())
    assert CallText.objects.count() == 1
    assert found("only once") == [made.pk]


def test_calls_of_the_same_moment_are_all_in_the_index() -> None:
    moment = ago(1)
    made = {f"{number:032x}" for number in range(1, 3_000)}
    same = {"arguments": '{"a": "same moment"}', "started_at": moment, "tool_name": "echo", "door": "rest"}
    Call.objects.bulk_create(Call(id=pk, **same) for pk in made)
    PendingText.objects.bulk_create(PendingText(call_id=pk) for pk in made)
    read()
    searched = argument_search.find("same moment", Call.objects.all(), 5_000, None, None)
    assert {pk for pk, _ in searched.found} == made


def test_a_database_without_the_index_is_told_of_and_works(monkeypatch: pytest.MonkeyPatch, caplog: Any) -> None:
    text_index.drop(connection)
    try:
        with monkeypatch.context() as broken:
            broken.setattr(text_index, "_FTS5", text_index._FTS5.replace("fts5", "fts9"))
            broken.setattr(text_index, "EXTENSION", "pg_trgm_that_nobody_has")
            text_index.create(connection)
        assert not text_index.exists(connection)
        assert "for the last 24 hours only: no trigram index" in caplog.text
        made = ended('{"a": "hello there"}')
        read()
        assert found("hello there") == [made.pk]
        assert not CallText.objects.exists()
        made.delete()
    finally:
        text_index.create(connection)
    assert text_index.exists(connection)


FOREVER = "WITH RECURSIVE steps(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM steps) SELECT max(n) FROM steps"


@pytest.mark.parametrize("slow_part", ["_candidates", "rows"])
def test_a_search_that_takes_too_long_says_so(slow_part: str, monkeypatch: pytest.MonkeyPatch) -> None:
    ended('{"a": "hello there"}')
    read()

    def slow(*_: Any) -> None:
        with connection.cursor() as cursor:
            cursor.execute(FOREVER)

    with monkeypatch.context() as changed:
        changed.setattr(argument_search, "PATIENCE", 0.5)
        changed.setattr(argument_search, slow_part, slow)
        searched = argument_search.find("hello there", Call.objects.all(), 10, None, None)
    assert (searched.found, searched.reason) == ([], Reason.SLOW)
    assert searched.unread_until is not None
    assert len(found("hello there")) == 1, "the limit is that of the search"


def test_without_an_index_calls_are_read_in_parts_until_the_time_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    made = [ended('{"id": "zq"}', minutes) for minutes in range(6)]
    monkeypatch.setattr(argument_search, "DIRECT_AT_ONCE", 2)
    assert found("zq") == [one.pk for one in made]
    assert len(argument_search.find("zq", Call.objects.all(), 3, None, None).found) == 3
    original, parts = argument_search.rows, 0

    def slow_at_last(calls: Any) -> argument_search.Found:
        nonlocal parts
        parts += 1
        if parts == 3:
            raise OperationalError("interrupted")
        return original(calls)

    monkeypatch.setattr(argument_search, "rows", slow_at_last)
    searched = argument_search.find("zq", Call.objects.all(), 10, None, None)
    assert [pk for pk, _ in searched.found] == [one.pk for one in made[:4]]
    assert (searched.reason, searched.unread_until) == (Reason.SLOW, made[4].started_at)
    assert argument_search.find("zq", Call.objects.all(), 10, ago(1.5), None).unread_until is None
    monkeypatch.setattr(argument_search, "MOST_DIRECT", 4)
    bounded = argument_search.find("zq", Call.objects.all(), 10, None, None)
    assert (len(bounded.found), bounded.reason, bounded.unread_until) == (4, Reason.SHORT, made[4].started_at)


@contextmanager
def unopenable() -> Iterator[None]:
    """As in a build of SQLite without FTS5, or without its trigrams."""

    def rename(old: str, new: str) -> None:
        with connection.cursor() as cursor:
            cursor.execute("PRAGMA writable_schema = ON")
            cursor.execute(
                "UPDATE sqlite_master SET sql = replace(sql, %s, %s) WHERE name = %s", [old, new, text_index.INDEX]
            )
        connection.close()

    rename("fts5", "fts9")
    try:
        yield
    finally:
        rename("fts9", "fts5")
        CallText.objects.all().delete()
        text_index.create(connection)


@only_sqlite
def test_a_program_that_cannot_open_the_index_leaves_it_out_until_another_rebuilds_it(caplog: Any) -> None:
    made, other = ended('{"a": "mulberry tree"}'), ended('{"a": "mulberry bush"}')
    read()
    with unopenable():
        with pytest.raises(DatabaseError, match="no such module"):
            Call.objects.filter(pk=made.pk).update(arguments="")
        installation.require_ready(lambda line: None, records=False)
        assert "the trigram index cannot be opened" in caplog.text
        Call.objects.filter(pk=made.pk).update(arguments="")
        assert found("mulberry") == [other.pk], "directly"
        call_command("migrate", verbosity=0)
        assert not text_index.exists(connection)
        assert not text_index.missing_triggers(connection)
    ended('{"a": "elder bush"}')
    assert text_index.exists(connection)
    assert not matches("mulberry tree")[0]


@only_sqlite
def test_an_index_that_opens_again_is_rebuilt_from_the_texts() -> None:
    made, other = ended('{"a": "mulberry tree"}'), ended('{"a": "mulberry bush"}')
    read()
    text_index._drop_fed(connection)
    made.delete()
    assert text_index.missing_triggers(connection) == {*text_index._FED}
    installation.set_up(lambda line: None)
    assert found("mulberry") == [other.pk]
    assert matches("tree", "bush") == [0, 1]


def test_texts_of_calls_that_were_changed_without_triggers_are_deleted_with_the_next_migration() -> None:
    deleted, emptied, kept = (ended(f'{{"a": "mulberry {number}"}}') for number in range(3))
    read()
    text_index.drop_triggers(connection)
    Call.objects.filter(pk=deleted.pk).delete()
    Call.objects.filter(pk=emptied.pk).update(arguments="")
    assert text_index.missing_triggers(connection) == {*text_index._TRIGGERS}
    assert CallText.objects.count() == 3
    call_command("migrate", verbosity=0)
    assert not text_index.missing_triggers(connection)
    assert list(CallText.objects.values_list("call_id", flat=True)) == [kept.pk]


@only_postgres
def test_a_migration_leaves_the_triggers_while_calls_are_deleted() -> None:
    text_index.make_way(connection)
    assert not text_index.missing_triggers(connection)


@contextmanager
def failing() -> Iterator[None]:
    if connection.vendor == "sqlite":
        with unopenable():
            yield
        return
    with connection.cursor() as cursor:
        cursor.execute(
            "CREATE FUNCTION pg_temp_fails() RETURNS trigger LANGUAGE plpgsql AS "
            "$$ BEGIN RAISE 'it took too long' USING ERRCODE = '57014'; END $$"
        )
        cursor.execute(f"CREATE TRIGGER fails BEFORE INSERT ON {text_index.TEXTS} EXECUTE FUNCTION pg_temp_fails()")
    try:
        yield
    finally:
        with connection.cursor() as cursor:
            cursor.execute("DROP FUNCTION pg_temp_fails CASCADE")


def test_an_index_that_fails_concerns_no_call_and_no_search_for_orphans(caplog: Any) -> None:
    ended('{"a": "mulberry tree"}')
    writer = Writer(queue.SimpleQueue(), Refusals())
    with failing():
        for _ in range(2):
            began = time.monotonic()
            writer._next_fold = writer._next_texts = writer._next_orphans = 0.0
            writer._look_after(last=False)
            assert writer.trouble == ""
            assert began < writer._next_orphans < began + 50 < writer._next_texts, "orphans soon, texts in a minute"
        assert caplog.text.count("arguments of new calls are not added") == 1
        writer._look_after(last=True)
        assert PendingText.objects.exists()
    writer._read_texts()
    assert not PendingText.objects.exists()
    assert not writer._texts_fail


@only_postgres
def test_processes_do_not_wait_for_what_another_one_indexes() -> None:
    ended('{"a": "mulberry tree"}', 60)
    rows.fold()
    texts.read_older(ago(60))
    locked, done = threading.Event(), threading.Event()

    def other_process() -> None:
        try:
            with transaction.atomic():
                list(PendingText.objects.select_for_update())
                list(Chore.objects.select_for_update())
                locked.set()
                done.wait(30)
        finally:
            connection.close()

    thread = threading.Thread(target=other_process)
    thread.start()
    try:
        assert locked.wait(30)
        with connection.cursor() as cursor:
            cursor.execute("SET lock_timeout = 500")
        assert texts.read_new() == 0
        assert not texts.read_older(timezone.now())
        assert PendingText.objects.count() == 1
    finally:
        done.set()
        thread.join()
        connection.close()
    assert texts.read_new() == 1
