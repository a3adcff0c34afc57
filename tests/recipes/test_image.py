"""The image of the Containerfile, built without a daemon on a Debian of its own, and started: `make test-image`."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.recipes.proxies import missing
from tests.support.processes import CHECKOUT, free_port, key_in
from tests.support.tools import eventually

pytestmark = pytest.mark.image
BASE = "localhost/toolhub-test-base"
IMAGE = "localhost/toolhub-test"
# How this machine reaches package indexes: its authorities, and what its pip is told.
MACHINE = [Path("/etc/ssl/certs"), Path("/etc/pip.conf"), *map(Path, os.environ.get("PIP_FIND_LINKS", "").split())]


def buildah(*arguments: str, check: bool = True) -> str:
    done = subprocess.run(
        ["buildah", *arguments], capture_output=True, text=True, check=False, env=_environment(), cwd=CHECKOUT
    )
    assert not check or done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def _environment() -> dict[str, str]:
    return {**os.environ, "STORAGE_DRIVER": "vfs", "BUILDAH_ISOLATION": "chroot"}


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    if os.getuid() != 0:
        pytest.skip("only root can make a Debian")
    if reason := missing("buildah", "debootstrap"):
        pytest.skip(reason)
    system = tmp_path_factory.mktemp("debian") / "root"
    packages = "--include=python3,python3-venv,ca-certificates"
    subprocess.run(["debootstrap", "--variant=minbase", packages, "bookworm", str(system)], check=True)
    base = buildah("from", "scratch").strip()
    buildah("copy", base, str(system), "/")
    buildah("commit", "--format", "docker", "--rm", base, BASE)
    subprocess.run([sys.executable, "scripts/release.py"], cwd=CHECKOUT, check=True)
    mounted = [f"--volume={path}:{path}:ro" for path in MACHINE if path.exists()]
    build = ["scripts/image.sh", "--isolation", "chroot", "--build-arg", f"BASE={BASE}", *mounted]
    subprocess.run(build, cwd=CHECKOUT, check=True, env=_environment() | {"ENGINE": "buildah", "IMAGE": IMAGE})
    yield IMAGE
    buildah("rmi", "--force", IMAGE, BASE)


@pytest.fixture
def container(image: str) -> Iterator[str]:
    name = buildah("from", image).strip()
    yield name
    buildah("rm", name)


def test_the_image_runs_as_a_number_with_one_volume_and_a_health_check(image: str) -> None:
    described = json.loads(buildah("inspect", "--type", "image", image))["Docker"]["config"]
    assert (described["User"], described["Entrypoint"], described["Cmd"]) == ("10001:0", ["toolhub"], ["serve"])
    assert list(described["Volumes"]) == ["/var/lib/toolhub"]
    assert described["Healthcheck"]["Test"][0] == "CMD"


def test_a_hub_starts_answers_and_ends_in_a_container(image: str, container: str) -> None:
    port = free_port()
    run = ["buildah", "run", "--env", f"PORT={port}", container, "--"]
    server = subprocess.Popen([*run, "toolhub", "serve"], env=_environment(), stderr=subprocess.PIPE, text=True)
    try:
        url = f"http://localhost:{port}"

        def is_ready() -> bool:
            assert server.poll() is None
            try:
                return httpx.get(f"{url}/health", trust_env=False).status_code == 200
            except httpx.TransportError:
                return False

        assert eventually(is_ready, seconds=120)
        check = json.loads(buildah("inspect", "--type", "image", image))["Docker"]["config"]["Healthcheck"]["Test"]
        buildah("run", "--env", f"PORT={port}", container, "--", *check[1:])
        key = key_in(buildah("run", container, "--", "toolhub", "addkey", "agent"))
        body = {"operation": "add", "a": 2, "b": 3}
        called = httpx.post(f"{url}/v1/tools/calculate/call", json=body, headers={"X-API-Key": key}, trust_env=False)
        assert (called.status_code, called.json()["result"]) == (200, {"result": 5})
        owner = buildah(
            "run", container, "--", "sh", "-c", "id -u; find / -xdev -writable -type f -not -path '/proc/*'"
        )
        uid, *writable = owner.split()
        assert uid == "10001"
        assert {Path(path).parts[:4] for path in writable} == {("/", "var", "lib", "toolhub")}
    finally:
        _end(server)
    assert server.returncode == 0


def _end(server: subprocess.Popen[str]) -> None:
    """Send SIGTERM to the hub itself, as an engine does; `buildah run` has it as its grandchild."""
    children = [server.pid]
    for pid in children:
        children += map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split())
    os.kill(children[-1], signal.SIGTERM)
    try:
        server.wait(60)
    except subprocess.TimeoutExpired:
        server.kill()
        server.wait()
