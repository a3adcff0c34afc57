"""Tokens of an OAuth issuer: which hold, and what they are worth."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from typing import Any

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from tests.support.faultd import Faultd
from tests.support.issuers import Issuer, forged
from tests.support.state import fetch_issuer_keys_again
from tools_app.access import access, issuer
from tools_app.sdk.context import Caller
from tools_app.sdk.errors import AuthenticationError, AuthorizationError
from tools_app.sdk.hub_errors import CircuitOpenError

pytestmark = pytest.mark.anyio
AT = "https://hub.example/mcp"


@pytest.fixture(scope="module")
def server() -> Iterator[Faultd]:
    with Faultd() as running:
        yield running


@pytest.fixture
def idp(server: Faultd, settings: Any) -> Issuer:
    server.requests.clear()
    made = Issuer(server)
    made.add("one")
    settings.TOOLHUB_OAUTH_ISSUER = made.url
    settings.TOOLHUB_OAUTH_AUDIENCE = ["hub"]
    return made


async def caller(token: str, at: str = AT) -> Caller:
    return await access.caller_of_key(token, at)


async def refused(token: str, at: str = AT) -> str:
    with pytest.raises(AuthenticationError) as caught:
        await caller(token, at)
    return caught.value.message


@pytest.mark.parametrize("algorithm", ["RS256", "ES256", "EdDSA"])
async def test_a_token_is_worth_what_its_scopes_say(idp: Issuer, algorithm: str) -> None:
    idp.add("own", algorithm)
    found = await caller(idp.token("own", scope="openid tools:list tools:execute", preferred_username="ann"))
    assert (found.kind, found.id, found.name) == ("token", "token:user-1", "ann")
    assert found.scopes == {"tools:list", "tools:execute"}
    assert found.reach.everything


async def test_an_issuer_grants_no_administrator_scope(idp: Issuer) -> None:
    assert (await caller(idp.token(scope="admin:* tools:read"))).scopes == {"tools:read"}


@pytest.mark.parametrize(
    ("name", "claims"),
    [
        ("scp", {"scope": None, "scp": ["tools:read", 7]}),
        ("realm_access.roles", {"realm_access": {"roles": ["tools:read"]}}),
        ("https://hub.example/scopes", {"https://hub.example/scopes": "tools:read"}),
    ],
)
async def test_scopes_can_come_from_another_claim(idp: Issuer, settings: Any, name: str, claims: Any) -> None:
    settings.TOOLHUB_OAUTH_SCOPES_CLAIM = name
    assert (await caller(idp.token(**claims))).scopes == {"tools:read"}


async def test_a_token_without_scopes_of_the_hub_is_worth_what_the_operator_says(idp: Issuer, settings: Any) -> None:
    with pytest.raises(AuthorizationError, match="requires scope tools:list"):
        await caller(idp.token(scope="openid"))
    settings.TOOLHUB_OAUTH_SCOPES = ["tools:list", "tools:execute"]
    assert (await caller(idp.token(scope="openid"))).scopes == {"tools:list", "tools:execute"}
    assert (await caller(idp.token(scope=None))).scopes == {"tools:list", "tools:execute"}
    assert (await caller(idp.token(scope="tools:read"))).scopes == {"tools:read"}


async def test_who_it_is_fits_into_the_journal(idp: Issuer) -> None:
    for subject in ("x" * 500, "a b\n", "ü"):
        found = await caller(idp.token(sub=subject))
        assert len(found.id) <= 64
        assert found.id.isascii()
        assert found.id.isprintable()
    assert (await caller(idp.token(sub="auth0|5f7c"))).id == "token:auth0|5f7c"


async def test_no_subject_can_be_chosen_that_shares_the_identity_of_a_long_one(idp: Issuer) -> None:
    long = await caller(idp.token(sub="x" * 500))
    for chosen in (long.id.removeprefix("token:"), long.id.removeprefix("token:#")):
        assert (await caller(idp.token(sub=chosen))).id != long.id
    assert (await caller(idp.token(sub="x" * 500))).id == long.id


class TestReach:
    @pytest.mark.parametrize(
        ("settings_of_hub", "scope", "toolsets", "kinds"),
        [
            ({}, "tools:list", None, "wd"),
            ({}, "tools:list toolset:wiki", {"wiki"}, "wd"),
            ({"TOOLSETS": ["wiki", "mail"]}, "tools:list", {"wiki", "mail"}, "wd"),
            ({"TOOLSETS": ["wiki", "mail"]}, "tools:list toolset:wiki toolset:bank", {"wiki"}, "wd"),
            ({"ACCESS": "read"}, "tools:list tools:destroy", None, ""),
            ({"ACCESS": "write"}, "tools:list tools:destroy", None, "w"),
            ({"BY_SCOPE": True}, "tools:list toolset:wiki", {"wiki"}, ""),
            ({"BY_SCOPE": True}, "tools:list toolset:wiki tools:write", {"wiki"}, "w"),
            ({"BY_SCOPE": True}, "tools:list toolset:wiki tools:destroy", {"wiki"}, "wd"),
            ({"BY_SCOPE": True, "ACCESS": "write"}, "tools:list toolset:wiki tools:destroy", {"wiki"}, "w"),
            ({"BY_SCOPE": True, "TOOLSETS": ["wiki"]}, "tools:list toolset:wiki toolset:bank", {"wiki"}, ""),
        ],
    )
    async def test_is_the_smaller_of_what_a_token_names_and_the_hub_allows(
        self, idp: Issuer, settings: Any, settings_of_hub: Any, scope: str, toolsets: Any, kinds: str
    ) -> None:
        for name, value in settings_of_hub.items():
            setattr(settings, f"TOOLHUB_OAUTH_{name}", value)
        reach = (await caller(idp.token(scope=scope))).reach
        assert reach.toolsets == toolsets
        assert (reach.writes, reach.destroys) == ("w" in kinds, "d" in kinds)

    @pytest.mark.parametrize(
        ("settings_of_hub", "scope"),
        [
            ({"BY_SCOPE": True}, "tools:list tools:write"),
            ({"BY_SCOPE": True, "TOOLSETS": ["wiki"]}, "tools:list"),
            ({"TOOLSETS": ["wiki"]}, "tools:list toolset:bank"),
        ],
    )
    async def test_of_no_toolset_is_a_missing_scope(
        self, idp: Issuer, settings: Any, settings_of_hub: Any, scope: str
    ) -> None:
        for name, value in settings_of_hub.items():
            setattr(settings, f"TOOLHUB_OAUTH_{name}", value)
        with pytest.raises(
            AuthorizationError, match="requires (scope toolset:wiki|a scope that names a toolset, as toolset:NAME)$"
        ):
            await caller(idp.token(scope=scope))

    async def test_has_no_approval_of_its_own(self, idp: Issuer, settings: Any) -> None:
        assert (await caller(idp.token())).asks == ""
        settings.TOOLHUB_OAUTH_ASKS = "writes"
        assert (await caller(idp.token(scope="tools:list asks:none"))).asks == "writes"


@pytest.mark.parametrize(
    ("claims", "said"),
    [
        ({"exp": 1_000_000}, "The token has expired"),
        ({"exp": None}, "The token is not valid"),
        ({"exp": "soon"}, "The token is not valid"),
        ({"nbf": 9_999_999_999}, "The token is not valid"),
        ({"iat": 9_999_999_999}, "The token is not valid"),
        ({"aud": "elsewhere"}, "The token is not for this hub"),
        ({"aud": ["a", "b"]}, "The token is not for this hub"),
        ({"aud": None}, "The token is not valid"),
        ({"iss": "https://elsewhere.example"}, "The token is not valid"),
        ({"iss": None}, "The token is not valid"),
        ({"sub": None}, "The token is not valid"),
        ({"sub": 7}, "The token is not valid"),
    ],
)
async def test_a_claim_that_does_not_fit_ends_it(idp: Issuer, claims: dict[str, Any], said: str) -> None:
    assert await refused(idp.token(**claims)) == said


async def test_small_clock_differences_are_tolerated(idp: Issuer) -> None:
    now = int(time.time())
    await caller(idp.token(exp=now - 10, nbf=now + 10, iat=now + 10))


async def test_a_token_does_not_choose_how_it_is_checked(idp: Issuer) -> None:
    idp.add("rsa", "RS256")
    _, key = idp.keys["rsa"]
    public = key.public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    claims = {"iss": idp.url, "sub": "user-1", "aud": "hub", "exp": time.time() + 60, "scope": "tools:list"}
    idp.published.append({"kty": "oct", "kid": "shared", "k": "c2VjcmV0", "alg": "HS256"})
    attempts: list[tuple[dict[str, Any], bytes | None]] = [
        ({"alg": "none", "kid": "rsa"}, None),
        ({"alg": "None", "kid": "one"}, None),
        ({"alg": "HS256", "kid": "rsa"}, public),
        ({"alg": "HS256", "kid": "shared"}, b"secret"),
        ({"alg": "RS256", "kid": "one"}, b"x"),
        ({"alg": "RS256", "kid": "shared"}, b"secret"),
        ({"alg": ["RS256"], "kid": "rsa"}, b"x"),
        ({"alg": "ES256", "kid": ["one"]}, b"x"),
        ({"alg": "ES256", "kid": "one", "crit": ["b64"], "b64": False}, b"x"),
        ({"alg": "ES256", "kid": "one", "jwk": idp.published[0]}, b"x"),
        ({"alg": "ES256", "jku": f"{idp.url}/keys"}, b"x"),
    ]
    for header, secret in attempts:
        assert (await refused(forged(header, claims, secret))).startswith("The token is ")
    for rubbish in ("eyJ.e30.x", "eyJhIjox.e30.x", "eyJ" + "a" * 100 + ".b.c", "eyJ" + "a" * 9000 + ".b.c"):
        await refused(rubbish)
    assert await refused(idp.token(header={"kid": "rsa"})) == "The token is signed with an unknown key"


async def test_keys_that_are_weak_or_for_something_else_are_passed_over(idp: Issuer) -> None:
    idp.add("weak", "RS256", key=rsa.generate_private_key(public_exponent=65537, key_size=1024))  # noqa: S505 - it has to be
    idp.add("encrypts")
    idp.published[-1]["use"] = "enc"
    idp.published += [{"kty": "RSA", "kid": "broken"}, {"kty": "?"}, "no key"]  # type: ignore[list-item]
    for key_id in ("weak", "encrypts"):
        assert await refused(idp.token(key_id)) == "The token is signed with an unknown key"
    await caller(idp.token())


async def test_the_only_key_needs_no_name(idp: Issuer) -> None:
    await caller(idp.token(header={"kid": None}))
    idp.add("two")
    fetch_issuer_keys_again()
    assert await refused(idp.token(header={"kid": None})) == "The token is signed with an unknown key"


async def test_the_issuer_is_asked_once_for_all_and_again_for_new_keys_but_not_all_the_time(
    idp: Issuer, monkeypatch: pytest.MonkeyPatch
) -> None:
    await asyncio.gather(*(caller(idp.token()) for _ in range(20)))
    assert idp.asked() == 1
    idp.add("two")
    for _ in range(5):
        assert await refused(idp.token("two")) == "The token is signed with an unknown key"
    assert idp.asked() == 1  # not again within half a minute
    monkeypatch.setattr(issuer, "ASK_SECONDS", 0)
    await caller(idp.token("two"))
    assert idp.asked() == 2
    await asyncio.gather(caller(idp.token()), caller(idp.token("two")))
    assert idp.asked() == 2


async def test_a_key_that_was_withdrawn_does_not_hold_for_long(idp: Issuer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(issuer, "FRESH_SECONDS", 0)
    monkeypatch.setattr(issuer, "ASK_SECONDS", 0)
    await caller(idp.token())
    idp.published.clear()
    idp.add("two")
    await caller(idp.token())  # not kept waiting, but the issuer is asked meanwhile
    await caller(idp.token("two"))
    assert await refused(idp.token()) == "The token is signed with an unknown key"


async def test_a_key_that_was_withdrawn_between_calls_is_not_accepted_again(
    idp: Issuer, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("FRESH_SECONDS", "OLD_SECONDS", "ASK_SECONDS"):
        monkeypatch.setattr(issuer, name, 0)
    await caller(idp.token())
    idp.published.clear()
    idp.add("two")
    assert await refused(idp.token()) == "The token is signed with an unknown key"


def test_a_key_is_taken_for_ten_minutes_at_most_after_it_was_withdrawn() -> None:
    assert 0 < issuer.ASK_SECONDS < issuer.FRESH_SECONDS < issuer.OLD_SECONDS <= 600


async def test_an_unreachable_issuer_stops_no_caller_with_a_known_key(
    idp: Issuer, monkeypatch: pytest.MonkeyPatch
) -> None:
    idp.status = "503 Away"
    with pytest.raises(CircuitOpenError, match="cannot be checked now") as caught:
        await caller(idp.token())
    assert caught.value.retry_after == 30
    idp.status = "200 OK"
    monkeypatch.setattr(issuer, "ASK_SECONDS", 0)
    await caller(idp.token())
    idp.status = "503 Away"
    await caller(idp.token())
    assert await refused(forged({"alg": "ES256", "kid": "new"}, {})) == "The token is signed with an unknown key"


async def test_the_issuer_speaks_for_itself_only(idp: Issuer, settings: Any) -> None:
    idp.metadata["issuer"] = "https://elsewhere.example"
    with pytest.raises(CircuitOpenError):
        await caller(idp.token())
    assert idp.asked() == 0
    fetch_issuer_keys_again()
    settings.TOOLHUB_OAUTH_JWKS_URL = f"{idp.url}/keys"
    await caller(idp.token())
    assert [seen.target for seen in idp.server.requests][-1] == "/keys"


async def test_without_an_audience_of_its_own_the_hub_goes_by_its_address(idp: Issuer, settings: Any) -> None:
    settings.TOOLHUB_OAUTH_AUDIENCE = []
    for audience in ("https://hub.example", "https://hub.example/", "https://hub.example/mcp", [AT + "/"]):
        await caller(idp.token(aud=audience))
        await caller(idp.token(aud=audience), "https://hub.example/v1/tools")
        await caller(idp.token(aud=audience), "https://hub.example/mcp/wiki")
    wiki = idp.token(aud="https://hub.example/mcp/wiki")
    await caller(wiki, "https://hub.example/mcp/wiki")
    for at in (AT, "https://hub.example/v1/tools", "https://hub.example/mcp/other", "https://other.example/mcp/wiki"):
        assert await refused(wiki, at) == "The token is not for this hub"
    for audience in ("http://hub.example/mcp", "https://hub.example.evil/mcp", "https://hub.example/mcpx"):
        assert await refused(idp.token(aud=audience)) == "The token is not for this hub"


async def test_without_an_issuer_no_token_is_taken(idp: Issuer, settings: Any) -> None:
    token = idp.token()
    settings.TOOLHUB_OAUTH_ISSUER = ""
    assert await refused(token) == "The key is unknown, revoked, expired or not allowed from this address"
    assert idp.server.requests == []
