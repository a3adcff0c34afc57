"""Workflows from files: only of whom may read them, and only those that may be read."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from django.conf import LazySettings

from tests.packs.n8n.conftest import Ask
from tests.packs.n8n.fake import N8n
from tests.packs.n8n.script import MANUAL
from tests.packs.n8n.test_changes import CREDENTIALS, made, sent
from tools_app.packs.n8n.files import MOST_BYTES
from tools_app.sdk.context import Caller

WORKFLOW: dict[str, Any] = {"name": "From a file", "nodes": [MANUAL], "connections": {}, "settings": {}}

pytestmark = pytest.mark.parametrize("line", ["2"])


@pytest.fixture
def folder(tmp_path: Path, settings: LazySettings) -> Path:
    root = tmp_path / "workflows"
    root.mkdir()
    settings.TOOLHUB_FILE_ROOT = root
    (root / "one.json").write_text(json.dumps(WORKFLOW))
    return root


def test_creates_and_says_what_was_left_out(ask: Ask, n8n: N8n, folder: Path) -> None:
    exported = WORKFLOW | {"id": "old", "active": True, "tags": [{"name": "a"}], "pinData": {"Start": []}, "meta": {}}
    (folder / "exported.json").write_text(json.dumps(exported | {"pinData": {"Start": [{"json": {}}]}}))
    data = ask("create_workflow_from_file", filePath="exported.json")
    assert data["name"] == "From a file"
    assert sent(n8n).keys() == {"name", "nodes", "connections", "settings"}
    assert [warning.partition(":")[0] for warning in data["warnings"]] == ["active", "tags", "pinData"]
    assert ask("create_workflow_from_file", filePath=str(folder / "one.json"), raw=True)["nodeCount"] == 1


def test_replaces_all_but_credentials(ask: Ask, n8n: N8n, folder: Path) -> None:
    one = made(n8n)
    hook = {key: value for key, value in n8n.workflows[one]["nodes"][0].items() if key not in ("credentials", "notes")}
    del hook["disabled"]
    (folder / "two.json").write_text(json.dumps(WORKFLOW | {"nodes": [hook]}))
    ask("replace_workflow_from_file", id=one, filePath="two.json")
    assert sent(n8n)["nodes"] == [hook | {"credentials": CREDENTIALS}]
    assert (sent(n8n)["name"], sent(n8n)["connections"]) == ("From a file", {})


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "Invalid JSON"),
        ("[" * 100_000, "Invalid JSON"),
        ("[]", "Workflow must be an object"),
        ('{"nodes": []}', "Workflow name is required"),
        ('{"name": "x", "nodes": {}}', "Workflow nodes must be an array of objects"),
        ('{"name": "x", "nodes": [1]}', "Workflow nodes must be an array of objects"),
        ('{"name": "x", "nodes": [], "connections": []}', "Workflow connections must be an object"),
        (" " * (MOST_BYTES + 1), "File is larger than 1,048,576 bytes"),
    ],
)
def test_a_file_that_is_no_workflow(ask: Ask, n8n: N8n, folder: Path, content: str, message: str) -> None:
    (folder / "bad.json").write_text(content)
    error = ask.error("create_workflow_from_file", filePath="bad.json")
    assert (error.message, error.code) == (message, "VALIDATION_ERROR")
    assert n8n.requests == []


def test_nothing_outside_is_read_and_its_existence_is_not_revealed(ask: Ask, n8n: N8n, folder: Path) -> None:
    outside = folder.parent / "secret.json"
    outside.write_text(json.dumps(WORKFLOW))
    (folder / "link.json").symlink_to(outside)
    (folder / "sub").mkdir()
    os.mkfifo(folder / "pipe.json")
    paths = ["../secret.json", str(outside), "link.json", "sub/../../secret.json", "sub", "pipe.json", "none.json"]
    for path in [*paths, "/etc/hostname", "a\x00b", "x" * 900]:
        error = ask.error("create_workflow_from_file", filePath=path)
        assert error.code == "NOT_FOUND", path
        assert error.message == f"File not found: {Path(path).name}".replace("\x00", "")
        assert str(folder.parent) not in json.dumps(error.as_dict())
    assert n8n.requests == []


def test_callers_over_http_read_no_files(ask: Ask, n8n: N8n, folder: Path) -> None:
    ask.caller = Caller("key", "key:1", "alice", frozenset({"tools:list", "tools:execute"}))
    error = ask.error("create_workflow_from_file", filePath="one.json")
    assert error.code == "AUTHORIZATION_ERROR"
    assert "create_workflow" in error.next_step


def test_without_a_directory_there_are_no_files(ask: Ask, n8n: N8n) -> None:
    error = ask.error("create_workflow_from_file", filePath="one.json")
    assert error.code == "CONFIGURATION_ERROR"
    assert "TOOLHUB_FILE_ROOT" in error.message
