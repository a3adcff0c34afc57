"""Connected agents, as clients describe themselves: the text is arbitrary and may be missing."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any, Final

from mcp_types import CLIENT_INFO_META_KEY, PROTOCOL_VERSION_META_KEY, JSONRPCMessage, JSONRPCRequest
from mcp_types.version import LATEST_HANDSHAKE_VERSION

from tools_app import engine
from tools_app.models import Agent
from tools_app.sdk.context import Caller
from tools_app.text import hygiene

# Clients without a session, in one process; LRU: the one seen longest ago is evicted.
MOST_SESSIONLESS: Final = 500
# Idle time after which such a client counts as disconnected.
IDLE_SECONDS: Final = 300.0
MOST_CHARACTERS: Final = 64


def new_presence(
    door: str, caller: Caller, client: Any, protocol: str, *, modern: bool, idle_seconds: float | None = None
) -> engine.Presence:
    """The presence of a new client with this `clientInfo`, for `engine.arrived`."""
    name, version = _name_and_version(client)
    return engine.Presence(
        door=door,
        caller=caller,
        client=hygiene.cleaned(name),
        version=hygiene.cleaned(version),
        protocol=protocol,
        era=Agent.Era.MODERN if modern else Agent.Era.HANDSHAKE,
        idle_seconds=idle_seconds,
    )


def follow(agent: engine.Presence, message: JSONRPCMessage | None) -> None:
    """Record activity of a client."""
    if isinstance(message, JSONRPCRequest):
        agent.seen(calls=message.method == "tools/call")


class SessionlessClients:
    """Clients without sessions, identified by their caller and their `clientInfo`."""

    def __init__(self) -> None:
        self._agents: OrderedDict[tuple[str, ...], engine.Presence] = OrderedDict()

    def presence_of(self, caller: Caller, message: JSONRPCMessage | None, *, modern: bool) -> engine.Presence | None:
        """The client that sent this message; None if it is not a request."""
        if not isinstance(message, JSONRPCRequest):
            return None
        client, protocol = _of_request(message)
        key = (caller.id, *sorted(caller.reach.toolsets or ()), "", protocol, *_name_and_version(client))
        agent = self._agents.get(key)
        if agent is None or agent.left:
            new = new_presence(Agent.Door.HTTP, caller, client, protocol, modern=modern, idle_seconds=IDLE_SECONDS)
            agent = self._agents[key] = engine.arrived(new)
            while len(self._agents) > MOST_SESSIONLESS:
                engine.left(self._agents.popitem(last=False)[1])
        self._agents.move_to_end(key)
        follow(agent, message)
        return agent


def _of_request(message: JSONRPCRequest) -> tuple[Any, str]:
    """The `clientInfo` of a request and its protocol version."""
    params = message.params or {}
    meta = params.get("_meta")
    meta = meta if isinstance(meta, dict) else {}
    if message.method == "initialize":
        return params.get("clientInfo"), _text(params.get("protocolVersion")) or LATEST_HANDSHAKE_VERSION
    return meta.get(CLIENT_INFO_META_KEY), _text(meta.get(PROTOCOL_VERSION_META_KEY))


def _name_and_version(client: Any) -> tuple[str, str]:
    """Name and version of a client, truncated."""
    if not isinstance(client, dict):
        return "", ""
    return _text(client.get("title")) or _text(client.get("name")), _text(client.get("version"))


def _text(value: Any) -> str:
    return value[:MOST_CHARACTERS] if isinstance(value, str) else ""
