"""The form of a commit message, checked by the `commit-msg` hook of .pre-commit-config.yaml.

Uses the standard library only, as the hook runs before anything else of the project does.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

MAX_SUBJECT = 72
EXAMPLE = "engine: retry connection resets raised by tools"

_GENERATED = re.compile(r'Merge |Revert "|Reapply "|(?:fixup|squash|amend)! ')
_SUBJECT = re.compile(r"[a-z0-9][\w./,+-]*(?: [\w./+-]+)?: \S.*")
# Words that begin a description of the past or of a state; the imperative is "add", not "added" or "adds".
_NOT_IMPERATIVE = re.compile(
    r"(?:add|chang|fix|remov|mov|renam|updat|improv|allow|mak|us|replac|refactor|document|implement|support)(?:ed|es|s|ing)\b",
    re.IGNORECASE,
)
_SCISSORS = "# ------------------------ >8 ------------------------"


def problems(message: str) -> list[str]:
    """What is wrong with a commit message; empty when nothing is."""
    text = message.partition(_SCISSORS)[0]
    lines = [line.rstrip() for line in text.splitlines() if not line.startswith("#")]
    while lines and not lines[0]:
        del lines[0]
    if not lines:
        return ["the message is empty"]
    subject = lines[0]
    if _GENERATED.match(subject):
        return []
    found = []
    if len(subject) > MAX_SUBJECT:
        found.append(f"the subject has {len(subject)} characters; at most {MAX_SUBJECT} are allowed")
    if not _SUBJECT.fullmatch(subject):
        found.append(f"the subject must begin with the area and a colon, as in: {EXAMPLE}")
    elif _NOT_IMPERATIVE.match(subject.partition(": ")[2]):
        found.append(f"the subject must be in the imperative, as in: {EXAMPLE}")
    if subject.endswith("."):
        found.append("the subject must not end with a full stop")
    if len(lines) > 1 and lines[1]:
        found.append("a blank line must separate subject and body")
    return found


def main(path: Path) -> int:
    found = problems(path.read_text(errors="replace"))
    for problem in found:
        print(f"commit message: {problem}")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
