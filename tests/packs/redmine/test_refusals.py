"""What agents are told when Redmine says no, or nothing that can be read."""

from __future__ import annotations

import asyncio
import dataclasses
import json
from typing import Any

import pytest

from tests.packs.redmine.office import TOOLS, Office
from tests.support.redmine import FakeRedmine
from toolhub import testing
from tools_app.http import ApiClient
from tools_app.packs.redmine import REDMINE
from tools_app.sdk.errors import (
    ApiError,
    NotFoundError,
    ToolError,
    ToolTimeoutError,
    UpstreamInvalidResponseError,
    UpstreamUnavailableError,
    UpstreamValidationError,
)

# One tool for each of Redmine's resources, its arguments, its path, and what it takes to be let in.
RESOURCES: dict[str, tuple[str, dict[str, Any], str, str, str]] = {
    "issue": ("get_issue", {"id": 1}, "/issues/1.json", "Issue #1", "a role that can see this issue"),
    "project": ("show_project", {"id": "1"}, "/projects/1.json", "Project #1", "a role in this project"),
    "time entry": (
        "show_time_entry",
        {"id": 1},
        "/time_entries/1.json",
        "Time entry #1",
        "the permission “View spent time” in this project",
    ),
    "user": (
        "show_user",
        {"id": "5"},
        "/users/5.json",
        "User #5",
        "an administrator of Redmine, or a user who shares a project with this user",
    ),
}
HTML = b"<!DOCTYPE html><html><head><title>Sign in</title></head><body>secret</body></html>"
ERRORS = json.dumps({"errors": ["Internal server error", "Disk is <full>"]}).encode()

# What comes back, and what is said of it. `{it}` is the thing, `{get}` the operation, `{role}` what is missing.
CASES: dict[str, tuple[str | bytes, str, type[ToolError], str]] = {
    "401": ("bare:401", "", ApiError, "Authentication failed: Redmine does not accept the API key of this connection"),
    "403": ("bare:403", "", ApiError, "Permission denied: requires {role}"),
    "404": ("bare:404", "", NotFoundError, "{it} not found"),
    "409": ("bare:409", "", ApiError, "Failed to {get}: another user has changed it in the meantime"),
    "422": (b'{"errors":["Subject cannot be blank","Hours is invalid"]}', "422 Unprocessable Entity",
            UpstreamValidationError, "Subject cannot be blank, Hours is invalid"),
    "500": (ERRORS, "500 Internal Server Error", ApiError, "Failed to {get}: Internal server error, Disk is <full>"),
    "HTML": (HTML, "200 OK", UpstreamInvalidResponseError, "Failed to {get}: the response of Redmine is a web page"),
    "timeout": ("hang", "", ToolTimeoutError, "Redmine did not answer within 200ms"),
}  # fmt: skip


def called(office: Office, name: str, *, seconds: float = 5.0, login: str = "dev", **arguments: Any) -> Any:
    """What a tool says whose connection has a time limit of its own."""

    async def run() -> Any:
        tool = TOOLS[name]
        client = ApiClient.of_kind(REDMINE, office.url, office.keys[login], timeout=seconds)
        try:
            context = dataclasses.replace(testing.context(tool), upstream=client)
            return await tool.run(context, tool.checked(tool.spec.checker.with_defaults(arguments)))
        finally:
            await client.close()

    return asyncio.run(run())


@pytest.mark.parametrize("resource", RESOURCES)
@pytest.mark.parametrize("case", CASES)
def test_each_refusal_has_the_same_wording(office: Office, redmine: FakeRedmine, resource: str, case: str) -> None:
    name, arguments, path, it, role = RESOURCES[resource]
    answer, status, kind, message = CASES[case]
    redmine.breaks(f"GET {path}", answer, "text/html" if answer == HTML else "application/json", status)
    with pytest.raises(kind) as caught:
        called(office, name, seconds=0.2 if case == "timeout" else 5.0, **arguments)
    error = caught.value
    assert type(error) is kind
    assert error.message.startswith(message.format(it=it, get=f"get {resource}", role=role))
    told = json.dumps(error.as_dict())
    assert "secret" not in told
    assert "key-of" not in told


def test_a_redmine_that_cannot_be_reached_is_a_network_error() -> None:
    office = Office("http://127.0.0.1:1", {"admin": "x"})
    error = office.refusal("admin", "list_issues")
    assert isinstance(error, UpstreamUnavailableError)
    assert error.message == "Network error: Redmine refuses connections"


