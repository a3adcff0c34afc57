"""The description of the REST door: complete, true, and the same as the one that is kept in docs/."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse
from openapi_spec_validator import OpenAPIV31SpecValidator

from tests.api.rest import Rest, failure
from tools_app.api import openapi
from tools_app.api.answers import ResponseSchema
from tools_app.api.bodies import Body
from tools_app.sdk.errors import ToolError
from tools_app.sdk.hub_errors import all_errors

KEPT = Path(__file__).resolve().parent.parent.parent / "docs" / "openapi.json"
OPEN = {"show_sign", "show_health"}


def operations() -> Iterator[tuple[str, str, dict[str, Any]]]:
    for path, methods in openapi.document()["paths"].items():
        for method, operation in methods.items():
            yield method, path, operation


def parts(value: Any) -> Iterator[dict[str, Any]]:
    """Every object in it, however deep."""
    if isinstance(value, dict):
        yield value
    for part in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from parts(part)


def validator(schema: dict[str, Any]) -> Any:
    """Of a schema that refers to others of the description."""
    return jsonschema_rs.validator_for({**schema, "components": openapi.document()["components"]}, offline=True)


def test_the_kept_description_is_current() -> None:
    assert json.loads(KEPT.read_text()) == json.loads(json.dumps(openapi.document())), "run `make openapi`"


def test_is_one_by_the_rules_of_openapi() -> None:
    described = json.loads(json.dumps(openapi.document()))

    OpenAPIV31SpecValidator(described).validate()
    assert described["info"]["title"] == "ToolHub"


def test_every_operation_says_what_it_is() -> None:
    tags = {tag["name"] for tag in openapi.document()["tags"]}
    ids = [operation["operationId"] for _, _, operation in operations()]

    assert len(ids) == len(set(ids))
    for method, path, operation in operations():
        where = f"{method} {path}"
        assert re.fullmatch("[a-z_]+", operation["operationId"]), where
        assert len(operation["description"]) > 20, where
        assert 5 < len(operation["summary"]) < 110, where
        assert set(operation["tags"]) <= tags, where
        secured = operation.get("security")
        assert secured == (None if operation["operationId"] in OPEN else [{"bearer": []}, {"apiKey": []}]), where


def test_every_status_has_its_form() -> None:
    for method, path, operation in operations():
        expected = {"400", "414", "429", "431"}
        expected |= set() if operation["operationId"] in OPEN else {"401", "403", "500", "503"}
        expected |= {"404"} if "{" in path else set()
        expected |= {"408", "413", "415"} if "requestBody" in operation else set()
        responses = operation["responses"]
        assert expected <= responses.keys(), f"{method} {path}"
        for status, response in responses.items():
            if status >= "400" and (operation["operationId"], status) != ("show_health", "503"):
                assert response["$ref"].startswith("#/components/responses/")
            else:
                assert response["description"]
                assert ("content" in response) == (status not in ("204", "304"))


def test_every_error_a_call_can_end_with_has_a_documented_status() -> None:
    documented = openapi.document()["paths"]["/v1/tools/call"]["post"]["responses"]

    for error in all_errors():
        assert error is ToolError or str(error.status) in documented, error.code


def test_every_reference_leads_somewhere() -> None:
    document = openapi.document()

    for part in parts(document):
        if isinstance(target := part.get("$ref"), str):
            found = document
            for step in target.removeprefix("#/").split("/"):
                found = found[step]


def test_examples_are_what_their_schemas_ask_for() -> None:
    document = openapi.document()
    seen = 0
    for name, schema in document["components"]["schemas"].items():
        for example in schema.get("examples", ()):
            assert list(validator({"$ref": f"#/components/schemas/{name}"}).iter_errors(example)) == [], name
            seen += 1
    for response in document["components"]["responses"].values():
        media = response["content"]["application/json"]
        assert list(validator(media["schema"]).iter_errors(media["example"])) == []
        seen += 1
    assert seen > 15


def test_every_described_schema_is_used() -> None:
    text = json.dumps(openapi.document())

    for name in openapi.document()["components"]["schemas"]:
        assert f'"#/components/schemas/{name}"' in text


def test_every_schema_has_a_name_of_its_own() -> None:
    """Of two classes with one name, the document would describe both operations with the schema of one."""
    schemas = [*subclasses(ResponseSchema), *subclasses(Body)]
    names = Counter(schema.__name__ for schema in schemas)

    assert len(schemas) > 50
    assert [name for name, count in names.items() if count > 1] == []


def subclasses(parent: type[Any]) -> Iterator[type[Any]]:
    for child in parent.__subclasses__():
        yield child
        yield from subclasses(child)


def test_only_callers_with_a_key_get_it(rest: Rest) -> None:
    failure(rest.get("/v1/openapi.json", key=None), 401, "AUTHENTICATION_ERROR")

    response = rest.get("/v1/openapi.json")

    assert response.json() == json.loads(json.dumps(openapi.document()))
    assert rest.get("/v1/openapi.json", If_None_Match=response.headers["ETag"]).status_code == 304


@pytest.mark.django_db(transaction=True)
class TestThePageForPeople:
    def page(self, **attributes: Any) -> Any:
        client = Client()
        if attributes:
            client.force_login(User.objects.create_user("somebody", **attributes))
        return client.get("/v1/docs")

    def test_shows_every_operation_and_every_schema(self) -> None:
        shown = self.page(is_staff=True)

        assert (shown.status_code, shown["Content-Type"]) == (200, "text/html; charset=utf-8")
        text = shown.content.decode()
        for method, path, operation in operations():
            assert f'<details id="{operation["operationId"]}">' in text
            assert f"<code>{path}</code>" in text
            assert f"{method.upper()}</b>" in text
        for name in openapi.document()["components"]["schemas"]:
            assert f'<article id="{name}">' in text
        for target in re.findall(r'href="#([^"]*)"', text):
            assert f'id="{target}"' in text

    def test_asks_no_other_host_and_runs_nothing(self) -> None:
        text = self.page(is_staff=True).content.decode()

        assert "<h2>tools</h2>" in text
        for address in re.findall(r'(?:src|href|action)="([^"]*)"', text):
            assert address.startswith(("#", "/static/", "/v1/openapi.json")), address
        assert not re.search(r"<script|<style|<iframe|javascript:| on\w+=| style=", text)

    @pytest.mark.parametrize("attributes", [{}, {"is_staff": False}, {"is_staff": True, "is_active": False}])
    def test_is_for_users_with_access_to_the_admin(self, attributes: dict[str, Any]) -> None:
        shown = self.page(**attributes)

        assert (shown.status_code, shown["Location"]) == (302, f"{reverse('admin:login')}?next=/v1/docs")

    def test_a_key_opens_it_no_more_than_no_key(self, rest: Rest) -> None:
        assert rest.get("/v1/docs").status_code == rest.get("/v1/docs", key=None).status_code == 302

    def test_can_only_be_looked_at(self, rest: Rest) -> None:
        told = rest.send("POST", "/v1/docs", "{}")
        failure(told, 405, "METHOD_NOT_ALLOWED")
        assert told.headers["Allow"] == "GET"

    def test_is_not_there_where_the_admin_is_not(self, rest: Rest, settings: Any) -> None:
        settings.ROOT_URLCONF = "tests.api.bare_site"

        failure(rest.get("/v1/docs", key=None), 404, "ROUTE_NOT_FOUND")
