"""Who is connected, from what clients say of themselves: any text, or nothing at all."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any, Final

from mcp_types import CLIENT_INFO_META_KEY, PROTOCOL_VERSION_META_KEY, JSONRPCMessage, JSONRPCRequest
from mcp_types.version import LATEST_HANDSHAKE_VERSION

from tools_app import engine
from tools_app.models import Agent
from tools_app.sdk.context import Caller
from tools_app.text import hygiene

# Clients without a session, of one process. The one that was seen longest ago makes room for another.
MOST_PASSING: Final = 500
# So long after its last request one of them counts as gone.
PASSING_SECONDS: Final = 300.0
MOST_CHARACTERS: Final = 64


def introduced(
    door: str, caller: Caller, client: Any, protocol: str, *, modern: bool, idle_seconds: float | None = None
) -> engine.Presence:
    """A client that has come, with its `clientInfo`. Tell the engine that it has arrived."""
    name, version = _said(client)
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
    """Note that a client has sent something."""
    if isinstance(message, JSONRPCRequest):
        agent.seen(calls=message.method == "tools/call")


class Passing:
    """Clients whose requests stand alone: told apart by their caller and by what they say of themselves."""

    def __init__(self) -> None:
        self._agents: OrderedDict[tuple[str, ...], engine.Presence] = OrderedDict()

    def seen(self, caller: Caller, message: JSONRPCMessage | None, *, modern: bool) -> engine.Presence | None:
        """The client that sends this. While its request is under way, it is busy."""
        if not isinstance(message, JSONRPCRequest):
            return None
        client, protocol = _of_request(message)
        key = (caller.id, *sorted(caller.reach.toolsets or ()), "", protocol, *_said(client))
        agent = self._agents.get(key)
        if agent is None or agent.left:
            made = introduced(Agent.Door.HTTP, caller, client, protocol, modern=modern, idle_seconds=PASSING_SECONDS)
            agent = self._agents[key] = engine.arrived(made)
            while len(self._agents) > MOST_PASSING:
                engine.left(self._agents.popitem(last=False)[1])
        self._agents.move_to_end(key)
        follow(agent, message)
        return agent


def _of_request(message: JSONRPCRequest) -> tuple[Any, str]:
    """What the client of a request says of itself, and the protocol that it speaks."""
    params = message.params or {}
    meta = params.get("_meta")
    said = meta if isinstance(meta, dict) else {}
    if message.method == "initialize":
        return params.get("clientInfo"), _text(params.get("protocolVersion")) or LATEST_HANDSHAKE_VERSION
    return said.get(CLIENT_INFO_META_KEY), _text(said.get(PROTOCOL_VERSION_META_KEY))


def _said(client: Any) -> tuple[str, str]:
    """Name and version. What is too long is cut off."""
    if not isinstance(client, dict):
        return "", ""
    return _text(client.get("title")) or _text(client.get("name")), _text(client.get("version"))


def _text(value: Any) -> str:
    return value[:MOST_CHARACTERS] if isinstance(value, str) else ""
