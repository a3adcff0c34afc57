"""Fills a hub in a directory of its own, serves it, and throws it away at the end.

python -m toolhub.demo [--port N] [--fill-only]
"""

from __future__ import annotations

import argparse
import secrets
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Final

from toolhub.demo.upstreams import furnish
from tests.packs.n8n.fake import N8n
from tests.support.processes import Home, Server, free_port
from tests.support.redmine import FakeRedmine

TOOLS: Final = Path(__file__).with_name("tools")
WIDTH: Final = 66


def main() -> int:
    parser = argparse.ArgumentParser(prog="make demo", description=__doc__)
    parser.add_argument("--port", type=int, default=0, help="where to serve; a free one if nothing else is said")
    parser.add_argument("--fill-only", action="store_true", help="say what there would be, and end")
    given = parser.parse_args()
    # Ended from outside it throws its directory away all the same.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with tempfile.TemporaryDirectory(prefix="toolhub-demo-") as directory, N8n() as n8n, FakeRedmine() as redmine:
        furnish(n8n, redmine)
        password = secrets.token_urlsafe(9)
        home = Home(Path(directory), {"TOOLHUB_TOOLS_DIR": str(TOOLS)})
        begun = time.monotonic()
        print("Filling a hub with two weeks …", flush=True)
        print(fill(home, n8n.url, redmine.url, password), flush=True)
        if given.fill_only:
            return 0
        return _serve(home, given.port or free_port(), password, begun)


def fill(home: Home, n8n: str, redmine: str, password: str) -> str:
    """In a process of its own, as settings are read once."""
    command = [sys.executable, "-m", "toolhub.demo.filling", n8n, redmine]
    filled = subprocess.run(command, env=home.environment, input=password, capture_output=True, text=True, check=False)
    if filled.returncode:
        raise SystemExit(filled.stderr)
    return filled.stdout.strip()


def _serve(home: Home, port: int, password: str, begun: float) -> int:
    server = Server(home.start("serve", "--port", str(port), LOG_LEVEL="error"), port)
    try:
        server.wait()
        print(f"\n  http://localhost:{port}/admin/   admin / {password}", flush=True)
        print(
            f"\nReady after {time.monotonic() - begun:.0f} s. Ctrl-C stops it and throws everything away.", flush=True
        )
        return server.process.wait()
    except KeyboardInterrupt:
        return 0
    finally:
        server.end()


if __name__ == "__main__":
    sys.exit(main())
