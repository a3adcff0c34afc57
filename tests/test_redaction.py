"""Secrets are masked in every position, quickly, and other text stays readable."""

from __future__ import annotations

import inspect
import json
import re
import string
import time
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tools_app.text import redaction
from tools_app.text.budget import written
from tools_app.text.redaction import (
    CUT,
    MASK,
    MOST_DEPTH,
    MOST_ITEMS,
    MOST_NODES,
    MOST_TEXT,
    MOST_WORD,
    is_secret,
    one_line,
    one_line_json,
    redacted,
    redacted_beginning,
    redacted_ends,
    redacted_text,
    summary,
)

SECRET = "hunter2-Xy9"
JWT = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.SflKxwRJSMeKKF2QT4"
PEM = "-----BEGIN " + "PRIVATE KEY-----"
LETTERS_AND_DIGITS = string.ascii_letters + string.digits
OWN_KEY = "thub_Ab3dEf6h_" + "x" * 43 + "Abc123"

NAMES = [
    *("password", "Password", "passwd", "db_password", "password_confirmation", "passphrase", "pwd", "auth"),
    *("token", "access_token", "refreshToken", "X-Auth-Token", "csrfmiddlewaretoken", "secret", "client_secret"),
    *("api_key", "apiKey", "API-KEY", "X-Api-Key", "X-N8N-API-KEY", "X-Redmine-API-Key", "n8n api key"),
    *("authorization", "Proxy-Authorization", "cookie", "Set-Cookie", "session_key", "sessionid", "credentials"),
    *("private_key", "aws_access_key_id", "TOOLHUB_ENCRYPTION_KEY", "SECRET_KEY", "signing-key", "jwt"),
    *("Passwort", "Kennwort", "パスワード", "pw", "x-auth", "X-Hub-Signature-256", "signature", "otp", "totp_code"),
    *("AccountKey", "account_key"),
]
ORDINARY_NAMES = [
    *("name", "key", "keys", "keyboard", "monkey", "author", "authority", "pass_count", "compass", "tokenizer"),
    *("id", "query", "project_id", "identifier", "message", "path", "passed", "", "日本", "session", "bearer_of_news"),
    *("signature_count", "robot", "pwm", "account", "x_author", "otpauth_issuer"),
]


@pytest.mark.parametrize("name", NAMES)
def test_a_value_under_a_secrets_name_is_masked(name: str) -> None:
    assert is_secret(name)
    for value in (SECRET, [SECRET], {"x": SECRET}, (SECRET,), SECRET.encode(), 1.5j):
        assert redacted({name: value, "other": 1}) == {name: MASK, "other": 1}


@pytest.mark.parametrize("name", ORDINARY_NAMES)
def test_a_value_under_an_ordinary_name_stays(name: str) -> None:
    assert not is_secret(name)
    assert redacted({name: "value"}) == {name: "value"}


def test_a_value_without_a_name_stays() -> None:
    assert redacted({"value": "Kyoto", "other": 1}) == {"value": "Kyoto", "other": 1}


@pytest.mark.parametrize("value", [None, True, False, "", [], {}])
def test_whether_a_secret_is_set_stays_visible(value: Any) -> None:
    assert redacted({"password": value}) == {"password": value}


def test_counts_of_tokens_stay_and_numeric_passwords_do_not() -> None:
    assert redacted({"tokens": 512, "max_tokens": 1.5, "password": 1234, "client_secret": 5}) == {
        "tokens": 512,
        "max_tokens": 1.5,
        "password": MASK,
        "client_secret": MASK,
    }


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ([["Authorization", SECRET], ["Accept", "x"]], [["Authorization", MASK], ["Accept", "x"]]),
        ([(b"X-Api-Key", SECRET.encode())], [["X-Api-Key", MASK]]),
        ([(b"password" + b"x" * 200, b"")], [["password" + "x" * 92, MASK]]),
        ({"name": "X-API-Key", "value": SECRET}, {"name": "X-API-Key", "value": MASK}),
        ({"key": "api_token", "value": SECRET, "x": 1}, {"key": "api_token", "value": MASK, "x": 1}),
        ({"name": "city", "value": "Kyoto"}, {"name": "city", "value": "Kyoto"}),
        ({"a": [{"b": {"c": [{"Pass-Word": SECRET}]}}]}, {"a": [{"b": {"c": [{"Pass-Word": MASK}]}}]}),
        ({"text": f"Bearer {SECRET}"}, {"text": f"Bearer {MASK}"}),
        ({f"token={SECRET}": 1}, {f"token={MASK}": 1}),
    ],
)
def test_secrets_are_found_in_the_shapes_they_come_in(value: Any, expected: Any) -> None:
    assert redacted(value) == expected


