"""Operations of OpenAPI documents, as they are recorded."""

from __future__ import annotations

import json

from tools_app.sdk.operation import Body, Operation, Parameter


def test_an_operation_is_recorded_as_json_and_read_again() -> None:
    operation = Operation(
        "POST",
        "/pets/{petId}",
        (
            Parameter("petId", "petId", "path", "simple", False),
            Parameter("filter_query", "filter", "query", "deepObject", True, allow_reserved=True),
            Parameter("where", "where", "query", "form", True, media_type="application/json"),
        ),
        Body("body", "multipart/form-data", "multipart", False, {"photo": {"file": True}}),
        ((("http", "bearer", ""), ("apiKey", "X-Key", "header")), ()),
        ("application/json",),
        ("200", "2XX"),
    )
    assert Operation.read(json.loads(json.dumps(operation.as_dict()))) == operation


def test_what_is_empty_is_not_recorded() -> None:
    operation = Operation("GET", "/", (Parameter("a", "b", "query", "form", False),))
    data = operation.as_dict()
    assert data == {
        "method": "GET",
        "path": "/",
        "parameters": [{"argument": "a", "name": "b", "place": "query", "style": "form", "explode": False}],
    }
    assert Operation.read(data) == operation
