"""The documentation is complete and true: every setting, error and command is in it."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
from itertools import pairwise
from pathlib import Path

import pytest

import toolhub
from scripts import setting_docs
from tools_app.api import errors as api_errors
from tools_app.base.setting_table import SETTINGS, shown
from tools_app.sdk.errors import ToolError
from tools_app.sdk.hub_errors import all_errors

ROOT = Path(__file__).resolve().parent.parent


def read(path: str) -> str:
    return (ROOT / path).read_text()


def test_the_settings_are_documented_as_in_their_table() -> None:
    assert read(".env.example") == setting_docs.example(), "run `make settings`"
    page = read("docs/settings.md")
    assert page == setting_docs.page(page), "run `make settings`"
    for name, setting in SETTINGS.items():
        is_documented = not setting.deprecated
        assert (re.search(f"^#{name}=", setting_docs.example(), re.MULTILINE) is not None) == is_documented, name
        assert (f"\n| `{name}` | " in page) == is_documented, name


def test_each_default_is_a_value_that_its_type_accepts() -> None:
    for name, setting in SETTINGS.items():
        if text := shown(setting.default):
            value = setting.type(text)
            assert (tuple(value) if isinstance(value, list) else value) == setting.default or text == "false", name


def test_every_error_is_in_its_table_with_its_properties() -> None:
    rows = {
        cells[1].strip(" `"): cells
        for line in read("docs/errors.md").splitlines()
        if line.startswith("| `") and (cells := line.split("|"))
    }
    everywhere = {error.code: error for error in all_errors()}
    only_rest = {error.code: error for error in vars(api_errors).values() if _own_error(error)}
    assert rows.keys() == everywhere.keys() | only_rest.keys()
    for code, error in only_rest.items():
        assert int(rows[code][2]) == error.status, code
    for code, error in everywhere.items():
        assert int(rows[code][2]) == error.status, code
        assert rows[code][3].strip() == ("yes" if error.retryable else "no"), code
        assert rows[code][4].strip() == ("error" if error.log_level >= 40 else "warning"), code


def _own_error(thing: object) -> bool:
    return isinstance(thing, type) and issubclass(thing, ToolError) and thing.__module__ == api_errors.__name__


COMMANDS = sorted(path.stem for path in (ROOT / "tools_app/management/commands").glob("[a-z]*.py"))


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_is_named(command: str) -> None:
    pages = [ROOT / "README.md", ROOT / "CHANGELOG.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")]
    assert any(f"{program} {command}" in page.read_text() for page in pages for program in ("toolhub", "manage.py"))


def test_the_rooms_are_those_that_imports_are_held_to() -> None:
    table = read("docs/architecture.md").partition("## Rooms")[2].partition("\n## ")[0]
    cells = [line.split("|")[1] for line in table.splitlines() if line.startswith("| `")]
    rows = {name: row for row, cell in enumerate(cells) for name in re.findall(r"`(\w+)(?:/|\.py)`", cell)}
    contracts = tomllib.loads(read("pyproject.toml"))["tool"]["importlinter"]["contracts"]
    layers = [layer.split(" | ") for layer in next(one for one in contracts if one["type"] == "layers")["layers"]]
    assert rows.keys() - {"toolhub"} == {name for layer in layers for name in layer}
    for above, below in pairwise(layers):
        assert max(rows[name] for name in above) < min(rows[name] for name in below), (above, below)


@pytest.mark.parametrize("room", sorted(path.parent.name for path in (ROOT / "tools_app").glob("*/__init__.py")))
def test_every_room_says_what_belongs_there(room: str) -> None:
    if room == "migrations":
        return
    words = ast.get_docstring(ast.parse(read(f"tools_app/{room}/__init__.py"))) or ""
    assert "Belongs here: " in words
    assert "Does not belong here: " in words


def test_links_lead_somewhere() -> None:
    for page in [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]:
        for target in re.findall(r"\]\((?!https?:|#)([^)#]+)", page.read_text()):
            assert (page.parent / target).exists(), f"{page.name} → {target}"


def test_tool_authors_can_import_all_that_is_promised() -> None:
    for name in toolhub.__all__:
        assert getattr(toolhub, name) is not None
    with pytest.raises(AttributeError):
        toolhub.nothing_like_this  # noqa: B018


def test_the_errors_that_authors_are_shown_can_be_raised_like_that() -> None:
    (example,) = re.findall(r"```python\n(.*?)```", read("docs/errors.md"), re.DOTALL)
    imports, *raising = ast.parse(example).body
    ended = []
    for statement in raising:
        program = f"{ast.unparse(imports)}\n{ast.unparse(statement)}"
        done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=False)
        ended.append(done.stderr.splitlines()[-1])
    assert ended == [
        "tools_app.sdk.errors.NotFoundError: Workflow 'abc123' not found",
        "tools_app.sdk.errors.ApiError: Failed to update workflow",
        "tools_app.sdk.errors.ValidationError: Workflow ID is required",
        "tools_app.sdk.errors.ToolError: There is no tea",
    ]


def test_the_version_is_one() -> None:
    assert f'version = "{toolhub.__version__}"' in read("pyproject.toml")


def test_every_folder_with_tests_that_start_hubs_is_run_by_the_command_for_it() -> None:
    """They are left out of `make test`, so a marker without a command would never run."""
    (command,) = re.findall(r"pytest\.sh -q -m e2e .*", read("Makefile"))
    marked = {path.parent for path in (ROOT / "tests").rglob("test_*.py") if "mark.e2e" in path.read_text()}
    folders = {str(folder.relative_to(ROOT)) for folder in marked} - {"tests"}
    assert "tests/embedding" in folders
    assert [folder for folder in folders if folder not in command.split()] == []


def test_every_check_of_doctor_is_documented() -> None:
    code = read("tools_app/management/commands/doctor.py")
    checks = set(re.findall(r'Diagnosis\(\s*"([a-z-]+)"', code))
    assert len(re.findall(r"\bDiagnosis\(", code)) == len(re.findall(r'Diagnosis\(\s*"[a-z-]+"', code))
    table = read("docs/operate.md").partition("| id | what is checked |")[2].partition("\n\n")[0]
    assert set(re.findall(r"`([a-z-]+)`", table)) == checks


def test_links_to_headings_lead_somewhere() -> None:
    pages = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
    anchors = {
        page: {_anchor(line) for line in page.read_text().splitlines() if line.startswith("#")} for page in pages
    }
    for page in pages:
        for target, anchor in re.findall(r"\]\((?!https?:)([^)#]*)#([^)]+)\)", page.read_text().replace("\n", " ")):
            other = (page.parent / target).resolve() if target else page
            assert anchor in anchors[other], f"{page.name} → {target}#{anchor}"


def _anchor(heading: str) -> str:
    words = re.sub(r"[^\w\- ]", "", heading.lstrip("#").strip().lower())
    return words.replace(" ", "-")


def test_every_recipe_is_in_the_documentation_and_in_the_tests() -> None:
    tests = "".join(path.read_text() for path in (ROOT / "tests/recipes").glob("*.py"))
    for path in (ROOT / "docs/recipes").iterdir():
        assert f"](recipes/{path.name})" in read("docs/operate.md") + read("docs/containers.md"), path.name
        assert f'"{path.name}"' in tests, path.name