TEXTS = [
    (f"password={SECRET}", f"password={MASK}"),
    (f"Password : {SECRET} and more", f"Password : {MASK} and more"),
    (f'{{"api_key": "{SECRET}", "n": 1}}', f'{{"api_key": "{MASK}", "n": 1}}'),
    (f"{{'secret': '{SECRET}', 'n': 1}}", f"{{'secret': '{MASK}', 'n': 1}}"),
    (f'{{"password": "a\\"{SECRET}", "n": 1}}', f'{{"password": "{MASK}", "n": 1}}'),
    (f'{{\\"token\\": \\"{SECRET}\\", \\"n\\": 1}}', f'{{\\"token\\": {MASK}, \\"n\\": 1}}'),
    (f"Config(api_key='{SECRET}', n=1)", f"Config(api_key='{MASK}', n=1)"),
    (f"?access_token={SECRET}&n=1", f"?access_token={MASK}&n=1"),
    (f"https://h.test/x?key={SECRET}&n=1#f", f"https://h.test/x?key={MASK}&n=1#f"),
    (f"X-N8N-API-KEY: {SECRET}", f"X-N8N-API-KEY: {MASK}"),
    (f"X-Redmine-API-Key: {SECRET}\nAccept: x", f"X-Redmine-API-Key: {MASK}\nAccept: x"),
    (f"Authorization: Basic {SECRET} x\nAccept: y", f"Authorization: {MASK}\nAccept: y"),
    (f"Cookie: a={SECRET}; b={SECRET}\nAccept: y", f"Cookie: {MASK}\nAccept: y"),
    (f"(b'set-cookie', b'a={SECRET}; Path=/')", f"(b'set-cookie', {MASK})"),
    (f"{{'Authorization': 'Bearer {SECRET}', 'n': 1}}", f"{{'Authorization': '{MASK}', 'n': 1}}"),
    (f"sent Bearer {SECRET}, got 401", f"sent Bearer {MASK}, got 401"),
    (f"token: Bearer {SECRET} end", f"token: {MASK} end"),
    ("Basic dXNlcjpodW50ZXIy end", f"Basic {MASK} end"),
    (f"https://ann:{SECRET}@h.test/x", f"https://{MASK}@h.test/x"),
    (f"postgres://ann:p@{SECRET}@h.test:5432/x", f"postgres://{MASK}@h.test:5432/x"),
    (f"redis://:{SECRET}@h.test", f"redis://{MASK}@h.test"),
    (f"key {OWN_KEY} is revoked", f"key thub_Ab3dEf6h_{MASK} is revoked"),
    (f"key {OWN_KEY[:30]}", f"key thub_Ab3dEf6h_{MASK}"),
    ("thub_short1", f"thub_{MASK}"),
    (f"jwt {JWT} end", f"jwt {MASK} end"),
    (f"[{{'name': 'X-Api-Key', 'value': '{SECRET}'}}]", f"[{{'name': 'X-Api-Key', 'value': '{MASK}'}}]"),
    (f'{{"key":"token","value":"{SECRET}","n":1}}', f'{{"key":"token","value":"{MASK}","n":1}}'),
    (
        f'{{\\"name\\": \\"Cookie\\", \\"value\\": \\"{SECRET}\\"}}',
        f'{{\\"name\\": \\"Cookie\\", \\"value\\": {MASK}}}',
    ),
    (f"tokens=['{SECRET}', '{SECRET}'] n=1", f"tokens={MASK} n=1"),
    (f"credentials: {{'x': '{SECRET}'}} n", f"credentials: {MASK} n"),
    (f"token=<Token {SECRET}> n", f"token={MASK} n"),
    (f"secret => '{SECRET}'", f"secret => '{MASK}'"),
    ("password: 1234", f"password: {MASK}"),
    (f'password="{SECRET}', f'password="{MASK}"'),
    (f"{PEM.replace(' ', ' RSA ', 1)}\n{SECRET}\n-----END RSA PRIVATE KEY-----\nx", f"{MASK}\nx"),
    (f"{PEM}\n{SECRET}", MASK),
    (f"İİİ password={SECRET}", f"İİİ password={MASK}"),
    (f"Passwort: {SECRET}", f"Passwort: {MASK}"),
    (f"Kennwort={SECRET}", f"Kennwort={MASK}"),
    (f"パスワード\uff1a{SECRET} です", f"パスワード\uff1a{MASK} です"),
    (f"パスワードは{SECRET}です", f"パスワードは{MASK}です"),
    ("パスワード\uff1a1234", f"パスワード\uff1a{MASK}"),
    (f"user=ann;pw={SECRET};", f"user=ann;pw={MASK}"),
    (f"db_pw: {SECRET}", f"db_pw: {MASK}"),
    (f"Hello, my password is {SECRET}. Thanks", f"Hello, my password is {MASK}. Thanks"),
    ("my password is swordfish, really", f"my password is {MASK}, really"),
    (f'The password is "{SECRET}"!', f'The password is "{MASK}"!'),
    ("Your OTP is 482910.", f"Your OTP is {MASK}."),
    (f"x-auth: {SECRET}\nAccept: x", f"x-auth: {MASK}\nAccept: x"),
    ("otp=482910&n=1", f"otp={MASK}&n=1"),
    ("OTP code: 482910", f"OTP code: {MASK}"),
    (f"totp: {SECRET}", f"totp: {MASK}"),
    ("signature: 9f86d081884c7d659a2f end", f"signature: {MASK} end"),
    ("X-Hub-Signature-256: sha256=9f86d081884c7d659a2f", f"X-Hub-Signature-256: {MASK}"),
    ('{"signature": "9f86d081884c7d659a2f"}', f'{{"signature": "{MASK}"}}'),
    (f"AccountName=x;AccountKey={SECRET}==;End=y", f"AccountName=x;AccountKey={MASK}"),
    (f"sshpass -p {SECRET} ssh h", f"sshpass -p {MASK} ssh h"),
    (f"sshpass -p'{SECRET} x' ssh h", f"sshpass -p{MASK} ssh h"),
    (f"curl -u ann:{SECRET} https://h.test", f"curl -u {MASK} https://h.test"),
    (f"curl --user 'ann:{SECRET} x' https://h.test", f"curl --user {MASK} https://h.test"),
    (f"curl --proxy-user=ann:{SECRET} x", f"curl --proxy-user={MASK} x"),
    (f"tool --password {SECRET} --n 1", f"tool --password {MASK} --n 1"),
    (f'tool --db-password "{SECRET} x" --n 1', f"tool --db-password {MASK} --n 1"),
    (f"tool --token {SECRET}", f"tool --token {MASK}"),
    ("id AKIA" + "IOSFODNN7EXAMPLE end", f"id AKIA{MASK} end"),
    ("ASIA" + "IOSFODNN7EXAMPLE", f"ASIA{MASK}"),
    ("ghp" + "_16C7e42F292c6912E7710c838347Ae178B4a, x", f"ghp_{MASK}, x"),
    ("gho" + "_16C7e42F292c6912E7710c838347Ae178B4a", f"gho_{MASK}"),
    ("github" + "_pat_11ABCDEFG0aBcDeFgHiJkL_mNoPqRsTuV", f"github_pat_{MASK}"),
    ("glpat-aBcDeFgHiJkLmNoPqRsT", f"glpat-{MASK}"),
    ("xox" + "b-123456789012-abcdefGHIJ end", f"xoxb-{MASK} end"),
    ("sk_" + "live_4eC39HqLyjWDarjtT1zdp7dc", f"sk_live_{MASK}"),
    ("sk-ant-api03-aBcDeFgHiJkLmNoPqRsT", f"sk-{MASK}"),
    ("AIza" + "SyA1234567890abcdefghijklmnopqrstuv", f"AIza{MASK}"),
]


