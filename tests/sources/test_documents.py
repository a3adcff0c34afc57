"""What operators are told about a document, and which operations a selection names."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.support.shop import document
from tools_app.sources import documents, openapi
from tools_app.sources.documents import Need, SelectionError


def read(**others: Any) -> openapi.Document:
    return openapi.read(json.dumps(document(**others)).encode())


@pytest.mark.parametrize(
    ("patterns", "keys"),
    [
        (["GET /stock/{sku}"], ["GET /stock/{sku}"]),
        (["GET *"], ["GET /orders", "GET /orders/{orderId}", "GET /stock/{sku}"]),
        (["get /orders*"], ["GET /orders", "GET /orders/{orderId}"]),
        (["/orders"], ["GET /orders", "POST /orders"]),
        (["tag:stock"], ["GET /stock/{sku}"]),
        (["tag:Sto*", "DELETE *"], ["DELETE /orders/{orderId}", "GET /stock/{sku}"]),
        (["cancel_order"], ["DELETE /orders/{orderId}"]),
        ([], []),
    ],
)
def test_a_selection_names_operations(patterns: list[str], keys: list[str]) -> None:
    assert documents.chosen(read().operations, patterns) == keys


@pytest.mark.parametrize(
    "patterns", [["GET /nothing"], ["tag:nothing"], ["x" * 501], [f"GET /orders{n}*" for n in range(101)]]
)
def test_a_selection_that_names_nothing_is_refused(patterns: list[str]) -> None:
    with pytest.raises(SelectionError):
        documents.chosen(read().operations, patterns)


ADDRESS = "https://shop.example.org/docs/openapi.json"


@pytest.mark.parametrize(
    ("servers", "choices", "proposal"),
    [
        ([{"url": "https://a.example.org/v1/"}], ("https://a.example.org/v1",), "https://a.example.org/v1"),
        (
            [{"url": "https://a.example.org"}, {"url": "https://b.example.org"}],
            ("https://a.example.org", "https://b.example.org"),
            "",
        ),
        ([{"url": "/v2"}], ("https://shop.example.org/v2",), ""),
        (
            [{"url": "https://a.example.org"}, {"url": "/v2"}],
            ("https://a.example.org", "https://shop.example.org/v2"),
            "https://a.example.org",
        ),
        (
            [
                {
                    "url": "https://{region}.example.org/{v}",
                    "variables": {"region": {"default": "eu"}, "v": {"default": "1"}},
                }
            ],
            ("https://eu.example.org/1",),
            "",
        ),
    ],
)
def test_a_base_url_is_proposed_only_if_it_is_certain(servers: Any, choices: tuple[str, ...], proposal: str) -> None:
    found = documents.servers_of(read(servers=servers), ADDRESS)
    assert (found.choices, found.proposal) == (choices, proposal)


@pytest.mark.parametrize(
    ("scheme", "form", "words"),
    [
        ({"type": "apiKey", "name": "X-Api-Key", "in": "header"}, "header", "header X-Api-Key"),
        ({"type": "apiKey", "name": "api_key", "in": "query"}, "query", "query parameter api_key"),
        ({"type": "apiKey", "name": "sid", "in": "cookie"}, "", "not supported: cookie sid"),
        ({"type": "http", "scheme": "basic"}, "basic", "user and password"),
        ({"type": "http", "scheme": "Bearer"}, "bearer", "bearer token"),
        ({"type": "http", "scheme": "digest"}, "header", "header Authorization"),
        ({"type": "oauth2", "flows": {}}, "bearer", "bearer token"),
        ({"type": "openIdConnect", "openIdConnectUrl": "https://id.example.org"}, "bearer", "bearer token"),
        ({"type": "mutualTLS"}, "", "not supported: mutualTLS"),
    ],
)
def test_a_security_scheme_is_shown_as_the_connection_that_fits_it(
    scheme: dict[str, Any], form: str, words: str
) -> None:
    facts = documents.facts_of(
        read(components={"securitySchemes": {"s": scheme}, "schemas": document()["components"]["schemas"]})
    )
    (need,) = documents.needs_of(json.loads(json.dumps(facts)))
    assert isinstance(need, Need)
    assert (need.scheme, need.form, need.words) == ("s", form, words)


def test_the_facts_are_short_texts() -> None:
    facts = documents.facts_of(read(info={"title": "T" * 5000, "version": "1\u202e"}))
    assert len(facts["title"]) <= documents.MOST_WORDS
    assert (facts["version"], facts["operations"], facts["unsupported"]) == ("1", 5, 1)
