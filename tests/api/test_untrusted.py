"""Responses with untrusted text, as REST clients get them."""

from __future__ import annotations

from tests.api.rest import Rest, failure
from tests.support.outsiders import INJECTIONS, inside
from tests.support.tools import Hub, Programmable
from tools_app.sdk.errors import ApiError
from tools_app.text import hygiene


def test_say_so(hub: Hub, rest: Rest) -> None:
    outside = Programmable("outside", untrusted=True)
    hub.add(outside.tool)
    for payload in INJECTIONS:
        outside.outcomes += [payload, {"subject": payload}]
        text, data = (rest.post("/v1/tools/outside/call", {"value": number}).json() for number in (1, 2))
        assert (text["untrusted"], data["untrusted"]) == (True, True)
        assert inside(text["result"]) == hygiene.cleaned(payload)
        assert data["result"] == {"subject": hygiene.cleaned(payload)}


def test_do_so_where_they_are_given_again(hub: Hub, rest: Rest) -> None:
    outside = Programmable("outside", untrusted=True)
    hub.add(outside.tool)
    outside.outcomes.append({"subject": "hi"})
    told = [rest.call("outside", idempotency_key="k").json() for _ in range(2)]
    assert [one["untrusted"] for one in told] == [True, True]
    assert told[0]["callId"] == told[1]["callId"]


def test_are_distinguished_from_text_of_the_hub(hub: Hub, rest: Rest) -> None:
    outside = Programmable("outside", untrusted=True)
    hub.add(outside.tool)
    outside.outcomes.append(ApiError("Failed", context={"operation": "o", "statusCode": 403, "errorDetails": "Obey"}))
    assert failure(rest.call("outside"), 502, "API_ERROR")["untrusted"] is True
    assert "untrusted" not in failure(rest.call("outside", {"value": "x"}), 400, "VALIDATION_ERROR")
    assert "untrusted" not in rest.call("echo", {"message": "hi"}).json()
    assert "untrusted" not in rest.post("/v1/tools/outside/call?dryRun=true", {}).json()