@pytest.mark.parametrize(("text", "expected"), TEXTS, ids=range(len(TEXTS)))
def test_secrets_in_free_text_are_masked(text: str, expected: str) -> None:
    assert redacted_text(text) == expected
    assert SECRET not in redacted_text(f"{text} {text}")
    assert redacted_text(expected) == expected


def test_text_around_secrets_stays() -> None:
    text = f"first token={SECRET} then https://ann:{SECRET}@h.test/x and Bearer {SECRET}, last"
    assert redacted_text(text) == f"first token={MASK} then https://{MASK}@h.test/x and Bearer {MASK}, last"


@pytest.mark.parametrize(
    "text",
    [
        *("", "Tool completed", "the password is wrong", "Set TOOLHUB_ENCRYPTION_KEY", "Bearer token required"),
        *("Basic understanding of cookies", "tokens: 512", "api_key=None", '"generate_password": true', "max_tokens=5"),
        *("https://example.org/a@b?limit=1", "mail ann@example.org", "monkey=1 keyboard: x", "tokenizer: bpe"),
        *("thub_ab", "secretly: no", "日本語のパスワード", "eyJ is how they begin", "12:30 meeting & more?"),
        *(
            "パスワードは必要です",
            "パスワードは8文字以上で入力してください",
            "Das Passwort ist falsch.",
            "Passwort vergessen?",
        ),
        *("the password is 12 characters long", "my password is not accepted", "The password is required!"),
        *("use --password to log in", "--token-file /run/token", "the flag --secret is gone", "a password, a token"),
        *("in Asia: AKIA", "ghp_ and gho_ are prefixes", "the task_live_view", "risk-based-authentication-of-users"),
        *("signature: (a: int) -> str", "signature: see above", "the signature is valid", "x-author: Ann"),
        *("account: main", "Account key figures", "curl -u ann https://h.test", "docker run -u 1000:1000 image"),
        *(
            "sort -u file",
            "a robot: no",
            "robotpw is a word",
            "PWA: yes",
            "sk-learn-is-nice-to-have-here",
            "--user name",
            "-- user: x",
        ),
        *("xoxb- tokens begin so", "AIza begins keys of Google", "laptop: 1234", "otpauth is a scheme", "use sshpass"),
    ],
)
def test_text_without_secrets_stays(text: str) -> None:
    expected = text.replace("secretly: no", f"secretly: {MASK}")  # rather too much than too little
    assert redacted_text(text) == expected


