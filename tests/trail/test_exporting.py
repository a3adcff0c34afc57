"""Every sealed entry reaches the files at least once, whatever is killed in between."""

from __future__ import annotations

import fcntl
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.support.processes import CHECKOUT, Home
from tests.support.tools import database_url, eventually
from tests.trail.conftest import entries, now, sealed, sql
from tools_app.journal import retention, trail
from tools_app.journal.retention import keeper
from tools_app.journal.trail import exporting, sealing
from tools_app.models import AuditCheckpoint, AuditEntry

pytestmark = pytest.mark.django_db(transaction=True)

# Exports in a process that dies where it is told: the calls of the operating system are counted, not ours.
DIES = """
import os, signal, sys
import django
django.setup()
from pathlib import Path
from tools_app.journal import trail
directory, function, times = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
owner = Path if function == "replace" else os
real, seen = getattr(owner, function), 0
def deadly(*args, **options):
    global seen
    seen += 1
    if seen == times:
        os.kill(os.getpid(), signal.SIGKILL)
    return real(*args, **options)
setattr(owner, function, deadly)
trail.export(directory, actor="test")
"""


def lines(directory: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for path in sorted(directory.glob("*.jsonl")) for line in path.read_text().splitlines()]


def exported(directory: Path) -> list[int]:
    return [line["id"] for line in lines(directory) if line["type"] == "entry"]


def test_exports_entries_and_checkpoints(tmp_path: Path) -> None:
    [first, second] = sealed(2)
    result = trail.export(tmp_path / "new", actor="command:root")
    checkpoint = AuditCheckpoint.objects.get()
    assert result == trail.Exported(2, str(checkpoint))
    written = lines(tmp_path / "new")
    assert [(line["type"], line["id"]) for line in written] == [("entry", first), ("entry", second), ("checkpoint", 1)]
    assert written[0] | {"at": "", "digest": ""} == {
        "type": "entry",
        "id": first,
        "at": "",
        "actor": "user:alice",
        "action": "tool.disable",
        "subject": "echo",
        "changes": {"enabled": [True, False], "number": 0},
        "reason": "",
        "address": "",
        "client": "",
        "redactedBy": None,
        "digest": "",
    }
    assert len(written[0]["digest"]) == 64
    assert trail.verify(f"{written[2]['id']}:{written[2]['head']}").faults == 0
    modes = {path.name: path.stat().st_mode & 0o777 for path in (tmp_path / "new").glob("*.jsonl")}
    assert set(modes.values()) == {0o600}


def test_continues_where_it_was(tmp_path: Path) -> None:
    ids = sealed(sealing.BATCH + 1)
    trail.export(tmp_path, actor="command:root")
    assert trail.export(tmp_path, actor="command:root").entries == 0
    more = sealed(3)
    trail.export(tmp_path, actor="command:root")
    own = AuditEntry.objects.filter(action="audit.export").order_by("pk")
    assert [entry.changes["entries"] for entry in own] == [len(ids), 4]
    assert exported(tmp_path) == [*ids, own[0].pk, *more]


def test_what_is_not_sealed_waits(tmp_path: Path) -> None:
    ids = sealed(2)
    entries(3)
    trail.export(tmp_path, actor="command:root")
    assert exported(tmp_path) == ids


def test_a_scheduled_export_is_no_reason_for_the_next(tmp_path: Path) -> None:
    sealed(2)
    assert trail.export(tmp_path, actor=trail.HUB).entries == 2
    trail.seal()
    assert trail.export(tmp_path, actor=trail.HUB).entries == 0
    assert AuditEntry.objects.filter(action="audit.export").count() == 1
    sealed(1)
    assert trail.export(tmp_path, actor=trail.HUB).entries == 2


