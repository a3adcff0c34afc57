"""Runs the suite for both eras against `toolhub serve`, and ends well when every scenario that counts passes.

`make setup-node` fetches the suite.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.support.processes import CHECKOUT, Home, key_in

HERE = Path(__file__).parent
MODULES = CHECKOUT / "node_modules"
NODE = MODULES / "node" / "bin" / "node"
SUITE = MODULES / "@modelcontextprotocol" / "conformance" / "dist" / "index.js"
REVISIONS = ("2026-07-28", "2025-11-25")


def main() -> int:
    if not NODE.exists() or not SUITE.exists():
        print("The suite is not here; run `make setup-node` first.", file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory() as folder:
        home = Home(Path(folder) / "home", {"TOOLHUB_TOOLS_DIR": str(HERE / "tools"), "LOG_LEVEL": "fatal"})
        home.run("synctools")
        home.extra["CONFORMANCE_KEY"] = key_in(home.run("addkey", "conformance").stdout)
        settings = {"DJANGO_SETTINGS_MODULE": "tests.conformance.settings", "TOOLHUB_KEY_RATE_CALLS": "0"}
        with home.serving(**settings) as server:
            ended = [_judged(f"{server.url}/mcp", revision, Path(folder)) for revision in REVISIONS]
    return max(ended)


def _judged(url: str, revision: str, folder: Path) -> int:
    print(f"==> MCP {revision}", flush=True)
    command = [str(NODE), str(SUITE), "server", "--url", url, "--requirements", revision]
    done = subprocess.run(
        [*command, "-o", str(folder / revision)],
        cwd=folder,
        env={"PATH": os.environ["PATH"], "HOME": str(folder)},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    _, _, summary = done.stdout.partition("=== SUMMARY ===")
    print((summary if summary else done.stdout + done.stderr).strip(), flush=True)
    return done.returncode


if __name__ == "__main__":
    sys.exit(main())
