"""`toolhub settings` shows each value in force and its origin, and no secret."""

from __future__ import annotations

import json
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command

from tests.support.processes import Home
from tools_app.base.setting_table import SETTINGS

CURRENT = {name for name, setting in SETTINGS.items() if not setting.deprecated}
SECRET = "0123456789abcdef" * 4


@pytest.fixture(scope="module")
def ready(tmp_path_factory: pytest.TempPathFactory) -> Home:
    home = Home(tmp_path_factory.mktemp("ready") / "home")
    assert home.run("synctools").returncode == 0
    return home


def shown(home: Home, **variables: str) -> dict[str, dict[str, str]]:
    done = home.run("settings", "--json", **variables)
    assert done.returncode == 0, done.stderr
    items = json.loads(done.stdout)
    assert len({item["name"] for item in items}) == len(items)
    return {item["name"]: item for item in items}


def test_each_value_has_its_origin(ready: Home, tmp_path: Path) -> None:
    env_file, zone = tmp_path / "hub.env", tmp_path / "zone"
    env_file.write_text("PORT=4000\nTOOLHUB_BACKUP_KEEP=2\nN8N_READ_ONLY=true\n")
    zone.write_text("Asia/Tokyo\n")
    items = shown(
        ready,
        TOOLHUB_ENV_FILE=str(env_file),
        TOOLHUB_BACKUP_KEEP="1",
        TOOLHUB_TIME_ZONE_FILE=str(zone),
        CORS_ENABLED="true",
        CORS_ORIGIN="https://a.example,https://b.example",
        HOST=" ",
    )
    values = {name: (item["value"], item["origin"], item["variable"]) for name, item in items.items()}
    assert values["PORT"] == ("4000", ".env file", "PORT")
    assert values["TOOLHUB_BACKUP_KEEP"] == ("1", "environment", "TOOLHUB_BACKUP_KEEP")
    assert values["TOOLHUB_TIME_ZONE"] == ("Asia/Tokyo", "file", "TOOLHUB_TIME_ZONE_FILE")
    assert values["HOST"] == ("127.0.0.1", "default", "")
    assert values["N8N_READ_ONLY"] == ("true", ".env file", "N8N_READ_ONLY")
    assert values["TOOLHUB_HOME"][:2] == (str(ready.path), "environment")
    assert items["PORT"]["default"] == "3000"
    assert items["PORT"]["help"] == "port of `toolhub serve` (1–65535)"


def test_all_settings_and_variables_of_packs_are_shown_without_secrets(ready: Home) -> None:
    variables = {
        "SECRET_KEY": f"{SECRET}1",
        "SECRET_KEY_FALLBACKS": f"{SECRET}2",
        "TOOLHUB_ENCRYPTION_KEY": f"{SECRET}3",
        "TOOLHUB_ADMIN_PASSWORD": f"{SECRET}4",
        "N8N_API_KEY": f"{SECRET}5",
        "N8N_URL": f"https://me:{SECRET}@n8n.test",
    }
    items = shown(ready, **variables)
    assert items.keys() >= CURRENT | {"N8N_URL", "N8N_TIMEOUT_MS", "REDMINE_USER_ADMINISTRATION"}
    assert SECRET not in json.dumps(items)
    assert {name: items[name]["value"] for name in variables} == dict.fromkeys(variables, "***") | {
        "N8N_URL": "(invalid)"
    }
    assert items["DATABASE_URL"]["value"].startswith("sqlite:///")


def test_only_what_is_asked_for_is_printed(ready: Home) -> None:
    done = ready.run("settings", "port of", PORT="4000")
    assert done.stdout == "where it listens\n  PORT  4000   (environment; default: 3000)\n"
    done = ready.run("settings", "--changed", TOOLHUB_BACKUP_KEEP="1")
    assert "  TOOLHUB_BACKUP_KEEP " in done.stdout
    assert "TOOLHUB_THREADS" not in done.stdout


def test_a_deprecated_setting_has_its_effect_and_a_warning(ready: Home) -> None:
    assert "RATE_SECONDS" not in ready.run("settings").stdout
    done = ready.run("settings", "RATE_SECONDS", TOOLHUB_RATE_SECONDS="30")
    assert done.stdout == "rate limits\n  TOOLHUB_RATE_SECONDS  30   (environment; default: 60)\n"
    replacement = "TOOLHUB_RATE_CALLS will count by the minute"
    warning = f"toolhub: TOOLHUB_RATE_SECONDS is deprecated, and not read by the next release: {replacement}\n"
    assert done.stderr == warning
    assert warning in ready.run("calltool", "echo", '{"message": "a"}', TOOLHUB_RATE_SECONDS="30").stderr


def test_a_setting_that_follows_its_replacement_is_no_deprecated_one_that_is_set(ready: Home) -> None:
    own = {
        "CORS_ENABLED": "true",
        "CORS_ORIGIN": "https://a.example",
        "TOOLHUB_PUBLIC_URL": "https://hub.example.org/hub",
    }
    done = ready.run("settings", "origin", **own)
    assert "CORS_ORIGIN " in done.stdout
    assert not {"TOOLHUB_CORS_ORIGINS ", "CSRF_TRUSTED_ORIGINS "} & set(done.stdout.split("  "))
    assert done.stderr == ""


def test_there_are_at_most_eighty_four() -> None:
    assert len(CURRENT) <= 84, "Which setting can be derived, or would no operator change? (decision 71)"


def test_a_hub_without_a_database_has_settings(tmp_path: Path) -> None:
    items = shown(Home(tmp_path / "home"))
    assert items.keys() == CURRENT


@pytest.mark.django_db
def test_another_project_has_only_settings_of_the_app(settings: Any) -> None:
    settings.TOOLHUB_GIVEN = None
    settings.TOOLHUB_BACKUP_KEEP = 3
    del settings.TOOLHUB_THREADS
    out = StringIO()
    call_command("settings", "--json", stdout=out)
    items = {item["name"]: item for item in json.loads(out.getvalue())}
    assert items.keys() >= {name for name in CURRENT if not SETTINGS[name].of_site}
    assert not items.keys() & {name for name, setting in SETTINGS.items() if setting.of_site}
    assert (items["TOOLHUB_BACKUP_KEEP"]["value"], items["TOOLHUB_BACKUP_KEEP"]["origin"]) == ("3", "program")
    assert (items["TOOLHUB_THREADS"]["value"], items["TOOLHUB_THREADS"]["origin"]) == ("16", "default")