def test_a_rest_interface_that_is_off_is_named(office: Office, redmine: FakeRedmine) -> None:
    redmine.breaks("GET /users/current", "bare:403")
    error = office.refusal("admin", "list_trackers")
    assert error.message == "Permission denied: requires a Redmine whose REST web service is enabled"


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("get_issue", {"id": 8}),
        ("get_issue", {"id": 9999}),
        ("show_project", {"id": "nowhere"}),
        ("list_custom_fields", {}),
        ("list_issues", {"project_id": "Beta (private)", "assigned_to_id": "Mara Manager"}),
        ("update_issue", {"id": 8, "category_id": "Backend"}),
    ],
)
def test_failed_authentication_is_reported_before_other_problems(
    office: Office, redmine: FakeRedmine, name: str, arguments: dict[str, Any]
) -> None:
    redmine.breaks("GET /users/current", "bare:403")
    error = office.refusal("limited", name, **arguments)
    assert error.message == "Permission denied: requires a Redmine whose REST web service is enabled"
    redmine.breaks("GET /users/current", "bare:401")
    error = office.refusal("somebody", name, **arguments)
    assert error.message == "Authentication failed: Redmine does not accept the API key of this connection"


def test_features_that_an_older_redmine_lacks_are_reported(office: Office, redmine: FakeRedmine) -> None:
    redmine.breaks("PUT /projects/1/archive", b'{"status":404,"error":"Not Found"}', status="404 Not Found")
    error = office.refusal("admin", "archive_project", id="1")
    assert error.message == "Failed to archive project: this Redmine does not support it"


def test_an_empty_list_of_errors_is_a_change_in_the_meantime(office: Office, redmine: FakeRedmine) -> None:
    redmine.breaks("PUT /issues/1", b'{"errors":[]}', status="422 Unprocessable Entity")
    error = office.refusal("admin", "update_issue", id=1, subject="x")
    assert isinstance(error, UpstreamValidationError)
    assert "read it again" in error.next_step


NONSENSE: dict[str, tuple[bytes, str]] = {
    "another type": (b"plain words", "text/plain"),
    "a page": (HTML, "text/html"),
    "a page that says it is JSON": (HTML, "application/json"),
    "bytes that are no text": (b'{"issues": ["\xff\xfe"]}', "application/json"),
    "half of it": (b'{"issues": [{"id": 1', "application/json"),
    "nothing": (b"", "application/json"),
    "no number": (b'{"issues": [{"id": NaN}]}', "application/json"),
    "too deep": (b"[" * 100_000, "application/json"),
    "a key twice": (b'{"issues": [], "issues": []}', "application/json"),
    "a list": (b"[]", "application/json"),
    "something else": (b'{"projects": []}', "application/json"),
    "text where a list should be": (b'{"issues": "none"}', "application/json"),
}


@pytest.mark.parametrize("body", NONSENSE)
def test_nonsense_is_an_answer_of_redmine_and_no_fault_of_ours(office: Office, redmine: FakeRedmine, body: str) -> None:
    redmine.breaks("GET /issues", *NONSENSE[body])
    error = office.refusal("admin", "list_issues")
    assert isinstance(error, UpstreamInvalidResponseError)
    assert error.message.startswith("Failed to list issues: ")


@pytest.mark.parametrize("body", [b'{"issue": []}', b'{"issue": null}', b'{"issues": {"id": 1}}', b"[]", b"null"])
def test_nonsense_about_one_thing_is_no_fault_of_ours_either(office: Office, redmine: FakeRedmine, body: bytes) -> None:
    redmine.breaks("GET /issues/1.json", body)
    assert isinstance(office.refusal("admin", "get_issue", id=1), UpstreamInvalidResponseError)


def test_what_a_plugin_put_in_the_place_of_a_value_is_left_out(office: Office, redmine: FakeRedmine) -> None:
    redmine.issues[1] |= {"done_ratio": "60", "status": "New", "custom_fields": {"1": "x"}, "subject": 7, "author": [1]}
    issue = office.call("admin", "get_issue", id=1)["issue"]
    assert issue["subject"] == "7"
    assert not {"done_ratio", "status", "custom_fields", "author"} & issue.keys()


CHANGES: dict[str, tuple[str, dict[str, Any], str]] = {
    "issue": ("update_issue", {"id": 1, "subject": "x"}, "PUT /issues/1"),
    "project": ("update_project", {"id": "1", "description": "x"}, "PUT /projects/1"),
    "time entry": ("update_time_entry", {"id": 1, "comments": "x"}, "PUT /time_entries/1"),
    "user": ("update_user", {"id": 5, "lastname": "x"}, "PUT /users/5"),
}


