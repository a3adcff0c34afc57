"""Passkeys: bound to the address of the hub, each answer once, and counted and removed like other second factors."""

from __future__ import annotations

import html
import json
import re
import time
from typing import Any

import pytest
import time_machine
from allauth.mfa.models import Authenticator
from django.contrib.auth.models import User
from django.test import Client

from tests.sso.authenticator import SoftwareKey
from tests.sso.conftest import is_signed_in
from tests.sso.test_second_factor import CODE, LOGIN, OWN, PASSWORD, code_of, enter_password, signed_in_client
from toolhub.second_factor import factors, passkeys
from tools_app import governance
from tools_app.models import AuditEntry
from tools_app.sdk.errors import ConflictError, ValidationError

ADD = f"{OWN}passkey/"
SITE = passkeys.Site("https://testserver", "testserver")


@pytest.fixture
def anna(db: None) -> User:
    return User.objects.create_superuser("anna", password=PASSWORD)


@pytest.fixture
def key(anna: User) -> SoftwareKey:
    """Of a passkey that was stored."""
    return stored(anna)


def stored(user: User, name: str = "laptop", key: SoftwareKey | None = None) -> SoftwareKey:
    made = key or SoftwareKey()
    options, challenge = passkeys.creation(user, SITE)
    passkeys.add(user, name, SITE, challenge, made.makes(json.loads(options)))
    return made


def options_in(answer: Any) -> dict[str, Any]:
    """What the script of a page hands to the browser."""
    found = re.search(r'data-options="([^"]+)"', answer.content.decode())
    assert found is not None, answer.content.decode()
    options: dict[str, Any] = json.loads(html.unescape(found[1]))
    return options


def asked(client: Client) -> dict[str, Any]:
    """After the password."""
    client.post(LOGIN, {"username": "anna", "password": PASSWORD}, secure=True)
    return options_in(client.get(CODE, secure=True))


def answered(client: Client, answer: str) -> Any:
    return client.post(CODE, {"passkey": answer}, secure=True)


def own_page(client: Client) -> str:
    return str(client.get(OWN, secure=True).content.decode())


# ---- signing in


def test_a_passkey_signs_in_after_the_password(anna: User, key: SoftwareKey) -> None:
    client = Client()
    options = asked(client)
    assert not is_signed_in(client)
    assert (options["rpId"], options["userVerification"]) == ("testserver", "preferred")
    assert len(options["allowCredentials"]) == 1
    answer = answered(client, key.signs(options))
    assert (answer.status_code, answer["Location"]) == (302, "/admin/")
    assert is_signed_in(client)
    assert AuditEntry.objects.filter(action="user.sign_in", subject="user:anna").count() == 1
    [row] = passkeys.of(anna)
    assert row.data["counter"] == 2
    assert row.last_used_at is not None


def test_a_passkey_without_a_counter_signs_in_again_and_again(anna: User) -> None:
    key = stored(anna, key=SoftwareKey(counter=0))
    for _ in range(2):
        client = Client()
        answered(client, key.signs(asked(client)))
        assert is_signed_in(client)


FORGED: list[tuple[dict[str, Any], str]] = [
    ({"origin": "https://evil.example"}, "Invalid origin"),
    ({"origin": "https://testserver:8443"}, "Invalid origin"),
    ({"origin": "https://sub.testserver"}, "Invalid origin"),
    ({"origin": "http://testserver"}, "Invalid origin"),
    ({"origin": "https://testserver/"}, "Invalid origin"),
    ({"origin": None}, "Invalid origin"),
    ({"host": "evil.example"}, "Wrong RP ID"),
    ({"type": "webauthn.create"}, "Incorrect type"),
    ({"challenge": "A" * 43}, "Wrong challenge"),
    ({"challenge": ""}, "Wrong challenge"),
    ({"flags": 0}, "User Present"),
    ({"is_framed": True}, "a frame of another site"),
    ({"signature": b"no signature"}, "Invalid signature"),
    ({"id": b"another"}, "Unknown credential"),
    ({"counter": 1}, "its counter went from 1 to 1"),
    ({"counter": 0}, "its counter went from 1 to 0"),
    ({"shown": b"\0" * 36}, "Error"),
    ({"shown": b"\0" * 32 + b"\xc1" + b"\0" * 4 + b"\xff" * 40}, "Error"),
]


