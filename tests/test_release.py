"""What `make dist` builds: complete, with true checksums, and it runs where nothing else is installed."""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
import sys
import sysconfig
import tarfile
from datetime import UTC, datetime
from pathlib import Path

import pytest

from scripts.release import ROOT, bill_of_materials
from tests.support.processes import Home, Server, free_port

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


@pytest.mark.e2e
def test_the_wheel_serves_in_an_environment_of_its_own(release: Path, tmp_path: Path) -> None:
    """Its dependencies are those of the tests: nothing is fetched, and pip checks that they are what it requires."""
    environment = tmp_path / "environment"
    subprocess.run([sys.executable, "-m", "venv", str(environment)], check=True)
    python = environment / "bin" / "python"
    place = subprocess.run(
        [python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    (Path(place.stdout.strip()) / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    (wheel,) = release.glob("*.whl")
    install = [
        str(python),
        "-m",
        "pip",
        "install",
        "--no-index",
        "--no-input",
        "--disable-pip-version-check",
        str(wheel),
    ]
    done = subprocess.run(install, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    port = free_port()
    home = Home(tmp_path / "home")
    kept = {name: value for name, value in home.environment.items() if name != "PYTHONPATH"}
    process = subprocess.Popen(
        [environment / "bin" / "toolhub", "serve", "--port", str(port)],
        env={**kept, "PATH": os.environ["PATH"]}, cwd=tmp_path, text=True,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    server = Server(process, port)
    try:
        server.wait()
    finally:
        assert server.end() == 0
    assert "is ready" in "".join(server.output)
    where = subprocess.run(
        [python, "-c", "import toolhub; print(toolhub.__file__)"],
        capture_output=True,
        text=True,
        check=True,
        cwd=tmp_path,
    )
    assert where.stdout.startswith(str(environment))
