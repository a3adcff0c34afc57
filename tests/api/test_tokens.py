"""Tokens of an OAuth issuer at the doors, and how clients learn where to get one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from tests.support.faultd import Faultd
from tests.support.issuers import Issuer
from tests.support.tools import Hub
from tools_app import governance
from tools_app.models import Approval, Call

INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "test", "version": "1"},
    },
}
METADATA = "/.well-known/oauth-protected-resource"


@pytest.fixture
def idp(settings: Any) -> Iterator[Issuer]:
    with Faultd() as server:
        made = Issuer(server)
        made.add("one")
        settings.TOOLHUB_OAUTH_ISSUER = made.url
        yield made


def at_mcp(server: httpx.Client, token: str | None, path: str = "/mcp") -> httpx.Response:
    headers = {"Accept": "application/json, text/event-stream"}
    if token is not None:
        headers["Authorization"] = f"Bearer {token}"
    request = server.build_request("POST", path, json=INITIALIZE, headers=headers)
    del request.headers["X-API-Key"]
    return server.send(request)


def at_rest(server: httpx.Client, token: str) -> httpx.Response:
    sent = {"name": "echo", "parameters": {"message": "hi"}}
    request = server.build_request("POST", "/v1/tools/call", json=sent, headers={"Authorization": f"Bearer {token}"})
    del request.headers["X-API-Key"]
    return server.send(request)


def test_a_token_opens_both_doors_and_its_owner_is_in_the_journal(server: httpx.Client, idp: Issuer) -> None:
    here = str(server.base_url).rstrip("/")
    token = idp.token(aud=f"{here}/mcp", scope="tools:list tools:execute", client_id="agent")
    assert at_mcp(server, token).status_code == 200
    assert at_rest(server, token).json()["result"] == {"message": "hi"}
    row = Call.objects.get()
    assert (row.caller_kind, row.caller_id, row.caller_name) == ("token", "token:user-1", "agent")


def test_a_subject_cannot_approve_its_own_call_under_another_name(server: httpx.Client, idp: Issuer, hub: Hub) -> None:
    governance.set_ask("echo", True, actor=governance.trusted("test"))
    here = str(server.base_url)
    scope = "tools:execute tools:manage"
    first, renamed = (idp.token(aud=here, scope=scope, preferred_username=name) for name in ("ann", "bob\u202e"))
    approval_id = at_rest(server, first).json()["context"]["approvalId"]

    def approve(token: str) -> httpx.Response:
        headers = {"Authorization": f"Bearer {token}"}
        request = server.build_request("POST", f"/v1/approvals/{approval_id}/approve", json={}, headers=headers)
        del request.headers["X-API-Key"]
        return server.send(request)

    assert approve(renamed).status_code == 403
    assert approve(idp.token(aud=here, scope=scope, sub="user-2", preferred_username="c\u202eid")).status_code == 200
    assert Approval.objects.get().decided_by == "token:cid", "what nobody sees is no part of a name"
    assert at_rest(server, first).status_code == 200


def test_a_token_reaches_no_tool_beyond_its_toolsets(server: httpx.Client, idp: Issuer, settings: Any) -> None:
    governance.create_toolset("wiki", names=["read_result"], actor=governance.trusted("test"))
    settings.TOOLHUB_OAUTH_BY_SCOPE = True
    settings.TOOLHUB_OAUTH_TOOLSETS = ["wiki", "mail"]
    granted = server.get(METADATA).json()["scopes_supported"][3:]
    assert granted == ["tools:write", "tools:destroy", "toolset:wiki", "toolset:mail"]
    here = str(server.base_url)
    response = at_rest(server, idp.token(aud=here, scope="tools:execute toolset:wiki"))
    assert response.json()["code"] == "TOOL_NOT_FOUND"
    response = at_rest(server, idp.token(aud=here, scope="tools:execute"))
    assert response.status_code == 403
    assert 'scope="toolset:wiki toolset:mail"' in response.headers["WWW-Authenticate"]


def test_a_refusal_says_where_tokens_are_issued(server: httpx.Client, idp: Issuer, settings: Any) -> None:
    here = str(server.base_url).rstrip("/")
    response = at_mcp(server, None)
    assert response.status_code == 401
    assert response.headers["WWW-Authenticate"] == f'Bearer resource_metadata="{here}{METADATA}/mcp"'
    found = server.get(f"{METADATA}/mcp")
    assert found.json() == {
        "resource": f"{here}/mcp",
        "authorization_servers": [idp.url],
        "scopes_supported": ["tools:list", "tools:read", "tools:execute"],
        "bearer_methods_supported": ["header"],
        "resource_name": "toolhub",
    }
    assert server.get(METADATA).json()["resource"] == here
    settings.TOOLHUB_OAUTH_SCOPES = ["tools:list"]  # the issuer knows none of the hub's
    assert "scopes_supported" not in server.get(METADATA).json()
    assert server.get(f"{METADATA}/mcp/wiki").json()["resource"] == f"{here}/mcp/wiki"
    toolset = at_mcp(server, None, "/mcp/wiki").headers["WWW-Authenticate"]
    assert toolset == f'Bearer resource_metadata="{here}{METADATA}/mcp/wiki"'


def test_an_invalid_or_insufficient_token_gets_the_reason(server: httpx.Client, idp: Issuer) -> None:
    here = str(server.base_url).rstrip("/")
    for response, place in (
        (at_mcp(server, idp.token(aud="elsewhere")), f"{METADATA}/mcp"),
        (at_rest(server, idp.token(aud="elsewhere")), METADATA),
    ):
        assert response.status_code == 401
        assert response.headers["WWW-Authenticate"] == (
            f'Bearer error="invalid_token", resource_metadata="{here}{place}"'
        )
    response = at_rest(server, idp.token(aud=here, scope="tools:list"))
    assert response.status_code == 403
    assert response.headers["WWW-Authenticate"] == (
        f'Bearer error="insufficient_scope", scope="tools:execute", resource_metadata="{here}{METADATA}"'
    )
    response = at_mcp(server, idp.token(aud=here, scope="openid"))
    assert response.status_code == 403
    assert 'error="insufficient_scope", scope="tools:list"' in response.headers["WWW-Authenticate"]


def test_keys_work_as_before(server: httpx.Client, idp: Issuer) -> None:
    assert server.get("/v1/tools").status_code == 200
    assert idp.server.requests == []


def test_without_an_issuer_there_is_nothing_of_all_that(server: httpx.Client) -> None:
    assert server.get(METADATA).status_code == 404
    assert server.get(f"{METADATA}/mcp").status_code == 404
    assert at_mcp(server, None).headers["WWW-Authenticate"] == "Bearer"
