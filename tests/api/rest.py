"""A client of the REST door, and what every failure of it must look like."""

from __future__ import annotations

import asyncio
import copy
import functools
import json
import re
from typing import Any

import jsonschema_rs
from django.test import AsyncClient

from tools_app.api import openapi

TIMESTAMP = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")
LEAKS = re.compile(rb'Traceback|File "|at .*\(.*:\d+|<html|<!doctype', re.IGNORECASE)
JSON = "application/json"


class Rest:
    """Sends requests with a key, through all of Django as a server would; `key=None` sends none."""

    def __init__(self, key: str) -> None:
        self.key = key
        self.client = AsyncClient(raise_request_exception=False)
        self._runner = asyncio.Runner()

    def send(
        self,
        method: str,
        path: str,
        body: str | bytes = b"",
        *,
        key: str | None = "own",
        type: str = JSON,
        **headers: str,
    ) -> Any:
        if key is not None:
            headers["X_API_Key"] = self.key if key == "own" else key
        named = {name.replace("_", "-"): value for name, value in headers.items()}

        async def exchange() -> Any:
            return await self.client.generic(method, path, body, content_type=type, headers=named)

        return self._runner.run(exchange())

    def get(self, path: str, **options: Any) -> Any:
        return self.send("GET", path, **options)

    def post(self, path: str, body: Any, **options: Any) -> Any:
        """A body that is text or bytes goes out as it is; everything else as JSON."""
        return self.send("POST", path, body if isinstance(body, str | bytes) else json.dumps(body), **options)

    def call(self, name: str, parameters: Any = None, **options: Any) -> Any:
        body = {"name": name} if parameters is None else {"name": name, "parameters": parameters}
        return self.post("/v1/tools/call", body, **options)

    def close(self) -> None:
        self._runner.close()


def failure(response: Any, status: int, code: str) -> dict[str, Any]:
    """The envelope of any failure, which is JSON and reveals nothing internal."""
    content = response.content
    assert not LEAKS.search(content), content
    assert (response.status_code, response.headers["Content-Type"]) == (status, JSON), content
    told: dict[str, Any] = response.json()
    assert told["success"] is False
    assert told["code"] == code
    assert told["error"]
    assert isinstance(told["retryable"], bool)
    assert TIMESTAMP.fullmatch(told["timestamp"])
    assert response.headers["Cache-Control"] == "no-store"
    return told


def check_form(name: str, told: Any) -> None:
    """An answer has the form that the description of the door gives under this name, and no further members."""
    assert [str(error) for error in _validator(name).iter_errors(told)] == []


@functools.cache
def _validator(name: str) -> Any:
    schemas = copy.deepcopy(openapi.document()["components"]["schemas"])
    for schema in schemas.values():
        if "properties" in schema:
            schema["additionalProperties"] = False
    document = {"$ref": f"#/components/schemas/{name}", "components": {"schemas": schemas}}
    return jsonschema_rs.validator_for(document, offline=True)
