"""The data tables of the fake n8n: rows in memory, and n8n's own words for what it refuses."""

from __future__ import annotations

import base64
import fnmatch
import json
from collections.abc import Callable, Mapping
from typing import Any, Final

_TIME: Final = "2026-11-20T12:00:00.000Z"
_OWN: Final = {"id": "number", "createdAt": "date", "updatedAt": "date"}
_TYPES: Final[Mapping[str, Any]] = {"string": str, "number": (int, float), "boolean": bool, "date": str}
_WRONG: Final = "Validation error with data table request: "


class Wrong(Exception):
    """What n8n refuses with 400, and with 404 where `missing`."""

    def __init__(self, message: str, status: int = 400) -> None:
        super().__init__(message)
        self.status = status


class Tables:
    def __init__(self) -> None:
        self.tables: list[dict[str, Any]] = []
        self.rows: dict[str, list[dict[str, Any]]] = {}

    def add(self, name: str, **columns: str) -> str:
        """A new table; its id."""
        one = f"{len(self.tables):016d}"
        made = [{"id": f"c{index}", "name": key, "type": kind} for index, (key, kind) in enumerate(columns.items())]
        self.tables.append({"id": one, "name": name, "projectId": "p1", "columns": made})
        self.rows[one] = []
        return one

    def answer(self, method: str, path: list[str], asked: Mapping[str, str], body: Any) -> Any:
        if not path:
            return {"data": self.tables, "nextCursor": None}
        columns = self._columns(path[0])
        rows = self.rows[path[0]]
        match method, *path[1:]:
            case "GET", "columns":
                return [{"name": key, "type": kind} for key, kind in columns.items() if key not in _OWN]
            case "GET", "rows":
                return self._page(rows, columns, asked)
            case "POST", "rows":
                return [self._insert(rows, columns, values) for values in body["data"]]
            case "PATCH", "rows", "update":
                return self._update(rows, columns, body)
            case "POST", "rows", "upsert":
                return self._update(rows, columns, body) or [self._insert(rows, columns, body["data"])]
            case "DELETE", "rows", "delete":
                gone = _chosen(rows, columns, json.loads(asked["filter"]))
                rows[:] = [row for row in rows if row not in gone]
                return gone
        raise Wrong("not found", 404)

    def _columns(self, one: str) -> dict[str, str]:
        if len(one) != 16:
            raise Wrong('request/params/dataTableId must match format "nanoid"')
        for table in self.tables:
            if table["id"] == one:
                return {each["name"]: each["type"] for each in table["columns"]} | _OWN
        raise Wrong(f"Could not find the data table: '{one}'", 404)

    def _page(self, rows: list[dict[str, Any]], columns: Mapping[str, str], asked: Mapping[str, str]) -> Any:
        found = _chosen(rows, columns, json.loads(asked["filter"])) if "filter" in asked else list(rows)
        if "search" in asked:
            found = [row for row in found if asked["search"].lower() in json.dumps(list(row.values())).lower()]
        if "sortBy" in asked:
            column, way = asked["sortBy"].split(":")
            if column not in columns:
                raise Wrong("Internal server error", 500)
            found.sort(key=lambda row: (row[column] is not None, row[column]), reverse=way == "desc")
        at = json.loads(base64.b64decode(asked["cursor"])) if "cursor" in asked else {}
        offset, limit = at.get("offset", 0), at.get("limit", int(asked.get("limit", 100)))
        after = offset + limit
        cursor = base64.b64encode(json.dumps({"limit": limit, "offset": after}).encode()).decode()
        return {"data": found[offset:after], "nextCursor": cursor if after < len(found) else None}

    def _insert(self, rows: list[dict[str, Any]], columns: Mapping[str, str], values: Mapping[str, Any]) -> Any:
        _check(columns, values)
        own = {"id": max((row["id"] for row in rows), default=0) + 1, "createdAt": _TIME, "updatedAt": _TIME}
        rows.append({key: values.get(key) for key in columns if key not in _OWN} | own)
        return rows[-1]

    def _update(self, rows: list[dict[str, Any]], columns: Mapping[str, str], body: Mapping[str, Any]) -> list[Any]:
        _check(columns, body["data"])
        found = _chosen(rows, columns, body["filter"])
        for row in found:
            row.update(body["data"])
        return found


def _check(columns: Mapping[str, str], values: Mapping[str, Any]) -> None:
    for key, value in values.items():
        if key not in columns:
            raise Wrong(f"{_WRONG}unknown column name '{key}'")
        kind = columns[key]
        if value is not None and not isinstance(value, _TYPES[kind]):
            said = f"value '{value}' does not match column type '{kind}': '{key}' expects a {kind} but we got '{value}'"
            raise Wrong(_WRONG + said)


def _chosen(rows: list[dict[str, Any]], columns: Mapping[str, str], query: Mapping[str, Any]) -> list[dict[str, Any]]:
    for each in query["filters"]:
        _check(columns, {each["columnName"]: each["value"]})
        if each["value"] is None and each["condition"] in ("gt", "gte", "lt", "lte"):
            raise Wrong(f"{_WRONG}{each['condition'].upper()} filter value cannot be null or undefined")
    every = all if query["type"] == "and" else any
    return [row for row in rows if every(_holds(row[each["columnName"]], each) for each in query["filters"])]


def _holds(value: Any, wanted: Mapping[str, Any]) -> bool:
    ways: dict[str, Callable[[Any], bool]] = {
        "eq": lambda other: value == other,
        "neq": lambda other: value != other,
        "like": lambda other: fnmatch.fnmatchcase(value or "", other.replace("%", "*")),
        "ilike": lambda other: fnmatch.fnmatchcase((value or "").lower(), other.replace("%", "*").lower()),
        "gt": lambda other: value is not None and value > other,
        "gte": lambda other: value is not None and value >= other,
        "lt": lambda other: value is not None and value < other,
        "lte": lambda other: value is not None and value <= other,
        "isEmpty": lambda other: value in (None, ""),
        "isNotEmpty": lambda other: value not in (None, ""),
    }
    return ways[wanted["condition"]](wanted["value"])
