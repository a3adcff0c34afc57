"""A real Redmine: `make test-real-redmine` installs, seeds and starts one, and says in TOOLHUB_TEST_REDMINE where its
address and its keys stand. Without that, nothing here is collected.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.packs.redmine.office import Office

FILE = os.environ.get("TOOLHUB_TEST_REDMINE", "")
collect_ignore_glob = [] if FILE else ["test_*.py"]


@pytest.fixture(scope="session")
def office() -> Office:
    lines = Path(FILE).read_text(encoding="utf-8").splitlines()
    known = dict(line.split("=", 1) for line in lines if "=" in line)
    keys = {login: known[f"REDMINE_{login.upper()}_KEY"] for login in ("admin", "manager", "dev", "limited", "locked")}
    return Office(known["REDMINE_URL"], keys)
