"""Create a tool: a working file, and a passing test beside it."""

from __future__ import annotations

import builtins
import importlib.util
import keyword
import shlex
import sys
from pathlib import Path
from typing import Any, Final

from django.core.management.base import CommandParser

from tools_app import sources
from tools_app.base import conf
from tools_app.management.hub_command import REFUSED, Abort, HubCommand
from tools_app.sdk.names import DefinitionError, check_name
from tools_app.sources.files import open_to_all

TOOL: Final = '''"""What this file is for, in one line. docs/add-a-tool.md describes all options."""

from typing import Annotated

from pydantic import BaseModel, Field
from toolhub import Example, Hints, tool


class Counted(BaseModel):
    words: int
    longest: str


@tool(
    category="text",
    tags=["words"],
    # Without hints a tool counts as one that writes and destroys.
    hints=Hints(read_only=True, open_world=False),
    examples=[Example("A short sentence", {{"text": "What a piece of work"}}, {{"words": 5, "longest": "piece"}})],
)
def {name}(
    text: Annotated[str, Field(min_length=1, max_length=10_000), "The text to look at"],
    least: Annotated[int, Field(ge=1, le=50), "Letters that a word must have to count"] = 1,
) -> Counted:
    """Count the words of a text, and find the longest of them."""
    words = [word for word in text.split() if len(word) >= least]
    return Counted(words=len(words), longest=max(words, key=len, default=""))
'''
TEST: Final = """from {name} import {name}

import pytest
from toolhub import InvalidArgumentsError, testing


def test_keeps_what_it_promises():
    testing.assert_contract({name})


def test_counts_words_of_some_length():
    assert testing.call({name}, text="to be or not to be", least=3) == {{"words": 1, "longest": "not"}}


def test_refuses_an_empty_text():
    with pytest.raises(InvalidArgumentsError, match="text"):
        testing.call({name}, text="")
"""


class Command(HubCommand):
    help = "Create a tool: write NAME.py and a test into the tools directory. Overwrites nothing."
    needs_ready = False

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("name", help="the tool's name, like count_words")
        parser.add_argument("--directory", type=Path, help="directory for the files; default: TOOLHUB_TOOLS_DIR")

    def handle(self, *args: Any, name: str, directory: Path | None, **options: Any) -> None:
        refuse_name(name)
        tools_directory = conf.value("TOOLHUB_TOOLS_DIR")
        folder = directory or tools_directory
        if folder is None:
            raise Abort("no tools directory is set; use --directory ~/my-tools (or set TOOLHUB_TOOLS_DIR)", REFUSED)
        folder = Path(folder).expanduser().absolute()
        files = {folder / f"{name}.py": TOOL, folder / f"test_{name}.py": TEST}
        refuse_module(name, folder)
        refuse_taken(name)
        try:
            make(folder)
            if existing_files := [path for path in files if path.exists()]:
                raise Abort(f"{existing_files[0]} exists; nothing was written", REFUSED)
            for path, text in files.items():
                with path.open("x", encoding="utf-8") as file:
                    file.write(text.format(name=name))
                # World-writable files are not loaded, so the umask must not make it one.
                path.chmod(path.stat().st_mode & ~0o022)
        except OSError as error:
            raise Abort(f"cannot write to {folder} ({error.strerror})", REFUSED) from error
        self._print_next_steps(list(files), folder, tools_directory)

    def _print_next_steps(self, files: list[Path], folder: Path, tools_directory: Path | None) -> None:
        out = self.stdout
        tool, test = files
        for path in files:
            out.write(f"Wrote {path}")
        out.write("\nNext:")
        if tools_directory is None or Path(tools_directory).absolute() != folder:
            out.write(f"  export TOOLHUB_TOOLS_DIR={shlex.quote(str(folder))}   (or put it into .env)")
        out.write("  toolhub synctools   (running hubs and agents do that by themselves, within two seconds)")
        needs = "" if importlib.util.find_spec("pytest") else f"   (first: {_pytest()})"
        out.write(f"  python -m pytest {shlex.quote(str(test))}{needs}")
        out.write(f'  toolhub calltool {tool.stem} \'{{"text": "What a piece of work"}}\'   (or ask an agent)')


def _pytest() -> str:
    """The command that installs pytest: a checkout has a make target, and no pip in its environment."""
    checkout = Path(__file__).parents[3]
    return f"make -C {shlex.quote(str(checkout))} dev" if (checkout / "Makefile").is_file() else "pip install pytest"


SHADOWS: Final = "{name}.py would shadow another module; choose a longer name"


def make(folder: Path) -> None:
    """Create the directory.

    Raises:
        Abort: it is world-writable, so no file in it would be loaded.
    """
    folder.mkdir(mode=0o755, parents=True, exist_ok=True)
    if open_to_all(folder.stat().st_mode):
        reason = "is world-writable, so no file in it would be loaded"
        raise Abort(f"{folder} {reason}; choose another directory, or run `chmod o-w` on it", REFUSED)


def refuse_name(name: str) -> None:
    """The name must fit a tool, a function and a file.

    Raises:
        Abort: the name is invalid.
    """
    try:
        check_name(name)
    except DefinitionError as error:
        raise Abort(str(error), REFUSED) from error
    if not name.isidentifier() or keyword.iskeyword(name):
        raise Abort(f"{name} cannot be the name of a function; write it with _, like count_words", REFUSED)
    if hasattr(builtins, name) or name == "testing":
        raise Abort(f"{name} is already a name in Python or in the test; choose a longer name", REFUSED)
    if name in sys.stdlib_module_names or name.startswith("test_") or name == "conftest":
        raise Abort(SHADOWS.format(name=name), REFUSED)


def refuse_module(name: str, folder: Path) -> None:
    """Raises: Abort: the file and an installed module would shadow each other on import."""
    spec = importlib.util.find_spec(name)
    if spec is not None and spec.origin is not None and Path(spec.origin).parent != folder:
        raise Abort(SHADOWS.format(name=name), REFUSED)


def refuse_taken(name: str) -> None:
    """Raises: Abort: a tool of that name exists."""
    if (existing_tool := sources.current().loaded(name)) is not None:
        raise Abort(f"a tool of that name exists, at {existing_tool.spec.place}", REFUSED)
