"""What the product imports, pyproject.toml declares, and says why."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from collections.abc import Iterator
from importlib.metadata import packages_distributions
from itertools import chain
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
OURS = {"toolhub", "tools_app"}
FOR_AUTHORS = {"pytest"}  # toolhub.testing, in tests of authors who have pytest


def imported() -> Iterator[tuple[str, Path]]:
    for package in sorted(OURS):
        for path in sorted((ROOT / package).rglob("*.py")):
            for node in _run_time(ast.parse(path.read_text())):
                if isinstance(node, ast.Import):
                    yield from ((alias.name.partition(".")[0], path) for alias in node.names)
                elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                    yield node.module.partition(".")[0], path


def _run_time(tree: ast.AST) -> Iterator[ast.AST]:
    """All nodes but those that only the type checker sees."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            continue
        yield node
        yield from _run_time(node)


def normalised(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def declared() -> set[str]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    requirements = [*project["dependencies"], *chain(*project["optional-dependencies"].values())]
    return {normalised(re.match(r"[\w.-]+", requirement).group()) for requirement in requirements}  # type: ignore[union-attr]


def test_every_import_is_a_declared_dependency() -> None:
    homes, known = packages_distributions(), declared()
    undeclared = {
        f"{name} ({path.relative_to(ROOT)})"
        for name, path in imported()
        if name not in OURS | FOR_AUTHORS | sys.stdlib_module_names
        and not {normalised(home) for home in homes.get(name, [])} & known
    }
    assert not undeclared


def test_every_dependency_has_its_reason_beside_it() -> None:
    text = (ROOT / "pyproject.toml").read_text()
    block = text[text.index("\ndependencies = [") : text.index("[project.optional-dependencies]")]
    lines = [line for line in block.splitlines() if line.lstrip().startswith('"')]
    assert len(lines) > 10
    assert [line for line in lines if not re.search(r'",\s+# \S', line)] == []
