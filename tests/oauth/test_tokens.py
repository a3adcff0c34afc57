"""Tokens: requested once, renewed in time, and never by two at once; what happens when they are refused."""

from __future__ import annotations

import asyncio
import threading
import time
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection as database
from django.utils import timezone

from tests.connections.conftest import caller
from tests.oauth.conftest import ACTOR, by_credentials, by_person, look, sign_in, token_of
from tests.support.mcp_upstream import McpUpstream
from tests.support.oauth_server import OAuthServer
from tests.support.tools import eventually
from tools_app import engine, governance, sources
from tools_app.catalog import accounts, catalog
from tools_app.models import Connection, ErrorLog, Source, SourceStatus, UpstreamToken
from tools_app.sdk.accounts import ConnectionKind
from tools_app.sdk.errors import ApiError, ToolError, UpstreamUnavailableError
from tools_app.sdk.hub_errors import UpstreamSignInError
from tools_app.upstream.oauth import tokens
from tools_app.upstream.oauth.token import NoTokenError


def expired(name: str = "ann") -> None:
    """The token of a connection ended a moment ago."""
    past = timezone.now() - timedelta(seconds=1)
    UpstreamToken.objects.filter(connection__name=name).update(renew_at=past, expires_at=past)


def aged(name: str = "ann") -> None:
    UpstreamToken.objects.filter(connection__name=name).update(obtained_at=timezone.now() - timedelta(minutes=5))


async def together(number: int, name: str = "ann") -> list[Any]:
    calls = (engine.call("acme_look", {"text": str(one)}, caller(name), door="code") for one in range(number))
    return await asyncio.gather(*calls, return_exceptions=True)


def test_a_client_with_a_secret_gets_a_token_at_the_first_call_and_keeps_it(
    server: McpUpstream, oauth: OAuthServer
) -> None:
    by_credentials(scopes="notes")
    for _ in range(3):
        look(name="robot")
    assert len(server.calls) == 3
    assert oauth.count("client_credentials") == 1
    row = token_of("robot")
    assert (row.version, row.scopes, row.needs_sign_in) == (1, "notes", False)
    assert row.server["issuer"] == oauth.issuer
    assert row.server["resource"] == server.url
    assert b"access-" not in bytes(row.sealed)


def test_a_token_url_that_was_entered_needs_no_metadata(server: McpUpstream, oauth: OAuthServer) -> None:
    server.documents.clear()
    server.challenge = "Bearer"
    by_credentials(token_url=f"{oauth.issuer}/token")
    look(name="robot")
    assert [path for path, _ in oauth.requests] == ["/token"]


def test_a_token_that_ends_is_renewed_before_the_call(server: McpUpstream, oauth: OAuthServer) -> None:
    by_person()
    sign_in(oauth)
    server.refused = 0
    first = tokens.Tokens.of(token_of())
    expired()
    look()
    look()
    assert (oauth.count("refresh_token"), token_of().version, server.refused) == (1, 2, 0)
    second = tokens.Tokens.of(token_of())
    assert (first.access, first.refresh) != (second.access, second.refresh)
    expires_at = token_of().expires_at
    assert expires_at is not None
    assert expires_at > timezone.now() + timedelta(minutes=50)


def test_a_short_life_is_renewed_in_a_session_that_is_open(server: McpUpstream, oauth: OAuthServer) -> None:
    oauth.lifetime = 1
    by_person()
    sign_in(oauth)
    server.refused = 0
    look()
    time.sleep(1.1)
    look()
    assert len(server.calls) == 2
    assert oauth.count("refresh_token") >= 1
    assert server.refused == 0


def test_a_refresh_token_that_does_not_rotate_is_kept(server: McpUpstream, oauth: OAuthServer) -> None:
    oauth.rotates = False
    by_person()
    sign_in(oauth)
    for _ in range(2):
        expired()
        forget_memory()
        look()
    assert (oauth.count("refresh_token"), token_of().version) == (2, 3)


def test_a_token_that_is_refused_is_renewed_once_and_the_call_runs_once(
    server: McpUpstream, oauth: OAuthServer
) -> None:
    by_person()
    sign_in(oauth)
    look()
    oauth.expire()
    look()
    assert oauth.count("refresh_token") == 1
    assert [name for name, _ in server.calls] == ["look", "look"]


