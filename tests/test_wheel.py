"""The wheel carries everything that a hub needs at run time."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent


TRIED = """
import toolhub, tools_app
from toolhub import ConnectionKind, Context, Example, Hints, Pack, testing
from toolhub.testing import fixtures

assert all(module.__file__.startswith(HERE) for module in (toolhub, tools_app, testing, fixtures))
pack = Pack("sky", connection=ConnectionKind("Sky", url_variable="SKY_URL", secret_variable="SKY_KEY", header="X-Key"))


@pack.tool(category="sky", tags=["stars"], hints=Hints(read_only=True), examples=[Example("One", {}, {"stars": 7})])
async def count_stars(ctx: Context) -> dict[str, object]:
    \"\"\"Count the stars.\"\"\"
    return await ctx.http.get("stars", operation="count stars")


with testing.fake_upstream({"GET /stars": {"stars": 7}}, pack=pack) as upstream:
    assert testing.call(count_stars) == {"stars": 7}
    testing.assert_contract(count_stars)
assert len(upstream.requests) == 2
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    built = subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert built.returncode == 0, built.stderr
    (found,) = folder.glob("*.whl")
    return found


def test_authors_test_their_tools_with_it(wheel: Path, tmp_path: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path / "site")
    done = subprocess.run(
        [sys.executable, "-c", f"HERE = {str(tmp_path)!r}\n{TRIED}"],
        env={"PYTHONPATH": str(tmp_path / "site")},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_serves_the_demo(wheel: Path, tmp_path: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path / "site")
    for name in ("time_machine", "pytest", "hypothesis", "tests"):
        (tmp_path / "site" / f"{name}.py").write_text("raise ImportError('not installed for users')")
    done = subprocess.run(
        [sys.executable, "-m", "toolhub", "demo", "--fill-only"],
        env={"PYTHONPATH": str(tmp_path / "site")},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert " tools, " in done.stdout


def test_holds_code_templates_and_static_files_and_nothing_of_the_operator(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
        (metadata,) = [name for name in names if name.endswith(".dist-info/entry_points.txt")]
        assert "toolhub = toolhub.__main__:main" in archive.read(metadata).decode()
    for path in (ROOT / "templates").rglob("*.html"):
        assert f"toolhub/templates/{path.relative_to(ROOT / 'templates')}" in names
    for path in (ROOT / "tools_app").rglob("*"):
        if path.is_file() and "__pycache__" not in path.parts:
            assert str(path.relative_to(ROOT)) in names
    assert {"toolhub/py.typed", "tools_app/py.typed", "toolhub/settings.py"} <= names
    assert not [name for name in names if name.startswith(("tests/", "var/", ".")) or name.endswith(".sqlite3")]
