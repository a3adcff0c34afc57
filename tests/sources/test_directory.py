"""The tools directory while the hub runs: what is changed, added or removed, and what an editor does in between."""

from __future__ import annotations

import gc
import linecache
import os
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import FunctionType, ModuleType

import pytest

from tools_app.sdk.tool import Tool
from tools_app.sources import directory
from tools_app.sources.directory import FolderProvider
from tools_app.sources.registry import Registry

TOOL = '''
from toolhub import tool

@tool
def {name}() -> str:
    """Say {words}."""
    return "{words}"
'''
RESOURCE = '''
from toolhub import resource

@resource("notes://{words}")
def note() -> str:
    """A note."""
    return "{words}"
'''


NULL_BYTE = "SyntaxError" if sys.version_info >= (3, 11, 4) else "ValueError"


class Folder:
    """A tools directory, and a process that looks at it when it is told to."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.provider = FolderProvider(path)
        self._clock = 1_700_000_000

    def write(self, file: str, text: str = TOOL, **names: str) -> Path:
        path = self.path / file
        for key, value in names.items():
            text = text.replace("{" + key + "}", value)
        path.write_text(text)
        path.chmod(0o644)
        # Every write has a time of its own, however coarse those of this file system are.
        self._clock += 1
        os.utime(path, (self._clock, self._clock))
        return path

    def load(self) -> None:
        self.provider.loaded()

    @property
    def registry(self) -> Registry:
        return self.provider.loaded()

    def look(self) -> bool:
        """Twice: a change counts once it has stood still."""
        return self.provider.look() | self.provider.look()

    @property
    def names(self) -> list[str]:
        return [loaded.spec.name for loaded in self.registry]

    @property
    def problems(self) -> list[str]:
        return [str(problem).removeprefix(f"{self.path}/") for problem in self.registry.problems]

    def tool(self, name: str) -> Tool:
        loaded = self.registry.get(name)
        assert loaded is not None
        assert isinstance(loaded.declared, Tool)
        return loaded.declared

    def says(self, name: str) -> str:
        answer: str = self.tool(name).run(None, {})  # type: ignore[arg-type]
        return answer


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Folder]:
    before = set(sys.modules)
    path = tmp_path / "tools"
    path.mkdir(mode=0o755)
    made = Folder(path)
    yield made
    made.provider.close()
    assert not [name for name in set(sys.modules) - before if name.startswith(("toolhub_tools.", "_shared_"))]


def test_a_changed_file_is_taken_up(folder: Folder) -> None:
    folder.write("a.py", name="greet", words="hello")
    folder.load()
    assert not folder.look()
    folder.write("a.py", name="greet", words="howdy")
    assert folder.look()
    assert folder.says("greet") == "howdy"
    assert folder.tool("greet").description == "Say howdy."
    assert sys.modules["toolhub_tools.a"].greet is folder.tool("greet")
    assert not folder.look()


def test_two_edits_of_one_size_within_a_second_are_told_apart(folder: Folder) -> None:
    path = folder.write("a.py", name="greet", words="hello")
    folder.load()
    moment = path.stat().st_mtime_ns
    path.write_text(path.read_text().replace("hello", "howdy"))
    os.utime(path, ns=(moment + 1, moment + 1))
    folder.look()
    assert folder.says("greet") == "howdy"


def test_files_come_and_go(folder: Folder) -> None:
    first = folder.write("a.py", name="first", words="1")
    folder.load()
    folder.write("b.py", name="second", words="2")
    folder.look()
    assert folder.names == ["first", "second"]
    first.unlink()
    folder.look()
    assert folder.names == ["second"]
    assert "toolhub_tools.a" not in sys.modules


def test_a_file_that_is_still_being_written_changes_nothing(folder: Folder) -> None:
    path = folder.write("a.py", name="greet", words="hello")
    folder.load()
    for part in ("", "from toolhub imp", "from toolhub import tool\n\n@tool\ndef greet() -> str:\n"):
        folder.write("a.py", part)
        assert not folder.provider.look()
    path.unlink()  # Some editors put a new file in the place of the old one.
    assert not folder.provider.look()
    folder.write("a.py", name="greet", words="howdy")
    assert not folder.provider.look()
    assert folder.says("greet") == "hello"
    assert folder.problems == []
    assert folder.provider.look()
    assert folder.says("greet") == "howdy"


@pytest.mark.parametrize(
    ("broken", "told"),
    [
        ("x = 1\ndef greet(:\n", "a.py:2: SyntaxError: invalid syntax"),
        ("\n\n1/0\n", "a.py:3: ZeroDivisionError: division by zero"),
        ("raise SystemExit(1)\n", "a.py:1: SystemExit: 1"),
        ("x = '\0'\n", f"a.py: {NULL_BYTE}: source code string cannot contain null bytes"),
    ],
    ids=["syntax", "error", "exit", "null"],
)
def test_an_edit_that_fails_keeps_what_was_loaded(
    folder: Folder, caplog: pytest.LogCaptureFixture, broken: str, told: str
) -> None:
    folder.write("a.py", name="greet", words="hello")
    folder.write("b.py", name="other", words="2")
    folder.load()
    folder.write("a.py", broken)
    folder.write("b.py", name="other", words="3")
    folder.look()
    assert (folder.says("greet"), folder.says("other")) == ("hello", "3")
    (problem,) = folder.problems
    assert problem.startswith(told)
    assert problem.endswith("(the version loaded before stays in use)")
    assert sum(record.name == "tools_app.sources" for record in caplog.records) == 1
    folder.write("b.py", name="other", words="4")
    folder.look()
    assert sum(record.name == "tools_app.sources" for record in caplog.records) == 1, "what is no news is not repeated"
    folder.write("a.py", name="greet", words="mended")
    folder.look()
    assert folder.says("greet") == "mended"
    assert folder.problems == []


@pytest.mark.parametrize("raised", ["KeyboardInterrupt", "GeneratorExit", "type('Panic', (BaseException,), {})()"])
def test_whatever_a_file_raises_the_others_are_taken_up(folder: Folder, raised: str) -> None:
    folder.write("a.py", name="greet", words="hello")
    folder.write("b.py", name="other", words="2")
    folder.load()
    folder.write("a.py", f"raise {raised}\n")
    folder.write("b.py", name="other", words="3")
    with ThreadPoolExecutor(1) as watcher:
        assert watcher.submit(folder.look).result()
    assert (folder.says("greet"), folder.says("other")) == ("hello", "3")
    assert folder.problems[0].startswith("a.py:1: ")


def test_somebody_who_wants_to_end_the_hub_while_it_loads_can(folder: Folder) -> None:
    folder.write("a.py", "raise KeyboardInterrupt\n")
    with pytest.raises(KeyboardInterrupt):
        folder.load()


def test_a_file_that_does_not_end_is_named(
    folder: Folder, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(directory, "PATIENCE_SECONDS", 0.01)
    folder.write("a.py", "import time\ntime.sleep(0.3)\n" + TOOL, name="greet", words="hello")
    folder.load()
    assert folder.names == ["greet"]
    assert [record.getMessage() for record in caplog.records] == [
        f"{folder.path}/a.py is still running; no other file is loaded until it ends"
    ]


IMPORTS = "from _shared_words import WORDS\n" + TOOL.replace('return "{words}"', "return WORDS")


class TestSharedFiles:
    def test_files_import_those_that_begin_with_an_underscore(self, folder: Folder) -> None:
        folder.write("_shared_words.py", "from _shared_more import more\nWORDS = more('hello')\n")
        folder.write("_shared_more.py", "def more(text): return text + '!'\n")
        folder.write("a.py", IMPORTS, name="one")
        folder.write("b.py", IMPORTS, name="two")
        folder.load()
        assert folder.problems == []
        assert (folder.says("one"), folder.says("two")) == ("hello!", "hello!")
        assert not (folder.path / "__pycache__").exists()

    def test_when_one_changes_the_others_are_executed_anew(self, folder: Folder) -> None:
        folder.write("_shared_words.py", "WORDS = 'hello'\n")
        folder.write("a.py", IMPORTS, name="one")
        folder.load()
        assert not folder.look()
        folder.write("_shared_words.py", "WORDS = 'howdy'\n")
        assert not folder.provider.look(), "it has to stand still first"
        assert folder.provider.look()
        assert folder.says("one") == "howdy"
        assert not folder.look()

    @pytest.mark.parametrize(
        ("broken", "told"),
        [
            ("\n1/0\n", "ZeroDivisionError: division by zero in _shared_words.py:2"),
            ("\n\nWORDS = (\n", "SyntaxError: '(' was never closed in _shared_words.py:3"),
            (None, "ModuleNotFoundError: No module named '_shared_words'"),
        ],
        ids=["error", "syntax", "gone"],
    )
    def test_one_that_breaks_leaves_what_was_loaded_in_use(self, folder: Folder, broken: str | None, told: str) -> None:
        path = folder.write("_shared_words.py", "WORDS = 'hello'\n")
        folder.write("a.py", IMPORTS, name="one")
        folder.load()
        if broken is None:
            path.unlink()
        else:
            folder.write("_shared_words.py", broken)
        folder.look()
        assert folder.says("one") == "hello"
        assert folder.problems == [f"a.py:1: {told} (the version loaded before stays in use)"]
        folder.write("_shared_words.py", "WORDS = 'mended'\n")
        folder.look()
        assert (folder.says("one"), folder.problems) == ("mended", [])

    def test_one_that_everybody_may_write_is_not_loaded(self, folder: Folder) -> None:
        folder.write("_shared_words.py", "WORDS = 'hello'\n").chmod(0o666)
        folder.write("a.py", IMPORTS, name="one")
        folder.load()
        assert folder.names == []
        assert "_shared_words.py is world-writable" in folder.problems[0]

    def test_nothing_else_is_found_there(self, folder: Folder) -> None:
        folder.write("shared_a.py", "X = 1\n")
        folder.write("b.py", "import shared_a\n")
        folder.load()
        assert folder.problems == ["b.py:1: ModuleNotFoundError: No module named 'shared_a'"]

    def test_what_python_has_under_that_name_comes_first(self, folder: Folder) -> None:
        folder.write("_json.py", "1/0\n")
        folder.write("a.py", "import _json, json\njson.dumps({})\n" + TOOL, name="one", words="1")
        folder.load()
        assert (folder.names, folder.problems) == (["one"], [])

    def test_another_directory_has_shared_files_of_its_own(self, folder: Folder, tmp_path: Path) -> None:
        folder.write("_shared_words.py", "WORDS = 'here'\n")
        folder.write("a.py", IMPORTS, name="one")
        folder.load()
        (tmp_path / "there").mkdir(mode=0o755)
        there = Folder(tmp_path / "there")
        there.write("_shared_words.py", "WORDS = 'there'\n")
        there.write("a.py", IMPORTS, name="one")
        there.load()
        assert (folder.says("one"), there.says("one")) == ("here", "there")
        folder.write("a.py", IMPORTS + "\n", name="one")
        folder.look()
        assert folder.says("one") == "here", "its own module, which was not executed again"
        there.provider.close()


def test_a_file_that_was_broken_from_the_start_comes_when_it_is_mended(folder: Folder) -> None:
    folder.write("a.py", "1/0")
    folder.load()
    assert folder.names == []
    assert folder.problems == ["a.py:1: ZeroDivisionError: division by zero"]
    folder.write("a.py", name="greet", words="hello")
    folder.look()
    assert (folder.names, folder.problems) == (["greet"], [])


def test_a_tool_that_cannot_be_used_is_told_and_the_others_of_its_file_come(folder: Folder) -> None:
    folder.write(
        "a.py", TOOL + "\nfrom toolhub import Pack\npack = Pack('p')\n@pack.tool\ndef bad(x): ...\n", name="greet"
    )
    folder.load()
    assert folder.names == ["greet"]
    assert "parameter 'x' has no annotation" in folder.problems[0]


def test_who_comes_first_is_the_same_as_after_a_fresh_start(folder: Folder) -> None:
    folder.write("b.py", name="greet", words="of b")
    folder.load()
    folder.write("a.py", name="greet", words="of a")
    folder.look()
    assert folder.says("greet") == "of a"
    assert folder.problems == [f'b.py:4: Tool "greet" is already registered. The other one is at {folder.path}/a.py:4']
    (folder.path / "a.py").unlink()
    folder.look()
    assert folder.says("greet") == "of b"
    assert folder.problems == []


def test_prompts_and_resources_follow_their_file(folder: Folder) -> None:
    folder.write("a.py", RESOURCE, words="one")
    folder.load()
    folder.write("a.py", RESOURCE, words="two")
    folder.look()
    assert [loaded.spec.key for loaded in folder.registry.offers] == ["notes://two"]
    (folder.path / "a.py").unlink()
    folder.look()
    assert folder.registry.offers == []


def test_tests_beside_tools_are_no_tools(folder: Folder) -> None:
    for name in ("test_a.py", "conftest.py", "_shared.py", ".#a.py", "notes.txt"):
        folder.write(name, "1/0")
    folder.write("testing.py", name="greet", words="hello")
    folder.load()
    assert (folder.names, folder.problems) == (["greet"], [])


def test_a_file_that_everybody_may_write_is_not_loaded_again(folder: Folder) -> None:
    path = folder.write("a.py", name="greet", words="hello")
    folder.load()
    folder.write("a.py", name="greet", words="howdy").chmod(0o666)
    folder.look()
    assert folder.says("greet") == "hello"
    assert "is world-writable" in folder.problems[0]
    path.chmod(0o644)
    folder.look()
    assert folder.says("greet") == "howdy"


def test_a_directory_that_is_gone_keeps_its_tools(folder: Folder) -> None:
    folder.write("a.py", name="greet", words="hello")
    folder.load()
    elsewhere = folder.path.rename(folder.path.with_name("elsewhere"))
    folder.look()
    assert folder.names == ["greet"]
    assert "cannot be read (No such file or directory)" in folder.problems[0]
    elsewhere.rename(folder.path)
    folder.look()
    assert (folder.names, folder.problems) == (["greet"], [])


def test_files_and_directories_have_limits(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    folder.write("a.py", "# " + "x" * 1_100_000)
    folder.load()
    assert "is larger than 1,024 KiB" in folder.problems[0]
    for number in range(1_001):
        (folder.path / f"b{number}.py").write_text("")
    folder.look()
    assert any("holds 1,002 files; at most 1,000 are loaded" in problem for problem in folder.problems)


def test_places_are_those_of_the_new_text(folder: Folder) -> None:
    path = folder.write("a.py", name="greet", words="hello")
    folder.load()
    linecache.getlines(str(path))
    folder.write("a.py", "\n\n\n" + TOOL, name="greet", words="hello")
    folder.look()
    assert folder.tool("greet").place == f"{path}:7"


def test_many_changes_leave_nothing_behind(folder: Folder) -> None:
    def change(times: int) -> int:
        for _ in range(times):
            folder.write("a.py", TOOL + RESOURCE, name="greet", words=f"n{folder._clock}")
            folder.look()
        gc.collect()
        # What measures coverage keeps a little for every thread there was; of what files make, it keeps nothing.
        # By type: `isinstance` would evaluate lazy objects that other tests left.
        return sum(issubclass(type(one), (ModuleType, FunctionType, type, Tool)) for one in gc.get_objects())

    folder.load()
    before = change(20)
    after = change(200)
    assert folder.says("greet") == f"n{folder._clock - 1}"
    assert after - before < 100, f"{after - before} objects more"
