"""What is shown of a call before it is approved: all of it, and nothing hidden behind a mask."""

from __future__ import annotations

import json
import re
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tools_app.governance import disclosure

COMMAND = "; rm -rf /data"
BEGIN, END = (f"-----{verb} RSA PRIVATE KEY-----" for verb in ("BEGIN", "END"))
JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text() | st.sampled_from(["password", "value", "name"]), inner),
    max_leaves=30,
)  # fmt: skip


def deep(levels: int, core: Any) -> Any:
    for _ in range(levels):
        core = {"next": core}
    return core


@pytest.mark.parametrize(
    "arguments",
    [
        {"files": [f"file-{number}" for number in range(120)] + [COMMAND]},
        {"text": "x" * 5_600 + COMMAND},
        deep(12, COMMAND),
        {"session_token": COMMAND},
        {"session_token": ["sh", "-c", COMMAND]},
        {"password": {"command": COMMAND}},
        {"script": f"login --password='x{COMMAND}'"},
        {"script": f'password="{COMMAND}"'},
        {"script": f"Authorization: {COMMAND}"},
        {"note": f"Bearer x\n{COMMAND}"},
        {"headers": [{"name": "Authorization", "value": COMMAND}, ["Cookie", COMMAND]]},
        {"key": f"{BEGIN}\n{COMMAND}\n{END}"},
        {f"password={COMMAND}": 1},
    ],
)
def test_nothing_hides_a_command(arguments: Any) -> None:
    shown = disclosure.of(arguments)
    assert COMMAND in shown.text
    assert shown.masked_count == 0
    assert shown.arguments == arguments


@pytest.mark.parametrize(
    "hidden",
    [
        "$(rm$IFS-rf$IFS/data)",
        "`id`",
        "a;b",
        "a|b",
        "a&&b",
        "https://evil.example/x",
        "/data",
        "a>b",
        "{rm,-rf,/}",
        "-rf",
    ],
)
@pytest.mark.parametrize("where", [{"session_token": "{}"}, {"script": "run --password={} now"}, {"note": "Bearer {}"}])
def test_a_mask_covers_no_command_without_blanks_either(where: dict[str, str], hidden: str) -> None:
    """At most the one word before what separates it from the next."""
    shown = disclosure.of({name: text.replace("{}", hidden) for name, text in where.items()})
    assert re.search(r"[^\w].*", hidden)[0] in str(shown.arguments)  # type: ignore[index]


@pytest.mark.parametrize(
    ("arguments", "around"),
    [
        ({"password": "hunter2"}, []),
        ({"script": "login --password=hunter2 --then 'rm -rf /data'"}, ["login --password=", " --then 'rm -rf /data'"]),
        ({"script": 'password="hunter2" && id'}, ['password="', '" && id']),
        ({"headers": {"Authorization": "Bearer hunter2"}}, ["Bearer "]),
        ({"url": "https://ann:hunter2@host.test/x"}, ["https://ann:", "@host.test/x"]),
        ({"headers": [{"name": "X-API-Key", "value": "hunter2"}]}, []),
    ],
)
def test_a_secret_is_masked_and_all_around_it_is_shown(arguments: Any, around: list[str]) -> None:
    shown = disclosure.of(arguments)
    assert "hunter2" not in shown.text
    assert "***(7 characters, " in shown.text
    assert shown.masked_count == 1
    decoded = str(shown.arguments)
    assert [text for text in around if text not in decoded] == []


def test_a_bearer_token_within_a_text_is_masked() -> None:
    token = "A1b2C3d4E5f6G7h8"
    assert disclosure.of({"note": f"curl -H 'Authorization: Bearer {token}'"}).masked_count == 1
    assert token not in disclosure.of({"note": f"with Bearer {token} in it"}).text
    assert "Bearer rm -rf" in disclosure.of({"note": "Bearer rm -rf /data"}).text


def test_the_lines_of_a_private_key_are_masked_one_by_one() -> None:
    key = f"{BEGIN}\n" + "A1b2" * 16 + "\n" + "C3d4" * 16 + f"\n{END}"
    shown = disclosure.of({"text": key})
    assert shown.masked_count == 2
    assert "A1b2" not in shown.text
    assert END in shown.text


def test_equal_secrets_look_equal_and_others_do_not() -> None:
    first, second, third = disclosure.of({"tokens": [{"token": text} for text in ("abc1", "abc1", "abc2")]}).arguments[
        "tokens"
    ]
    assert first == second != third


@given(JSON_VALUES)
def test_nothing_is_left_out_of_any_arguments(value: Any) -> None:
    shown = disclosure.of(value)
    if not shown.masked_count:
        assert shown.arguments == value
    assert json.loads(shown.text) == shown.arguments
    assert _shape(shown.arguments) == _shape(value)


def _shape(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _shape(item) for key, item in value.items()}
    return [_shape(item) for item in value] if isinstance(value, list) else type(value)


@pytest.mark.parametrize(
    "arguments",
    [
        {"text": "authorization:a " * 16_000},
        {"text": "password='" * 25_000},
        {"text": "bearer " * 36_000},
        json.loads("[" * 60 + ",".join("0" * 130_000) + "]" * 60),
    ],
)
def test_the_largest_calls_are_shown_quickly_and_in_bounds(arguments: Any) -> None:
    begun = time.process_time()
    shown = disclosure.of(arguments)
    assert len(shown.text) <= disclosure.MOST_INDENTED
    assert time.process_time() - begun < 5
