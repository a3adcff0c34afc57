"""Fill a hub with two weeks of invented calls in a temporary directory, serve it, and delete it at the end."""

from __future__ import annotations

import argparse
import os
import secrets
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from toolhub.demo import upstreams

TOOLS: Final = Path(__file__).with_name("tools")
CHECKOUT: Final = Path(__file__).resolve().parents[2]
INHERITED: Final = ("PATH", "HOME", "LANG", "TMPDIR")
START_SECONDS: Final = 60


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="toolhub demo", description=__doc__)
    parser.add_argument("--port", type=int, default=0, help="port to serve on (default: a free one)")
    parser.add_argument("--fill-only", action="store_true", help="print what the hub would hold, and exit")
    options = parser.parse_args(arguments)
    # SIGTERM deletes the directory as well.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with tempfile.TemporaryDirectory(prefix="toolhub-demo-") as directory, upstreams.running() as (n8n, redmine):
        password = secrets.token_urlsafe(9)
        environment = environment_of(Path(directory))
        begin = time.monotonic()
        print("Filling a hub with two weeks …", flush=True)
        print(fill(environment, n8n, redmine, password), flush=True)
        if options.fill_only:
            return 0
        return _serve(environment, options.port or _free_port(), password, begin)


def environment_of(directory: Path) -> dict[str, str]:
    """The demo has settings of its own: nothing of the operator's environment or .env file applies."""
    return {
        **{name: os.environ[name] for name in INHERITED if name in os.environ},
        "PYTHONPATH": str(CHECKOUT),
        "TOOLHUB_HOME": str(directory),
        "TOOLHUB_ENV_FILE": os.devnull,
        "TOOLHUB_TOOLS_DIR": str(TOOLS),
    }


def fill(environment: Mapping[str, str], n8n: str, redmine: str, password: str) -> str:
    """In a process of its own, as settings are read once."""
    command = [sys.executable, "-m", "toolhub.demo.filling", n8n, redmine]
    done = subprocess.run(command, env=environment, input=password, capture_output=True, text=True, check=False)  # noqa: S603 – our own module
    if done.returncode:
        raise SystemExit(done.stderr)
    return done.stdout.strip()


def _serve(environment: Mapping[str, str], port: int, password: str, begin: float) -> int:
    command = [sys.executable, "-m", "toolhub", "serve", "--port", str(port)]
    server = subprocess.Popen(command, env={**environment, "LOG_LEVEL": "error"}, stdout=subprocess.DEVNULL)  # noqa: S603 – likewise
    try:
        _wait_until_ready(server, port)
        print(f"\n  http://localhost:{port}/admin/   admin / {password}", flush=True)
        print(f"\nReady after {time.monotonic() - begin:.0f} s. Ctrl-C stops it and deletes everything.", flush=True)
        return server.wait()
    except KeyboardInterrupt:
        return 0
    finally:
        server.terminate()
        server.wait()


def _wait_until_ready(server: subprocess.Popen[bytes], port: int) -> None:
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline and server.poll() is None:
        try:
            urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=2).close()
        except urllib.error.HTTPError:
            return
        except OSError:
            time.sleep(0.05)
        else:
            return
    raise SystemExit("the demo's server does not answer")


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


if __name__ == "__main__":
    sys.exit(main())
