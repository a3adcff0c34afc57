"""The app in a Django project that is not ours; docs/embedding.md says what the project did for it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.processes import CHECKOUT

pytestmark = pytest.mark.e2e


def test_works_in_a_project_with_its_own_users_transactions_and_admin(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.embedding.walk"],
        env={
            "PATH": os.environ["PATH"],
            "SHOP_DATABASE": str(tmp_path / "shop.sqlite3"),
            "DJANGO_SETTINGS_MODULE": "tests.embedding.settings",
        },
        cwd=CHECKOUT,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines()[-1] == "all of it worked"
