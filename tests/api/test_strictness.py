"""Every endpoint with a body accepts exactly the declared members, and refuses others."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from tests.api.operations import operations
from tests.api.rest import Rest, failure
from tools_app.models import ApiKey, AuditEntry, Call, ToolRecord

SLIPPED_IN = {
    "role": "admin",
    "is_superuser": True,
    "isSuperuser": True,
    "owned_by": "mallory",
    "definition_approved": True,
    "caller": "key:1",
    "__proto__": {"admin": True},
    "__class__": "admin",
    "id": 1,
    "query": "echo",  # The search asks for it before it looks at anything else.
}


def test_the_addresses_that_write_are_found() -> None:
    found = set(operations(with_body=True))

    assert {("POST", "/v1/tools/call"), ("POST", "/v1/tools/echo/call"), ("PATCH", "/v1/tools/echo")} <= found


@pytest.mark.parametrize(("method", "address"), sorted(set(operations(with_body=True))))
def test_what_is_not_asked_for_is_refused(rest: Rest, make_key: Callable[..., str], method: str, address: str) -> None:
    key = make_key("root", scopes=["admin:*"])
    before = list(ToolRecord.objects.order_by("name").values()), AuditEntry.objects.count()

    response = rest.send(method, address, json.dumps(SLIPPED_IN), key=key)

    told = failure(response, 400, "VALIDATION_ERROR")
    assert SLIPPED_IN.keys() - {"query"} <= {problem["path"].rpartition("/")[2] for problem in told["details"]}
    assert (list(ToolRecord.objects.order_by("name").values()), AuditEntry.objects.count()) == before
    assert ApiKey.objects.get(name="root").scopes == ["admin:*"]
    assert not Call.objects.filter(status=Call.Status.SUCCEEDED).exists()
