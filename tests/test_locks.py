"""The lock files fit each other and pyproject.toml, and carry nothing of the machine that wrote them."""

import re
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
RUN, DEV, BROWSER = ((ROOT / f"requirements{part}.lock").read_text() for part in ("", "-dev", "-browser"))


def pinned(lock: str) -> dict[str, str]:
    return dict(re.findall(r"^([\w.-]+)==([\w.]+)", lock, re.MULTILINE))


def test_each_lock_holds_everything_of_the_one_before_it():
    assert pinned(RUN).items() <= pinned(DEV).items() <= pinned(BROWSER).items()


@pytest.mark.parametrize(
    ("lock", "declared"),
    [
        (RUN, PROJECT["project"]["dependencies"]),
        (DEV, PROJECT["project"]["optional-dependencies"]["postgres"]),
        (DEV, PROJECT["dependency-groups"]["dev"]),
        (BROWSER, PROJECT["dependency-groups"]["browser"]),
    ],
    ids=["runtime", "postgres", "dev", "browser"],
)
def test_every_declared_dependency_is_pinned_within_its_range(lock, declared):
    versions = pinned(lock)
    for requirement in map(Requirement, declared):
        assert requirement.name in versions, f"{requirement} is not locked; run `make lock`"
        assert versions[requirement.name] in requirement.specifier, f"{requirement}: run `make lock`"


@pytest.mark.parametrize("lock", [RUN, DEV, BROWSER], ids=["runtime", "dev", "browser"])
def test_a_lock_names_no_address_and_every_pin_has_a_hash(lock):
    assert not re.search(r"://|^-|file:", lock, re.MULTILINE)
    pins = re.split(r"^(?=[\w.-]+==)", lock, flags=re.MULTILINE)[1:]
    assert all("--hash=sha256:" in pin for pin in pins)
