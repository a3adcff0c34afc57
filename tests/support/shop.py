"""A service with an OpenAPI document: a small shop on loopback, which keeps its orders."""

from __future__ import annotations

import copy
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final
from urllib.parse import parse_qs, urlsplit

from django.utils import timezone

from tools_app.models import SourceDocument

DOCUMENT: Final = "/openapi.json"
BASE: Final = "/v1"
KEY: Final = "key-of-the-shop-4711"
_ORDER: Final = {
    "type": "object",
    "required": ["sku", "count"],
    "properties": {
        "sku": {"type": "string", "description": "What is ordered"},
        "count": {"type": "integer", "minimum": 1},
        "gift": {"type": "boolean"},
    },
}


def operation(operation_id: str, tag: str, summary: str, **others: Any) -> dict[str, Any]:
    answers = {"200": {"description": "OK", "content": {"application/json": {"schema": {"type": "object"}}}}}
    return {"operationId": operation_id, "tags": [tag], "summary": summary, "responses": answers, **others}


def parameter(name: str, place: str, schema: dict[str, Any], **others: Any) -> dict[str, Any]:
    return {"name": name, "in": place, "required": place == "path", "schema": schema, **others}


def document(base: str = "https://shop.example.org/v1", **others: Any) -> dict[str, Any]:
    """The document of the shop, as its server would say where it is."""
    text = {"type": "string"}
    body = {"required": True, "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Order"}}}}
    order = [parameter("orderId", "path", text)]
    status = parameter("status", "query", {"type": "string", "enum": ["open", "sent"]})
    return {
        "openapi": "3.1.0",
        "info": {"title": "Shop", "version": "1.0"},
        "servers": [{"url": base}],
        "security": [{"key": []}],
        "paths": {
            "/orders": {
                "get": operation("listOrders", "orders", "List the orders", parameters=[status]),
                "post": operation("createOrder", "orders", "Order something", requestBody=body),
            },
            "/orders/{orderId}": {
                "get": operation("getOrder", "orders", "Show an order", parameters=order),
                "delete": operation("cancelOrder", "orders", "Cancel an order", parameters=order),
            },
            "/stock/{sku}": {
                "get": operation("getStock", "stock", "Count it", parameters=[parameter("sku", "path", text)])
            },
            "/basket": {
                "get": operation(
                    "getBasket", "stock", "Look in", parameters=[parameter("id", "cookie", text) | {"required": True}]
                )
            },
        },
        "components": {
            "schemas": {"Order": copy.deepcopy(_ORDER)},
            "securitySchemes": {"key": {"type": "apiKey", "name": "X-Api-Key", "in": "header"}},
        },
        **others,
    }


def deviate(source: str = "shop", number: int = 3) -> None:
    """Record answers that deviate from the document of a source."""
    now = timezone.now()
    SourceDocument.objects.get(source__name=source).findings.create(
        operation="GET /orders", status=200, difference="/0/id: string instead of integer", count=number,
        first_at=now, last_at=now,
    )  # fmt: skip


class Shop:
    def __init__(self) -> None:
        self.orders: dict[str, dict[str, Any]] = {}
        # Method and path of each request for the API.
        self.calls: list[str] = []
        # The headers of every request.
        self.requests: list[dict[str, str]] = []
        # Requests for the document: what they said they know.
        self.conditions: list[str] = []
        # Without the right key, the API refuses. Empty: it requires none.
        self.key = ""
        # Which Authorization headers it accepts; None: it looks at none.
        self.accepts: Callable[[str], bool] | None = None
        # Headers of each request for the document.
        self.seen: list[dict[str, str]] = []
        # Whether the document requires the key, too.
        self.guards_document = False
        # Where its URL redirects to.
        self.moved_to = ""
        # Served instead of the document.
        self.broken: bytes | None = None
        self.has_etag = True
        shop = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def _handle(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                status, headers, content = shop._answer(self.command, self.path, dict(self.headers.items()), body)
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name, value)
                if status not in (204, 304):
                    self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                if status not in (204, 304):
                    self.wfile.write(content)

            do_GET = do_POST = do_DELETE = _handle  # noqa: N815

            def log_message(self, format: str, *args: Any) -> None:
                """A test has `calls`."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        self.document = document(self.base)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    @property
    def base(self) -> str:
        return self.url + BASE

    @property
    def document_url(self) -> str:
        return self.url + DOCUMENT

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(5)

    def _answer(
        self, method: str, target: str, headers: dict[str, str], body: bytes
    ) -> tuple[int, dict[str, str], bytes]:
        parts = urlsplit(target)
        headers = {name.lower(): value for name, value in headers.items()}
        self.requests.append(headers)
        if parts.path == DOCUMENT:
            self.seen.append(headers)
            keys = headers.get("x-api-key"), *parse_qs(parts.query).get("key", [])
            if self.guards_document and self.key not in keys:
                return 401, {"Content-Type": "application/json"}, b'{"message": "The key is missing or wrong"}'
            if self.moved_to:
                return 302, {"Location": self.moved_to}, b""
            return self._document(headers.get("if-none-match", ""))
        self.calls.append(f"{method} {target}")
        if self.key and headers.get("x-api-key") != self.key:
            status, value = 401, {"message": "The key is missing or wrong"}
        elif self.accepts is not None and not self.accepts(headers.get("authorization", "")):
            status, value = 401, {"message": "The token is missing or wrong"}
        else:
            status, value = self._api(method, parts.path.removeprefix(BASE), parse_qs(parts.query), body)
        return status, {"Content-Type": "application/json"}, b"" if status == 204 else json.dumps(value).encode()

    def _document(self, known: str) -> tuple[int, dict[str, str], bytes]:
        self.conditions.append(known)
        content = json.dumps(self.document).encode() if self.broken is None else self.broken
        tag = f'"{hash(content):x}"'
        headers = {"Content-Type": "application/json"} | ({"ETag": tag} if self.has_etag else {})
        return (304, headers, b"") if known == tag and self.has_etag else (200, headers, content)

    def _api(self, method: str, path: str, query: dict[str, list[str]], body: bytes) -> tuple[int, Any]:
        kind, _, name = path.lstrip("/").partition("/")
        match method, kind, bool(name):
            case "GET", "orders", False:
                status = query.get("status", [""])[0]
                return 200, {"orders": [one for one in self.orders.values() if status in ("", one["status"])]}
            case "POST", "orders", False:
                number = str(len(self.orders) + 1)
                self.orders[number] = {"id": number, "status": "open", **json.loads(body)}
                return 201, self.orders[number]
            case "GET", "orders", True if name in self.orders:
                return 200, self.orders[name]
            case "DELETE", "orders", True if name in self.orders:
                del self.orders[name]
                return 204, None
            case "GET", "stock", True:
                return 200, {"sku": name, "count": 3}
        return 404, {"message": f"There is no {kind} {name}"}


@contextmanager
def running() -> Iterator[Shop]:
    shop = Shop()
    shop.start()
    try:
        yield shop
    finally:
        shop.stop()
