"""The app in a Django project that is not ours; docs/embedding.md says what the project did for it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support.processes import CHECKOUT

pytestmark = pytest.mark.e2e


@pytest.fixture
def shop(tmp_path: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Runs a command in the project."""

    def run(*arguments: str, **extra: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", *arguments],
            env={
                "PATH": os.environ["PATH"],
                "SHOP_DATABASE": str(tmp_path / "shop.sqlite3"),
                "DJANGO_SETTINGS_MODULE": "tests.embedding.settings",
                **extra,
            },
            cwd=CHECKOUT,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )

    return run


def test_works_in_a_project_with_its_own_users_transactions_and_admin(shop: Any) -> None:
    done = shop("tests.embedding.walk")
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines()[-1] == "all of it worked"


SET_UP = """
import django
from django.core.management import call_command
django.setup()
call_command("migrate", run_syncdb=True, verbosity=0)
call_command("synctools", verbosity=0)
"""


def test_the_documented_code_works_as_shown(shop: Any, tmp_path: Path) -> None:
    page = (CHECKOUT / "docs" / "embedding.md").read_text()
    code = "".join(re.findall(r"^```python\n(.*?)^```$", page, re.DOTALL | re.MULTILINE))
    (tmp_path / "documented.py").write_text(SET_UP + code)
    done = shop("documented", PYTHONPATH=f"{tmp_path}{os.pathsep}{CHECKOUT}")
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("without", "hint"),
    [
        ("", ""),
        ("unfold", 'Put "unfold" before "django.contrib.admin" in INSTALLED_APPS.'),
        ("templates", 'Add Path(toolhub.__file__).parent / "templates" to DIRS in TEMPLATES.'),
    ],
)
def test_a_step_that_was_left_out_is_named(shop: Any, without: str, hint: str) -> None:
    done = shop("django", "check", SHOP_WITHOUT=without)
    assert (done.returncode == 0) is (not hint), done.stderr
    assert hint in done.stderr


def test_what_only_the_hub_s_own_site_has_says_so(shop: Any) -> None:
    done = shop("django", "serve")
    assert done.returncode == 1
    assert done.stderr == "serve: starts ToolHub's own site, not this project; use your own, see docs/embedding.md\n"
