"""Settings that do not fit together stop the start, and name the variable."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).resolve().parents[2]
COMPLETE = {
    "TOOLHUB_SSO_ISSUER": "https://login.example.org",
    "TOOLHUB_SSO_CLIENT_ID": "toolhub",
    "TOOLHUB_SSO_ROLES": "toolhub-admins=admin,/staff/ops=operator,CN=eyes=viewer",
}


def start(home: Path, code: str = "", **variables: str) -> subprocess.CompletedProcess[str]:
    environment = {"PATH": os.environ["PATH"], "TOOLHUB_HOME": str(home), "TOOLHUB_ENV_FILE": os.devnull, **variables}
    command = [sys.executable, "-c", code] if code else [sys.executable, "-m", "toolhub", "check"]
    return subprocess.run(
        command, env=environment, cwd=CHECKOUT, capture_output=True, text=True, timeout=60, check=False
    )


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({"TOOLHUB_SSO_CLIENT_ID": ""}, "TOOLHUB_SSO_CLIENT_ID: expected the id of this hub at TOOLHUB_SSO_ISSUER"),
        ({"TOOLHUB_SSO_ROLES": ""}, "TOOLHUB_SSO_ROLES: expected GROUP=ROLE"),
        ({"TOOLHUB_SSO_ROLES": "ops=owner"}, "TOOLHUB_SSO_ROLES: "),
        ({"TOOLHUB_SSO_ROLES": "admins"}, "TOOLHUB_SSO_ROLES: "),
        ({"TOOLHUB_SSO_ROLES": "=admin"}, "TOOLHUB_SSO_ROLES: "),
        ({"TOOLHUB_SSO_ISSUER": ""}, "TOOLHUB_SSO_ISSUER: expected the provider of the other TOOLHUB_SSO settings"),
        ({"TOOLHUB_SSO_ISSUER": "http://login.example.org"}, "TOOLHUB_SSO_ISSUER: "),
        ({"TOOLHUB_SSO_ISSUER": "https://login.example.org/" + "x" * 200}, "TOOLHUB_SSO_ISSUER: "),
        ({"TOOLHUB_PASSWORD_SIGN_IN": "no thanks"}, "TOOLHUB_PASSWORD_SIGN_IN: "),
    ],
)
def test_a_wrong_setting_is_named(tmp_path: Path, changes: dict[str, str], line: str) -> None:
    done = start(tmp_path, **{**COMPLETE, **changes})
    assert done.returncode == 2, done.stderr
    assert f"toolhub: {line}" in done.stderr


def test_passwords_cannot_be_switched_off_without_a_provider(tmp_path: Path) -> None:
    done = start(tmp_path, TOOLHUB_PASSWORD_SIGN_IN="false")
    assert done.returncode == 2
    assert "toolhub: TOOLHUB_PASSWORD_SIGN_IN: expected true, as there is no TOOLHUB_SSO_ISSUER" in done.stderr


def test_settings_that_fit_together_start_the_hub(tmp_path: Path) -> None:
    done = start(tmp_path, **COMPLETE, TOOLHUB_SSO_CLIENT_SECRET="a-secret", TOOLHUB_PASSWORD_SIGN_IN="false")
    assert done.returncode == 0, done.stderr


def test_an_agent_imports_nothing_of_it(tmp_path: Path) -> None:
    code = (
        "import os, sys; os.environ['DJANGO_SETTINGS_MODULE'] = 'toolhub.settings'\n"
        "import django; django.setup()\n"
        "import tools_app.management.commands.runmcp\n"
        "print([name for name in sys.modules if name.split('.')[0] in ('allauth', 'requests', 'oauthlib', 'axes')])\n"
        "print([name for name in sys.modules if name.startswith('toolhub.s') and 'sso' in name])\n"
    )
    done = start(tmp_path, code, **COMPLETE, TOOLHUB_PROCESS="runmcp")
    assert done.stdout.splitlines() == ["[]", "[]"], done.stderr