EVIL = {
    "a word": "a" * 100_000,
    "names": "token" * 20_000,
    "names apart": ("token" + "_" * 39 + " ") * 2_200,
    "a name with a tail": "token" + "a-" * 50_000,
    "spaces": ("token" + " " * 50) * 1_800,
    "backslashes": ("token=" + "\\" * 50) * 1_800,
    "quotes": 'password="' * 10_000,
    "escapes": "token='" + "\\'" * 50_000,
    "brackets": "token=[" * 14_000,
    "braces": "token={" * 14_000,
    "angles": "token=<" * 14_000,
    "cookies": "cookie:" * 14_000,
    "pairs": "token,b'" * 12_000,
    "addresses": "://a" * 25_000,
    "addresses with much": ("://" + "a" * 500) * 200,
    "an address": "://" + "a" * 100_000,
    "users": "://a@" * 20_000,
    "queries": "?key=" * 20_000,
    "bearers": "bearer " * 14_000,
    "basics": ("Basic " + "a" * 70) * 1_300,
    "jwt": "eyJ" * 33_000,
    "jwts": "eyJaaaaaaaa " * 8_000,
    "half jwts": "eyJaaaaaaaa." * 8_000,
    "own keys": "thub_" * 20_000,
    "pem": PEM * 3_700,
    "values": "token','value" * 7_500,
    "values of nothing": "token','value':" * 7_000,
    "sentences": "password is " * 9_000,
    "sentences with long words": ("password is " + "a" * 300) * 350,
    "sentences with marks": ("my password is " + "!" * 300) * 350,
    "options": "--password " * 10_000,
    "long options": "--a-b-c-d-e-f" * 8_000,
    "dashed names": ("--" + "abcdefghij-" * 10) * 900,
    "users of commands": "-u a:" * 20_000,
    "long users": ("-u " + "a" * 100) * 1_000,
    "signatures": "signature: " * 9_000,
    "keys of services": "sk_live_ghp_xoxb-AKIA" * 5_000,
    "long keys of services": ("sk-" + "a" * 60) * 1_600,
    "full width": "パスワード\uff1a" * 9_000,
    "half pem": "-----BEGIN " * 9_000,
    "dashes": "-" * 100_000,
}


