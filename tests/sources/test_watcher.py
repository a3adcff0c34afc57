"""What changes in the tools directory is on record while the hub runs."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.state import find_sources_again, rebuild_catalog
from tests.support.tools import eventually
from tools_app import sources
from tools_app.models import ToolRecord
from tools_app.sources import sync
from tools_app.sources.directory import FolderProvider
from tools_app.sources.watcher import Watcher

PACK = """
from toolhub import Pack

pack = Pack("notes")
"""
TOOL = """
@pack.tool{declared}
def {name}() -> str:
    \"\"\"Say something.\"\"\"
    return "something"
"""


class Notes:
    """A file of the tools directory, with some tools."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._clock = 1_700_000_000

    def hold(self, **tools: str) -> None:
        """By their names: what each declares."""
        self.path.write_text(PACK + "".join(TOOL.format(name=name, declared=tools[name]) for name in tools))
        self.path.chmod(0o644)
        self._clock += 1
        os.utime(self.path, (self._clock, self._clock))


@pytest.fixture
def notes(tmp_path: Path, settings: Any, transactional_db: None) -> Iterator[Notes]:
    settings.TOOLHUB_TOOLS_DIR = tmp_path
    made = Notes(tmp_path / "notes.py")
    made.hold(first="", second="")
    find_sources_again()
    rebuild_catalog()
    watcher = Watcher(look_seconds=0.01)
    watcher.start()
    yield made
    watcher.stop()
    sys.modules.pop("toolhub_tools.notes", None)


def present() -> set[str]:
    return set(ToolRecord.objects.present().filter(pack="notes").values_list("name", flat=True))


def test_what_is_broken_waits_to_be_mended_or_to_go(notes: Notes) -> None:
    assert eventually(lambda: present() == {"first", "second"}, 10)

    notes.hold(first="", second="(cache_seconds=4)", third="")  # What writes cannot be cached.
    assert eventually(lambda: "third" in present(), 10)
    folder = sources.current().folder
    assert folder is not None
    assert "second" not in folder.loaded()
    assert present() == {"first", "second", "third"}, "nobody has taken it away"

    notes.hold(first="", third="")
    assert eventually(lambda: present() == {"first", "third"}, 10)


def looked(folder: FolderProvider) -> None:
    """What the watcher does twice a second."""
    if folder.look():
        sync.sync_changed(folder, actor="test")


@pytest.fixture
def folder(tmp_path: Path, settings: Any, transactional_db: None) -> Iterator[FolderProvider]:
    settings.TOOLHUB_TOOLS_DIR = tmp_path
    for name in ("one", "two"):
        Notes(tmp_path / f"{name}.py").hold(**{name: ""})
    find_sources_again()
    folder = sources.current().folder
    assert folder is not None
    sync.sync_source(folder, actor="test")
    yield folder
    for name in ("one", "two"):
        sys.modules.pop(f"toolhub_tools.{name}", None)


def test_a_file_saved_while_another_is_reloaded_is_recorded_too(folder: FolderProvider) -> None:
    one, two = (Notes(folder.folder / f"{name}.py") for name in ("one", "two"))
    one.hold(one="", third="")
    looked(folder)  # It may still be written.
    two.hold(two="", fourth="")
    looked(folder)
    assert present() == {"one", "two", "third"}
    looked(folder)
    assert present() == {"one", "two", "third", "fourth"}


def test_a_directory_that_may_no_longer_be_read_is_reported(folder: FolderProvider) -> None:
    folder.folder.chmod(0o777)
    try:
        looked(folder)
        assert [problem.place for problem in sync.problems()] == [str(folder.folder)]
        assert present() == {"one", "two"}, "nothing is removed for that"
    finally:
        folder.folder.chmod(0o755)
    looked(folder)
    assert sync.problems() == []
