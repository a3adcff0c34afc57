"""What the admin calls things, in Japanese: every label of every page. What is written down stays English."""

from __future__ import annotations

import re

import pytest
from django.contrib import admin
from django.contrib.admin.utils import label_for_field
from django.contrib.auth.models import User
from django.db import models
from django.test import Client
from django.utils.translation import override

from tests.admin.conftest import agent, call
from tests.admin.pages import page
from tools_app.admin import labels
from tools_app.models import AuditEntry
from tools_app.packs import n8n, redmine, websearch
from tools_app.sdk.pack import Pack

JAPANESE = re.compile(r"[\u3040-\u30ff\u4e00-\u9fff]")
# Said alike in both.
ALIKE = {"ID", "p95 24h"}
OURS = [model for model in admin.site._registry if model._meta.app_label == "tools_app"]


@pytest.mark.parametrize("model", OURS)
def test_every_label_is_translated(model: type[models.Model]) -> None:
    pages = admin.site._registry[model]
    fields = [field.name for field in model._meta.local_fields]
    with override("ja"):
        said = [str(model._meta.verbose_name), str(model._meta.verbose_name_plural)]
        said += [
            str(label_for_field(name, model, pages)) for name in (*fields, *pages.list_display, *pages.readonly_fields)
        ]
        said += [str(field.help_text) for field in model._meta.local_fields if field.help_text]
    assert [words for words in said if not JAPANESE.search(words) and words not in ALIKE] == []


@pytest.mark.django_db
def test_what_is_written_down_is_english_whatever_the_language() -> None:
    client = Client(HTTP_ACCEPT_LANGUAGE="ja")
    client.force_login(User.objects.create_superuser("root"))
    answer = client.get("/admin/tools_app/auditentry/export/")
    assert 'filename="audit-entries' in answer["Content-Disposition"]
    assert AuditEntry.objects.get(action="list.export").subject == "list:audit-entries"
    answer.close()


@pytest.mark.django_db
def test_what_is_chosen_from_a_list_is_spoken_too(chief: Client) -> None:
    call(status="failed")
    agent()
    chief.defaults["HTTP_ACCEPT_LANGUAGE"] = "ja"
    shown = page(chief, "/admin/tools_app/call/").text
    assert "エラー全般" in shown
    assert not {"Succeeded", "Failed", "failed", "Timeout", "Interrupted", "Command"} & set(shown.split())
    assert "セッション" in page(chief, "/admin/tools_app/agent/").text


@pytest.mark.parametrize("pack", [n8n.pack, redmine.pack, websearch.pack], ids=lambda pack: pack.name)
def test_what_connections_can_be_set_to_is_spoken_too(pack: Pack) -> None:
    options = pack.connection.options if pack.connection is not None else ()
    assert {words for option in options for words in (option.title, option.help)} <= set(labels.OPTIONS)
