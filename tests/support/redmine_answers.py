"""What a real Redmine answered, and the ways in which ours answers."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

RECORDED: Final = Path(__file__).parents[1] / "packs" / "redmine" / "recorded"
TRUSTED: Final = ("admin", "manager", "dev")
IDS: Final = {"admin": 1, "manager": 5, "dev": 6, "limited": 7}
REASONS: Final = {
    200: "OK",
    201: "Created",
    204: "No Content",
    401: "Unauthorized",
    403: "Forbidden",
    404: "Not Found",
    409: "Conflict",
    422: "Unprocessable Entity",
    500: "Internal Server Error",
}
PEOPLE: Final = {1: "Redmine Admin", 5: "Mara Manager", 6: "Δημήτρης O'Dev & Søn", 7: "Lim Ited"}

Answer = tuple[int, Any]


def recorded(name: str) -> Any:
    """What a real Redmine answered."""
    return json.loads((RECORDED / f"{name}.json").read_text(encoding="utf-8"))


def listed(name: str) -> list[Any]:
    """The same, of a list."""
    found = recorded(name)
    return next(value for value in found.values() if isinstance(value, list))


class Refuse(Exception):
    def __init__(self, status: int, *errors: str) -> None:
        self.answer: Answer = (status, {"errors": list(errors)} if errors else None)


class Break(Refuse):
    """Redmine itself goes wrong, or loses its way."""

    def __init__(self, status: int) -> None:
        self.answer = (status, {"status": status, "error": REASONS[status]})


def page(name: str, things: list[Any], params: Mapping[str, str]) -> Answer:
    offset, limit = int(params.get("offset", 0)), min(int(params.get("limit", 25)), 100)
    counts = {"total_count": len(things), "offset": offset, "limit": limit}
    return 200, {name: things[offset : offset + limit], **counts}


def named(thing: Mapping[str, Any]) -> dict[str, Any]:
    return {"id": thing["id"], "name": thing["name"]}
