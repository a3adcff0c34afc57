"""The settings in force: for superusers only, grouped and searchable, without a secret."""

from __future__ import annotations

from typing import Any

import pytest
from django.conf import settings
from django.test import Client

from tests.admin.conftest import browser
from tests.admin.pages import Page, page
from tools_app.base.setting_table import GROUPS, SETTINGS
from tools_app.sources import sync

pytestmark = pytest.mark.django_db

SETTINGS_PAGE = "/admin/tools_app/process/settings/"


def rows(shown: Page) -> dict[str, str]:
    """The rows of the page by the name of the setting."""
    texts = [" ".join(row.text.split()) for row in shown.all("tr")]
    return {text.split(" ")[0]: text for text in texts if not text.startswith("Name ")}


def test_only_superusers_see_it_and_its_link(chief: Client, operator: Client) -> None:
    assert SETTINGS_PAGE in page(chief, "/admin/").addresses
    assert SETTINGS_PAGE not in page(operator, "/admin/").addresses
    assert operator.get(SETTINGS_PAGE).status_code == 403
    assert browser("admin", "view_process", "change_user").get(SETTINGS_PAGE).status_code == 403
    assert Client().get(SETTINGS_PAGE).status_code == 302
    assert chief.post(SETTINGS_PAGE, {"PORT": "1"}).status_code == 405


def test_every_setting_has_value_default_origin_and_description(chief: Client) -> None:
    shown = page(chief, SETTINGS_PAGE)
    by_name = rows(shown)
    assert by_name.keys() == {name for name, setting in SETTINGS.items() if not setting.deprecated}
    assert by_name["TOOLHUB_THREADS"] == "TOOLHUB_THREADS 16 16 default threads for blocking tools (1–256)"
    assert by_name["TOOLHUB_HOME"].startswith(f"TOOLHUB_HOME {settings.TOOLHUB_HOME} var/ in a checkout")
    assert " environment directory for " in by_name["TOOLHUB_HOME"]
    titles = [shown.one("h2", id=section["aria-labelledby"]).text for section in shown.all("section")]
    assert [" ".join(title.split()).lower() for title in titles] == [group.title.lower() for group in GROUPS]
    assert len(shown.all("h1")) == 1


def test_variables_of_packs_are_among_them(chief: Client, monkeypatch: pytest.MonkeyPatch, settings: Any) -> None:
    settings.TOOLHUB_PACKS = ("tools_app.packs.n8n",)
    settings.TOOLHUB_SET |= {"N8N_API_KEY"}
    settings.TOOLHUB_GIVEN |= {"N8N_API_KEY"}
    monkeypatch.setenv("N8N_API_KEY", "key-of-a-test-1")
    sync.sync()
    by_name = rows(page(chief, SETTINGS_PAGE))
    assert by_name["N8N_API_KEY"] == "N8N_API_KEY *** – environment key or token for the upstream"
    assert by_name["N8N_TIMEOUT_MS"].endswith("default timeout of a request, in ms (100–120000)")


def test_secrets_are_masked(chief: Client, settings: Any) -> None:
    settings.TOOLHUB_ADMIN_PASSWORD = "a password of the administrator"
    html = page(chief, SETTINGS_PAGE).html
    for secret in (settings.SECRET_KEY, settings.TOOLHUB_ENCRYPTION_KEY, settings.TOOLHUB_ADMIN_PASSWORD):
        assert secret not in html
    by_name = rows(page(chief, SETTINGS_PAGE))
    assert by_name["SECRET_KEY"].startswith("SECRET_KEY *** generated, in TOOLHUB_HOME default")


def test_it_can_be_searched_by_name_value_and_description(chief: Client, settings: Any) -> None:
    settings.TOOLHUB_BACKUP_KEEP = 3
    assert rows(page(chief, SETTINGS_PAGE, q="keep_calls")).keys() == {"TOOLHUB_KEEP_CALLS", "TOOLHUB_KEEP_CALLS_DAYS"}
    assert rows(page(chief, SETTINGS_PAGE, q=" Session ")).keys() >= {"TOOLHUB_MCP_SESSIONS", "TOOLHUB_SESSION_SECONDS"}
    changed = rows(page(chief, SETTINGS_PAGE, values="changed"))
    assert changed["TOOLHUB_BACKUP_KEEP"].startswith("TOOLHUB_BACKUP_KEEP 3 7 program number of scheduled backups")
    assert "TOOLHUB_THREADS" not in changed
    nothing = page(chief, SETTINGS_PAGE, q="<script>")
    assert "No matching settings." in nothing.text
    assert "<script>" not in nothing.one("main").text
    assert nothing.one("input", type="search")["value"] == "<script>"
