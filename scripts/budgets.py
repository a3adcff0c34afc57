"""Keeps every room of tools_app, and all that one call needs, within [tool.toolhub.budgets] of pyproject.toml.

A line of code holds more than a comment or a docstring. What a call needs is the import closure of the room `engine`:
every module of tools_app that it imports, directly or not, and also inside functions; imports for type
checking alone do not count. `--show` prints all figures.
"""

from __future__ import annotations

import ast
import io
import sys
import tokenize
import tomllib
from collections import Counter
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import grimp

ROOT = Path(__file__).resolve().parent.parent
APP = "tools_app"
DEMO = Path("toolhub", "demo")  # counted like a room, as it is larger than some
NO_CODE = {
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENDMARKER,
}
UNCOUNTED = {"apps", "migrations"}


def lines_of_code(source: str) -> int:
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type not in NO_CODE:
            lines.update(range(token.start[0], token.end[0] + 1))
    return len(lines - _docstring_lines(ast.parse(source)))


def _docstring_lines(tree: ast.Module) -> set[int]:
    lines: set[int] = set()
    for node in ast.walk(tree):
        if not isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) or not node.body:
            continue
        first = node.body[0]
        if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant) and isinstance(first.value.value, str):
            lines.update(range(first.lineno, (first.end_lineno or first.lineno) + 1))
    return lines


def module_sizes(root: Path = ROOT) -> dict[str, int]:
    sizes = {}
    for path in (root / APP).rglob("*.py"):
        *packages, name = path.relative_to(root).with_suffix("").parts
        sizes[".".join(packages if name == "__init__" else [*packages, name])] = lines_of_code(path.read_text())
    return sizes


@cache
def imports() -> grimp.ImportGraph:
    return grimp.build_graph(APP, exclude_type_checking_imports=True, cache_dir=None)


def import_closure(room: str, modules: Mapping[str, int]) -> set[str]:
    graph = imports()
    inside = {module for module in modules if module == room or module.startswith(f"{room}.")}
    return inside.union(*(graph.find_upstream_modules(module) for module in inside))


def measured(sizes: Mapping[str, int], budgets: Mapping[str, Any]) -> dict[str, int]:
    rooms: Counter[str] = Counter()
    for module, size in sizes.items():
        rooms[(f"{module}.").split(".")[1] or "apps"] += size
    rooms["demo"] = sum(lines_of_code(path.read_text()) for path in (ROOT / DEMO).rglob("*.py"))
    closure = import_closure(f"{APP}.engine", sizes)
    return {f"rooms.{room}": size for room, size in sorted(rooms.items()) if room not in UNCOUNTED} | {
        "core.lines": sum(rooms[room] for room in budgets["core"]["rooms"]),
        "call.modules": len(closure),
        "call.lines": sum(sizes[module] for module in closure),
    }


def excess(figures: Mapping[str, int], budgets: Mapping[str, Any]) -> list[str]:
    """One sentence for each figure above its budget, and for each room without one."""
    sentences = []
    for name, size in figures.items():
        group, _, key = name.partition(".")
        allowed = budgets[group].get(key)
        if allowed is None:
            sentences.append(f"{name} has no budget; add it to [tool.toolhub.budgets] in pyproject.toml")
        elif size > allowed:
            sentences.append(
                f"{name} is {size}, its budget is {allowed}; shorten it, or raise it with a reason in the commit"
            )
    return sentences


def main() -> int:
    budgets = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["toolhub"]["budgets"]
    figures = measured(module_sizes(), budgets)
    if "--show" in sys.argv:
        for name, size in figures.items():
            print(f"{name:18} {size:6}")
    sentences = excess(figures, budgets)
    for sentence in sentences:
        print(f"budgets: {sentence}", file=sys.stderr)
    return 1 if sentences else 0


if __name__ == "__main__":
    sys.exit(main())
