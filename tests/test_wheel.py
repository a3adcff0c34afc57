"""The wheel carries everything that a hub needs at run time."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def test_holds_code_templates_and_static_files_and_nothing_of_the_operator(tmp_path: Path) -> None:
    built = subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert built.returncode == 0, built.stderr
    (wheel,) = tmp_path.glob("*.whl")
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