@pytest.mark.parametrize("resource", CHANGES)
@pytest.mark.parametrize(("body", "status"), [(b"", "204 No Content"), (b"", "200 OK"), (b'{"issue": {"id"', "200 OK")])
def test_a_change_that_was_made_is_a_success_for_any_response(
    office: Office, redmine: FakeRedmine, monkeypatch: pytest.MonkeyPatch, resource: str, body: bytes, status: str
) -> None:
    monkeypatch.setenv("REDMINE_USER_ADMINISTRATION", "environment")
    name, arguments, request = CHANGES[resource]
    for thing in (redmine.issues[1], redmine.projects[1], redmine.entries[1], redmine.users[5]):
        thing |= dict.fromkeys(("subject", "description", "comments", "lastname"), "x")
    redmine.breaks(request, body, status=status)
    assert office.call("admin", name, **arguments)["response"]["status"] == "success"


def test_a_creation_without_a_response_body_is_a_success_with_a_warning(office: Office, redmine: FakeRedmine) -> None:
    redmine.breaks("POST /issues", b'{"issue": {"id"', status="201 Created")
    said = office.call("admin", "create_issue", project_id="1", subject="x")["response"]
    assert (said["status"], said["message"]) == ("success", "Issue was successfully created.")
    assert said["warnings"] == ["The change was made, but the response of Redmine could not be read."]


def test_a_change_that_cannot_be_read_back_is_a_success_with_a_warning(office: Office, redmine: FakeRedmine) -> None:
    redmine.breaks("GET /issues/1", "bare:403")
    said = office.call("manager", "update_issue", id=1, subject="x")["response"]
    assert (said["status"], len(said["warnings"])) == ("success", 1)
    assert said["warnings"][0].startswith("The result could not be verified: Permission denied")


MADE: dict[str, tuple[str, dict[str, Any], str]] = {
    "issue": ("create_issue", {"project_id": "1", "subject": "x"}, "POST /issues"),
    "project": ("create_project", {"name": "x", "identifier": "x"}, "POST /projects"),
    "time entry": ("create_time_entry", {"issue_id": 1, "hours": 1}, "POST /time_entries"),
    "user": ("create_user", {"login": "a", "firstname": "a", "lastname": "b", "mail": "a@b.c"}, "POST /users"),
}


@pytest.mark.parametrize("resource", MADE)
@pytest.mark.parametrize(
    ("body", "status"), [(b"", "204 No Content"), (b"", "200 OK"), (b"", "201 Created"), (b'{"issue": {"id"', "200 OK")]
)
def test_a_creation_is_a_success_for_any_response_body(
    office: Office, redmine: FakeRedmine, monkeypatch: pytest.MonkeyPatch, resource: str, body: bytes, status: str
) -> None:
    monkeypatch.setenv("REDMINE_USER_ADMINISTRATION", "true")
    name, arguments, request = MADE[resource]
    redmine.breaks(request, body, status=status)
    said = office.call("admin", name, **arguments)["response"]
    assert (said["status"], said["message"]) == ("success", f"{resource.capitalize()} was successfully created.")
    assert len(said["warnings"]) == 1


# Attacks on those who read XML; nobody here does.
EVIL_XML = [
    b'<!DOCTYPE x [<!ENTITY e SYSTEM "file:///etc/passwd">]><issues>&e;</issues>',
    b'<!DOCTYPE x [<!ENTITY e SYSTEM "http://127.0.0.1:1/x">]><issues>&e;</issues>',
    b'<!DOCTYPE x [<!ENTITY % p SYSTEM "http://127.0.0.1:1/x.dtd"> %p;]><issues/>',
    b'<!DOCTYPE x [<!ENTITY a0 "ha">' + b"".join(
        b'<!ENTITY a%d "%s">' % (n, b"&a%d;" % (n - 1) * 10) for n in range(1, 10)
    ) + b"]><issues>&a9;</issues>",
    b'<!DOCTYPE x [<!ENTITY a "' + b"a" * 100_000 + b'">]><issues>' + b"&a;" * 10_000 + b"</issues>",
    b"<a>" * 200_000,
    b'<!DOCTYPE issues SYSTEM "http://127.0.0.1:1/x.dtd"><issues/>',
    b'<?xml version="1.0" encoding="UTF-7"?>+ADw-issues+AD4-+ADw-/issues+AD4-',
]  # fmt: skip


@pytest.mark.parametrize("kind", ["application/xml", "application/json"])
@pytest.mark.parametrize("body", EVIL_XML, ids=range(len(EVIL_XML)))
@pytest.mark.parametrize("status", ["200 OK", "422 Unprocessable Entity", "500 Internal Server Error"])
def test_xml_responses_are_not_parsed(
    office: Office, redmine: FakeRedmine, body: bytes, kind: str, status: str
) -> None:
    redmine.breaks("GET /issues", body, kind, status)
    error = office.refusal("admin", "list_issues")
    assert isinstance(error, UpstreamInvalidResponseError | ApiError | UpstreamValidationError)
    told = json.dumps(error.as_dict())
    assert "ENTITY" not in told
    assert "root:" not in told