def test_many_refused_calls_cause_one_renewal(server: McpUpstream, oauth: OAuthServer) -> None:
    by_person()
    sign_in(oauth)
    look()
    oauth.expire()
    oauth.fail("/token", delay=0.3)
    answers = asyncio.run(together(30))
    assert [one for one in answers if isinstance(one, BaseException)] == []
    assert (oauth.count("refresh_token"), len(server.calls)) == (1, 31)


def test_a_source_that_refuses_every_token_is_not_asked_again_and_again(
    server: McpUpstream, oauth: OAuthServer
) -> None:
    by_person()
    sign_in(oauth)
    server.accepts = lambda header: False
    for _ in range(2):
        with pytest.raises(ApiError, match="HTTP 401"):
            look()
    assert oauth.count("refresh_token") == 0
    assert token_of().needs_sign_in is False
    aged()
    forget_memory()
    for _ in range(2):
        with pytest.raises(ApiError, match="HTTP 401"):
            look()
    assert oauth.count("refresh_token") == 1


def test_a_person_has_to_sign_in_again_when_the_grant_is_gone_and_then_it_works_at_once(
    server: McpUpstream, oauth: OAuthServer
) -> None:
    by_person()
    sign_in(oauth)
    Source.objects.filter(name="acme").update(connection=Connection.objects.get(name="ann"))
    listed = [entry.name for entry in catalog.current().all if entry.pack == "acme"]
    oauth.revoke_all()
    expired()
    for _ in range(4):
        with pytest.raises(UpstreamSignInError, match="sign in again") as refused:
            look()
        assert refused.value.code == "UPSTREAM_SIGN_IN"
        assert refused.value.nothing_done
        assert "invalid_grant" in refused.value.message
        assert "not active" not in refused.value.message, "what outsiders say does not reach agents"
    asked = [form for path, form in oauth.requests if path == "/token" and form.get("grant_type") == "refresh_token"]
    assert len(asked) == 1, "it asks once, and never in a loop"
    assert token_of().needs_sign_in
    assert SourceStatus.objects.get(source__name="acme").availability == "sign_in"
    assert Connection.objects.get(name="ann").healthy is False
    assert [entry.name for entry in catalog.current().all if entry.pack == "acme"] == listed
    assert server.calls == []
    sign_in(oauth)
    look()
    assert Connection.objects.get(name="ann").healthy is None
    sources.current().describe("acme", actor="test")
    assert SourceStatus.objects.get(source__name="acme").availability == "ok"


def test_a_listing_that_needs_a_sign_in_says_so(server: McpUpstream, oauth: OAuthServer) -> None:
    by_person()
    Source.objects.filter(name="acme").update(connection=Connection.objects.get(name="ann"))
    with pytest.raises(Exception, match="no person has signed in yet"):
        sources.current().describe("acme", actor="test")
    assert SourceStatus.objects.get(source__name="acme").availability == "sign_in"


def test_without_a_refresh_token_the_end_of_the_token_is_the_end_of_the_sign_in(
    server: McpUpstream, oauth: OAuthServer
) -> None:
    oauth.issues_refresh = False
    by_person()
    sign_in(oauth)
    look()
    expired()
    forget_memory()
    with pytest.raises(UpstreamSignInError, match="has expired, and cannot be renewed"):
        look()


def test_a_token_that_cannot_be_renewed_is_used_to_its_end(server: McpUpstream, oauth: OAuthServer) -> None:
    oauth.issues_refresh = False
    by_person()
    sign_in(oauth)
    now = timezone.now()
    UpstreamToken.objects.update(renew_at=now - timedelta(seconds=1), expires_at=now + timedelta(seconds=50))
    look()
    UpstreamToken.objects.update(needs_sign_in=True)
    forget_memory()
    look()
    assert len(server.calls) == 2


