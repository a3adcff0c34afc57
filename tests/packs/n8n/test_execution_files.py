"""Files that nodes put out, saved below the directory that operators allow."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import pytest
from django.conf import LazySettings

from tests.packs.n8n.conftest import Ask
from tests.packs.n8n.fake import N8n

pytestmark = pytest.mark.parametrize("line", ["2"])


@pytest.fixture
def folder(tmp_path: Path, settings: LazySettings) -> Path:
    settings.TOOLHUB_FILE_ROOT = tmp_path
    return tmp_path


@pytest.fixture
def one(n8n: N8n) -> str:
    """Its node `File` put out what n8n 1 keeps in the execution."""
    held = n8n.hold("binary")
    put_out(
        n8n,
        held,
        data={"data": base64.b64encode(b"hello, bytes").decode(), "fileName": "he/llo.txt", "mimeType": "text/plain"},
    )
    return held


def put_out(n8n: N8n, execution: str, **files: Any) -> None:
    run = n8n.executions[execution]["data"]["resultData"]["runData"]["File"][0]
    run["data"]["main"][0] = [{"json": {}}, {"json": {}, "binary": files}]


def test_a_file_in_the_execution_is_saved(ask: Ask, folder: Path, one: str) -> None:
    data = ask("save_execution_file", id=one, nodeName="File", item=1)
    assert data | {"_guidance": 0} == {
        "executionId": one,
        "filePath": "he_llo.txt",
        "fileName": "he/llo.txt",
        "mimeType": "text/plain",
        "bytes": 12,
        "_guidance": 0,
    }
    assert (folder / "he_llo.txt").read_bytes() == b"hello, bytes"
    assert ask.error("save_execution_file", id=one, nodeName="File", item=1).message.startswith(
        "File cannot be created"
    )
    ask("save_execution_file", id=one, nodeName="File", item=1, key="data", filePath="two.bin")
    assert (folder / "two.bin").read_bytes() == b"hello, bytes"


def test_what_n8n_keeps_elsewhere_cannot_be_had(ask: Ask, n8n: N8n, folder: Path) -> None:
    error = ask.error("save_execution_file", id=n8n.hold("binary"), nodeName="File")
    assert "n8n keeps it in its storage (filesystem-v2), which its API does not give out" in error.message
    assert "Extract from File" in error.next_step
    assert not error.blames_upstream, "n8n works, and other tools of it must go on"
    assert list(folder.iterdir()) == []


def test_what_is_not_there_is_said(ask: Ask, n8n: N8n, folder: Path, one: str) -> None:
    error = ask.error("save_execution_file", id=one, nodeName="File")
    assert (error.message, error.next_step) == (
        "Item 0 of node 'File' has not exactly one file",
        "Items with files: 1.",
    )
    error = ask.error("save_execution_file", id=one, nodeName="File", item=1, key="other")
    assert (error.code, error.next_step) == ("NOT_FOUND", "key must be one of 'data'.")
    error = ask.error("save_execution_file", id=one, nodeName="Webhook")
    assert "No item of this run has a file" in error.next_step
    assert "not found" in ask.error("save_execution_file", id=one, nodeName="Nobody").message
    put_out(n8n, one, a={"data": "?"}, b={})
    for key in ("a", "b"):
        error = ask.error("save_execution_file", id=one, nodeName="File", item=1, key=key)
        assert error.code == "UPSTREAM_INVALID_RESPONSE"
