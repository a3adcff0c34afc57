"""The second factor of local users: after the password, once for each code, in all processes, and never readable."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from typing import Any

import pytest
import time_machine
from allauth.mfa.models import Authenticator
from allauth.mfa.totp.internal import auth as totp
from django.contrib.auth.models import User
from django.test import Client

from tests.sso.conftest import is_signed_in
from toolhub.second_factor import factors
from tools_app import governance
from tools_app.models import AuditEntry
from tools_app.sdk.errors import AuthorizationError

PASSWORD = "right-and-long"
LOGIN = "/admin/login/"
CODE = "/admin/login/code/"
OWN = "/admin/second-factor/"


@pytest.fixture
def anna(db: None) -> User:
    return User.objects.create_superuser("anna", password=PASSWORD)


@pytest.fixture
def secret(anna: User) -> str:
    """Of a second factor that was set up an hour ago."""
    made = factors.new_secret()
    with time_machine.travel(time.time() - 3600, tick=False):
        factors.turn_on(anna, made, code_of(made))
    return made


@pytest.fixture(autouse=True)
def _one_moment() -> Iterator[None]:
    """So that no period of 30 seconds ends within a test."""
    with time_machine.travel(int(time.time()) // 30 * 30 + 5, tick=True):
        yield


def code_of(secret: str, periods: int = 0) -> str:
    return str(totp.format_hotp_value(totp.hotp_value(secret, int(time.time()) // 30 + periods)))


def wrong_code(secret: str) -> str:
    good = {code_of(secret, periods) for periods in (-1, 0, 1)}
    return next(code for code in ("000000", "000001", "000002", "000003") if code not in good)


def enter_password(client: Client, **fields: str) -> Any:
    return client.post(LOGIN, {"username": "anna", "password": PASSWORD, **fields})


def signed_in_client(user: User) -> Client:
    client = Client()
    client.force_login(user, "django.contrib.auth.backends.ModelBackend")
    return client


# ---- signing in


def test_the_password_alone_gives_nothing(anna: User, secret: str, settings: Any) -> None:
    client = Client()
    answer = enter_password(client, next="/admin/tools_app/call/")
    assert (answer.status_code, answer["Location"]) == (302, CODE)
    assert not is_signed_in(client)
    cookie = f"{settings.SESSION_COOKIE_NAME}={client.session.session_key}"
    assert Client(headers={"Cookie": cookie}).get("/v1/tools").status_code == 401
    assert not AuditEntry.objects.filter(action="user.sign_in").exists()
    answer = client.post(CODE, {"code": code_of(secret)})
    assert (answer.status_code, answer["Location"]) == (302, "/admin/tools_app/call/")
    assert is_signed_in(client)
    assert AuditEntry.objects.filter(action="user.sign_in", subject="user:anna").count() == 1


def test_users_without_one_are_not_asked(anna: User) -> None:
    client = Client()
    assert enter_password(client)["Location"] == "/admin/"
    assert is_signed_in(client)


@pytest.mark.parametrize("address", ["https://evil.example/", "//evil.example/", "javascript:alert(1)"])
def test_nobody_is_sent_elsewhere_after_the_code(anna: User, secret: str, address: str) -> None:
    client = Client()
    enter_password(client, next=address)
    assert client.post(CODE, {"code": code_of(secret)})["Location"] == "/admin/"


def test_a_code_counts_once_in_all_processes(anna: User, secret: str) -> None:
    code = code_of(secret)
    assert factors.verify(anna, code) == "totp"
    # Nothing of it is in the memory of a process, nor in a cache.
    assert factors.verify(User.objects.get(), code) == ""
    assert factors.verify(anna, code_of(secret, -1)) == "", "nor does an earlier one"
    assert factors.verify(anna, code_of(secret, 1)) == "totp"


def test_the_code_of_the_set_up_signs_nobody_in(anna: User) -> None:
    secret = factors.new_secret()
    code = code_of(secret)
    factors.turn_on(anna, secret, code)
    assert factors.verify(anna, code) == ""


@pytest.mark.parametrize("periods", [-3, -2, 2, 3])
def test_a_code_of_another_time_does_not_fit(anna: User, secret: str, periods: int) -> None:
    assert factors.verify(anna, code_of(secret, periods)) == ""


@pytest.mark.parametrize("code", ["", " ", "abc", "\u0661\u0662\u0663\u0664\u0665\u0666", "1" * 100, "\x00"])
def test_what_is_no_code_does_not_fit(anna: User, secret: str, code: str) -> None:
    client = Client()
    enter_password(client)
    answer = client.post(CODE, {"code": code})
    assert answer.status_code == 200
    assert "does not fit, or was used already" in answer.content.decode()
    assert not is_signed_in(client)


def test_a_recovery_code_counts_once(anna: User) -> None:
    secret = factors.new_secret()
    codes = factors.turn_on(anna, secret, code_of(secret))
    assert len(set(codes)) == 10
    assert all(re.fullmatch(r"\d{10}", code) for code in codes)
    client = Client()
    enter_password(client)
    assert client.post(CODE, {"code": codes[3]}).status_code == 302
    assert is_signed_in(client)
    assert factors.verify(anna, codes[3]) == ""
    assert factors.codes_left(anna) == 9
    fresh = factors.renew_codes(anna)
    assert factors.verify(anna, codes[4]) == ""
    assert factors.verify(anna, fresh[0]) == "recovery_codes"


def test_wrong_codes_are_counted_like_wrong_passwords(anna: User, secret: str, settings: Any) -> None:
    client = Client(REMOTE_ADDR="192.0.2.1")
    statuses = []
    for _ in range(settings.TOOLHUB_LOGIN_FAILURES):
        if client.get(CODE).status_code != 200:
            enter_password(client)
        statuses.append(client.post(CODE, {"code": wrong_code(secret)}).status_code)
    assert set(statuses[:-1]) == {200}
    assert statuses[-1] == 429
    assert enter_password(client).status_code == 429
    [entry] = AuditEntry.objects.filter(action="user.sign_in_failed")
    assert entry.subject == "user:anna"


def test_after_five_wrong_codes_the_password_is_asked_for_again(anna: User, secret: str) -> None:
    client = Client()
    enter_password(client)
    for _ in range(5):
        client.post(CODE, {"code": wrong_code(secret)})
    answer = client.post(CODE, {"code": code_of(secret)})
    assert answer["Location"] == LOGIN
    assert not is_signed_in(client)


def test_codes_cannot_be_guessed_from_many_addresses(anna: User, secret: str) -> None:
    """Twenty in a quarter of an hour, whatever the addresses and sessions are."""
    for number in range(factors.MOST_WRONG):
        client = Client(REMOTE_ADDR=f"192.0.2.{number}")
        enter_password(client)
        assert client.post(CODE, {"code": wrong_code(secret)}).status_code == 200
    client = Client(REMOTE_ADDR="198.51.100.1")
    enter_password(client)
    assert client.post(CODE, {"code": code_of(secret)}).status_code == 429
    with time_machine.travel(time.time() + factors.WRONG_SECONDS + 1, tick=False):
        enter_password(client)
        assert client.post(CODE, {"code": code_of(secret)}).status_code == 302


@pytest.mark.parametrize("change", ["time", "password", "off"])
def test_the_password_is_forgotten_after_a_while_or_a_change(anna: User, secret: str, change: str) -> None:
    client = Client()
    enter_password(client)
    later = time.time() + (301 if change == "time" else 0)
    if change == "password":
        anna.set_password("another-and-long")
        anna.save()
    elif change == "off":
        User.objects.update(is_active=False)
    with time_machine.travel(later, tick=False):
        assert client.post(CODE, {"code": code_of(secret)})["Location"] == LOGIN
    assert not is_signed_in(client)


def test_without_a_password_no_code_is_asked_for(anna: User, secret: str) -> None:
    assert Client().get(CODE)["Location"] == LOGIN
    assert Client().post(CODE, {"code": code_of(secret)})["Location"] == LOGIN


# ---- one's own


def test_set_up_see_the_codes_once_and_remove(anna: User) -> None:
    client = signed_in_client(anna)
    assert "Set up" in client.get(OWN).content.decode()
    page = client.get(f"{OWN}set-up/").content.decode()
    shown = re.search(r'<code class="hub-wrap">([A-Z2-7 ]+)</code>', page)
    assert shown is not None
    secret = shown[1].replace(" ", "")
    assert 'src="data:image/svg+xml;base64,' in page
    for fields in ({"code": code_of(secret), "password": "wrong"}, {"code": wrong_code(secret), "password": PASSWORD}):
        client.post(f"{OWN}set-up/", fields)
        assert not factors.is_on(anna)
    answer = client.post(f"{OWN}set-up/", {"code": code_of(secret), "password": PASSWORD})
    codes = re.findall(r"<code>(\d{10})</code>", answer.content.decode())
    assert len(codes) == 10
    assert answer["Cache-Control"].startswith("max-age=0, no-cache, no-store")
    page = client.get(OWN).content.decode()
    assert "10 recovery codes are left" in page
    assert not any(code in page or secret in page for code in codes)
    number = factors.of(anna)[0].pk
    client.post(f"{OWN}remove/", {"password": "wrong", "factor": number})
    client.post(f"{OWN}remove/", {"password": PASSWORD, "factor": "x"})
    assert factors.is_on(anna)
    client.post(f"{OWN}remove/", {"password": PASSWORD, "factor": number})
    assert not Authenticator.objects.exists()
    entries = AuditEntry.objects.filter(action__startswith="user.factor").order_by("pk")
    assert [(entry.action, entry.actor) for entry in entries] == [
        ("user.factor_add", "user:anna"),
        ("user.factor_remove", "user:anna"),
    ]
    assert secret not in str(list(AuditEntry.objects.values()))


def test_new_recovery_codes_need_the_password(anna: User, secret: str) -> None:
    client = signed_in_client(anna)
    assert client.post(f"{OWN}codes/", {"password": "wrong"}).status_code == 302
    answer = client.post(f"{OWN}codes/", {"password": PASSWORD})
    assert len(re.findall(r"<code>\d{10}</code>", answer.content.decode())) == 10
    assert AuditEntry.objects.filter(action="user.factor_codes").count() == 1


def test_a_second_set_up_does_not_replace_the_first(anna: User, secret: str) -> None:
    client = signed_in_client(anna)
    assert client.get(f"{OWN}set-up/")["Location"] == OWN
    client.post(f"{OWN}set-up/", {"code": "000000", "password": PASSWORD})
    assert factors.verify(anna, code_of(secret)) == "totp"


def test_pages_are_for_people_who_are_signed_in(anna: User) -> None:
    for path in (OWN, f"{OWN}set-up/"):
        assert Client().get(path).status_code == 302
    for path in ("codes/", "remove/", "reset/"):
        assert Client().post(f"{OWN}{path}").status_code == 302
        assert Client().get(f"{OWN}{path}").status_code == 405


# ---- of others


def test_an_administrator_removes_that_of_a_person_who_lost_it(anna: User) -> None:
    ben = User.objects.create_user("ben", password=PASSWORD)
    chief = User.objects.create_user("chief", password=PASSWORD)
    operator = User.objects.create_user("operator", password=PASSWORD)
    for user, role in ((ben, "operator"), (chief, "admin"), (operator, "operator")):
        governance.set_role(user, role, actor=governance.trusted("test"))
    for user in (anna, ben):
        made = factors.new_secret()
        factors.turn_on(user, made, code_of(made))
    client = signed_in_client(User.objects.get(username="operator"))
    assert "Second factors of others" not in client.get(OWN).content.decode()
    assert client.post(f"{OWN}reset/", {"user": ben.pk}).status_code == 403
    client = signed_in_client(User.objects.get(username="chief"))
    page = client.get(OWN).content.decode()
    assert "second factor of ben" in page
    assert "second factor of anna" not in page
    client.post(f"{OWN}reset/", {"user": anna.pk})
    assert factors.is_on(anna), "an administrator does not weaken a superuser"
    client.post(f"{OWN}reset/", {"user": ben.pk, "reason": "lost his phone"})
    assert not factors.is_on(ben)
    [entry] = AuditEntry.objects.filter(action="user.factor_reset")
    assert (entry.actor, entry.subject, entry.reason) == ("user:chief", "user:ben", "lost his phone")
    for number in ("", "x", "0", "9" * 18, "\u0661"):
        assert client.post(f"{OWN}reset/", {"user": number}).status_code == 404
    with pytest.raises(AuthorizationError):
        factors.turn_off(anna, actor=governance.of_user(User.objects.get(username="chief")))


# ---- at rest


def test_nothing_of_it_can_be_read_from_the_database(anna: User, secret: str) -> None:
    codes = factors.renew_codes(anna)
    stored = str(list(Authenticator.objects.values_list("data", flat=True)))
    assert secret not in stored
    assert not any(code in stored for code in codes)


def test_the_rotation_of_keys_re_encrypts_it(anna: User, secret: str, settings: Any) -> None:
    former, fresh = "former-key-of-this-hub-0123456789abcdef", "fresh-key-of-this-hub-0123456789abcdef"
    settings.TOOLHUB_ENCRYPTION_KEY = former
    factors.turn_off(anna)
    factors.turn_on(anna, secret, code_of(secret))
    settings.TOOLHUB_ENCRYPTION_KEY = f"{fresh},{former}"
    rotation = governance.rotate_secrets(actor=governance.trusted("test"))
    assert (rotation.rotated, rotation.unreadable) == (2, [])
    settings.TOOLHUB_ENCRYPTION_KEY = fresh
    assert factors.verify(anna, code_of(secret, 1)) == "totp"
    assert factors.codes_left(anna) == 10


def test_without_its_key_no_code_fits_and_that_is_said(anna: User, settings: Any) -> None:
    """Recovery codes are calculated from a seed: those of an empty one are known to everyone."""
    secret = factors.new_secret()
    settings.TOOLHUB_ENCRYPTION_KEY = "former-key-of-this-hub-0123456789abcdef"
    codes = factors.turn_on(anna, secret, code_of(secret))
    settings.TOOLHUB_ENCRYPTION_KEY = "another-key-of-this-hub-0123456789abcdef"
    client = Client()
    enter_password(client)
    for code in (code_of(secret, 1), codes[0]):
        answer = client.post(CODE, {"code": code})
        assert answer.status_code == 409
        assert "a key that the hub does not have" in answer.content.decode()
    assert not is_signed_in(client)
    rotation = governance.rotate_secrets(actor=governance.trusted("test"))
    assert rotation.unreadable == ["second factor of anna"] * 2
