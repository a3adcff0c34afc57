"""The page for developers shows the error, and none of the secrets in its context."""

from __future__ import annotations

import sys
from typing import Any

import pytest
from django.test import RequestFactory
from django.views.debug import technical_500_response

from toolhub.error_pages import Report

SECRETS = {
    name: f"C4{name}hunter2"
    for name in (
        "variable",
        "dictionary",
        "text",
        "exception",
        "cause",
        "note",
        "form",
        "address",
        "header",
        "settings",
    )
}


def connect(password: str) -> None:
    parameters = {"user": "ann", "password": SECRETS["dictionary"], "attempts": 42}
    conninfo = f"host=h.test password={SECRETS['text']}"
    try:
        raise ValueError(f"https://ann:{SECRETS['cause']}@h.test {conninfo}")
    except ValueError as cause:
        error = RuntimeError(f"refused for ann, token={SECRETS['exception']}, {len(parameters)}")
        error.add_note(f"Cookie: {SECRETS['note']}")
        raise error from cause


@pytest.mark.parametrize("accept", ["text/html", "text/plain"])
def test_shows_variables_and_settings_without_secrets(
    rf: RequestFactory, settings: Any, monkeypatch: pytest.MonkeyPatch, accept: str
) -> None:
    settings.DEBUG = True
    settings.TOOLHUB_ENCRYPTION_KEY = settings.TOOLHUB_ADMIN_PASSWORD = SECRETS["settings"]
    monkeypatch.setitem(settings.DATABASES["default"], "PASSWORD", SECRETS["settings"])
    request = rf.post(
        f"/admin/login/?api_key={SECRETS['address']}&page=2",
        {"username": "ann", "password": SECRETS["form"]},
        headers={"Authorization": f"Bearer {SECRETS['header']}", "X-API-Key": SECRETS["header"], "Accept": accept},
    )
    try:
        connect(SECRETS["variable"])
    except RuntimeError:
        page = technical_500_response(request, *sys.exc_info()).content.decode()
    assert {name for name, secret in SECRETS.items() if secret in page} == set()
    for shown in ("refused for ann", "TOOLHUB_ENCRYPTION_KEY", "page=2", "connect", "***"):
        assert shown in page
    if accept == "text/html":
        for shown in ("parameters", "conninfo", "42", "username"):
            assert shown in page


def test_needs_no_request_and_no_frames() -> None:
    text = Report(None, RuntimeError, RuntimeError(f"password={SECRETS['text']}"), None).get_traceback_text()
    assert "password=***" in text
