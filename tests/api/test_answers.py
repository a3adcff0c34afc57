"""Responses: read from objects, and sent as they are described."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import pytest

from tests.api.rest import Rest
from tools_app.api.answers import AsIs, ResponseSchema, TextOrNone, answer, omitted_if_empty
from tools_app.models import ApiKey, Call


@dataclass
class Parcel:
    name: str = "a book"
    note: str = ""
    place: str = "shelf"
    secret: str = "hunter2"
    hint: str = ""


class ParcelItem(ResponseSchema):
    name: str
    note: TextOrNone
    place: AsIs[Literal["box"]]
    hint: str | None = omitted_if_empty()
    sent_by: str


def told(body: Any) -> Any:
    return json.loads(answer(body).content)


def test_reads_what_it_declares_and_nothing_else() -> None:
    assert told(ParcelItem.of(Parcel(), sent_by="ann")) == {
        "name": "a book",
        "note": None,
        "place": "shelf",
        "sentBy": "ann",
    }


def test_computed_values_come_before_those_of_the_object() -> None:
    item = told(ParcelItem.of(Parcel(hint="heavy"), sent_by="ann", name="a letter"))

    assert (item["name"], item["hint"]) == ("a letter", "heavy")


@pytest.mark.parametrize("nested", [False, True])
def test_text_that_is_not_unicode_is_replaced(nested: bool) -> None:
    item = ParcelItem.of(Parcel(name="a \ud800 b"), sent_by="ann")

    name = told([item] if nested else item)
    assert (name[0] if nested else name)["name"] == "a ? b"


def test_rows_of_a_newer_release_are_listed(rest: Rest, make_key: Callable[..., str]) -> None:
    root = make_key("root", scopes=["admin:*"])
    assert rest.call("echo", {"message": "hi"}).status_code == 200
    ApiKey.objects.filter(name="alice").update(scopes=["tools:list", "tools:dream"])
    Call.objects.update(status="dreamt", door="dream")

    keys = {key["name"]: key for key in rest.get("/v1/keys", key=root).json()["keys"]}
    assert keys["alice"]["scopes"] == ["tools:list", "tools:dream"]
    [call] = rest.get("/v1/calls", key=root).json()["calls"]
    assert (call["status"], call["door"]) == ("dreamt", "dream")
