"""A client's configuration is changed as text: only our own entry, and nothing else."""

from __future__ import annotations

import json
import os
import re
import resource
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tools_app.management.config_file import ConfigFile, ConfigFileError

ENTRY = {"command": "/opt/hub/python", "args": ["-m", "toolhub", "runmcp"]}

COMMENTED = """{
\t// servers that everybody has
\t"servers": {
\t\t"first": {"url": "https://a.test/mcp"}, // the one
\t\t/* and */ "second": {
\t\t\t"command": "x", // with a trailing comma
\t\t}, // the last
\t},
\t"inputs": [],
}
"""


def file(folder: Path, text: str | None = None, member: str = "mcpServers") -> ConfigFile:
    path = folder / "mcp.json"
    if text is not None:
        path.write_bytes(text.encode())
    return ConfigFile(path, member)


def test_a_new_file_holds_the_entry_and_nothing_else(tmp_path: Path) -> None:
    made = file(tmp_path / "client" / "User")
    assert made.entries() == {}
    assert not made.put("hub", ENTRY, private=True)
    assert json.loads(made.path.read_text()) == {"mcpServers": {"hub": ENTRY}}
    assert made.path.stat().st_mode & 0o777 == 0o600
    assert [path.name for path in made.path.parent.iterdir()] == ["mcp.json"]


def test_comments_and_everything_else_stay_byte_for_byte(tmp_path: Path) -> None:
    config = file(tmp_path, COMMENTED, "servers")
    assert config.put("hub", ENTRY, private=False)
    changed = config.path.read_text()
    assert config.entries()["hub"] == ENTRY
    assert config.backup.read_text() == COMMENTED
    added = [line for line in changed.splitlines() if line not in COMMENTED.splitlines()]
    assert added[0] == '\t\t"hub": {'
    assert [line for line in changed.splitlines() if line in COMMENTED.splitlines()] == COMMENTED.splitlines()
    config.put("hub", {"url": "x"}, private=False)
    assert config.entries()["hub"] == {"url": "x"}
    config.remove("hub")
    assert config.path.read_text() == COMMENTED


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_the_last_of_several_goes_with_the_comma_before_it(tmp_path: Path, newline: str) -> None:
    text = newline.join(["{", '    "mcpServers": {', '        "a": {}', "    }", "}", ""])
    config = file(tmp_path, text)
    config.put("hub", ENTRY, private=False)
    assert f'"a": {{}},{newline}        "hub": {{{newline}            "command"' in config.path.read_bytes().decode()
    config.remove("hub")
    assert config.path.read_bytes().decode() == text


@pytest.mark.parametrize(
    "text",
    [
        '{"mcpServers": {"hub": {}, "a": 1}}',
        '{"mcpServers": {"a": 1, "hub": {}}}',
        '{"mcpServers": {"a": 1, // why\n"hub": {}, "b": 2}}',
        '{"mcpServers": {"a": 1 // why\n, "hub": {}}}',
        '{"mcpServers": {"a": 1,\n"hub": {}, // why\n"b": 2,}}',
    ],
)
def test_an_entry_is_removed_from_any_position(tmp_path: Path, text: str) -> None:
    config = file(tmp_path, text)
    others = {name: value for name, value in config.entries().items() if name != "hub"}
    config.remove("hub")
    assert config.entries() == others
    assert ("// why" in config.path.read_text()) == ("// why" in text)


values: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(
    st.dictionaries(st.text(), values, max_size=3),
    st.dictionaries(st.text(), values, max_size=3),
    st.sampled_from([None, 0, 1, 4, "\t"]),
    st.booleans(),
)
def test_other_content_stays(
    tmp_path: Path, others: dict[str, Any], servers: dict[str, Any], indent: int | str | None, ascii_only: bool
) -> None:
    others.pop("mcpServers", None)
    servers.pop("hub", None)
    whole = {**others, "mcpServers": servers}
    config = file(tmp_path, json.dumps(whole, indent=indent, ensure_ascii=ascii_only))
    config.put("hub", ENTRY, private=False)
    assert json.loads(config.path.read_bytes()) == {**others, "mcpServers": {**servers, "hub": ENTRY}}
    config.remove("hub")
    assert json.loads(config.path.read_bytes()) == whole


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ('{"mcpServers": {"a": 1', "not JSON"),
        ('{"a": "open}', "not JSON (line 1)"),
        ("[]", "not an object whose 'mcpServers' is an object"),
        ('{"mcpServers": []}', "not an object whose 'mcpServers' is an object"),
        ('{"mcpServers": {}, "mcpServers": {"a": 1}}', "a duplicate key"),
        ("\N{LATIN SMALL LETTER E WITH ACUTE}".encode("latin-1"), "cannot be read"),
    ],
)
def test_an_unreadable_file_is_left_alone(tmp_path: Path, text: str | bytes, why: str) -> None:
    path = tmp_path / "mcp.json"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    before = path.read_bytes()
    with pytest.raises(ConfigFileError, match=re.escape(why)):
        ConfigFile(path, "mcpServers").put("hub", ENTRY, private=False)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_a_link_stays_a_link_and_what_it_leads_to_changes(tmp_path: Path) -> None:
    (tmp_path / "dotfiles").mkdir()
    real = tmp_path / "dotfiles" / "real.json"
    real.write_text("")
    real.chmod(0o640)
    link = tmp_path / "mcp.json"
    link.symlink_to(real)
    config = ConfigFile(link, "mcpServers")
    config.put("hub", ENTRY, private=False)
    assert link.is_symlink()
    assert "hub" in json.loads(real.read_text())["mcpServers"]
    assert real.stat().st_mode & 0o777 == 0o640
    config.put("hub", ENTRY, private=True)
    assert real.stat().st_mode & 0o777 == 0o600
    assert config.backup == tmp_path / "dotfiles" / "real.json.before-toolhub"
    assert config.backup.stat().st_mode & 0o777 == 0o600


def test_a_move_that_the_disk_refuses_leaves_the_file_and_no_copy_of_its_secrets(tmp_path: Path) -> None:
    servers = {"files": {"command": "x", "env": {"FILES_KEY": "a-secret"}}}
    config = file(tmp_path, json.dumps({"mcpServers": servers}))
    before = config.path.read_bytes()
    # In a process of its own: the limit is one of all files, and there is a database. There is room for the backup, and
    # not for the new file, which is larger.
    if (child := os.fork()) == 0:
        status = 1
        try:
            resource.setrlimit(resource.RLIMIT_FSIZE, (len(before), len(before)))
            config.move(servers, "hub", {"command": "toolhub", "args": ["runmcp"] * 20}, private=False)
        except ConfigFileError as error:
            status = 0 if "cannot be written: File too large" in str(error) else 2
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert [(one, one.read_bytes()) for one in tmp_path.iterdir()] == [(config.path, before)]


def test_says_where_nothing_can_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    config = ConfigFile(tmp_path / "file" / "mcp.json", "mcpServers")
    with pytest.raises(ConfigFileError, match="mcp.json cannot be"):
        config.put("hub", ENTRY, private=False)
