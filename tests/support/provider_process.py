"""An OpenID Connect provider that others wrote (oidc-provider-mock), as a process of its own on loopback."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx

from tests.support.processes import free_port


@contextmanager
def running(*people: dict[str, Any]) -> Iterator[str]:
    """The address of the provider. `people`: claims of those who can sign in there with one click."""
    port = free_port()
    claims = [part for person in people for part in ("--user-claims", json.dumps(person))]
    command = [sys.executable, "-m", "oidc_provider_mock", "--port", str(port), *claims]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        url = f"http://127.0.0.1:{port}"
        deadline = time.monotonic() + 30
        while not _answers(url):
            assert process.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.1)
        yield url
    finally:
        process.terminate()
        process.wait(timeout=10)


def _answers(url: str) -> bool:
    try:
        return httpx.get(f"{url}/.well-known/openid-configuration", trust_env=False).is_success
    except httpx.HTTPError:
        return False
