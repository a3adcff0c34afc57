"""Rotating a key from a shell."""

from __future__ import annotations

import io
from datetime import timedelta

import pytest
from django.core.management import call_command
from django.utils import timezone

from tools_app import governance
from tools_app.base import secrets
from tools_app.models import ApiKey, AuditEntry

pytestmark = pytest.mark.django_db


def run(*arguments: str) -> list[str]:
    out = io.StringIO()
    call_command(*arguments, stdout=out)
    return out.getvalue().splitlines()


def test_the_new_secret_is_alone_on_the_last_line() -> None:
    key, before = governance.create_key("agent", actor=governance.trusted("test"))
    said, secret = run("rotatekey", "agent", "--grace", "48", "--reason", "spring")
    assert "agent has a new secret, copy it now. The previous one stays valid until" in said
    kept = ApiKey.objects.get()
    assert (kept.hash, kept.previous_hash) == (secrets.key_hash(secret), secrets.key_hash(before))
    assert kept.previous_until is not None
    assert timedelta(hours=47) < kept.previous_until - timezone.now() <= timedelta(hours=48)
    assert AuditEntry.objects.get(action="key.rotate").reason == "spring"
    assert f"{kept.prefix}+{key.prefix}" in run("listkeys")[1]


def test_without_a_time_of_grace_the_secret_before_is_refused_now() -> None:
    governance.create_key("agent", actor=governance.trusted("test"))
    said, _ = run("rotatekey", "agent")
    assert "is no longer valid" in said
    assert ApiKey.objects.get().previous_until is None


def test_a_key_is_found_by_the_start_that_it_had() -> None:
    key, before = governance.create_key("agent", actor=governance.trusted("test"))
    run("rotatekey", before, "--grace", "1")
    assert run("revokekey", key.prefix) == ["agent is revoked. Requests with it are refused from now on."]


def test_no_other_key_is_taken_for_it(capsys: pytest.CaptureFixture[str]) -> None:
    governance.create_key("agent", actor=governance.trusted("test"))
    with pytest.raises(SystemExit):
        run("rotatekey", "")
    assert "there is no key ''" in capsys.readouterr().err
    assert ApiKey.objects.get().rotated_at is None
