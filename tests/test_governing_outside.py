"""Decisions about sources outside: who may add which, what is refused, and what a new origin or a removal ends."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import Group, User
from django.utils import timezone

from tests.retention.rows import approval
from tests.support.tools import Hub
from tests.support.upstreams import (
    ProgrammableUpstreams,
    listing,
    raw_tool,
    record_tool,
    record_version,
    status_of,
)
from tools_app import governance
from tools_app.access.actions import ADMIN, ALL, MANAGE, OPERATOR, SOURCES
from tools_app.base.ports import UnavailableError
from tools_app.governance import Actor
from tools_app.models import Approval, AuditEntry, Connection, Definition, Source, ToolRecord
from tools_app.sdk.context import Caller
from tools_app.sdk.errors import (
    AuthorizationError,
    ConflictError,
    NotFoundError,
    RateLimitError,
    ToolNotFoundError,
    ValidationError,
)

pytestmark = pytest.mark.usefixtures("hub")

SHELL = governance.trusted("command:ann")
URL = "https://wiki.example.org/mcp"
COMMAND = ["npx", "-y", "wiki-server@1.2.3"]
SMALL = "tests.support.packs.small"
PASSWORD = "correct horse battery"


@pytest.fixture(autouse=True)
def upstreams(monkeypatch: pytest.MonkeyPatch) -> ProgrammableUpstreams:
    return ProgrammableUpstreams().connect(monkeypatch)


def program(*scopes: str, name: str = "ci", kind: str = "key", number: int = 7) -> Actor:
    return governance.of_caller(Caller(kind, f"{kind}:{number}", name, frozenset(scopes)))


def person(role: str = "", *, superuser: bool = False) -> User:
    made = User.objects.create_user(
        f"a-{role or 'superuser'}", password=PASSWORD, is_superuser=superuser, is_staff=True
    )
    if role:
        made.groups.add(Group.objects.get(name=role))
    return User.objects.get(pk=made.pk)


def add(name: str = "wiki", *, actor: Actor = SHELL, **parts: Any) -> Source:
    parts = {"kind": "mcp_http", "location": URL} | parts
    return governance.add_source(name, actor=actor, **parts)


def entries(action: str) -> list[AuditEntry]:
    return list(AuditEntry.objects.filter(action=action).order_by("pk"))


# ---- adding


def test_an_added_source_is_a_draft_that_is_off() -> None:
    made = add(reason="the team needs it")
    row = Source.objects.get(name="wiki")
    assert (row.prefix, row.kind, row.location, row.enabled, row.epoch) == ("wiki", "mcp_http", URL, False, 1)
    assert (made.pk, row.created_by, row.effective_trust) == (row.pk, "command:ann", Source.Trust.HOLD_ALL)
    assert status_of("wiki").described_at is None
    (entry,) = entries("source.create")
    assert (entry.subject, entry.actor, entry.reason) == ("source:wiki", "command:ann", "the team needs it")
    assert entry.changes["location"] == [None, URL]


def test_a_command_is_kept_as_words() -> None:
    row = add(kind="mcp_stdio", location="", command=COMMAND, start="always", declares=["roots"], failure_pattern="^E:")
    assert (row.command, row.start, row.declares, row.failure_rule) == (
        COMMAND, "always", {"roots": True}, {"pattern": "^E:"},
    )  # fmt: skip
    assert row.origin is not None
    assert row.origin.command == tuple(COMMAND)


@pytest.mark.parametrize(
    ("name", "error"),
    [
        ("Wiki", ValidationError),
        ("w", ValidationError),
        ("my_wiki", ValidationError),
        ("x" * 17, ValidationError),
        ("", ValidationError),
        ("wiki\n", ValidationError),
        ("toolhub", ValidationError),
        ("code", ValidationError),
        ("search", ValidationError),  # search_tools
        ("read", ValidationError),  # read_result
        ("redmine", ValidationError),  # names of shipped tools begin with it
        ("oldpack", ConflictError),
        ("mail", ConflictError),
    ],
)
def test_a_name_is_unique_and_free(name: str, error: type[Exception]) -> None:
    ToolRecord.objects.create(name="redmine_list_issues", source_kind="shipped")
    ToolRecord.objects.create(name="gone", source_kind="plugin", pack="oldpack", retired_at=timezone.now())
    Connection.objects.create(name="main", pack="mail", url="https://mail.example.org", sealed=b"x")
    with pytest.raises(error) as told:
        add(name)
    assert type(told.value) is error
    assert not Source.objects.filter(kind="mcp_http").exists()


def test_a_name_is_never_used_again() -> None:
    add()
    with pytest.raises(ConflictError, match="exists already"):
        add()
    governance.remove_source("wiki", actor=SHELL)
    with pytest.raises(ConflictError, match="was removed; names are not used again"):
        add()


@pytest.mark.parametrize(
    "location",
    [
        "",
        "ftp://wiki.example.org",
        "https://ann:pw@wiki.example.org/mcp",
        "https://wiki.example.org/mcp#part",
        "https://wiki.example.org/mcp?api_key=abcdef123456",
        "https://wiki.example.org/mcp?token=abcdef123456",
        "http://wiki.example.org/mcp",
        "https://10.1.2.3/mcp",
        "https://[::1]/mcp",
        "https://2130706433/mcp",
        "https://localhost/mcp",
        "https://wiki/mcp",
        "https://wiki.internal/mcp",
        "https://wiki.example.org/a b",
        "https://" + "x" * 3_000,
    ],
)
def test_an_address_is_public_and_has_no_secrets(location: str) -> None:
    with pytest.raises(ValidationError) as told:
        add(location=location)
    assert told.value.problems[0].path == "/location"
    assert "abcdef123456" not in f"{told.value.message} {told.value.next_step}"
    assert "pw@" not in told.value.message


@pytest.mark.parametrize("location", ["http://10.1.2.3:8931/mcp", "http://localhost:8931/mcp", "https://wiki/mcp?x=1"])
def test_an_internal_address_is_permitted_where_an_administrator_says_so(location: str) -> None:
    assert add(location=location, internal=True).location == location


@pytest.mark.parametrize(
    "location", ["http://169.254.169.254/latest", "http://metadata.google.internal/", "http://2852039166/"]
)
def test_the_address_of_a_metadata_service_is_refused_even_there(location: str) -> None:
    with pytest.raises(ValidationError, match="metadata"):
        add(location=location, internal=True)


def test_the_hub_is_no_source_of_itself(settings: Any) -> None:
    settings.ALLOWED_HOSTS, settings.PORT = ["hub.example.org", "localhost"], 3000
    for location in ("https://hub.example.org/mcp", "http://localhost:3000/mcp/mine", "http://127.0.0.1:3000/mcp"):
        with pytest.raises(ValidationError, match="that of this hub"):
            add(location=location, internal=True)
    add("other", location="http://localhost:3001/mcp", internal=True)
    add("beside", location="https://hub.example.org/wiki/mcp")


@pytest.mark.parametrize(
    "command",
    [
        [],
        "npx -y wiki",
        [""],
        ["npx", "a\0b"],
        ["npx", "\ud800"],
        ["x"] * 101,
        ["x" * 40_000],
        ["npx", 5],
        ["wiki", "--api-key", "abcdef123456"],
        ["wiki", "--token=abcdef123456"],
    ],
)
def test_a_command_is_a_list_of_words_without_secrets(command: Any) -> None:
    with pytest.raises(ValidationError) as told:
        add(kind="mcp_stdio", location="", command=command)
    assert told.value.problems[0].path == "/command"
    assert "abcdef123456" not in told.value.message


@pytest.mark.parametrize(
    ("parts", "path"),
    [
        ({"kind": "openapi"}, "/kind"),
        ({"kind": "shipped"}, "/kind"),
        ({"command": ["x"]}, "/command"),
        ({"kind": "mcp_stdio", "command": ["x"]}, "/location"),
        ({"kind": "mcp_stdio", "location": "", "command": ["x"], "internal": True}, "/internal"),
        ({"start": "never"}, "/start"),
        ({"declares": ["everything"]}, "/declares"),
        ({"failure_pattern": "("}, "/failure_pattern"),
        ({"failure_pattern": "x" * 501}, "/failure_pattern"),
        ({"failure_pattern": r"(a)\1"}, "/failure_pattern"),
        ({"failure_pattern": "a\0"}, "/failure_pattern"),
        ({"connection": "main"}, "/connection"),
    ],
)
def test_parts_that_do_not_fit_are_refused(parts: dict[str, Any], path: str) -> None:
    Connection.objects.create(name="main", pack="desk", url="https://desk.example.org", sealed=b"x")
    with pytest.raises(ValidationError) as told:
        add(**parts)
    assert told.value.problems[0].path == path


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("npx -y wiki@1.2.3", []),
        ("npx wiki@1.2.3", ["add -y"]),
        ("npx -y wiki", ["wiki has no version; write wiki@1.2.3"]),
        ("npx -y @scope/wiki", ["@scope/wiki has no version"]),
        ("npx -y @scope/wiki@latest", ["write @scope/wiki@1.2.3"]),
        ("npx -y @scope/wiki@2.0.0 --port 3", []),
        ("npx -y --package=wiki@1 wiki-server", []),
        ("npx -y -p wiki wiki-server", ["wiki has no version"]),
        ("uvx wiki", ["wiki has no version"]),
        ("uvx wiki@1.2", []),
        ("uvx --from wiki==1.2 wiki-server", []),
        ("uv tool run wiki", ["wiki has no version"]),
        ("/usr/bin/env npx wiki@1.0.0", ["add -y"]),
        ("sh -c 'wiki --stdio'", ["sh: a shell interprets"]),
        ("/bin/bash -lc wiki", ["bash: a shell interprets"]),
        ("sudo wiki", ["sudo: the server would run with other rights"]),
        ("docker run --rm -i wiki", []),
        ("docker run wiki", ["docker run: add --rm -i"]),
        ("docker run --rm wiki", ["docker run: add -i"]),
        ("python -m wiki", []),
        ("node server.js", []),
    ],
)
def test_what_an_operator_should_know_about_a_command_is_a_warning(line: str, words: list[str]) -> None:
    import shlex

    warnings = governance.command_warnings(shlex.split(line))
    assert len(warnings) == len(words), warnings
    for warning, part in zip(warnings, words, strict=True):
        assert part in warning


# ---- who may


def test_administrators_add_servers_and_operators_do_not() -> None:
    add(actor=governance.of_user(person(ADMIN)))
    with pytest.raises(AuthorizationError):
        add("other", actor=governance.of_user(person(OPERATOR)))


def test_a_program_needs_the_scope_for_sources() -> None:
    add(actor=program(SOURCES))
    with pytest.raises(AuthorizationError, match="requires scope sources:manage"):
        add("other", actor=program(MANAGE))


def test_a_program_gives_no_source_an_internal_address() -> None:
    with pytest.raises(AuthorizationError, match="cannot give tracker an internal address"):
        add("tracker", location="http://10.0.0.1/mcp", internal=True, actor=program(SOURCES, MANAGE))
    add("tracker", location="http://10.0.0.1/mcp", internal=True)
    with pytest.raises(AuthorizationError, match="cannot give tracker an internal address"):
        governance.change_origin("tracker", location="http://10.0.0.2/mcp", actor=program(SOURCES))
    governance.change_origin("tracker", per_session=True, actor=program(SOURCES))
    governance.change_origin("tracker", location=URL, internal=False, actor=program(SOURCES))
    with pytest.raises(AuthorizationError, match="cannot give tracker an internal address"):
        governance.change_origin("tracker", internal=True, actor=program(SOURCES))
    add("other", location="http://10.0.0.3/mcp", internal=True, actor=program(ALL))


def test_a_command_is_set_by_no_program_and_by_no_person_over_rest() -> None:
    add("tracker", kind="mcp_stdio", location="", command=COMMAND)
    boss = governance.of_caller(Caller("user", "user:1", "boss", frozenset({ALL})))
    for actor in (program(ALL), program(SOURCES), boss):
        with pytest.raises(AuthorizationError, match="cannot be set over REST or MCP"):
            add(kind="mcp_stdio", location="", command=COMMAND, actor=actor)
        with pytest.raises(AuthorizationError, match="cannot be set over REST or MCP"):
            governance.change_origin("tracker", command=["evil"], actor=actor)
        governance.change_origin("tracker", start="always", actor=actor)
        governance.change_origin("tracker", start="on_demand", command=COMMAND, actor=actor)
    assert Source.objects.get(name="tracker").command == COMMAND


def test_a_command_needs_a_superuser_who_enters_the_password_again() -> None:
    for user in (person(ADMIN), person(superuser=True)):
        with pytest.raises(AuthorizationError):
            add(kind="mcp_stdio", location="", command=COMMAND, actor=governance.of_user(user))
    admin = governance.confirmed(User.objects.get(username="a-admin"), PASSWORD)
    with pytest.raises(AuthorizationError):
        add(kind="mcp_stdio", location="", command=COMMAND, actor=admin)
    superuser = User.objects.get(username="a-superuser")
    add(kind="mcp_stdio", location="", command=COMMAND, actor=governance.confirmed(superuser, PASSWORD))


def test_a_wrong_password_is_on_record_and_cannot_be_guessed(settings: Any) -> None:
    settings.TOOLHUB_ANONYMOUS_RATE_CALLS = 3
    superuser = person(superuser=True)
    for _ in range(3):
        with pytest.raises(AuthorizationError, match="The password is wrong"):
            governance.confirmed(superuser, "guess")
    with pytest.raises(RateLimitError):
        governance.confirmed(superuser, PASSWORD)
    assert [entry.actor for entry in entries("user.mistype")] == ["user:a-superuser"] * 3
    assert "guess" not in json.dumps([entry.changes for entry in AuditEntry.objects.all()])


@pytest.mark.parametrize("kind", ["key", "token"])
def test_a_program_does_not_approve_what_it_added_or_moved(kind: str) -> None:
    actor = program(SOURCES, MANAGE, kind=kind)
    source = add(actor=actor)
    tool = record_tool(source, "read")
    waiting = Definition.objects.get(tool=tool)
    status_of("wiki").__class__.objects.filter(source=source).update(instructions="Hi", instructions_hash="a" * 64)
    with pytest.raises(AuthorizationError, match="cannot approve what wiki lists"):
        governance.approve_tools("wiki", actor=actor)
    with pytest.raises(AuthorizationError, match="cannot approve what wiki lists"):
        governance.approve_definitions([waiting.pk], actor=actor)
    with pytest.raises(AuthorizationError, match="cannot approve what wiki lists"):
        governance.approve_instructions("wiki", "a" * 64, actor=actor)
    with pytest.raises(AuthorizationError, match="cannot make the trust"):
        governance.change_source("wiki", trust="auto", actor=actor)
    # Another name does not help a token.
    renamed = program(SOURCES, MANAGE, kind=kind, name="ci" if kind == "key" else "other")
    with pytest.raises(AuthorizationError, match="cannot approve what wiki lists"):
        governance.approve_tools("wiki", actor=renamed)
    assert governance.approve_tools("wiki", actor=program(MANAGE, name="operator", number=8)) == ["wiki_read"]
    # Nor does it approve what it moved.
    other = add("tracker")
    governance.change_origin("tracker", location="https://evil.example.org/mcp", actor=actor)
    other.refresh_from_db()
    record_tool(other, "read")
    with pytest.raises(AuthorizationError, match="cannot approve what tracker lists"):
        governance.approve_tools("tracker", actor=actor)


# ---- testing


def test_a_test_says_what_the_server_has_and_records_no_tool(upstreams: ProgrammableUpstreams) -> None:
    add()
    upstreams.listings["wiki"] = listing(
        raw_tool("read"), raw_tool("write"), instructions="Be kind.", unstable=frozenset({"write"})
    )
    found = governance.test_source("wiki", actor=SHELL)
    assert (found.server, found.era, found.instructions) == ("fake 1.0", "2025-11-25", "Be kind.")
    assert len(found.tools) == 2
    assert found.tokens > 20
    assert list(found.unstable) == ["write"]
    assert not ToolRecord.everything.filter(pack="wiki").exists()
    assert not Source.objects.get(name="wiki").enabled
    status = status_of("wiki")
    assert (status.server, status.era, status.error) == ("fake 1.0", "2025-11-25", "")
    assert entries("source.test")[-1].changes == {"server": [None, "fake 1.0"], "tools": [None, 2]}


def test_a_test_that_fails_says_why(upstreams: ProgrammableUpstreams) -> None:
    add()
    upstreams.listings["wiki"] = UnavailableError("it answers 502")
    with pytest.raises(ConflictError, match="Source wiki cannot be used: it answers 502"):
        governance.test_source("wiki", actor=SHELL)
    assert status_of("wiki").error == "it answers 502"
    with pytest.raises(NotFoundError):
        governance.test_source("nope", actor=SHELL)
    with pytest.raises(ConflictError, match="is Python code"):
        governance.test_source(SMALL, actor=SHELL)


# ---- another origin


def quarantined() -> Source:
    source = add(internal=False)
    governance.change_source("wiki", enabled=True, actor=SHELL)
    tool = record_tool(source, "read", enabled=True)
    governance.approve_tools("wiki", actor=SHELL)
    later = timezone.now() + timedelta(hours=1)
    for state in (Approval.State.PENDING, Approval.State.APPROVED, Approval.State.USED):
        approval(later, tool_name=tool.name, state=state)
    approval(later, tool_name="echo", state=Approval.State.PENDING)
    Connection.objects.create(name="main", pack="wiki", form="bearer", url="https://wiki.example.org", sealed=b"sealed")
    return source


def test_another_address_is_another_source(upstreams: ProgrammableUpstreams) -> None:
    source = quarantined()
    Source.objects.filter(pk=source.pk).update(approved_instructions="a" * 64)
    changed = governance.change_origin("wiki", location="https://other.example.org/mcp", actor=SHELL, reason="moved")
    assert changed == ["enabled", "epoch", "location", "secrets"]
    source.refresh_from_db()
    assert (source.enabled, source.epoch, source.approved_instructions) == (False, 2, "")
    assert Connection.objects.get(name="main").sealed == b""
    states = sorted(Approval.objects.filter(tool_name="wiki_read").values_list("state", flat=True))
    assert states == ["refused", "refused", "used"]
    assert Approval.objects.get(tool_name="echo").state == Approval.State.PENDING
    assert upstreams.reconnected == ["wiki"]
    (entry,) = entries("source.origin")
    assert (entry.reason, entry.changes["location"]) == ("moved", [URL, "https://other.example.org/mcp"])
    # What was approved of the first origin, or waited, cannot be approved for the second.
    with pytest.raises(ConflictError, match="of an earlier origin"):
        governance.approve_definitions([Definition.objects.get(tool__name="wiki_read").pk], actor=SHELL)
    assert governance.approve_tools("wiki", actor=SHELL) == []


def test_another_address_does_not_keep_the_trust(upstreams: ProgrammableUpstreams) -> None:
    add(internal=False)
    governance.change_source("wiki", trust="auto", actor=SHELL)
    key = program(SOURCES, MANAGE)
    assert "trust" in governance.change_origin("wiki", location="https://evil.example.org/mcp", actor=key)
    assert entries("source.origin")[-1].changes["trust"] == ["auto", ""]
    upstreams.listings["wiki"] = listing(raw_tool("read"))
    governance.change_source("wiki", enabled=True, actor=key)
    governance.describe_source("wiki", actor=key)
    assert Definition.objects.get(tool__name="wiki_read").approved_at is None
    with pytest.raises(AuthorizationError, match="trust"):
        governance.change_source("wiki", trust="auto", actor=key)


def test_another_path_of_the_same_server_keeps_the_secrets() -> None:
    quarantined()
    governance.change_origin("wiki", location="https://wiki.example.org/v2/mcp", actor=SHELL)
    assert Connection.objects.get(name="main").sealed == b"sealed"
    assert Source.objects.get(name="wiki").epoch == 2


def test_another_command_is_another_source() -> None:
    add("tracker", kind="mcp_stdio", location="", command=COMMAND)
    Connection.objects.create(name="env", pack="tracker", form="environment", sealed=b"sealed")
    governance.change_source("tracker", enabled=True, actor=SHELL)
    assert "epoch" in governance.change_origin("tracker", command=[*COMMAND, "--more"], actor=SHELL)
    assert Connection.objects.get(name="env").sealed == b""
    assert not Source.objects.get(name="tracker").enabled


def test_other_parts_do_not_hold_the_source(upstreams: ProgrammableUpstreams) -> None:
    quarantined()
    changed = governance.change_origin(
        "wiki",
        per_session=True,
        declares=["elicitation"],
        failure_pattern="^Error",
        pin_defaults=False,
        connection="main",
        start="on_demand",
        location=URL,
        actor=SHELL,
    )
    assert changed == ["connection", "declares", "failure_pattern", "per_session", "pin_defaults"]
    source = Source.objects.get(name="wiki")
    assert (source.enabled, source.epoch) == (True, 1)
    assert Connection.objects.get(name="main").sealed == b"sealed"
    due = status_of("wiki").next_try_at
    assert due is not None
    assert due <= timezone.now()
    assert governance.change_origin("wiki", per_session=True, actor=SHELL) == []
    assert len(upstreams.reconnected) == 1
    assert len(entries("source.origin")) == 1


def test_only_sources_outside_have_an_origin_to_change() -> None:
    for change in (
        lambda: governance.change_origin(SMALL, start="always", actor=SHELL),
        lambda: governance.remove_source(SMALL, actor=SHELL),
        lambda: governance.reconnect_source(SMALL, actor=SHELL),
    ):
        with pytest.raises(ConflictError, match="is Python code of this hub"):
            change()


def test_reconnecting_lists_the_source_at_once(upstreams: ProgrammableUpstreams) -> None:
    add()
    governance.reconnect_source("wiki", actor=SHELL, reason="it hangs")
    due = status_of("wiki").next_try_at
    assert due is not None
    assert due <= timezone.now()
    assert upstreams.reconnected == ["wiki"]
    assert entries("source.reconnect")[0].reason == "it hangs"


# ---- removing


def test_a_removed_source_leaves_its_name_and_nothing_that_works(upstreams: ProgrammableUpstreams) -> None:
    source = quarantined()
    governance.change_origin("wiki", connection="main", actor=SHELL)
    assert governance.remove_source("wiki", actor=SHELL, reason="not used") == ["wiki_read"]
    source.refresh_from_db()
    assert source.removed_at is not None
    assert (source.enabled, source.connection, source.epoch) == (False, None, 2)
    assert ToolRecord.objects.get(name="wiki_read").retired_at is not None
    assert Connection.objects.get(name="main").sealed == b""
    assert not Approval.objects.filter(tool_name="wiki_read", state__in=["pending", "approved"]).exists()
    assert status_of("wiki").next_try_at is None
    assert upstreams.reconnected[-1] == "wiki"
    (entry,) = entries("source.remove")
    assert entry.changes["tools"] == [["wiki_read"], []]
    with pytest.raises(NotFoundError):
        governance.remove_source("wiki", actor=SHELL)


# ---- approving


def test_all_that_waits_is_approved_and_switched_on() -> None:
    source = add()
    record_tool(source, "read")
    record_tool(source, "write")
    refused = record_tool(source, "wipe")
    governance.refuse_definitions([Definition.objects.get(tool=refused).pk], actor=SHELL)
    assert governance.approve_tools("wiki", enable=True, actor=SHELL) == ["wiki_read", "wiki_write"]
    assert sorted(ToolRecord.objects.filter(enabled=True, pack="wiki").values_list("name", flat=True)) == [
        "wiki_read",
        "wiki_write",
    ]
    assert governance.approve_tools("wiki", actor=SHELL) == []
    assert governance.approve_tools("wiki", ["wiki-wipe"], actor=SHELL) == ["wiki_wipe"]
    assert not ToolRecord.objects.get(name="wiki_wipe").enabled
    assert {entry.subject for entry in entries("tool.enable")} == {"wiki_read", "wiki_write"}


def test_versions_with_findings_are_approved_only_where_they_are_named() -> None:
    source = add()
    marked = record_tool(source, "wipe").definition
    named = record_tool(source, "read").definition
    assert marked is not None
    assert named is not None
    Definition.objects.filter(pk__in=[marked.pk, named.pk]).update(findings=["the description gives orders"])
    record_tool(source, "write")
    assert governance.approve_tools("wiki", actor=SHELL) == ["wiki_write"]
    waiting = governance.waiting_versions(source)
    assert [version.definition.tool.name for version in waiting] == ["wiki_read", "wiki_wipe"]
    assert governance.approve_tools("wiki", ["wiki_read"], actor=SHELL) == ["wiki_read"]
    assert governance.approve_tools("wiki", definitions=[marked.pk], actor=SHELL) == ["wiki_wipe"]


def test_an_approval_is_for_the_version_that_was_seen() -> None:
    source = add()
    tool = record_tool(source, "read")
    seen = Definition.objects.get(tool=tool)
    other = record_tool(source, "write")
    tool.definition = record_version(tool, " Well.")
    tool.save()
    shown = {seen.pk, other.definition_id or 0}
    assert governance.approve_tools("wiki", definitions=shown, actor=SHELL) == ["wiki_write"]
    assert Definition.objects.filter(tool=tool, approved_at=None).count() == 2


def test_tools_of_other_sources_are_not_approved_along() -> None:
    record_tool(add(), "read")
    other = record_tool(add("tracker", location="https://tracker.example.org/mcp"), "read")
    with pytest.raises(NotFoundError, match="Source wiki has no tool 'tracker_read'"):
        governance.approve_tools("wiki", ["wiki_read", "tracker_read"], actor=SHELL)
    governance.approve_tools("wiki", definitions=[other.definition_id or 0], actor=SHELL)
    assert not Definition.objects.filter(approved_at__isnull=False, tool__pack__in=["wiki", "tracker"]).exists()


def hints(name: str) -> tuple[bool | None, ...]:
    record = ToolRecord.objects.get(name=name)
    return record.hint_read_only, record.hint_destructive, record.hint_idempotent, record.hint_open_world


def test_claims_are_taken_over_only_if_the_operator_says_so() -> None:
    source = add()
    record_tool(source, "read", readOnlyHint=True, openWorldHint=False)
    record_tool(source, "write", destructiveHint=False, idempotentHint=True)
    governance.approve_tools("wiki", ["wiki_read"], actor=SHELL)
    assert hints("wiki_read") == (None, None, None, None)
    governance.approve_tools("wiki", accept_hints=True, actor=SHELL)
    assert hints("wiki_write") == (None, False, True, None)
    assert entries("tool.hints")[0].changes == {"hint_destructive": [None, False], "hint_idempotent": [None, True]}


def test_a_program_accepts_no_claims() -> None:
    record_tool(add(), "read", readOnlyHint=True)
    with pytest.raises(AuthorizationError, match="cannot declare wiki_read less dangerous"):
        governance.approve_tools("wiki", accept_hints=True, actor=program(MANAGE))
    assert Definition.objects.filter(approved_at__isnull=False, tool__pack="wiki").count() == 0


def test_hints_do_not_outlive_the_claims_that_they_were_decided_about() -> None:
    tool = record_tool(add(), "read", readOnlyHint=True, idempotentHint=True)
    governance.approve_tools("wiki", accept_hints=True, actor=SHELL)
    assert hints("wiki_read") == (True, None, True, None)
    tool.refresh_from_db()
    tool.offered, tool.offered_runtime = record_version(tool, " Well.", idempotentHint=True), dict(tool.runtime)
    tool.save()
    assert governance.approve_definitions([tool.offered.pk], actor=SHELL) == ["wiki_read"]
    assert hints("wiki_read") == (None, None, True, None)


def test_hints_that_an_operator_decides_before_the_approval_hold() -> None:
    record_tool(add(), "read", readOnlyHint=True)
    governance.set_hints("wiki_read", read_only=True, idempotent=True, actor=SHELL)
    governance.approve_tools("wiki", accept_hints=True, actor=SHELL)
    assert hints("wiki_read") == (True, None, True, None)


def test_a_program_takes_no_defaults_out_of_approvals() -> None:
    add()
    with pytest.raises(AuthorizationError, match="cannot take the defaults of wiki out of approvals"):
        governance.change_origin("wiki", pin_defaults=False, actor=program(SOURCES, MANAGE))
    governance.change_origin("wiki", pin_defaults=False, actor=SHELL)
    governance.change_origin("wiki", pin_defaults=True, actor=program(SOURCES))


def test_operators_decide_hints_themselves() -> None:
    record_tool(add(), "read")
    assert governance.set_hints("wiki-read", read_only=True, open_world=False, actor=SHELL) == [
        "open_world",
        "read_only",
    ]
    assert hints("wiki_read") == (True, None, None, False)
    assert governance.set_hints("wiki_read", read_only=True, actor=SHELL) == []
    governance.set_hints("wiki_read", read_only=None, destructive=True, actor=program(MANAGE))
    assert hints("wiki_read") == (None, True, None, False)
    with pytest.raises(AuthorizationError, match="less dangerous"):
        governance.set_hints("wiki_read", read_only=True, actor=program(MANAGE))
    with pytest.raises(ConflictError, match="declared by its author"):
        governance.set_hints("echo", read_only=True, actor=SHELL)
    with pytest.raises(ToolNotFoundError):
        governance.set_hints("nope", read_only=True, actor=SHELL)


def test_instructions_are_approved_as_they_were_read(hub: Hub) -> None:
    source = add()
    row = status_of("wiki")
    row.instructions, row.instructions_hash = "Be kind.", "a" * 64
    row.save()
    with pytest.raises(ConflictError, match="have changed"):
        governance.approve_instructions("wiki", "b" * 64, actor=SHELL)
    governance.approve_instructions("wiki", "a" * 64, actor=SHELL)
    source.refresh_from_db()
    assert source.approved_instructions == "a" * 64
    governance.approve_instructions("wiki", "", actor=SHELL)
    source.refresh_from_db()
    assert source.approved_instructions == ""
    assert len(entries("source.instructions")) == 2
