"""What others want of the console: to have an operator run something unawares, or to run script of their own."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from asgiref.testing import ApplicationCommunicator
from django.conf import settings
from django.contrib.auth.models import User
from django.core.handlers.asgi import ASGIHandler
from django.db import connections
from django.test import Client
from django.test.utils import override_settings

from tests.admin.conftest import browser, call
from tests.admin.pages import page, sent
from tests.admin.test_console import ADDING, at, confirmation, fields, whole
from tests.admin.test_escaping import PAYLOADS, harmless
from tests.support.tools import Hub, Programmable, eventually
from tools_app import engine
from tools_app.base import database
from tools_app.models import Call
from tools_app.sdk.content import EmbeddedResource, ResourceLink
from tools_app.sdk.decorator import tool
from tools_app.sdk.errors import NotFoundError, Problem, ValidationError
from tools_app.sdk.examples import Example
from tools_app.sdk.hints import Hints
from tools_app.text import hygiene

STAFF = ("view_toolrecord", "change_toolrecord", "view_call", "view_payload", "view_errorlog")
ORIGINS = (
    "https://evil.example",
    "null",
    "http://testserver.evil.example",
    "http://localhost",
    "https://testserver:81",
)

# Those of the other pages, and what fits this one: script, styles, frames, other encodings, ends of JSON and of shells.
HOSTILE = (
    *PAYLOADS,
    "<script>probe()</script><xss-probe>",
    "<ScRiPt/src=//evil.example/probe></sCrIpT><xss-probe>",
    "</textarea><xss-probe><textarea>",
    "</option></select><xss-probe>",
    "</title></style></noscript><xss-probe>",
    "<img src=x onerror=probe()><xss-probe>",
    "<svg/onload=probe()><xss-probe>",
    "<math><mi//xlink:href='data:x,<script>probe()</script>'><xss-probe>",
    "<iframe srcdoc='<xss-probe>'></iframe><xss-probe>",
    "<form action=//evil.example><input type=submit><xss-probe>",
    "<base href=//evil.example><xss-probe>",
    "<meta http-equiv=refresh content='0;url=//evil.example'><xss-probe>",
    "<template shadowrootmode=open><xss-probe></template>",
    "javascript:probe()//<xss-probe>",
    "data:text/html,<script>probe()</script><xss-probe>",
    "<!--><xss-probe>--><![CDATA[<xss-probe>]]>",
    "\\u003cxss-probe\\u003e<xss-probe>",
    '"}]}</script><xss-probe>',
    "'; alert(1); //<xss-probe>",
    "x' x-data='{probe:1}' x-init='probe()' <xss-probe>",
    "{% load static %}{{ request }}<xss-probe>",
    "＜xss-probe＞<xss-probe>\N{RIGHT-TO-LEFT OVERRIDE}",  # noqa: RUF001  # look-alikes are the point
)  # fmt: skip


def test_there_are_thirty_payloads() -> None:
    assert len(set(HOSTILE)) >= 30


@pytest.fixture
def operator(hub: Hub) -> Client:
    return browser("olga", *STAFF)


class Poisoned:
    """Tools that hold a payload wherever a tool can, and answer or fail with it."""

    def __init__(self, hub: Hub) -> None:
        self.outcomes: list[Any] = []

        async def run(text: str = "", more: dict[str, Any] | None = None) -> Any:
            outcome = self.outcomes.pop(0)
            if isinstance(outcome, BaseException):
                raise outcome
            return outcome

        # What people cannot see, no tool says of itself.
        told = hygiene.cleaned("".join(HOSTILE))
        examples = [Example(payload, {"text": payload, "more": {payload: payload}}, {}) for payload in HOSTILE[:20]]
        hub.add(tool(name="poisoned", description=told, title=told[:200], hints=ADDING, examples=examples)(run))
        hub.add(tool(name="reading", description=told, hints=Hints(read_only=True))(run))

    def answers(self, payload: str) -> list[Any]:
        context = {"operation": payload, "resourceType": payload, "resourceId": payload}
        return [
            {payload: [payload]},
            [payload, EmbeddedResource("file:///x", payload, "text/html"), ResourceLink("javascript:probe()", payload)],
            NotFoundError(payload, next_step=payload, context=context),
            ValidationError(problems=[Problem(f"/{payload}", payload), Problem("/text", payload)]),
        ]


@pytest.fixture
def poisoned(hub: Hub) -> Poisoned:
    return Poisoned(hub)


def test_nothing_that_is_typed_in_becomes_markup(operator: Client, poisoned: Poisoned) -> None:
    address = at("poisoned")
    for number, payload in enumerate(HOSTILE):
        arguments = json.dumps({"text": payload, "more": {payload: [payload]}})
        harmless(page(operator, address, arguments=arguments))
        harmless(page(operator, address, arguments=payload, mode=payload, call=payload, example=str(number)))
        harmless(sent(operator, address, **fields("json", text=payload, more=payload)))
        harmless(sent(operator, address, **fields("run", text=payload, more=payload)))
        harmless(sent(operator, address, **whole("dry", **{payload: payload})))
        harmless(sent(operator, address, mode=payload, action=payload, json=payload, token=payload))


def test_nothing_that_comes_back_becomes_markup(operator: Client, poisoned: Poisoned) -> None:
    address = at("poisoned")
    for payload in HOSTILE:
        arguments = json.dumps({"text": payload, "more": {payload: [payload]}})
        made = call("poisoned", arguments=arguments, argument_bytes=len(arguments))
        harmless(page(operator, address, call=made.pk))
        asked = harmless(sent(operator, address, **fields(text=payload, more=arguments)))
        poisoned.outcomes = [payload]
        assert "Succeeded" in harmless(sent(operator, address, **confirmation(asked))).text
        for answer in poisoned.answers(payload):
            poisoned.outcomes = [answer]
            harmless(sent(operator, at("reading"), **fields(text=payload)))


# ---- having it run by somebody else's page


@pytest.fixture
def guarded(hub: Hub) -> Client:
    """A browser that is logged in, in front of Django's own checks."""
    user = User.objects.create_user("gina", is_staff=True, is_superuser=True)
    made = Client(enforce_csrf_checks=True)
    made.force_login(user)
    return made