@pytest.mark.parametrize(("forged", "reason"), FORGED, ids=str)
def test_what_no_browser_of_this_hub_would_send_is_refused(
    anna: User, key: SoftwareKey, forged: dict[str, Any], reason: str, caplog: pytest.LogCaptureFixture
) -> None:
    client = Client()
    answer = answered(client, key.signs(asked(client), **forged))
    assert answer.status_code == 200
    assert "This passkey does not fit" in answer.content.decode()
    assert not is_signed_in(client)
    assert len(passkeys.of(anna)[0].data["wrong"]) == 1
    assert reason in caplog.text
    [entry] = AuditEntry.objects.filter(action="user.sign_in_failed")
    assert entry.subject == "user:anna"


MALFORMED = ["x", "{}", "[]", "null", '{"id": 1, "response": {}}', "[" * 9_000, '{"id": "' + "A" * 20_000 + '"}']


@pytest.mark.parametrize("answer", MALFORMED, ids=range(len(MALFORMED)))
def test_what_is_no_answer_is_refused(anna: User, key: SoftwareKey, answer: str) -> None:
    client = Client()
    asked(client)
    refused = answered(client, answer)
    assert (refused.status_code, "This passkey does not fit" in refused.content.decode()) == (200, True)
    assert not is_signed_in(client)


def test_an_answer_counts_once(anna: User, key: SoftwareKey) -> None:
    """In its session, in another one, and of requests at once that read the same session."""
    key = stored(anna, "without counter", SoftwareKey(counter=0))
    client = Client()
    options = asked(client)
    answer = key.signs(options)
    answered(client, answer)
    assert is_signed_in(client)
    other = Client()
    asked(other)
    assert "does not fit" in answered(other, answer).content.decode()
    assert passkeys.verify(anna, SITE, options["challenge"], answer) == ""


def test_a_challenge_counts_for_one_answer_also_a_wrong_one(anna: User, key: SoftwareKey) -> None:
    client = Client()
    options = asked(client)
    answered(client, "x")
    assert "does not fit" in answered(client, key.signs(options)).content.decode()
    assert not is_signed_in(client)


def test_the_passkey_of_another_user_is_refused(anna: User, key: SoftwareKey) -> None:
    foreign = stored(User.objects.create_user("ben", password=PASSWORD))
    client = Client()
    answered(client, foreign.signs(asked(client)))
    assert not is_signed_in(client)


def test_without_the_password_nothing_is_asked(anna: User, key: SoftwareKey) -> None:
    answer = answered(Client(), key.signs({"challenge": "A" * 43}))
    assert answer["Location"] == LOGIN
    client = Client()
    asked(client)
    with time_machine.travel(time.time() + 301, tick=False):
        assert answered(client, "{}")["Location"] == LOGIN


def test_wrong_passkeys_and_codes_are_counted_together(anna: User, key: SoftwareKey, settings: Any) -> None:
    settings.TOOLHUB_LOGIN_FAILURES = 1_000
    secret = factors.new_secret()
    assert factors.turn_on(anna, secret, code_of(secret)) == [], "there are recovery codes already"
    for number in range(factors.MOST_WRONG):
        client = Client(REMOTE_ADDR=f"192.0.2.{number}")
        options = asked(client)
        if number % 2:
            answered(client, key.signs(options, host="evil.example"))
        else:
            client.post(CODE, {"code": "x"}, secure=True)
    client = Client(REMOTE_ADDR="198.51.100.1")
    assert answered(client, key.signs(asked(client))).status_code == 429
    assert not is_signed_in(client)


def test_the_lock_of_the_name_counts_wrong_passkeys(anna: User, key: SoftwareKey, settings: Any) -> None:
    client = Client(REMOTE_ADDR="192.0.2.1")
    statuses = []
    for _ in range(settings.TOOLHUB_LOGIN_FAILURES):
        if client.get(CODE, secure=True).status_code != 200:
            enter_password(client)
            client.get(CODE, secure=True)
        statuses.append(answered(client, "x").status_code)
    assert set(statuses[:-1]) == {200}
    assert statuses[-1] == 429
    assert enter_password(client).status_code == 429


def test_who_has_only_a_passkey_enters_a_recovery_code_where_no_script_runs(anna: User) -> None:
    options, challenge = passkeys.creation(anna, SITE)
    codes = passkeys.add(anna, "phone", SITE, challenge, SoftwareKey().makes(json.loads(options)))
    client = Client()
    asked(client)
    page = client.get(CODE, secure=True).content.decode()
    assert "Your second factor is a passkey, which needs JavaScript" in page
    assert client.post(CODE, {"code": codes[0]}, secure=True).status_code == 302
    assert is_signed_in(client)
    assert factors.verify(anna, codes[0]) == ""


