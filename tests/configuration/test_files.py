"""Files that cannot be used: each problem with its path and line, and never with a value."""

from __future__ import annotations

import pytest

from tools_app.setup.configuration import MOST_BYTES, ConfigurationFileError, read
from tools_app.setup.configuration.document import Document
from tools_app.setup.configuration.writing import written

KEY = "keys:\n  ci:\n    "
SECRET = "connections:\n  a:\n    source: desk\n    "


def refusal(content: str | bytes) -> str:
    with pytest.raises(ConfigurationFileError) as caught:
        read(content if isinstance(content, bytes) else content.encode())
    return str(caught.value)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("", "must be a mapping"),
        ("- version: 1", "must be a mapping"),
        ("toolsets: {}", "/version, line 1: is missing"),
        ("version: 2", "/version, line 1: must be 1"),
        ("version: '1'", "/version, line 1: must be 1"),
        ("version: 1\nkey: {}", "/key, line 2: is no field of the file"),
        (f"version: 1\n{KEY}may_wriet: true", "/keys/ci/may_wriet, line 4: is no field of the file"),
        (f"version: 1\n{KEY}may_write: 'no'", "/keys/ci/may_write, line 4: input should be a valid boolean"),
        (f"version: 1\n{KEY}scopes: tools:list", "/keys/ci/scopes, line 4: input should be a valid list"),
        (f"version: 1\n{KEY}scopes: [a, 1]", "/keys/ci/scopes/1, line 4: input should be a valid string"),
        (f"version: 1\n{KEY}toolsets: []", "/keys/ci/toolsets, line 4: name at least one toolset"),
        (f"version: 1\n{KEY}expires_at: 2027-01-31", "/keys/ci/expires_at, line 4: a time needs its offset"),
        (f"version: 1\n{KEY}rate: {{calls: 5}}", "/keys/ci/rate/seconds, line 4: is missing"),
        (f"version: 1\n{KEY}asks: 'all'", "/keys/ci/asks, line 4: input should be"),
        ("version: 1\nkeys:\n  ci:", "/keys/ci, line 3: input should be a valid dictionary"),
        ("version: 1\nversion: 1", "line 2: 'version' is there twice"),
        ("version: 1\nkeys:\n  ci: {}\n  ci: {}", "line 4: 'ci' is there twice"),
        ("version: 1\nkeys: &all {}\ntools: *all", "line 2: anchors and aliases"),
        ("version: 1\n? [a]\n: 1", "line 2: a key must be a text"),
        ("version: 1\nkeys: !!python/object:os.system {}", "line 2: tags"),
        ("version: 1\nkeys: !!str 1", "line 2: tags"),
        ("version: 1\n---\nversion: 1", "line 2: a second YAML document"),
        ("version: 1\nkeys: {", "the file is not YAML, line"),
        ('version: 1\ntoolsets: {a: {description: "\\0"}}', "line 2: a text must not contain a NUL"),
        ("version: 1\nkeys: " + "[" * 60 + "]" * 60, "nested deeper than 12 levels"),
        (b"version: 1\nkeys: \xff", "not YAML"),
        (b"#" * (MOST_BYTES + 1), "larger than 4 MiB"),
        ("version: 1\nkeys: [" + "1," * 200_001 + "]", "more than 200,000 values"),
    ],
)  # fmt: skip
def test_a_bad_file_is_refused_with_path_and_line(content: str | bytes, words: str) -> None:
    assert words in refusal(content)


@pytest.mark.parametrize(
    "value",
    ["hunter2", "{token: hunter2}", "{token: 'hunter2 ${TOOLHUB_SECRET_A}'}", "{token: '${TOOLHUB_SECRET_A}hunter2'}",
     "{token: '${HOME}hunter2'}", "'Bearer hunter2'"],
)  # fmt: skip
def test_a_secret_in_clear_is_refused_and_not_repeated(value: str) -> None:
    words = refusal(f"version: 1\n{SECRET}secret: {value}")
    assert "/connections/a/secret" in words
    assert "line 5" in words
    assert "${TOOLHUB_SECRET_ACME}" in words
    assert "hunter2" not in words


def test_an_alias_bomb_is_refused_at_its_first_anchor() -> None:
    lines = ["version: 1", "a: &a [x, x, x, x, x, x, x, x, x]"]
    lines += [
        f"{name}: &{name} [{', '.join([f'*{before}'] * 9)}]"
        for before, name in zip("abcdefgh", "bcdefghi", strict=True)
    ]
    assert "line 2: anchors" in refusal("\n".join(lines))


def test_texts_that_look_like_something_else_come_back_as_texts() -> None:
    texts = [
        *("no", "on", "~", "null", "1", "1e5", "0o17", "0x1f", "1_000", "12:30:00", "2027-01-31", "=", "<<", "- a"),
        *(
            "# a",
            "a: b",
            "  a ",
            "",
            "'",
            '"',
            "\n",
            "a\n\nb\n",
            "\t",
            "ä – 日本語 😀",
            "\x85",
            "\u2028",
            "\ufeff",
            "%a",
        ),
        *("@", "`", "!a", "&a", "*a", ".inf", ".5", "+1", "x" * 300 + " y" * 100),
    ]
    document = Document.model_validate(
        {"version": 1, "toolsets": {f"a{number}": {"description": text} for number, text in enumerate(texts)}}
    )
    content = written(document)
    assert read(content) == document
    assert written(read(content)) == content
