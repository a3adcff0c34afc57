"""The upstream of the pack in `packs/desk.py`: notes of several accounts, on loopback."""

from __future__ import annotations

import json
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from tests.support.faultd import Faultd, Seen, Wire

TOOLS: Final = Path(__file__).with_name("packs") / "desk.py"
# An account's key, and whose it is.
KEYS: Final = {"key-of-ann-1": "ann", "key-of-bob-1": "bob", "key-of-env-1": "env"}


class Desk:
    """`url` is its address; `faults` that of a server on which everything goes wrong."""

    def __init__(self) -> None:
        self._server = Faultd()
        self._server.answer("desk", self._answer)
        self.notes: dict[str, list[str]] = {name: [] for name in KEYS.values()}

    @property
    def url(self) -> str:
        return f"{self._server.url}/desk"

    @property
    def faults(self) -> str:
        return self._server.url

    @property
    def requests(self) -> list[Seen]:
        return self._server.requests

    @property
    def keys(self) -> list[str]:
        """With which it was asked, one after the other."""
        return [seen.headers.get("x-desk-key", "") for seen in self.requests]

    async def _answer(self, wire: Wire) -> None:
        seen = wire.seen
        account = KEYS.get(seen.headers.get("x-desk-key", ""))
        if not seen.target.startswith("/desk/api/v1/"):
            await wire.answer(b'{"message": "nothing here"}', status="404 Not Found")
        elif account is None:
            await wire.answer(b'{"message": "unauthorized"}', status="401 Unauthorized")
        else:
            if seen.method == "POST":
                self.notes[account].append(json.loads(seen.body)["text"])
            await wire.answer(json.dumps(self.notes[account]).encode())

    def __enter__(self) -> Self:
        self._server.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.__exit__(kind, error, trace)
