"""The hook refuses subjects that break a rule of CONTRIBUTING.md, and lets pass what git writes by itself."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from scripts import commit_message
from scripts.commit_message import problems

ROOT = Path(__file__).resolve().parent.parent
GOOD = "engine: retry connection resets raised by tools"


@pytest.mark.parametrize(
    "message",
    [
        GOOD,
        f"{GOOD}\n",
        f"{GOOD}\n\nThe upstream closes idle connections after five seconds.\n",
        f"\n{GOOD}\n\n# Please enter the commit message for your changes.\n",
        f"{GOOD}\n# Please enter the commit message for your changes.\n",
        f"{GOOD}\n\nWhy.\n{commit_message._SCISSORS}\ndiff --git a/a b/a\nadded.\n",
        "docs/rest: describe cursors",
        "mcp_server, api: name the tool in both errors",
        "n8n pack: page executions",
        "engine: address the review",
        f"engine: {'x' * 64}",
    ],
)
def test_a_message_that_keeps_the_rules_passes(message: str) -> None:
    assert problems(message) == []


@pytest.mark.parametrize(
    "subject",
    [
        "Merge branch 'h/docs' into main, which brings the wording of docs, README and all of the commands",
        'Revert "engine: retry connection resets raised by tools, wherever it can help and does no harm"',
        'Reapply "engine: retry connection resets"',
        "fixup! engine: retry connection resets raised by tools",
    ],
)
def test_what_git_writes_by_itself_passes(subject: str) -> None:
    assert problems(subject) == []


@pytest.mark.parametrize(
    ("message", "problem"),
    [
        ("", "the message is empty"),
        ("# only a comment\n", "the message is empty"),
        (f"engine: {'x' * 65}", "the subject has 73 characters; at most 72 are allowed"),
        ("retry connection resets", f"the subject must begin with the area and a colon, as in: {GOOD}"),
        ("Engine: retry connection resets", f"the subject must begin with the area and a colon, as in: {GOOD}"),
        ("engine:retry", f"the subject must begin with the area and a colon, as in: {GOOD}"),
        ("engine: added retries", f"the subject must be in the imperative, as in: {GOOD}"),
        ("engine: Fixes retries", f"the subject must be in the imperative, as in: {GOOD}"),
        ("engine: retry resets.", "the subject must not end with a full stop"),
        (f"{GOOD}\nWhy.", "a blank line must separate subject and body"),
    ],
)
def test_each_broken_rule_is_named(message: str, problem: str) -> None:
    assert problems(message) == [problem]


def test_the_hook_runs_it_on_the_file_that_git_names(tmp_path: Path) -> None:
    config = (ROOT / ".pre-commit-config.yaml").read_text()
    (script,) = re.findall(r"entry: \S+/python (\S+)\n +language: system\n +stages: \[commit-msg\]\n", config)
    file = tmp_path / "COMMIT_EDITMSG"
    file.write_text("Some words.\n")

    refused = subprocess.run([sys.executable, script, file], cwd=ROOT, capture_output=True, text=True, check=False)
    file.write_text(GOOD)
    passed = subprocess.run([sys.executable, script, file], cwd=ROOT, capture_output=True, text=True, check=False)

    assert (refused.returncode, len(refused.stdout.splitlines())) == (1, 2)
    assert (passed.returncode, passed.stdout) == (0, "")
    assert "\ndefault_install_hook_types: [pre-commit, commit-msg]\n" in config
