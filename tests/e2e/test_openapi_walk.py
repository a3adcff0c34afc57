"""docs/openapi-sources.md, as a reader would follow it; and the same over REST."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.support import shop as shops
from tests.support.agents import LEGACY, MODERN
from tests.support.http_agents import HttpAgent
from tests.support.processes import CHECKOUT, Home, Server, key_in
from tests.support.shop import Shop

pytestmark = pytest.mark.e2e

PAGE = (CHECKOUT / "docs" / "openapi-sources.md").read_text()


def blocks(language: str) -> str:
    """The code of that language, in the order of the document."""
    found = re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)
    assert found
    return "\n".join(found)


@pytest.fixture
def shop() -> Iterator[Shop]:
    with shops.running() as running:
        running.key = shops.KEY
        yield running


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path / "home")


@pytest.fixture
def root(home: Home) -> str:
    return key_in(home.run("addkey", "root", "--scope", "admin:*").stdout)


@pytest.fixture
def server(home: Home, root: str) -> Iterator[Server]:
    with home.serving() as running:
        yield running


def run(command: list[str], environment: dict[str, str], directory: Path) -> str:
    done = subprocess.run(
        command, env=environment, cwd=directory, capture_output=True, text=True, timeout=180, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.skipif(shutil.which("curl") is None, reason="there is no curl on this machine")
def test_the_walk(home: Home, server: Server, root: str, shop: Shop, tmp_path: Path) -> None:
    paths = f"{Path(sys.executable).parent}:{home.environment['PATH']}"
    names = {"HUB": server.url, "KEY": root, "SHOP": shop.url, "SHOP_KEY": shops.KEY, "PATH": paths}
    environment = {**home.environment, **names}
    printed = run(["/bin/sh", "-eu", "-c", blocks("sh")], environment, tmp_path)
    assert "needs a connection: header X-Api-Key" in printed
    assert "  GET /stock/{sku}: shop_get_stock, read, " in printed
    assert "Approved: shop_cancel_order, shop_create_order, shop_get_order, shop_list_orders." in printed
    assert shop.calls == [], "the service is asked by calls only"
    script = tmp_path / "agent.py"
    script.write_text(blocks("python"))
    answers = run([sys.executable, str(script)], environment, tmp_path)
    assert "shop_create_order, shop_get_order, shop_list_orders\n" in answers
    assert "shop_cancel_order" not in answers, "the agent may not destroy"
    assert shop.calls == ["POST /v1/orders", "GET /v1/orders/1"]
    assert shop.orders["1"] == {"id": "1", "status": "open", "sku": "tea", "count": 2}
    assert answers.count("'sku': 'tea'") == 2, answers


def test_from_a_document_to_calls_over_rest_and_mcp(home: Home, server: Server, root: str, shop: Shop) -> None:
    with httpx.Client(base_url=server.url, headers={"X-API-Key": root}, trust_env=False, timeout=60) as rest:

        def sent(method: str, path: str, **body: object) -> dict[str, object]:
            response = rest.request(method, path, json=body)
            assert response.status_code < 300, response.text
            data: dict[str, object] = response.json()
            return data

        # Larger than what other requests may be.
        filler = {"x-filler": "a" * 3_000_000}
        document = json.dumps({**shop.document, **filler})
        preview = sent("POST", "/v1/sources/preview", document=document, name="shop")
        assert len(preview["operations"]) == 5  # type: ignore[arg-type]
        new = {"name": "shop", "kind": "openapi", "document": document, "internal": True}
        assert rest.post("/v1/sources", json={**new, "internal": False}).status_code == 400
        made = sent("POST", "/v1/sources", **new)
        assert made["location"] == shop.base
        sent("PATCH", "/v1/sources/shop", enabled=True)
        sent("POST", "/v1/sources/shop/describe")
        approved = sent("POST", "/v1/sources/shop/approve", enable=True, acceptHints=True)
        assert len(approved["approved"]) == 5  # type: ignore[arg-type]
        secret = {"X-Api-Key": shops.KEY}
        sent("POST", "/v1/connections", name="shop-main", pack="shop", form="header", secrets=secret)
        sent("POST", "/v1/toolsets", name="shop", packs=["shop"])
        key = sent(
            "POST", "/v1/keys", name="agent", toolsets=["shop"], connections=["shop-main"], mayWrite=True,
        )["key"]  # fmt: skip
        agent = {"X-API-Key": str(key)}
        created = rest.post(
            "/v1/tools/shop_create_order/call", json={"body": {"sku": "tea", "count": 1}}, headers=agent
        )
        assert created.json()["result"]["id"] == "1", created.text
        listed = rest.post("/v1/tools/shop_list_orders/call", json={"status": "open"}, headers=agent)
        assert listed.json()["result"]["orders"][0]["sku"] == "tea"
        assert shop.calls[-1] == "GET /v1/orders?status=open"
        wrong = rest.post("/v1/tools/shop_create_order/call", json={"body": {"sku": "tea", "count": 0}}, headers=agent)
        assert (wrong.status_code, len(shop.calls)) == (400, 2)
        missing = rest.post("/v1/tools/shop_get_order/call", json={"orderId": "7"}, headers=agent)
        assert missing.status_code == 404, missing.text
        assert "There is no orders 7" in missing.text
        for era in (LEGACY, MODERN):
            with HttpAgent(server.url, str(key), era) as client:
                client.connect()
                answer = client.call("shop_get_stock", sku="tea")
                assert answer["structuredContent"] == {"sku": "tea", "count": 3}, answer
        # An operation that is not selected any more is refused.
        sent("PATCH", "/v1/sources/shop/operations", select=["tag:orders"])
        sent("POST", "/v1/sources/shop/describe")
        gone = rest.post("/v1/tools/shop_get_stock/call", json={"sku": "tea"}, headers=agent)
        assert gone.status_code >= 400, gone.text
        assert shop.calls[-1] == "GET /v1/stock/tea"
        assert shop.calls.count("GET /v1/stock/tea") == 2, "once in each era"
        assert rest.post("/v1/tools/search", json={"query": "x" * 1_100_000}).status_code == 413, "only documents"
