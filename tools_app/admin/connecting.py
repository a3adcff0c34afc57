"""How clients connect with a key: the addresses of the hub, what each client reads, and whether a request has come."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from django.http import HttpRequest
from django.urls import reverse
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, gettext_noop

from tools_app.access import actions
from tools_app.admin import links
from tools_app.governance import sign_ins
from tools_app.models import Agent, ApiKey, Call
from tools_app.sdk.errors import AuthenticationError, AuthorizationError, RateLimitError
from tools_app.sdk.hub_errors import StoppedError
from tools_app.setup.clients import CLIENTS, Machine, McpClient

MCP: Final = "/mcp"
NAME: Final = "toolhub"
# Where a snippet without a secret shows that one is missing.
MISSING: Final = "<key>"
_MACHINES: Final = (
    Machine("linux", Path("~"), {}),
    Machine("darwin", Path("~"), {}),
    Machine("win32", Path("~"), {"APPDATA": "%APPDATA%", "LOCALAPPDATA": "."}),
)
# The clients say these themselves, in English; here for the collection of texts.
_NEXT_STEPS: Final = (
    gettext_noop("Restart Claude Code; /mcp shows the server. It asks you to approve servers of a project."),
    gettext_noop("Quit and restart Claude Desktop; closing its window is not enough."),
    gettext_noop("In Cursor's settings, under MCP, check that the server is enabled."),
    gettext_noop("In VS Code, run `MCP: List Servers` to start and trust the server."),
    gettext_noop("Restart Codex; /mcp shows the server. It reads servers of a project if you trust the project."),
)
_REMEDIES: Final = {
    AuthenticationError.code: gettext_lazy("Check that the client sends the whole key, and the allowed addresses."),
    AuthorizationError.code: gettext_lazy("Change the scopes, the access level or the toolsets of the key."),
    RateLimitError.code: gettext_lazy("Change the rate limit of the key, or wait."),
    StoppedError.code: gettext_lazy("A kill switch is on: see Kill switches."),
    "NOT_FOUND": gettext_lazy("Give the client the address that is shown here."),
}
_WRONG_ADDRESS: Final = frozenset({"NOT_FOUND", "ROUTE_NOT_FOUND", "METHOD_NOT_ALLOWED", "VALIDATION_ERROR"})


@dataclass(frozen=True, slots=True)
class Endpoints:
    mcp: str
    rest: str


@dataclass(frozen=True, slots=True)
class Snippet:
    """What one client needs: where it belongs, the text, and what to do then."""

    id: str
    title: str
    place: str
    text: str
    next_step: str = ""


@dataclass(frozen=True, slots=True)
class FirstRequest:
    """What has arrived with a key. `refusal`: the newest request that was refused, if none was served after it."""

    agent: Agent | None
    call: Call | None
    is_used: bool
    refusal: Call | None
    remedy: str
    has_previous: bool

    @property
    def arrived(self) -> bool:
        return self.is_used or self.agent is not None or self.call is not None

    @property
    def is_known(self) -> bool:
        """True if there is nothing more to wait for."""
        return self.agent is not None or self.call is not None


def endpoints(request: HttpRequest) -> Endpoints:
    """The hub as clients reach it: its public URL, or that of this request."""
    base = sign_ins.public_url() or request.build_absolute_uri("/").rstrip("/")
    return Endpoints(f"{base}{MCP}", f"{base}{reverse('api:tools').rpartition('/')[0]}")


def snippets(at: Endpoints, secret: str = MISSING) -> list[Snippet]:
    """For each client. A secret is in these texts alone, and they are stored nowhere."""
    return [*_of_clients(at, secret), _curl(at, secret), _python(at, secret)]


def _of_clients(at: Endpoints, secret: str) -> Iterator[Snippet]:
    for client in CLIENTS.values():
        if client.is_api:
            continue  # `toolhub connect` prints it, with the names of the tools.
        if client.http:
            entry, place = client.over_http(at.mcp, secret), _place(client)
        else:
            entry = client.over_bridge(at.mcp, secret)
            bridge = _("It starts programs only: mcp-remote connects for it, and needs Node.js.")
            place = f"{_place(client)} {bridge}"
        title = client.title if client.user_file is not None else _("Other clients (JSON)")
        step = _(client.next_step) if client.next_step else ""
        yield Snippet(client.name, title, place, client.shown(NAME, entry), step)


def _place(client: McpClient) -> str:
    if client.user_file is None:
        return _("Most clients read this form, or ask for the address and the header.")
    files = dict.fromkeys(str(client.user_file(machine)) for machine in _MACHINES)
    where = _("File: %(files)s.") % {"files": _(" or ").join(files)}
    return f"{where} {_('Of a project: %(file)s.') % {'file': client.project_file}}" if client.project_file else where


def _curl(at: Endpoints, secret: str) -> Snippet:
    text = f"curl -sS {shlex.quote(f'{at.rest}/tools')} \\\n  -H {shlex.quote(f'Authorization: Bearer {secret}')}"
    return Snippet("curl", "curl", _("Lists the tools over REST."), text)


def _python(at: Endpoints, secret: str) -> Snippet:
    text = f"""\
import asyncio

import httpx2
from mcp.client.client import Client
from mcp.client.streamable_http import streamable_http_client


async def main():
    headers = {{"Authorization": {f"Bearer {secret}"!r}}}
    async with httpx2.AsyncClient(headers=headers) as http:
        async with Client(streamable_http_client({at.mcp!r}, http_client=http)) as client:
            for tool in (await client.list_tools()).tools:
                print(tool.name)


asyncio.run(main())
"""
    return Snippet("python", "Python", _("With the MCP SDK 2: pip install mcp."), text)


def first_request(key: ApiKey, request: HttpRequest) -> FirstRequest:
    """What arrived since the key has its secret, limited to what this user may see."""
    since = key.rotated_at or key.created_at
    call = refusal = agent = None
    if actions.CALLS_READ.permits(request.user):
        calls = Call.objects.filter(caller_id=f"key:{key.pk}", started_at__gte=since).defer("arguments", "result")
        refused = calls.filter(status=Call.Status.REFUSED)
        call = calls.exclude(status=Call.Status.REFUSED).order_by("started_at").first()
        refusal = refused.first() if call is None else None
    if actions.AGENTS_READ.permits(request.user):
        agent = Agent.objects.connected().filter(caller_id=f"key:{key.pk}", since__gte=since).order_by("since").first()
    return FirstRequest(
        agent=agent,
        call=call,
        is_used=key.last_used_at is not None and key.last_used_at >= since,
        refusal=refusal,
        remedy=_remedy(refusal) if refusal is not None else "",
        has_previous=key.previous_works(timezone.now()),
    )


def _remedy(refusal: Call) -> str:
    if not refusal.tool_name and refusal.code in _WRONG_ADDRESS:
        return str(_REMEDIES["NOT_FOUND"])
    return str(_REMEDIES.get(refusal.code, ""))


def where_from(call: Call) -> str:
    """The channel and address of a request."""
    door = Call.Door(call.door).label
    if not call.address:
        return _("via %(door)s") % {"door": door}
    return _("via %(door)s from %(address)s") % {"door": door, "address": call.address}


def context(request: HttpRequest, key: ApiKey) -> dict[str, object]:
    """What the fragment about the first request shows."""
    first = first_request(key, request)
    shown_call = first.call or first.refusal
    return {
        "key": key,
        "first": first,
        "from_where": where_from(shown_call) if shown_call is not None else "",
        "call_link": links.to_call(shown_call.pk, _("Call")) if shown_call is not None else "",
        "check_address": links.address("apikey", "first_request", key.pk),
    }
