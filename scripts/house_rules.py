"""The rules of this house that no other tool knows: looks at every file git knows, and says what breaks one.

Python is judged by its syntax tree, every text file line by line. A line that must break a rule says so
itself, in a comment: `house: allow`, the rule's name, a dash and the reason.
Uses the standard library only, so that it runs anywhere.
"""

from __future__ import annotations

import ast
import math
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

RULES = {
    "mark-safe": "marks text as safe that is not a literal; use format_html or a template",
    "lookup": "a lookup from data lets the data choose the columns; name the fields",
    "eval": "runs code made from data; write the code, or look it up in a table",
    "deserialize": "unpickling and yaml.load run code hidden in data; use JSON or yaml.safe_load",
    "verify": "verify=False accepts any server; trust its certificate instead",
    "redirects": "follow_redirects=True goes where the upstream sends us, past the address check",
    "shell": "shell=True gives data to a shell; pass a list of arguments",
    "print": "stdout belongs to the protocol; log, or write with self.stdout in a command",
    "bare-except": "a bare except swallows cancellation too; name the exceptions",
    "secret": "looks like a secret; read it from the settings, and revoke it if it was real",
    "path": "a path of one machine; make it relative, or take it from the settings",
    "registry": "names a package registry; which one is used is the business of the machine",
    "foreign-name": "the package `toolhub` on public indexes belongs to others; install the wheel of `make dist`",
    "todo": "unfinished work belongs in an issue, or in this commit",
    "plain-words": "not plain technical English; use the standard term (CONTRIBUTING.md, Language)",
    "syntax": "cannot be parsed as Python",
    "waiver": "a waiver names an existing rule that this line breaks, and a reason after a dash",
}


class Finding(NamedTuple):
    path: str
    line: int
    rule: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.rule}: {RULES[self.rule]}"


# ---- Python, by its syntax tree

LOOKUPS = {"filter", "exclude", "get", "annotate", "alias", "aggregate", "Q"}
DANGEROUS = {
    "eval": {"eval", "exec", "compile"},  # the builtins only: re.compile is something else
    "deserialize": {
        *(f"{module}.{name}" for module in ("pickle", "marshal") for name in ("load", "loads")),
        "pickle.Unpickler",
        *("yaml.load", "yaml.load_all", "yaml.unsafe_load", "yaml.full_load"),
    },
}
FLAGS = {"verify": (False, "verify"), "follow_redirects": (True, "redirects"), "shell": (True, "shell")}


def python_findings(path: str, text: str) -> Iterator[tuple[int, str]]:
    try:
        tree = ast.parse(text)
    except SyntaxError as error:
        yield error.lineno or 1, "syntax"
        return
    origins = imported_names(tree)
    may_print = not path.startswith("tools_app/") or path.startswith("tools_app/management/commands/")
    for node in ast.walk(tree):
        if isinstance(node, ast.ExceptHandler) and node.type is None:
            yield node.lineno, "bare-except"
        elif isinstance(node, ast.Call):
            yield from call_findings(node, dotted_name(node.func, origins), may_print=may_print)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            for decorator in node.decorator_list:
                if dotted_name(decorator, origins).endswith("mark_safe"):
                    yield decorator.lineno, "mark-safe"


def call_findings(call: ast.Call, name: str, *, may_print: bool) -> Iterator[tuple[int, str]]:
    last = name.rpartition(".")[2]
    if last in {"mark_safe", "SafeString", "SafeText"} and not all(map(is_literal, call.args)):
        yield call.lineno, "mark-safe"
    for rule, names in DANGEROUS.items():
        if name in names:
            yield call.lineno, rule
    if name == "print" and not may_print:
        yield call.lineno, "print"
    for keyword in call.keywords:
        value = keyword.value
        if keyword.arg is None:
            if last in LOOKUPS and not (isinstance(value, ast.Dict) and all(map(is_literal, value.keys))):
                yield value.lineno, "lookup"
        elif keyword.arg in FLAGS and isinstance(value, ast.Constant):
            forbidden, rule = FLAGS[keyword.arg]
            if value.value is forbidden:
                yield value.lineno, rule


