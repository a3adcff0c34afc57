"""What changes in the tools directory is on record while the hub runs."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.tools import eventually
from tools_app import sources
from tools_app.catalog import catalog
from tools_app.models import ToolRecord
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
    sources.forget()
    catalog.forget()
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
    assert "second" not in sources.loaded()
    assert present() == {"first", "second", "third"}, "nobody has taken it away"

    notes.hold(first="", third="")
    assert eventually(lambda: present() == {"first", "third"}, 10)