def test_a_foreign_page_cannot_have_a_tool_run(guarded: Client, programmable: Programmable) -> None:
    address = at("programmable")
    guarded.get(address)
    own = guarded.cookies[settings.CSRF_COOKIE_NAME].value
    good = {**fields(value="1"), "csrfmiddlewaretoken": own}

    trick = json.dumps({**good, "x": "="})
    attempts: list[Any] = [
        guarded.post(address, fields(value="1")),
        guarded.post(address, {**good, "csrfmiddlewaretoken": "a" * 64}),
        guarded.post(address, trick, content_type="text/plain"),
        guarded.post(address, f"csrfmiddlewaretoken={own}&action=run&mode=fields", content_type="text/plain"),
        guarded.post(address, trick, content_type="application/json"),
        *(guarded.post(address, good, headers={"Origin": origin}) for origin in ORIGINS),
        *(guarded.post(address, good, headers={"Referer": origin}, secure=True) for origin in ORIGINS[:1]),
    ]
    assert {attempt.status_code for attempt in attempts} == {403}
    assert programmable.calls == []
    assert not Call.objects.exists()

    assert guarded.post(address, good, headers={"Origin": "http://testserver"}).status_code == 200
    assert len(programmable.calls) == 1


def test_the_page_cannot_be_framed_or_kept(guarded: Client, programmable: Programmable) -> None:
    with override_settings(X_FRAME_OPTIONS="SAMEORIGIN"):
        response = guarded.get(at("programmable"))
    assert response.headers["X-Frame-Options"] == "DENY"
    assert "no-store" in response.headers["Cache-Control"]


def test_its_cookies_stay_with_the_site() -> None:
    assert (settings.SESSION_COOKIE_SAMESITE, settings.CSRF_COOKIE_SAMESITE) == ("Lax", "Lax")
    assert settings.SESSION_COOKIE_HTTPONLY


def test_strangers_are_sent_to_the_login(hub: Hub, programmable: Programmable) -> None:
    for method in ("get", "post"):
        response = getattr(Client(), method)(at("programmable"))
        assert response.headers["Location"].startswith("/admin/login/?next=")
    assert browser("nobody").get(at("programmable")).status_code == 403
    assert programmable.calls == []


def test_what_is_sent_is_bounded(operator: Client, programmable: Programmable) -> None:
    address = at("programmable")
    deep = "[" * 100 + "]" * 100
    for data in (
        fields(text="a" * 200_001),
        fields(value="1" * 5_000),
        {"mode": "json", "action": "run", "json": f'{{"text": {deep}}}'},
        {"mode": "json", "action": "run", "json": '{"value": 1, "value": 2}'},
        {"mode": "json", "action": "run", "json": '{"text": "\\ud800"}'},
        fields(text="a\x00b"),
    ):
        assert operator.post(address, data).status_code == 200
    assert operator.post(address, {f"x{number}": "" for number in range(6_100)}).status_code == 400
    assert operator.post(address, fields(text="a" * 1_100_000)).status_code == 400
    assert programmable.calls == []


# ---- around the call


def test_runs_in_a_project_that_puts_every_request_into_a_transaction(
    operator: Client, programmable: Programmable, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(connections["default"].settings_dict, "ATOMIC_REQUESTS", True)
    assert "Succeeded" in sent(operator, at("programmable"), **fields()).text
    assert len(programmable.calls) == 1


@pytest.mark.anyio
@pytest.mark.parametrize(("headers", "status"), [([(b"x-requested-with", b"fetch")], "cancelled"), ([], "succeeded")])
async def test_hanging_up_cancels_only_what_the_script_has_sent(
    operator: Client, programmable: Programmable, headers: list[tuple[bytes, bytes]], status: str
) -> None:
    """A page without the script may be reloaded or left: that must not break off what was begun."""
    begun, go_on = asyncio.Event(), asyncio.Event()

    async def wait() -> str:
        begun.set()
        await go_on.wait()
        return "done"

    programmable.outcomes = [wait]
    address = await database.run(at, "programmable")
    await database.run(operator.get, address)
    cookies = {name: morsel.value for name, morsel in operator.cookies.items()}
    cookie = "; ".join(f"{name}={value}" for name, value in cookies.items()).encode()
    body = f"mode=fields&action=run&argument-value=1&csrfmiddlewaretoken={cookies[settings.CSRF_COOKIE_NAME]}".encode()
    scope = {
        "type": "http", "method": "POST", "path": address, "query_string": b"", "http_version": "1.1",
        "headers": [
            (b"host", b"localhost"), (b"cookie", cookie), (b"content-length", str(len(body)).encode()),
            (b"content-type", b"application/x-www-form-urlencoded"), *headers,
        ],
    }  # fmt: skip
    visit = ApplicationCommunicator(ASGIHandler(), scope)
    engine.adopt_running_loop()
    try:
        await visit.send_input({"type": "http.request", "body": body})
        async with asyncio.timeout(10):
            await begun.wait()
        await visit.send_input({"type": "http.disconnect"})
        await visit.wait(10)
        go_on.set()
        assert await database.run(eventually, lambda: Call.objects.filter(status=status).exists(), 5.0)
    finally:
        await engine.close(5)
