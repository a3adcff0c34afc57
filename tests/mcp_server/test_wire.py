"""stdin and stdout belong to the protocol from the first statement on."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.support.processes import CHECKOUT
from tools_app.mcp_server import wire


def run(code: str, *, stdin: str = "", before: str = "") -> subprocess.CompletedProcess[str]:
    script = f"import os, sys\nfrom tools_app.mcp_server import wire\n{code}"
    return subprocess.run(
        ["/bin/sh", "-c", f'exec "$0" -S -c "$1" {before}', sys.executable, script],
        cwd=CHECKOUT,
        input=stdin,
        capture_output=True,
        text=True,
        timeout=20,
        check=True,
    )


def test_claiming_imports_nothing_that_costs() -> None:
    done = run("print(sorted(set(sys.modules) & {'django', 'mcp', 'asyncio', 'json', 're', 'typing'}))")
    assert done.stdout == "[]\n"


def test_only_who_claimed_can_write_to_stdout_and_read_from_stdin() -> None:
    done = run(
        """
print("before")
wire.claim(); wire.claim()
readable, writable = wire.descriptors()
print("printed"); os.write(1, b"written\\n"); os.system("echo from a child")
assert sys.stdin.read() == ""
os.write(writable, os.read(readable, 100))
assert readable > 2 and writable > 2
""",
        stdin="a line",
    )
    assert done.stdout == "before\na line"
    assert done.stderr == "printed\nwritten\nfrom a child\n"


@pytest.mark.parametrize(("closed", "found"), [("<&-", "out"), ("<&- >&-", ""), (">&-", ""), ("2>&-", "out")])
def test_descriptors_that_are_closed_do_no_harm(closed: str, found: str) -> None:
    done = run(
        """
wire.claim()
readable, writable = wire.descriptors()
print("printed"); os.write(1, b"")
assert min(readable, writable) > 2
assert os.read(readable, 10) == b""
os.write(writable, b"out")
""",
        before=closed,
    )
    assert done.stdout == found


def test_an_unclaimed_wire_names_the_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wire, "_descriptors", None)
    with pytest.raises(RuntimeError, match=r"call wire\.claim\(\)"):
        wire.descriptors()
