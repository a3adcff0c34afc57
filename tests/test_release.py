"""What `make dist` builds: complete, with true checksums, and it runs where nothing else is installed."""

from __future__ import annotations

import hashlib
import json
import re
import subprocess
import sys
import tarfile
from datetime import UTC, datetime
from pathlib import Path

import httpx
import pytest

from scripts.release import ROOT, bill_of_materials
from tests.support.agents import Agent
from tests.support.processes import Home, key_in

LOCK = """\
# written by a program
first==1.0 \\
    --hash=sha256:{a} \\
    --hash=sha256:{b}
    # via
    #   hub (pyproject.toml)
    #   second_one
second_one==2.1 ; sys_platform == 'linux' \\
    --hash=sha256:{c}
    # via hub (pyproject.toml)
""".format(a="a" * 64, b="b" * 64, c="c" * 64)


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dist")
    command = [sys.executable, str(ROOT / "scripts" / "release.py"), str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return folder


def test_the_list_of_components_has_versions_hashes_and_what_requires_what() -> None:
    sbom = bill_of_materials(LOCK, "hub", "3.0", datetime(2026, 1, 1, tzinfo=UTC))
    first, second = sbom["components"]
    assert (first["name"], first["version"], first["purl"]) == ("first", "1.0", "pkg:pypi/first@1.0")
    hashes = [reference["hashes"][0]["content"] for reference in first["externalReferences"]]
    assert hashes == ["a" * 64, "b" * 64]
    assert second["purl"] == "pkg:pypi/second-one@2.1"
    assert second["properties"] == [{"name": "python:marker", "value": "sys_platform == 'linux'"}]
    requires = {one["ref"]: one["dependsOn"] for one in sbom["dependencies"]}
    assert requires == {
        "hub": ["pkg:pypi/first@1.0", "pkg:pypi/second-one@2.1"],
        "pkg:pypi/first@1.0": [],
        "pkg:pypi/second-one@2.1": ["pkg:pypi/first@1.0"],
    }


def test_the_release_is_complete_and_its_checksums_are_true(release: Path) -> None:
    lines = (release / "SHA256SUMS").read_text().splitlines()
    named = {name: digest for digest, name in (line.split("  ") for line in lines)}
    assert {path.name for path in release.iterdir()} == {*named, "SHA256SUMS"}
    assert sorted(re.sub(r".*-\d[\d.]*", "", name) for name in named) == ["-py3-none-any.whl", "cdx.json", "tar.gz"]
    for name, digest in named.items():
        assert hashlib.sha256((release / name).read_bytes()).hexdigest() == digest
    (path,) = release.glob("*.cdx.json")
    sbom = json.loads(path.read_text())
    locked = re.findall(r"(?m)^([\w.-]+)==", (ROOT / "requirements.lock").read_text())
    assert [one["name"] for one in sbom["components"]] == locked
    assert all(one["externalReferences"] for one in sbom["components"])
    known = {one["bom-ref"] for one in sbom["components"]}
    assert {one for row in sbom["dependencies"] for one in row["dependsOn"]} <= known
    (archive,) = release.glob("*.tar.gz")
    with tarfile.open(archive) as source:
        names = {name.partition("/")[2] for name in source.getnames()}
    assert {"pyproject.toml", "Makefile", "requirements.lock", "templates/admin/base.html", "manage.py"} <= names
    assert not [name for name in names if name.startswith(("var/", ".env/", "dist/")) or name.endswith(".sqlite3")]


@pytest.fixture
def python(release: Path, tmp_path: Path) -> str:
    """A Python with the wheel and what it requires, in the versions of the lock, and nothing else."""
    environment = tmp_path / "environment"
    subprocess.run([sys.executable, "-m", "venv", str(environment)], check=True)
    python = str(environment / "bin" / "python")
    locked = re.findall(r"(?m)^[\w.-]+==[^\s;]+", re.sub(r"\[.*?\]", "", (ROOT / "requirements.lock").read_text()))
    (tmp_path / "constraints").write_text("\n".join(locked))
    (wheel,) = release.glob("*.whl")

    def pip(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [python, "-m", "pip", *arguments, "--quiet", "--no-input"]
        return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)

    done = pip("install", "--no-compile", "--constraint", "constraints", str(wheel))
    if done.returncode and pip("download", "--no-deps", "--dest", "found", locked[0]).returncode:
        pytest.skip(f"no package index has {locked[0]}")
    assert done.returncode == 0, done.stdout + done.stderr
    return python


@pytest.mark.e2e
def test_the_wheel_serves_in_an_environment_that_was_empty(python: str, tmp_path: Path) -> None:
    home = Home(tmp_path / "home", {"PYTHONPATH": ""}, python, patience=120)
    program = Path(python).with_name("toolhub")
    assert home.python("import toolhub; print(toolhub.__file__)").stdout.startswith(str(tmp_path / "environment"))
    with home.serving() as server, httpx.Client(base_url=server.url, trust_env=False, timeout=30) as client:
        assert client.get("/health").raise_for_status().json()["status"] == "healthy"
        page = client.get("/admin/login/").raise_for_status().text
        assert 'name="password"' in page
        static = set(re.findall(r'"(/static/[^"]+)"', page))
        assert {Path(path).suffix for path in static} >= {".css", ".js"}
        for path in static:
            assert client.get(path).raise_for_status().content, path
        body = {"name": "echo", "parameters": {"message": "hi"}}
        key = key_in(home.run("addkey", "agent").stdout)
        called = client.post("/v1/tools/call", json=body, headers={"X-API-Key": key}).raise_for_status()
        assert called.json()["result"]
    with Agent(home) as agent:
        agent.connect()
        assert not agent.call("echo", message="hi").get("isError")
    doctor = subprocess.run(
        [program, "doctor"], env=home.environment, cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert "Traceback" not in doctor.stderr
    assert doctor.returncode == 0, doctor.stdout