def test_while_the_authorization_server_is_down_a_valid_token_is_used_and_nobody_floods_it(
    server: McpUpstream, oauth: OAuthServer
) -> None:
    by_person()
    sign_in(oauth)
    now = timezone.now()
    UpstreamToken.objects.update(renew_at=now - timedelta(seconds=1), expires_at=now + timedelta(seconds=50))
    oauth.fail("/token", status=503, times=1000, headers={"Retry-After": "40"})
    for _ in range(5):
        forget_memory()
        look()
    expired()
    for _ in range(3):
        forget_memory()
        with pytest.raises(UpstreamUnavailableError, match="HTTP 503") as refused:
            look()
        assert refused.value.nothing_done
    assert len(server.calls) == 5
    assert sum(path == "/token" for path, _ in oauth.requests) == 2
    assert token_of().needs_sign_in is False
    oauth.faults.clear()
    UpstreamToken.objects.update(retry_at=None)
    forget_memory()
    look()


@pytest.mark.parametrize(
    "answer",
    [
        {"status": 200, "body": b"<html>log in</html>"},
        {"status": 200, "body": {"access_token": "a\nb"}},
        {"status": 200, "body": {"access_token": 7}},
        {"status": 200, "body": {"access_token": "x", "token_type": "mac"}},
        {"status": 200, "body": b'{"access_token": "' + b"x" * 300_000 + b'"}'},
        {"status": 302, "headers": {"Location": "http://127.0.0.1:9/token"}},
        {"status": 500, "body": {"error": "invalid_grant"}},
    ],
)
def test_an_answer_that_is_no_token_is_a_failure_and_is_not_repeated_to_anybody(
    server: McpUpstream, oauth: OAuthServer, answer: dict[str, Any]
) -> None:
    by_person()
    sign_in(oauth)
    expired()
    oauth.fail("/token", **answer)
    with pytest.raises(ToolError) as refused:
        look()
    assert refused.value.nothing_done
    assert "<html>" not in refused.value.message
    assert token_of().needs_sign_in is False
    assert (server.calls, token_of().version) == ([], 1)


def test_a_client_that_the_server_forgot_is_registered_once_more(server: McpUpstream, oauth: OAuthServer) -> None:
    by_person()
    sign_in(oauth)
    assert oauth.count("registration") == 1
    oauth.forget_clients()
    expired()
    look()
    assert (oauth.count("registration"), token_of().version) == (2, 2)
    expired()
    forget_memory()
    look()
    assert oauth.count("registration") == 2


def test_a_client_that_stays_unknown_ends_in_a_sign_in_and_not_in_a_loop(
    server: McpUpstream, oauth: OAuthServer
) -> None:
    by_person()
    sign_in(oauth)
    expired()
    oauth.fail("/token", status=401, body={"error": "invalid_client"}, times=1000)
    for _ in range(3):
        with pytest.raises(UpstreamSignInError, match="invalid_client"):
            look()
    assert oauth.count("registration") == 2
    assert sum(path == "/token" for path, _ in oauth.requests) == 3
    oauth.faults.clear()
    sign_in(oauth)
    look()
    assert oauth.count("registration") == 3


def test_a_wrong_client_secret_is_tried_again_only_after_a_pause(server: McpUpstream, oauth: OAuthServer) -> None:
    oauth.clients["entered"] = "another"
    by_credentials()
    for _ in range(2):
        with pytest.raises(UpstreamUnavailableError, match="invalid_client"):
            look(name="robot")
    assert sum(path == "/token" for path, _ in oauth.requests) == 1
    secret = {"client_secret": "another"}
    governance.change_connection("robot", secret=secret, actor=ACTOR)
    look(name="robot")


def test_a_process_that_died_leaves_its_claim_and_another_one_takes_over(
    server: McpUpstream, oauth: OAuthServer
) -> None:
    """The answer was lost with the process: the old refresh token is tried once, and its reuse ends the sign-in."""
    by_person()
    sign_in(oauth)
    expired()
    row = token_of()
    spent = tokens.Tokens.of(row).refresh
    oauth.token({"grant_type": "refresh_token", "refresh_token": spent}, row.server["client_id"], secret_of(row))
    past = timezone.now() - timedelta(seconds=1)
    UpstreamToken.objects.update(refreshing_until=past, refreshing_by="of a process that is gone")
    for _ in range(3):
        with pytest.raises(UpstreamSignInError, match="sign in again"):
            look()
    sent = [form for path, form in oauth.requests if form.get("refresh_token") == spent]
    assert len(sent) == 1
    sign_in(oauth)
    look()


