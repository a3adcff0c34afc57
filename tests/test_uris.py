"""Addresses with blanks."""

from __future__ import annotations

import time

import pytest

from tools_app.sdk.uris import UriTemplate


@pytest.mark.parametrize(
    ("template", "uri", "values"),
    [
        ("x://fixed", "x://fixed", {}),
        ("x://fixed", "x://fixed/", None),
        ("x://{a}", "x://1", {"a": "1"}),
        ("x://{a}", "x://", None),
        ("x://{a}", "x://1/2", None),
        ("x://{a}", "x://1%2F2", {"a": "1/2"}),
        ("x://{a}", "x://%C3%A9%20%7Bb%7D", {"a": "é {b}"}),
        ("x://{a}/{b}", "x://1/2", {"a": "1", "b": "2"}),
        ("x://{a}-{b}.json", "x://1-2-3.json", {"a": "1", "b": "2-3"}),
        ("x://{a}-{b}.json", "x://--.json", None),
        ("x://{a}.json", "x://.json", None),
        ("x://{a}", "x://%FF", None),
        ("x://{a}", "x://%00", None),
        ("x://{a}", "x://%2e%2e", None),
        ("x://{a}", "x://a%2F..%2Fb", None),
        ("x://{a}", "x://%2Fetc", None),
        ("x://{a}", "x://..b", {"a": "..b"}),
        ("x://{a}", "X://1", None),
    ],
)
def test_a_uri_fills_the_blanks_or_is_another(template: str, uri: str, values: dict[str, str] | None) -> None:
    assert UriTemplate(template).values(uri) == values


def test_what_was_filled_in_is_read_again() -> None:
    template = UriTemplate("x://{a}/of/{b}")
    values = {"a": "é /?#%{}", "b": "1"}
    uri = template.filled(values)
    assert uri == "x://%C3%A9%20%2F%3F%23%25%7B%7D/of/1"
    assert template.values(uri) == values


def test_no_uri_takes_long() -> None:
    template = UriTemplate("x://" + "-".join(f"{{v{number}}}" for number in range(8)) + "!")
    begun = time.process_time()
    assert template.values("x://" + "-" * 1_990) is None
    assert template.values("x://" + "-" * 10_000_000) is None
    assert time.process_time() - begun < 0.5


@pytest.mark.parametrize(
    "text",
    [
        "",
        "x",
        "x:/y",
        "X://y",
        "x://{a",
        "x://{}",
        "x://{a b}",
        "x://{?a}",
        "x://{a*}",
        "x://a b",
        "x://{a}{b}",
        "x://é",
    ],
)
def test_what_cannot_be_read_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        UriTemplate(text)
