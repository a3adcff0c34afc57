"""Settings reach the app through one accessor, with defaults for projects that set nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import toolhub.settings
from tools_app.base import conf
from tools_app.base.setting_table import DEFAULTS


def test_a_setting_of_the_project_wins_over_the_default(settings: Any) -> None:
    settings.TOOLHUB_TIMEOUT_MS = 5
    assert conf.value("TOOLHUB_TIMEOUT_MS") == 5
    del settings.TOOLHUB_TIMEOUT_MS
    assert conf.value("TOOLHUB_TIMEOUT_MS") == 30_000


def test_an_unknown_setting_is_an_error() -> None:
    with pytest.raises(KeyError):
        conf.value("TOOLHUB_TIMEUOT_MS")


def test_every_default_is_a_setting_of_the_hub() -> None:
    assert {name for name in DEFAULTS if not hasattr(toolhub.settings, name)} == set()


def test_home_is_a_path_where_there_is_one(settings: Any) -> None:
    settings.TOOLHUB_HOME = "/srv/hub"
    assert conf.home() == Path("/srv/hub")
    settings.TOOLHUB_HOME = None
    assert conf.home() is None


def test_tells_which_of_a_packs_variables_are_missing_or_blank(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("N8N_URL", "http://n8n.test")
    monkeypatch.setenv("N8N_API_KEY", " ")
    monkeypatch.delenv("REDMINE_HOST", raising=False)
    assert conf.unset(["N8N_URL", "N8N_API_KEY", "REDMINE_HOST"]) == ["N8N_API_KEY", "REDMINE_HOST"]