def test_a_claim_of_a_process_that_asked_nothing_is_taken_over_without_loss(
    server: McpUpstream, oauth: OAuthServer
) -> None:
    by_person()
    sign_in(oauth)
    expired()
    past = timezone.now() - timedelta(seconds=1)
    UpstreamToken.objects.update(refreshing_until=past, refreshing_by="of a process that is gone")
    look()
    assert (oauth.count("refresh_token"), token_of().version) == (1, 2)


def test_others_wait_for_the_version_of_the_one_that_asks(server: McpUpstream, oauth: OAuthServer) -> None:
    by_person()
    sign_in(oauth)
    expired()
    account, origin = parts()
    oauth.fail("/token", delay=0.5)
    found: list[int] = []
    threads = [threading.Thread(target=lambda: found.append(tokens.obtain(account, origin).version)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert (found, oauth.count("refresh_token")) == ([2] * 8, 1)


def test_a_token_that_comes_after_a_new_sign_in_is_dropped(server: McpUpstream, oauth: OAuthServer) -> None:
    by_person()
    sign_in(oauth)
    expired()
    account, origin = parts()
    oauth.fail("/token", delay=1.0)
    failures: list[Exception] = []

    def renew() -> None:
        try:
            tokens.obtain(account, origin)
        except NoTokenError as error:
            failures.append(error)

    thread = threading.Thread(target=renew)
    thread.start()
    assert eventually(lambda: token_of().refreshing_until is not None, 30)
    sign_in(oauth)
    stored = bytes(token_of().sealed)
    thread.join(30)
    assert (bytes(token_of().sealed), token_of().version) == (stored, 2)
    assert "changed meanwhile" in str(failures[0])
    look()


def test_parallel_calls_do_not_wait_for_each_other(server: McpUpstream, oauth: OAuthServer) -> None:
    by_person()
    sign_in(oauth)
    gate = threading.Event()
    look()
    server.calls.clear()
    server.behave("look", hold=gate)
    waiting = threading.Thread(target=lambda: asyncio.run(together(8)))
    waiting.start()
    # All of them are at the source at once: nothing serialises them.
    assert eventually(lambda: len(server.calls) == 8, 30)
    gate.set()
    waiting.join(30)


def test_what_a_caller_sends_never_reaches_the_source(server: McpUpstream, oauth: OAuthServer) -> None:
    by_person()
    sign_in(oauth)
    server.accepts = lambda header: True
    server.requests.clear()

    async def mixed() -> list[Any]:
        return [answer for _ in range(10) for answer in await together(50)]

    answers = asyncio.run(mixed())
    assert [one for one in answers if isinstance(one, BaseException)] == []
    access = tokens.Tokens.of(token_of()).access
    assert {headers.get("authorization") for _, headers in server.requests} == {f"Bearer {access}"}
    assert len(server.requests) >= 500


def test_no_log_and_no_record_has_a_token(
    server: McpUpstream, oauth: OAuthServer, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(1)
    by_person()
    sign_in(oauth)
    first = tokens.Tokens.of(token_of())
    server.behave("look", result={"content": [{"type": "text", "text": f"you sent {first.access}"}]})
    assert first.access not in str(look())
    oauth.revoke_all()
    expired()
    forget_memory()
    with pytest.raises(UpstreamSignInError):
        look()
    texts = caplog.text + str(list(ErrorLog.objects.values())) + dumped()
    for secret in (first.access, first.refresh, first.client_secret):
        assert secret
        assert secret not in texts


def dumped() -> str:
    with database.cursor() as cursor:
        tables = [table for table in database.introspection.table_names(cursor) if table.startswith("tools_app_")]
        rows = []
        for table in tables:
            cursor.execute(f"SELECT * FROM {table}")  # noqa: S608
            rows += [bytes(one) if isinstance(one, memoryview) else one for row in cursor.fetchall() for one in row]
    return str(rows)


def parts(name: str = "ann") -> tuple[Any, Any]:
    row = Connection.objects.get(name=name)
    origin = Source.objects.get(name="acme").origin
    return accounts.of_row(row, ConnectionKind.outside("acme")), origin


def secret_of(row: UpstreamToken) -> str:
    return tokens.Tokens.of(row).client_secret


def forget_memory() -> None:
    """As in another process: no session has a token in memory."""
    Source.objects.filter(name="acme").update(failure_rule={"pattern": f"never-{time.monotonic_ns()}"})