@pytest.mark.parametrize("text", EVIL.values(), ids=EVIL)
def test_no_text_takes_long(text: str) -> None:
    def seconds() -> float:
        begun = time.process_time()
        redacted_text(text)
        return time.process_time() - begun

    assert any(seconds() < 1 for _ in range(3))


class TestCutText:
    def test_what_is_short_is_whole(self) -> None:
        assert redacted_beginning("a bc", 4) == "a bc"
        assert redacted_ends("a bc", 2) == "a bc"

    def test_a_word_that_is_cut_is_left_out(self) -> None:
        assert redacted_beginning("one two three", 9) == "one two "
        assert redacted_beginning("one two three", 8) == "one two "
        assert redacted_ends("one two three four", 6) == f"one \n{CUT}\n four"

    def test_of_a_word_without_end_as_much_as_a_secret_has_is_left_out(self) -> None:
        assert redacted_beginning("x" * 2_000, 1_000) == "x" * (1_000 - MOST_WORD)
        assert redacted_beginning("x" * 2_000, 100) == ""
        assert redacted_ends("x" * 9_000, 1_000) == f"{'x' * (1_000 - MOST_WORD)}\n{CUT}\n{'x' * (1_000 - MOST_WORD)}"

    def test_no_half_of_a_secret_is_seen(self) -> None:
        much = f"see https://ann:{SECRET}@h.test/ and password={SECRET} " * 20
        for length in range(1, len(much) // 2):
            for shown in (redacted_beginning(much, length), redacted_ends(much, length)):
                assert "hunter" not in shown
                assert "Xy9" not in shown
                assert "ann" not in shown


class TestBounds:
    def test_long_text_is_cut_with_a_mark(self) -> None:
        assert redacted("x" * MOST_TEXT) == "x" * MOST_TEXT
        assert redacted("x" * (MOST_TEXT + 1)) == "x" * MOST_TEXT + CUT

    def test_a_secret_is_recognised_where_the_text_is_cut(self) -> None:
        text = "x" * (MOST_TEXT - 10) + f"https://ann:{SECRET}@h.test/"
        assert "ann" not in redacted(text)

    def test_long_lists_and_objects_are_cut_with_a_mark(self) -> None:
        assert redacted(list(range(MOST_ITEMS + 5)))[MOST_ITEMS:] == [f"{CUT} 5 more"]
        shown = redacted({str(n): n for n in range(MOST_ITEMS + 5)})
        assert len(shown) == MOST_ITEMS + 1
        assert shown[CUT] == "5 more"

    @pytest.mark.parametrize("wrap", [lambda inner: [inner], lambda inner: {"x": inner}], ids=["lists", "objects"])
    def test_depth_is_bounded(self, wrap: Callable[[Any], Any]) -> None:
        def nested(inner: Any, depth: int) -> Any:
            for _ in range(depth):
                inner = wrap(inner)
            return inner

        assert redacted(nested(None, MOST_DEPTH)) == nested(None, MOST_DEPTH)
        assert redacted(nested(wrap(None), MOST_DEPTH)) == nested(CUT, MOST_DEPTH)
        assert redacted(nested(None, 5_000)) == nested(CUT, MOST_DEPTH)

    def test_size_is_bounded(self) -> None:
        rows = [[0] * 99] * 30  # 100 nodes each, and one for the list of them
        assert redacted(rows) == [*rows[:19], [0] * 98 + [f"{CUT} 1 more"], f"{CUT} 10 more"]
        row = {str(n): 0 for n in range(99)}
        left = {str(n): 0 for n in range(98)} | {CUT: "1 more"}
        assert redacted([row] * 30) == [*[row] * 19, left, f"{CUT} 10 more"]

    def test_a_structure_that_just_fits_is_whole(self) -> None:
        rows = [[0] * 99] * 19  # with the list of them 1901 nodes
        fits: list[Any] = [0] * (MOST_NODES - 1901 - 3)
        assert redacted([*rows, [*fits, [1]]]) == [*rows, [*fits, [1]]]
        assert redacted([*rows, [*fits, 0, [1]]]) == [*rows, [*fits, 0, CUT]]

    def test_a_structure_that_contains_itself_ends(self) -> None:
        loop: dict[str, Any] = {}
        loop["self"] = loop
        assert CUT in json.dumps(redacted(loop), ensure_ascii=False)


class Unprintable:
    def __str__(self) -> str:
        raise RuntimeError("no")


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (b"secret bytes", "<12 bytes>"),
        (float("nan"), "nan"),
        (float("-inf"), "-inf"),
        (10**400, "<a number of 1329 bits>"),
        (2**1023 - 1, 2**1023 - 1),
        (2**1023, "<a number of 1024 bits>"),
        ({1: 2, None: 3}, {"1": 2, "None": 3}),
        ({"a"}, ["a"]),
        (("a", 1), ["a", 1]),
        (Unprintable(), "<Unprintable>"),
        ({Unprintable(): 1}, {"<Unprintable>": 1}),
        (ValueError(f"password={SECRET}"), f"password={MASK}"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_is_no_json_becomes_json(value: Any, expected: Any) -> None:
    assert redacted(value) == expected
    json.dumps(redacted(value), allow_nan=False)


def test_the_original_is_not_touched() -> None:
    original = {"password": SECRET, "a": [{"token": SECRET}]}
    redacted(original)
    assert original == {"password": SECRET, "a": [{"token": SECRET}]}


# ---- one line

DANGEROUS = (
    "\x00\x07\x08\t\n\r\x1b\x7f\x85\x9b\u061c\u200b\u200e\u202a\u202e\u2028\u2029\u2066\u2069"
    "\ud800\udfff\ufeff\U000e0041"
)
HARMLESS = ["plain", "日本語", "é", "👩‍👩‍👧‍👦", "🏳️‍🌈", "नमस्ते", "a\u200db", "مرحبا", "\\n", '"quoted"', "\xa0"]


@pytest.mark.parametrize("character", DANGEROUS, ids=ascii)
def test_a_character_that_could_forge_or_hide_something_is_escaped(character: str) -> None:
    for shown in (one_line(f"a{character}b"), one_line_json(f"a{character}b")):
        assert character not in shown
        assert shown.isascii()
        assert "\\" in shown


@pytest.mark.parametrize("text", HARMLESS)
def test_other_characters_stay(text: str) -> None:
    assert one_line(text) == text
    assert json.loads(one_line_json(text)) == text
    assert one_line_json(text) == json.dumps(text, ensure_ascii=False)


def test_escapes_are_short_and_readable() -> None:
    assert one_line("a\nb\tc\x1b[31m\u202e\U000e0041\ud800") == "a\\nb\\tc\\x1b[31m\\u202e\\U000e0041\\ud800"


def test_json_escapes_give_the_text_back_save_for_halves_of_pairs() -> None:
    text = DANGEROUS.replace("\ud800", "").replace("\udfff", "")
    assert json.loads(one_line_json(text)) == text
    assert json.loads(one_line_json("\ud800")) == "\\ud800"


# ---- summaries


def test_a_summary_is_compact_redacted_json() -> None:
    assert summary({"a": 1, "password": SECRET, "b": ["日本"]}) == '{"a":1,"password":"***","b":["日本"]}'


@pytest.mark.parametrize("limit", [10, 11, 12, 13, 14, 2048])
def test_a_summary_is_cut_at_a_whole_character_with_a_mark(limit: int) -> None:
    cut = summary({"text": "日本語" * 2_000}, limit)
    assert limit - 3 <= len(cut.encode()) <= limit
    assert cut.endswith(CUT)
    assert cut[:-1] == ('{"text":"' + "日本語" * 2_000)[: len(cut) - 1]


def test_a_summary_that_fits_exactly_is_not_cut() -> None:
    assert summary("x" * 2_046) == '"' + "x" * 2_046 + '"'
    assert summary("x" * 2_047).endswith(CUT)


def test_a_summary_of_much_does_not_take_long() -> None:
    much = {"rows": [{"id": n, "text": "password=x " * 100} for n in range(20_000)]}
    begun = time.process_time()
    assert len(summary(much).encode()) <= 2048
    assert time.process_time() - begun < 2


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text("xyz ä"),
        lambda inner: st.lists(inner, max_size=20) | st.dictionaries(st.text("xyz ä"), inner, max_size=20),
        max_leaves=15,
    )
)
@settings(deadline=None)
def test_what_is_json_and_no_secret_stays_as_it_is(value: Any) -> None:
    assert json.dumps(redacted(value)) == json.dumps(value)


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(st.characters(exclude_categories=()))
    | st.binary(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(st.characters(exclude_categories=())), inner),
    max_leaves=30,
)


