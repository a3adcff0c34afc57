"""`verifyaudit` and `exportaudit` at the shell, and what `doctor` says of the audit trail."""

from __future__ import annotations

import json
from datetime import timedelta
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command

from tests.trail.conftest import entries, now, sealed, sql
from tools_app.journal import trail
from tools_app.management.commands.doctor import Diagnosis, diagnoses
from tools_app.models import AuditCheckpoint, AuditEntry, Process

pytestmark = pytest.mark.django_db(transaction=True)


def verify(*options: str) -> tuple[int, str, str]:
    out, err = StringIO(), StringIO()
    try:
        call_command("verifyaudit", *options, stdout=out, stderr=err)
    except SystemExit as end:
        return int(str(end.code)), out.getvalue(), err.getvalue()
    return 0, out.getvalue(), err.getvalue()


def test_a_good_trail_is_verified() -> None:
    assert verify()[0] == 0
    sealed(3)
    count = AuditEntry.objects.count()
    entries(1)
    code, out, err = verify()
    assert (code, err) == (0, "")
    assert f"The audit trail verified: {count} entries" in out
    assert f"{count} entries are older than the seals" in out
    assert "1 entries are not sealed yet" in out
    assert f"Newest checkpoint: {AuditCheckpoint.objects.get()}" in out


def test_a_changed_entry_is_named_with_what_to_do() -> None:
    ids = sealed(3)
    sql("UPDATE {entry} SET actor = 'user:bob' WHERE id = %s", ids[1])
    code, _, err = verify()
    assert code == 1
    assert f"entry {ids[1]} was changed (problems: 1)" in err
    assert "see who can write to the database" in err
    code, out, _ = verify("--json")
    assert code == 1
    told = json.loads(out)
    assert (told["verified"], told["first"]) == (False, {"entry": ids[1], "problem": "was changed"})


def test_a_checkpoint_from_elsewhere_proves_that_nothing_was_cut_off() -> None:
    sealed(3)
    assert verify("--checkpoint", str(AuditCheckpoint.objects.get()))[0] == 0
    code, _, err = verify("--checkpoint", f"2:{'0' * 64}")
    assert code == 1
    assert "there is no checkpoint 2:000" in err


def test_export_seals_first_and_says_how_much(tmp_path: Path) -> None:
    ids = entries(3)
    out = StringIO()
    call_command("exportaudit", str(tmp_path), stdout=out)
    count = AuditEntry.objects.exclude(action="audit.export").count()
    checkpoint = AuditCheckpoint.objects.get()
    assert out.getvalue() == f"{count} entries exported to {tmp_path}, up to checkpoint {checkpoint}.\n"
    [file] = tmp_path.glob("*.jsonl")
    assert set(ids) <= {line["id"] for line in map(json.loads, file.read_text().splitlines())}


def test_export_needs_a_directory(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        call_command("exportaudit")
    assert end.value.code == 2
    assert "name the directory, or set TOOLHUB_AUDIT_DIR" in capsys.readouterr().err


def test_export_uses_the_directory_of_the_setting(settings: Any, tmp_path: Path) -> None:
    settings.TOOLHUB_AUDIT_DIR = tmp_path / "here"
    entries(1)
    call_command("exportaudit", stdout=StringIO())
    assert (tmp_path / "here" / "cursor").exists()


def of_audit() -> list[Diagnosis]:
    return [one for one in diagnoses() if one.text.startswith("the audit trail")]


def test_doctor_tells_how_far_the_trail_is_sealed() -> None:
    ids = sealed(2)
    [diagnosis] = of_audit()
    assert diagnosis.is_good
    assert diagnosis.text.startswith(f"the audit trail is sealed up to entry {ids[-1]}, ")


def test_doctor_tells_that_a_running_hub_does_not_seal() -> None:
    entries(1, at=now() - timedelta(hours=1))
    assert of_audit() == [], "no hub is running"
    Process.objects.create(
        id="a", kind="serve", host="here", pid=1, started_at=now() - timedelta(hours=1),
        lease_until=now() + timedelta(minutes=1),
    )  # fmt: skip
    [diagnosis] = of_audit()
    assert not diagnosis.is_good
    assert diagnosis.text.startswith("the audit trail is not sealed since ")


def test_doctor_remembers_a_verification_that_failed() -> None:
    ids = sealed(2)
    sql("UPDATE {entry} SET actor = 'user:bob' WHERE id = %s", ids[1])
    trail.verify()
    bad = [one for one in of_audit() if not one.is_good]
    assert len(bad) == 1
    assert "could not be verified" in bad[0].text
    assert "toolhub verifyaudit" in bad[0].advice