def test_at_another_address_the_page_says_where_the_passkeys_work(anna: User, key: SoftwareKey, settings: Any) -> None:
    client = Client()
    enter_password(client)
    page = client.get(CODE).content.decode()
    assert "Your passkeys belong to testserver. They do not work at http://testserver" in page
    assert "data-passkey" not in page
    settings.TOOLHUB_PUBLIC_URL = "https://hub.example.org/"
    client = Client()
    enter_password(client)
    assert "They do not work at https://hub.example.org:" in client.get(CODE, secure=True).content.decode()


@pytest.mark.parametrize(
    ("url", "origin", "is_fit"),
    [
        ("https://hub.example.org", "https://hub.example.org", True),
        ("https://Hub.example.org:443/", "https://hub.example.org", True),
        ("https://hub.example.org:8443", "https://hub.example.org:8443", True),
        ("http://localhost:8000", "http://localhost:8000", True),
        ("http://hub.example.org", "http://hub.example.org", False),
        ("https://192.0.2.1", "https://192.0.2.1", False),
        ("https://[2001:db8::1]:8443", "https://[2001:db8::1]:8443", False),
        ("http://127.0.0.1:8000", "http://127.0.0.1:8000", False),
    ],
)
def test_the_public_address_decides_whether_passkeys_work(
    rf: Any, settings: Any, url: str, origin: str, is_fit: bool
) -> None:
    settings.TOOLHUB_PUBLIC_URL = url
    site = passkeys.site_of(rf.get("/", headers={"Host": "testserver"}))
    assert (site.origin, site.is_fit) == (origin, is_fit)


# ---- making one


def test_the_first_passkey_comes_with_recovery_codes(anna: User) -> None:
    client = signed_in_client(anna)
    assert "Add a passkey" in own_page(client)
    client.post(ADD, {"name": "laptop", "password": "wrong"}, secure=True)
    assert "data-options" not in client.get(ADD, secure=True).content.decode()
    options = options_in(client.post(ADD, {"name": "my  laptop", "password": PASSWORD}, secure=True))
    assert options["rp"]["id"] == "testserver"
    assert "anna" not in options["user"]["id"]
    assert {one["alg"] for one in options["pubKeyCredParams"]} <= {-7, -8, -257}
    key = SoftwareKey()
    answer = client.post(ADD, {"passkey": key.makes(options)}, secure=True)
    assert len(re.findall(r"<code>\d{10}</code>", answer.content.decode())) == 10
    page = own_page(client)
    assert "my laptop" in page
    assert "not used yet" in page
    again = options_in(client.post(ADD, {"name": "phone", "password": PASSWORD}, secure=True))
    assert len(again["excludeCredentials"]) == 1
    answer = client.post(ADD, {"passkey": SoftwareKey().makes(again)}, secure=True)
    assert answer["Location"] == OWN
    assert [row.data["name"] for row in passkeys.of(anna)] == ["my laptop", "phone"]
    assert factors.codes_left(anna) == 10
    entries = AuditEntry.objects.filter(action="user.factor_add").order_by("pk")
    assert [entry.changes["factor"] for entry in entries] == [[None, "passkey my laptop"], [None, "passkey phone"]]