suspicious = st.lists(
    st.sampled_from(["pwd", "pass", "jwt", "auth", "otp", "Token", "x", " ", "-", ".", '"', "\\", "\n", "\u202e", "?"]),
    max_size=4,
).map("".join)
names = suspicious | st.sampled_from(["name", "key", "value", "Signature_1", "X-API-Key", "İpwd", "tokenize"])


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | names,
        lambda inner: st.lists(inner) | st.dictionaries(names, inner),
        max_leaves=15,
    )
)
@settings(max_examples=500, deadline=None)
def test_a_summary_made_from_the_text_is_the_same(value: Any) -> None:
    assert summary(value, text=written(value)) == summary(value)


@pytest.mark.parametrize(
    "value",
    [list(range(150)), [[] for _ in range(101)], {"a": "x" * 5_000}, [[[[[[[[[[[]]]]]]]]]]], {"a": {"b": [1] * 99}}],
    ids=str,
)
def test_a_summary_made_from_the_text_is_cut_the_same(value: Any) -> None:
    for limit in (100, 64 * 1024):
        assert summary(value, limit, written(value)) == summary(value, limit)


@given(json_values, st.integers(3, 3_000))
@settings(max_examples=300, deadline=None)
def test_any_summary_is_one_safe_line_within_its_limit(value: Any, limit: int) -> None:
    text = summary(value, limit)
    assert len(text.encode()) <= limit
    assert one_line(text) == text
    if not text.endswith(CUT):
        json.loads(text)


@given(st.text(st.characters(exclude_categories=())), st.text(LETTERS_AND_DIGITS, min_size=12))
@settings(max_examples=300, deadline=None)
def test_a_secret_is_masked_after_any_text(before: str, secret: str) -> None:
    for text in (f"{before} password={secret}", f'{before}\n{{"api_key": "{secret}"}}', f"{before} Bearer {secret}"):
        shown = redacted_text(text)
        assert secret not in shown or secret in before


@given(st.text(LETTERS_AND_DIGITS, min_size=12))
def test_the_mask_replaces_exactly_the_secret(secret: str) -> None:
    assert redacted_text(f"a password={secret} b") == f"a password={MASK} b"


def test_nothing_of_the_project_is_imported() -> None:
    source = inspect.getsource(redaction)
    assert not re.search(r"^\s*(?:from|import) (?:tools_app|toolhub|django)", source, re.MULTILINE)
