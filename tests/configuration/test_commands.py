"""`toolhub export` and `toolhub apply`, as people and pipelines run them."""

from __future__ import annotations

import csv
import io
import json
import stat
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command

from tests.configuration.conftest import ACTOR
from tests.support.tools import Hub
from tools_app import governance
from tools_app.models import ApiKey, Toolset
from tools_app.setup import configuration

FILE = "version: 1\ntoolsets:\n  mine: {names: [echo]}\nkeys:\n  ci: {toolsets: [mine]}\n"


def run(*arguments: str) -> tuple[int, str, str]:
    """Exit code, stdout and stderr of a command."""
    out, err = io.StringIO(), io.StringIO()
    try:
        call_command(*arguments, stdout=out, stderr=err)
    except SystemExit as exit_:
        return int(exit_.code or 0), out.getvalue(), err.getvalue()
    return 0, out.getvalue(), err.getvalue()


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "hub.yaml"
    path.write_text(FILE)
    return path


def test_a_pipeline_plans_applies_and_finds_nothing_to_do(hub: Hub, file: Path, tmp_path: Path) -> None:
    keys = tmp_path / "keys.csv"
    code, out, _ = run("apply", str(file), "--dry-run")
    assert (code, Toolset.objects.exists()) == (3, False)
    assert "creates toolset mine (names: echo)" in out
    digest = out.splitlines()[-1].split()[1].rstrip(":")
    code, _, err = run("apply", str(file))
    assert (code, "--keys-to FILE" in err, Toolset.objects.exists()) == (1, True, False)
    code, _, err = run("apply", str(file), "--plan", "000000000000", "--keys-to", str(keys))
    assert (code, "another one by now" in err, keys.exists()) == (1, True, False)
    code, out, _ = run("apply", str(file), "--plan", digest, "--keys-to", str(keys))
    assert (code, out.splitlines()[-1]) == (0, f"Applied. The new keys are in {keys}.")
    ((_, secret),) = list(csv.reader(keys.read_text().splitlines()))[1:]
    assert stat.S_IMODE(keys.stat().st_mode) == 0o600
    assert secret.startswith(f"thub_{ApiKey.objects.get().prefix}_")
    assert secret not in out
    assert run("apply", str(file), "--dry-run")[:2] == (0, "Nothing to do.\n")
    assert run("apply", str(file))[:2] == (0, "Nothing to do.\n")


def test_a_plan_that_is_named_holds_and_prune_needs_the_name_of_the_file(
    hub: Hub, file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file.write_text(FILE.partition("keys:")[0])
    digest = run("apply", str(file), "--dry-run")[1].splitlines()[-1].split()[1].rstrip(":")
    planned = configuration.plan

    def plan_and_change(*arguments: Any, **options: Any) -> Any:
        """Another change comes first."""
        plan = planned(*arguments, **options)
        governance.create_toolset("mine", names=["calculate"], actor=ACTOR)
        return plan

    with monkeypatch.context() as patch:
        patch.setattr(configuration, "plan", plan_and_change)
        code, _, err = run("apply", str(file), "--plan", digest, "--yes")
    assert (code, "has changed since this plan was made" in err) == (1, True)
    assert Toolset.objects.get().names == ["calculate"]
    assert run("apply", str(file), "--yes")[0] == 0
    other = tmp_path / "other" / "hub.yaml"
    other.parent.mkdir()
    other.write_text("version: 1\ntoolsets:\n  theirs: {}\n")
    code, _, err = run("apply", str(other), "--prune", "--yes")
    assert (code, "--prune needs --name, as other files can be called hub.yaml too" in err) == (2, True)
    code, _, err = run("apply", str(other), "--yes")
    assert (code, "is it another one? Name it with --name." in err) == (1, True)
    assert run("apply", str(other), "--name", "team-b", "--prune", "--yes")[0] == 0
    assert set(Toolset.objects.values_list("name", flat=True)) == {"mine", "theirs"}


def test_a_key_file_that_exists_is_not_overwritten_and_nothing_is_changed(hub: Hub, file: Path, tmp_path: Path) -> None:
    keys = tmp_path / "keys.csv"
    keys.write_text("precious")
    code, _, err = run("apply", str(file), "--keys-to", str(keys))
    assert (code, "cannot write" in err, keys.read_text()) == (1, True, "precious")
    assert not ApiKey.objects.exists()


def test_a_bad_file_and_a_refused_one_have_codes_of_their_own(hub: Hub, file: Path) -> None:
    file.write_text("version: 1\nkeys:\n  ci: {scope: []}\n  ci2: {toolsets: [none]}\n")
    code, _, err = run("apply", str(file))
    assert (code, f"{file}: /keys/ci/scope, line 3: is no field of the file" in err) == (2, True)
    file.write_text("version: 1\nkeys:\n  ci: {toolsets: [none]}\n")
    code, _, err = run("apply", str(file), "--dry-run")
    assert (code, "/keys/ci: There is no toolset 'none'" in err, "Nothing is changed" in err) == (1, True, True)
    assert run("apply", str(file.with_name("no.yaml")))[0] == 2
    assert "\x1b" not in run("apply", str(file), "--name", "a\x1b[31m")[2]


def test_an_export_is_what_an_apply_reads(hub: Hub, file: Path, tmp_path: Path) -> None:
    run("apply", str(file), "--keys-to", str(tmp_path / "keys.csv"))
    code, out, _ = run("export")
    assert code == 0
    assert "mine:\n    names:\n    - echo\n" in out
    assert run("export", "--output", str(file))[0] == 0
    assert file.read_text() == out
    data: dict[str, Any] = json.loads(run("apply", str(file), "--dry-run", "--json")[1])
    assert (data["changes"], data["drift"], data["keys"]) == ([], [], [])
