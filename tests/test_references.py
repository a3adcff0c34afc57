"""References to secrets outside the database: what they may name, and when they have no value."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from tools_app.base import references
from tools_app.base.references import MOST_BYTES, MissingError, References


@pytest.fixture
def vault(tmp_path: Path, settings: Any) -> Path:
    """The directory of secrets."""
    directory = tmp_path / "vault"
    directory.mkdir()
    settings.TOOLHUB_SECRETS_DIR = directory
    return directory


def test_variables_and_files_are_resolved_within_a_text(vault: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOOLHUB_SECRET_ACME", "one")
    (vault / "acme-token").write_text("two\n")
    text = "Token ${TOOLHUB_SECRET_ACME}:${file:acme-token}$ {x} $HOME"
    assert references.found_in([text, text]) == ["TOOLHUB_SECRET_ACME", "file:acme-token"]
    assert references.resolved(text) == "Token one:two$ {x} $HOME"


@pytest.mark.parametrize(
    "text",
    [
        *("${SECRET_KEY}", "${TOOLHUB_ENCRYPTION_KEY}", "${TOOLHUB_SECRET_}", "${TOOLHUB_SECRETS_DIR}", "${}", "${a}"),
        *("${file:}", "${file:/etc/passwd}", "${file:../x}", "${file:.hidden}", "${file:a/b}", "${file:a\\b}"),
        *(
            "${toolhub_secret_a}",
            "${ TOOLHUB_SECRET_A}",
            "${TOOLHUB_SECRET_A\n}",
            "${${TOOLHUB_SECRET_A}}",
            "${file:a}${b}",
        ),
    ],
)
def test_nothing_else_can_be_referred_to(text: str) -> None:
    with pytest.raises(ValueError, match="expected a variable that begins with TOOLHUB_SECRET_"):
        references.found_in([text])


def test_a_value_is_not_resolved_again(vault: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOOLHUB_SECRET_A", "${file:b}")
    (vault / "b").write_text("secret")
    assert references.resolved("${TOOLHUB_SECRET_A}") == "${file:b}"


def test_a_missing_value_is_named_without_a_path(vault: Path, settings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    (vault / "empty").write_text("\n")
    (vault / "large").write_bytes(b"x" * (MOST_BYTES + 1))
    (vault / "binary").write_bytes(b"\xff\xfe")
    (vault / "folder").mkdir()
    os.mkfifo(vault / "pipe")
    (vault / "circle").symlink_to(vault / "circle")
    outside = vault.parent / "outside"
    outside.write_text("canary")
    (vault / "link").symlink_to(outside)
    (vault / "up").symlink_to(vault.parent)
    monkeypatch.setenv("TOOLHUB_SECRET_BLANK", "")
    for name, words in {
        "TOOLHUB_SECRET_NONE": "is not set",
        "TOOLHUB_SECRET_BLANK": "is not set",
        "file:none": "no such file or directory",
        "file:empty": "is empty",
        "file:large": "larger than",
        "file:binary": "not UTF-8",
        "file:folder": "no regular file",
        "file:pipe": "no regular file",
        "file:circle": "cannot be read",
        "file:link": "leaves TOOLHUB_SECRETS_DIR",
        "file:up": "leaves TOOLHUB_SECRETS_DIR",
    }.items():
        with pytest.raises(MissingError, match=words) as missing:
            references.resolved(f"${{{name}}}")
        assert str(missing.value).startswith(name)
        assert str(vault.parent) not in str(missing.value)
    settings.TOOLHUB_SECRETS_DIR = None
    assert References(("file:link",)).fault == "file:link needs TOOLHUB_SECRETS_DIR, which is not set"


def test_links_within_the_directory_are_how_secrets_are_mounted(vault: Path) -> None:
    (vault / "..data").mkdir()
    (vault / "..data" / "token").write_text("one\r\n")
    (vault / "token").symlink_to("..data/token")
    assert references.resolved("${file:token}") == "one"


def test_the_state_changes_with_every_value(vault: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    both = References(("TOOLHUB_SECRET_A", "file:a"))
    states = [both.state]
    for change in (
        lambda: monkeypatch.setenv("TOOLHUB_SECRET_A", "1"),
        lambda: (vault / "a").write_text("1"),
        lambda: (vault / "a").write_text("2"),
        lambda: monkeypatch.setenv("TOOLHUB_SECRET_A", "2"),
        lambda: (vault / "a").unlink(),
    ):
        change()
        states.append(both.state)
    assert len(set(states)) == len(states)
    assert both.fault.startswith("file:a cannot be read")