def imported_names(tree: ast.Module) -> dict[str, str]:
    """The full name of each import: after `from pickle import loads as read`, `read` is `pickle.loads`."""
    origins: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            origins |= {alias.asname: alias.name for alias in node.names if alias.asname}
        elif isinstance(node, ast.ImportFrom):
            origins |= {alias.asname or alias.name: f"{node.module}.{alias.name}" for alias in node.names}
    return origins


def dotted_name(node: ast.expr, origins: dict[str, str]) -> str:
    """`a.b.c` as text; what is not a name, such as the result of a call, becomes `?`."""
    if isinstance(node, ast.Name):
        return origins.get(node.id, node.id)
    if isinstance(node, ast.Attribute):
        return f"{dotted_name(node.value, origins)}.{node.attr}"
    return "?"


def is_literal(node: ast.expr | None) -> bool:
    return isinstance(node, ast.Constant)


# ---- all text, line by line

SECRETS = [
    re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY"),
    re.compile(r"\b(?:AKIA|ASIA)[0-9A-Z]{16}\b"),
    re.compile(r"\bgh[pousr]_[A-Za-z0-9]{36}\b"),
]
OWN_KEY = re.compile(r"\bthub_([A-Za-z0-9_-]{20,})")
NAMED = r"""(?i)(?:password|passwd|secret|token|(?:api|secret|encryption)_?keys?)["']?\s*[:=]\s*"""
QUOTED = re.compile(NAMED + r"""["']([^"'\s]{12,})["']""")
BARE = re.compile(NAMED + r"""([^"'\s]{12,})""")  # in files whose values need no quotes
BARE_FILES = (".env", ".env.example", ".ini", ".yaml", ".yml")
WORDS = re.compile(r"[A-Za-z]+(?:[ ./:_-][A-Za-z]+)*|.*[{<$%].*")  # names and placeholders, no secrets
PATHS = re.compile(r"(?<![\w.~$})-])/(?:(?:home|Users)/\w|root/|workspaces?/)|\b[A-Z]:\\+Users\\")
TEMPORARY = re.compile(r"(?<![\w.~$})/-])/(?:var/)?tmp/\w")
REGISTRIES = re.compile(r"pypi\.org/(?:simple|legacy)|files\.pythonhosted\.org|registry\.(?:npmjs|yarnpkg)\.")
FOREIGN_NAME = re.compile(
    r"""\b (?: (?:pip3?|pipx|uv|poetry|pdm)\ (?:pip\ |tool\ )?(?:install|add|run|download) | uvx )\b
        (?:\ [\w.=<>~!/@:*-]+(?:\[[\w,-]+\])?)*?  # options and other packages
        \ ["']?toolhub(?![\w/-])
    """,
    re.VERBOSE,
)
UNFINISHED = re.compile(r"\b(?:T[O]DO|F[I]XME|X[X]X)\b")
UNESCAPED = re.compile(r"\{\{[^}]*\|\s*safe\b|\{%-?\s*autoescape off\b")


def has_secret(path: str, line: str) -> bool:
    if any(pattern.search(line) for pattern in SECRETS):
        return True
    if any(entropy(key) >= 3.5 for key in OWN_KEY.findall(line)):
        return True
    assigned = QUOTED.findall(line) + (BARE.findall(line) if path.endswith(BARE_FILES) else [])
    return not path.startswith("tests/") and any(not WORDS.fullmatch(value) for value in assigned)


def _is_prose(path: str) -> bool:
    return path.startswith(PLAIN) and not path.startswith(NOT_PLAIN) and not path.endswith(".json")