@pytest.mark.parametrize(
    ("function", "times"),
    [("fsync", 1), ("fsync", 2), ("replace", 1), ("fsync", 3), ("fsync", 4), ("replace", 2)],
)
def test_loses_nothing_when_it_is_killed(tmp_path: Path, function: str, times: int) -> None:
    ids = sealed(sealing.BATCH + 5)
    for _ in range(exporting._AT_ONCE):
        ids += sealed(1)
    out = tmp_path / "out"
    home = tmp_path / "home"
    home.mkdir()
    environment = Home(home, {"DJANGO_SETTINGS_MODULE": "toolhub.settings", "DATABASE_URL": database_url()}).environment
    dead = subprocess.run(
        [sys.executable, "-c", DIES, str(out), function, str(times)],
        env={**environment, "PYTHONPATH": str(CHECKOUT)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert dead.returncode == -signal.SIGKILL, dead.stderr
    trail.seal()
    trail.export(out, actor="test")
    found = exported(out)
    assert set(found) >= set(ids)
    assert found[-1] >= ids[-1]
    numbers = [line["id"] for line in lines(out) if line["type"] == "checkpoint"]
    assert sorted(set(numbers)) == list(range(1, AuditCheckpoint.objects.count() + 1))


@pytest.mark.parametrize("torn", [b'{"type": "entry", "id": 1, "at', b"x" * 200_000])
def test_a_torn_line_is_cut_before_the_next_is_written(tmp_path: Path, torn: bytes) -> None:
    sealed(1)
    trail.export(tmp_path, actor="test")
    [path] = tmp_path.glob("*.jsonl")
    before = path.read_bytes()
    with path.open("ab") as file:
        file.write(torn)
    ids = sealed(1)
    trail.export(tmp_path, actor="test")
    assert path.read_bytes().startswith(before)
    assert exported(tmp_path)[-1] == ids[-1]


def test_a_file_of_one_torn_line_is_emptied(tmp_path: Path) -> None:
    ids = sealed(1)
    trail.export(tmp_path, actor="test")
    [path] = tmp_path.glob("*.jsonl")
    (tmp_path / "cursor").unlink()
    path.write_bytes(b'{"type": "entr')
    trail.export(tmp_path, actor="test")
    assert exported(tmp_path)[0] == ids[0]


def test_a_trail_that_was_cut_is_not_exported_over_the_old_one(tmp_path: Path) -> None:
    sealed(2)
    sealed(2)
    trail.export(tmp_path, actor="test")
    for table in ("entry", "seal", "checkpoint", "key"):
        sql("DELETE FROM {table}", table=f"tools_app_audit{table}")
    sealed(9)
    sealed(9)
    sealed(9)
    with pytest.raises(trail.ExportError, match="checkpoint 2 of .*cursor is not in the audit trail"):
        trail.export(tmp_path, actor="test")


@pytest.mark.parametrize("text", ["", "7", "1:" + "g" * 64, "\ufffd" * 9])
def test_refuses_what_is_no_cursor(tmp_path: Path, text: str) -> None:
    sealed(1)
    (tmp_path / "cursor").write_text(text)
    with pytest.raises(trail.ExportError, match="is not a cursor: move the directory away"):
        trail.export(tmp_path, actor="test")


def test_two_exports_do_not_mix(tmp_path: Path) -> None:
    sealed(1)
    with (tmp_path / ".lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        with pytest.raises(trail.ExportError, match="another process exports"):
            trail.export(tmp_path, actor="test")


def test_says_where_it_cannot_write(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(trail.ExportError, match="cannot write .*file"):
        trail.export(tmp_path / "file", actor="test")


def test_pruned_entries_are_missing_and_redacted_ones_say_so(tmp_path: Path) -> None:
    sealed(2, at=now() - timedelta(days=401))
    kept = sealed(2)
    retention.prune(now())
    trail.redact_entries(kept[:1], lambda entry: setattr(entry, "actor", "user:forgotten"), by=kept[1])
    trail.export(tmp_path, actor="test")
    written = [line for line in lines(tmp_path) if line["type"] == "entry"]
    assert [(line["id"], line["actor"], line["redactedBy"]) for line in written] == [
        (kept[0], "user:forgotten", kept[1]),
        (kept[1], "user:alice", None),
    ]


@pytest.fixture
def running() -> Iterator[keeper.Keeper]:
    task = keeper.Keeper(first_seconds=0, again_seconds=0.05)
    task.start()
    yield task
    task.stop()


def test_a_running_hub_exports_where_that_is_set(settings: Any, tmp_path: Path, request: Any) -> None:
    settings.TOOLHUB_AUDIT_DIR = tmp_path / "export"
    ids = entries(2)
    request.getfixturevalue("running")
    assert eventually((tmp_path / "export" / "cursor").exists, 10)
    assert exported(tmp_path / "export") == ids
    assert not trail.is_due(tmp_path / "export")
    os.utime(tmp_path / "export" / "cursor", (0, 0))
    assert trail.is_due(tmp_path / "export")
