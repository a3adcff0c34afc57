"""`toolhub newtool`: a file that works, and a test beside it that passes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from django.core.management import call_command

from tools_app.sources.directory import FolderProvider

pytestmark = pytest.mark.django_db
ROOT = Path(__file__).parent.parent.parent


def newtool(*arguments: str) -> None:
    call_command("newtool", *arguments)


@pytest.fixture
def directory(tmp_path: Path, settings) -> Path:
    settings.TOOLHUB_TOOLS_DIR = tmp_path / "tools"
    return tmp_path / "tools"


def test_writes_a_tool_that_loads_and_a_test_that_passes(directory: Path) -> None:
    newtool("count_words")
    registry = FolderProvider(directory).loaded()
    assert registry.problems == []
    assert [loaded.spec.name for loaded in registry] == ["count_words"]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(directory / "test_count_words.py")],
        env={"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"},
        cwd=directory,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "3 passed" in done.stdout


def test_overwrites_nothing(directory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    newtool("count_words")
    (directory / "count_words.py").write_text("mine")
    with pytest.raises(SystemExit):
        newtool("count_words")
    assert "count_words.py exists; nothing was written" in capsys.readouterr().err
    assert (directory / "count_words.py").read_text() == "mine"
    (directory / "test_other.py").write_text("mine")
    with pytest.raises(SystemExit):
        newtool("other")
    assert not (directory / "other.py").exists()


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("Count", "must start with lowercase letter"),
        ("../up", "must start with lowercase letter"),
        ("a" * 65, "must start with lowercase letter"),
        ("count-words", "write it with _"),
        ("class", "cannot be the name of a function"),
        ("json", "shadow another module"),
        ("pydantic", "shadow another module"),
        ("toolhub", "shadow another module"),
        ("max", "is already a name in Python"),
        ("testing", "is already a name in Python or in the test"),
        ("test_it", "shadow another module"),
        ("echo", "a tool of that name exists, at tests/support/packs/small"),
    ],
)
def test_refuses_names_that_would_not_work(
    directory: Path, capsys: pytest.CaptureFixture[str], name: str, told: str
) -> None:
    with pytest.raises(SystemExit):
        newtool(name)
    assert told in capsys.readouterr().err
    assert not list(directory.glob("*.py"))


def test_says_how_to_name_a_directory(tmp_path: Path, settings, capsys: pytest.CaptureFixture[str]) -> None:
    settings.TOOLHUB_TOOLS_DIR = None
    with pytest.raises(SystemExit):
        newtool("count_words")
    assert "TOOLHUB_TOOLS_DIR" in capsys.readouterr().err
    newtool("count_words", "--directory", str(tmp_path / "new"))
    said = capsys.readouterr().out
    assert f"export TOOLHUB_TOOLS_DIR={tmp_path / 'new'}" in said
    assert (tmp_path / "new" / "count_words.py").exists()


def test_says_every_step_that_leads_to_the_first_call(directory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    newtool("count_words")
    told = [
        line.split("   (")[0].strip() for line in capsys.readouterr().out.partition("Next:")[2].splitlines() if line
    ]
    assert told == [
        "toolhub synctools",
        f"python -m pytest {directory / 'test_count_words.py'}",
        """toolhub calltool count_words '{"text": "What a piece of work"}'""",
    ]


def test_a_directory_of_which_nothing_would_be_loaded_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tmp_path.chmod(0o777)
    with pytest.raises(SystemExit):
        newtool("count_words", "--directory", str(tmp_path))
    assert "is world-writable" in capsys.readouterr().err
    assert not list(tmp_path.glob("*.py"))


def test_a_write_error_is_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(SystemExit):
        newtool("count_words", "--directory", str(tmp_path / "file"))
    assert "cannot write to" in capsys.readouterr().err
