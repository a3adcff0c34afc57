"""Requests with a key that reach nothing: operators who have given out the key see why, strangers leave no trace."""

from __future__ import annotations

import httpx
import pytest

from tests.api.conftest import MakeKey
from tests.support.tools import eventually
from tools_app.models import ApiKey, Call

LIST = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
ACCEPT = {"Accept": "application/json, text/event-stream"}


@pytest.fixture
def address(server: httpx.Client) -> str:
    """The server, for clients without the key that `server` sends."""
    return str(server.base_url)


def refusal(caller: str, door: str) -> Call:
    rows = Call.objects.filter(status="refused", caller_name=caller, door=door)
    assert eventually(rows.exists)
    return rows.get()


@pytest.mark.parametrize(
    ("method", "path", "words"),
    [
        ("POST", "/", "Wrong address: POST / ("),
        ("POST", "/sse", "Wrong address: POST /sse ("),
        ("GET", "/v1/tool", "Wrong address: GET /v1/tool ("),
        ("DELETE", "/v1/tools", "Wrong address: DELETE /v1/tools ("),
        ("POST", "/mcp/sse", "Wrong address: POST /mcp/sse"),
    ],
)
def test_a_key_at_a_wrong_address_is_on_record(
    address: str, make_key: MakeKey, method: str, path: str, words: str
) -> None:
    secret = make_key("lost")
    key = ApiKey.objects.get(name="lost")
    headers = {"Authorization": f"Bearer {secret}", "User-Agent": "lost/1", **ACCEPT}
    assert httpx.request(
        method, f"{address}{path}", json=LIST if method == "POST" else None, headers=headers
    ).is_client_error

    row = refusal("lost", "mcp" if path.startswith("/mcp") else "rest")
    assert row.error.startswith(words)
    assert (row.key_prefix, row.address, row.client) == (key.prefix, "127.0.0.1", "lost/1")
    assert secret not in str(vars(row))


@pytest.mark.parametrize("path", ["/mcp", "/v1/tools"])
def test_a_key_at_another_host_is_on_record(address: str, make_key: MakeKey, path: str) -> None:
    secret = make_key("lost")
    headers = {"Authorization": f"Bearer {secret}", "Host": "hub.example.net", **ACCEPT}
    assert httpx.request("POST" if path == "/mcp" else "GET", f"{address}{path}", headers=headers).is_client_error
    assert (
        refusal("lost", "mcp" if path == "/mcp" else "rest").error
        == "Wrong address: hub.example.net is none of ALLOWED_HOSTS"
    )


def test_a_key_without_the_scope_is_on_record(address: str, make_key: MakeKey) -> None:
    secret = make_key("narrow", scopes=["tools:execute"])
    headers = {"Authorization": f"Bearer {secret}", **ACCEPT}
    assert httpx.get(f"{address}/v1/tools", headers=headers).status_code == 403
    assert "tools:list" in refusal("narrow", "rest").error
    hello = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}}
    greeted = httpx.post(f"{address}/mcp", json={**LIST, "method": "initialize", "params": hello}, headers=headers)
    headers |= {"MCP-Protocol-Version": "2025-11-25", "MCP-Session-Id": greeted.headers["MCP-Session-Id"]}
    httpx.post(f"{address}/mcp", json=LIST, headers=headers)
    assert "tools:list" in refusal("narrow", "mcp").error


def test_without_a_key_nothing_is_recorded(address: str) -> None:
    for headers in ({"Authorization": ""}, {"Authorization": "Bearer thub_AbCd1234_short"}, {"X-API-Key": "x"}):
        for path in ("/sse", "/v1/nothing", "/"):
            assert httpx.post(f"{address}{path}", json=LIST, headers=headers).is_client_error
    assert not eventually(Call.objects.exists, 1.5)
