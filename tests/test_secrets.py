"""Keys: hard to guess, easy to recognise, and stored only as something that cannot be turned back."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tools_app.base import secrets
from tools_app.text.redaction import redacted_text

KEY = re.compile(r"thub_[0-9A-Za-z]{8}_[0-9A-Za-z]{49}")


def test_a_new_key_is_branded_and_shows_its_prefix() -> None:
    key, prefix = secrets.new_key()
    assert KEY.fullmatch(key)
    assert key.startswith(f"thub_{prefix}_")
    assert len(prefix) == 8


def test_no_two_keys_are_alike() -> None:
    keys = [secrets.new_key() for _ in range(200)]
    assert len({key for key, _ in keys}) == 200
    assert len({prefix for _, prefix in keys}) == 200


def test_a_key_uses_all_characters_about_equally() -> None:
    text = "".join(secrets.new_key()[0][14:57] for _ in range(200))
    counts = [text.count(character) for character in secrets._ALPHABET]
    assert len(counts) == 62
    assert min(counts) > 90
    assert max(counts) < 200


def test_a_key_is_well_formed() -> None:
    for _ in range(100):
        assert secrets.well_formed(secrets.new_key()[0])


@given(st.integers(5, 62), st.characters())
def test_a_key_with_one_character_changed_is_not(place: int, character: str) -> None:
    prefix, secret = "Ab3dEf6h", "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefg"
    key = f"thub_{prefix}_{secret}{secrets._checksum(prefix + secret)}"
    assert secrets.well_formed(key)
    changed = key[:place] + character + key[place + 1 :]
    assert secrets.well_formed(changed) is (changed == key)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "thub_",
        "Bearer x",
        "thub_" + "a" * 58,
        "x" * 63,
        "thub_Ab3dEf6h_" + "0" * 49,
        "\uff54hub_",
        "\ud800",
        "thub_\n",
    ],
    ids=ascii,
)
def test_anything_else_is_not_well_formed(text: str) -> None:
    assert not secrets.well_formed(text)


def test_a_key_with_something_around_it_is_not_well_formed() -> None:
    key, _ = secrets.new_key()
    for text in (f"{key}\n", f" {key}", f"{key}x", key[:-1], key.upper()):
        assert not secrets.well_formed(text)


class TestWhatIsStored:
    def test_is_a_hash_that_needs_the_secret_key(self, settings: Any) -> None:
        key, _ = secrets.new_key()
        settings.SECRET_KEY = "one"
        one = secrets.key_hash(key)
        settings.SECRET_KEY = "two"
        assert re.fullmatch("[0-9a-f]{64}", one)
        assert secrets.key_hash(key) != one
        assert secrets.key_hash(key) == secrets.key_hash(key)
        assert key not in one

    def test_differs_for_every_key(self) -> None:
        assert len({secrets.key_hash(secrets.new_key()[0]) for _ in range(100)}) == 100

    def test_is_found_again_after_the_secret_key_was_rotated(self, settings: Any) -> None:
        key, _ = secrets.new_key()
        settings.SECRET_KEY, settings.SECRET_KEY_FALLBACKS = "old", []
        stored = secrets.key_hash(key)
        settings.SECRET_KEY, settings.SECRET_KEY_FALLBACKS = "new", ["old", "older"]
        assert stored in secrets.key_hashes(key)
        assert secrets.key_hashes(key)[0] == secrets.key_hash(key)
        settings.SECRET_KEY_FALLBACKS = []
        assert stored not in secrets.key_hashes(key)


def test_a_key_that_gets_into_a_log_is_masked() -> None:
    key, prefix = secrets.new_key()
    assert redacted_text(f"key {key} refused") == f"key thub_{prefix}_*** refused"