@pytest.mark.parametrize(
    ("forged", "reason"),
    [
        ({"origin": "https://evil.example"}, "Invalid origin"),
        ({"origin": "https://sub.testserver"}, "Invalid origin"),
        ({"host": "evil.example"}, "Wrong RP ID"),
        ({"type": "webauthn.get"}, "Incorrect type"),
        ({"challenge": "A" * 43}, "Wrong challenge"),
        ({"flags": 0x40}, "User Present"),
        ({"flags": 0x01}, "Error parsing"),
        ({"is_framed": True}, "a frame of another site"),
        ({"id": b"another"}, "another id"),
        ({"key": {3: -65535}}, "algorithm"),
        ({"key": {3: 1}}, "algorithm"),
        ({"attested": b"\xa1"}, "Error"),
        ({"attested": b"\x81" * 9_000}, "Error"),
        ({"attested": b"\xff"}, "Error"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_a_passkey_that_does_not_fit_is_not_stored(
    anna: User, forged: dict[str, Any], reason: str, caplog: pytest.LogCaptureFixture
) -> None:
    client = signed_in_client(anna)
    options = options_in(client.post(ADD, {"name": "laptop", "password": PASSWORD}, secure=True))
    answer = client.post(ADD, {"passkey": SoftwareKey().makes(options, **forged)}, secure=True)
    assert "This passkey does not fit" in answer.content.decode()
    assert reason in caplog.text
    assert not Authenticator.objects.exists()


def test_a_challenge_makes_one_passkey_and_only_after_the_password(anna: User) -> None:
    client = signed_in_client(anna)
    options, _ = passkeys.creation(anna, SITE)
    assert client.post(ADD, {"passkey": SoftwareKey().makes(json.loads(options))}, secure=True)["Location"] == ADD
    fields = {"name": "laptop", "password": PASSWORD}
    for late in (True, False):
        made = options_in(client.post(ADD, fields, secure=True))
        with time_machine.travel(time.time() + (901 if late else 0), tick=False):
            client.post(ADD, {"passkey": SoftwareKey().makes(made)}, secure=True)
        assert len(passkeys.of(anna)) == (0 if late else 1)
    assert client.post(ADD, {"passkey": SoftwareKey().makes(made)}, secure=True)["Location"] == ADD
    assert len(passkeys.of(anna)) == 1


def test_numbers_names_and_ids_have_limits(anna: User, key: SoftwareKey) -> None:
    with pytest.raises(ConflictError, match="with this name"):
        stored(anna)
    with pytest.raises(ConflictError, match="stored already"):
        stored(User.objects.create_user("ben"), key=key)
    for name in ("", " ", "x" * 61, "a\u202eb"):
        with pytest.raises(ValidationError, match="1 to 60 characters"):
            stored(anna, name)
    for number in range(1, passkeys.MOST):
        stored(anna, str(number))
    with pytest.raises(ConflictError, match="the limit"):
        stored(anna, "one more")
    assert len(passkeys.of(anna)) == passkeys.MOST


def test_where_browsers_refuse_passkeys_the_page_says_so(anna: User) -> None:
    client = signed_in_client(anna)
    assert "only at an address with https" in client.get(ADD).content.decode()
    answer = client.post(ADD, {"name": "laptop", "password": PASSWORD})
    assert "data-options" not in answer.content.decode()
    assert Client().get(ADD).status_code == 302


# ---- removing


def test_they_are_removed_one_by_one_with_the_password(anna: User, key: SoftwareKey) -> None:
    second = stored(anna, "phone")
    client = signed_in_client(anna)
    first, last = passkeys.of(anna)
    other = stored(ben := User.objects.create_user("ben", password=PASSWORD))
    client.post(f"{OWN}remove/", {"factor": first.pk, "password": "wrong"})
    client.post(f"{OWN}remove/", {"factor": passkeys.of(ben)[0].pk, "password": PASSWORD})
    client.post(
        f"{OWN}remove/",
        {"factor": Authenticator.objects.get(user=anna, type=factors.RECOVERY).pk, "password": PASSWORD},
    )
    assert (len(passkeys.of(anna)), len(passkeys.of(ben)), factors.codes_left(anna)) == (2, 1, 10)
    assert other.counter == 1
    client.post(f"{OWN}remove/", {"factor": first.pk, "password": PASSWORD})
    assert passkeys.of(anna) == [last]
    browser = Client()
    options = asked(browser)
    answered(browser, key.signs(options))
    assert not is_signed_in(browser)
    answered(browser, second.signs(options_in(browser.get(CODE, secure=True))))
    assert is_signed_in(browser)
    client.post(f"{OWN}remove/", {"factor": last.pk, "password": PASSWORD})
    assert not Authenticator.objects.filter(user=anna).exists(), "recovery codes go with the last one"
    removed = AuditEntry.objects.filter(action="user.factor_remove").order_by("pk")
    assert [entry.changes["factor"] for entry in removed] == [["passkey laptop", None], ["passkey phone", None]]


def test_an_administrator_removes_the_passkeys_of_a_person_who_lost_them(anna: User) -> None:
    ben = User.objects.create_user("ben", password=PASSWORD)
    stored(ben)
    stored(ben, "phone")
    client = signed_in_client(anna)
    assert own_page(client).count("second factor of ben") == 1
    client.post(f"{OWN}reset/", {"user": ben.pk, "reason": "lost them"})
    assert not Authenticator.objects.exists()
    [entry] = AuditEntry.objects.filter(action="user.factor_reset")
    assert entry.changes["factor"] == ["passkey laptop, passkey phone", None]


def test_the_rotation_of_keys_leaves_them_as_they_are(anna: User, key: SoftwareKey, settings: Any) -> None:
    """They have nothing secret; the recovery codes beside them do."""
    former = settings.TOOLHUB_ENCRYPTION_KEY
    settings.TOOLHUB_ENCRYPTION_KEY = f"fresh-key-of-this-hub-0123456789abcdef,{former}"
    rotation = governance.rotate_secrets(actor=governance.trusted("test"))
    assert (rotation.rotated, rotation.unreadable) == (1, [])
    client = Client()
    answered(client, key.signs(asked(client)))
    assert is_signed_in(client)
