"""Large documents are read in a process of their own, with limits: what is made to cost much costs the hub nothing."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.sources.openapi.documents import document
from tools_app.sources.openapi import Document, DocumentError, process, read, reading

PADDING = "x" * (reading.SMALL + 1)


def padded(root: dict[str, Any]) -> bytes:
    return json.dumps({**root, "x-padding": PADDING}).encode()


def large(operations: int) -> bytes:
    operation = {
        "description": "Finds pets of a shelter. " * 40,
        "parameters": [{"name": f"p{n}", "in": "query", "schema": {"type": "string"}} for n in range(20)],
    }
    return json.dumps(document({f"/pets{number}": {"get": operation} for number in range(operations)})).encode()


@pytest.fixture
def alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small documents are read in a process of their own, too."""
    monkeypatch.setattr(reading, "SMALL", 0)


def test_another_process_reads_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    body = json.dumps(
        document(
            {"/a/{b}": {"get": {"deprecated": True}, "put": 1}},
            servers=[{"url": "/v1", "variables": {"a": {"default": "b"}}}],
            webhooks={"a": {}},
            components={"securitySchemes": {"k": {"type": "apiKey", "in": "query", "name": "k"}}},
        )
    ).encode()
    here = read(body)
    monkeypatch.setattr(reading, "SMALL", 0)
    assert read(body) == here
    assert here.operations
    assert here.unsupported
    assert read(body, selected=[]).operations == ()


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"[]" + b" " * 70_000, "is not an object"),
        (padded({"swagger": "2.0"}), "is Swagger 2.0"),
        (b"{" * 200_000, "not JSON|nested deeper"),
        (b'{"a":' * 200_000, "nested deeper than 200 levels"),
        (b"- " * 100_000, "nested deeper than 200 levels"),
        (b"a: [" * 50_000, "nested deeper than 200 levels"),
        (b'{"a": [' + b"1," * 2_000_000 + b"1]}", "more than 2,000,000 values"),
    ],
)
def test_hostile_documents_are_refused_clearly(body: bytes, message: str) -> None:
    with pytest.raises(DocumentError, match=message) as caught:
        read(body)
    assert caught.value.next_step


def test_an_error_of_the_document_comes_back_with_what_to_do(alone: None) -> None:
    with pytest.raises(DocumentError, match="is Swagger 2.0") as caught:
        read(b'{"swagger": "2.0"}')
    assert "swagger2openapi" in caught.value.next_step


def test_a_document_that_takes_too_long_is_given_up(alone: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "PATIENCE", 0.01)
    with pytest.raises(DocumentError, match="took more than 0.01 s"):
        read(large(2_000))
    monkeypatch.setattr(process, "PATIENCE", 120)
    busy = "import resource; resource.setrlimit(resource.RLIMIT_CPU, (1, 2))\nwhile True: pass"
    monkeypatch.setattr(process, "_PROGRAM", busy)
    with pytest.raises(DocumentError, match="took more than 30 s of the processor"):
        read(b"{}")


def test_a_process_that_ends_early_is_no_shorter_document(alone: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "_PROGRAM", 'print(\'{"note": "half"}\')')
    with pytest.raises(DocumentError, match="too much memory or time"):
        read(b"{}")


def test_operations_and_their_definitions_have_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    schema = {"type": "object", "properties": {f"property{n}": {"type": "string"} for n in range(100)}}
    item = {"post": {"requestBody": {"content": {"application/json": {"schema": schema}}}}}
    body = json.dumps(document({"/a": item, **{f"/{number}": {"$ref": "#/paths/~1a"} for number in range(9)}})).encode()
    monkeypatch.setattr(reading, "MOST_OPERATIONS", 7)
    monkeypatch.setattr(reading, "MOST_CHARACTERS", 10_000)
    found = read(body)
    assert 1 < len(found.operations) < 7
    assert len(found.operations) + len(found.unsupported) == 7
    assert sum(len(one.definition) for one in found.operations) <= 10_000
    assert found.unsupported[0][1] == "the definitions before it are too large together; select fewer operations"
    assert found.notes == ("Only its first 7 operations are read.",)
    last = [key for key, _ in found.unsupported][-1]
    assert [one.key for one in read(body, selected=[last]).operations] == [last]


def test_the_other_process_knows_neither_django_nor_the_environment_of_the_hub() -> None:
    program = (
        process._PROGRAM.rpartition(";")[0]
        + "; "
        + (
            "import os; from tools_app.sources.openapi import reading; "
            "print(json.dumps([sorted(name for name in sys.modules if name in ('django', 'mcp', 'httpx', 'pydantic')), "
            "sorted(os.environ)]))"
        )
    )
    places = [str(Path(process.__file__).parents[3])]
    done = subprocess.run(
        [sys.executable, "-I", "-c", program, json.dumps(places)],
        env={"PATH": os.environ["PATH"]},
        cwd="/",
        capture_output=True,
        text=True,
        check=True,
    )
    modules, variables = json.loads(done.stdout)
    assert modules == []
    assert not any(name.startswith(("TOOLHUB", "DATABASE", "DJANGO")) for name in variables)


async def _read_beside(body: bytes) -> tuple[Document, int]:
    """The document, and how often the event loop did something else meanwhile."""
    task, turns = asyncio.create_task(asyncio.to_thread(read, body)), 0
    while not task.done():
        await asyncio.sleep(0.001)
        turns += 1
    return await task, turns


def test_reading_in_a_thread_leaves_the_event_loop_free() -> None:
    found, turns = asyncio.run(_read_beside(large(500)))
    assert len(found.operations) == 500
    assert turns > 10