def entropy(text: str) -> float:
    """Bits a character: about 4 for random keys of this length, under 3 for words and repetitions."""
    return -sum(n / len(text) * math.log2(n / len(text)) for n in Counter(text).values())


# Where texts are held to plain words: files, and directories with a slash. Generated files are not.
PLAIN = ("docs/", "templates/", "toolhub/", "tools_app/", "AGENTS.md", "CONTRIBUTING.md", "README.md", "SECURITY.md")
# Keywords of packs are the words of people who search; migrations are history.
NOT_PLAIN = ("tools_app/packs/", "tools_app/migrations/")
# Only what is never right: a word that has a good use as well is left to the reviewer.
UNPLAIN = re.compile(
    r"""
      (?<![\w-])(?:stands?|stood)(?![\w-]|\ (?:for|out|up|by)\b)  # is, is stored, is shown
    | \bmend(?:s|ed|ing)?\b  # fix
    | \b(?:whoever|whomever|nobody|somebody)\b  # the caller, the user; no one in particular: passive voice
    | \bgo(?:es)?\ on\b(?!\ (?:a|an|the|stdout|stderr|record)\b)  # continue, resume
    | \bso\ many\b | \b(?:after|for|in|within)\ so\ (?:long|much)\b  # N, this number of
    | \bwants?\ a\ look\b | \bcalled\ resolved\b  # needs attention; resolved
    | \blet(?:s|ting)?\ in\b(?!-|\ (?:a|the)\b)  # allow, accept
    | \btake[ns]?\ off\b  # removed, cleared
    | \bwho\ may\ what\b | \bwhat\ (?:it|they|(?:a|the)\ \w+)\ may(?=[\s]*(?:[.,;:|)]|$))  # permissions
    """,
    re.IGNORECASE | re.VERBOSE,
)

# JSON is recorded upstream data or generated: what it says about unfinished work is not ours.
LINE_RULES: dict[str, Callable[[str, str], object]] = {
    "secret": has_secret,
    "path": lambda path, line: (
        PATHS.search(line) or (not path.startswith(("tests/", "scripts/")) and TEMPORARY.search(line))
    ),
    "registry": lambda path, line: REGISTRIES.search(line),
    "foreign-name": lambda path, line: FOREIGN_NAME.search(line),
    "todo": lambda path, line: not path.endswith(".json") and UNFINISHED.search(line),
    "mark-safe": lambda path, line: path.endswith((".html", ".txt")) and UNESCAPED.search(line),
    "plain-words": lambda path, line: _is_prose(path) and UNPLAIN.search(line),
}


# ---- both together

WAIVER = re.compile(r"house: allow ([\w-]+)(?:\s+[–—-]+\s+(\S.*))?")


def check(path: str, text: str) -> list[Finding]:
    lines = text.splitlines()
    broken = {
        (number, rule)
        for number, line in enumerate(lines, 1)
        for rule, breaks in LINE_RULES.items()
        if breaks(path, line)
    }
    if path.endswith(".py"):
        broken |= set(python_findings(path, text))
    for number, line in enumerate(lines, 1):
        for rule, reason in WAIVER.findall(line):
            if reason and (number, rule) in broken:
                broken.remove((number, rule))
            else:
                broken.add((number, "waiver"))
    return [Finding(path, number, rule) for number, rule in sorted(broken)]


def known_files(root: Path) -> list[str]:
    """Tracked files, and those that the next `git add` would take."""
    listing = ["git", "-C", str(root), "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    output = subprocess.run(listing, check=True, capture_output=True, text=True).stdout
    return sorted(set(output.split("\0")) - {""})


def main(root: Path) -> int:
    findings: list[Finding] = []
    for path in known_files(root):
        file = root / path
        if file.is_symlink() or not file.is_file():
            continue
        content = file.read_bytes()
        if b"\0" not in content:
            findings += check(path, content.decode(errors="replace"))
    print(*findings, sep="\n", end="\n" if findings else "")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main(Path(__file__).resolve().parent.parent))
