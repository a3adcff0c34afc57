"""Names of the shipped tools, for tests of real hubs: these do not list the product."""

from __future__ import annotations

from tests.test_contract import shipped


def of_pack(name: str) -> list[str]:
    return sorted(tool.name for tool in shipped() if tool.pack is not None and tool.pack.name == name)


def listed(*more: str) -> list[str]:
    """What an agent of a new hub is shown: tools that are on and need no account, and those of the test."""
    shown = [tool.name for tool in shipped() if not tool.starts_off and tool.connection_kind is None]
    return sorted({*shown, *more} - {*of_pack("finding")})
