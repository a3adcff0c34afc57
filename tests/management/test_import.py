"""`toolhub import`: from the file of a client to sources, and the client behind the hub and back."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command
from hypothesis import HealthCheck, given
from hypothesis import settings as examples
from hypothesis import strategies as st

from tools_app import governance
from tools_app.governance import imports
from tools_app.management.config_file import MOVED, ConfigFile, ConfigFileError
from tools_app.models import AuditEntry, Connection, Source, Toolset
from tools_app.sdk.context import Caller
from tools_app.sdk.errors import AuthorizationError
from tools_app.setup.clients import CLIENTS
from tools_app.text.toml_text import EditError, TomlText

pytestmark = pytest.mark.usefixtures("hub")

URL = "https://wiki.example.org/mcp"
# As an editor leaves it: comments, tabs, a trailing comma.
CONFIG = """{
\t"globalShortcut": "", // keep
\t"mcpServers": {
\t\t/* ours */ "files": { "command": "files-server", "args": ["/data"] },
\t\t"wiki": {
\t\t\t"url": "https://wiki.example.org/mcp",
\t\t\t"headers": { "Authorization": "Bearer ${WIKI_TOKEN}" }, // secret
\t\t},
\t\t"shell": { "command": "sh", "args": ["-c", "x | y"] },
\t},
}
"""
CODEX = """model = "o3" # the model

[mcp_servers.files]
command = "files-server"
args = ["/data"]

[mcp_servers.files.env]
FILES_KEY = "abc"

# about the wiki
[mcp_servers."wiki"]
url = "https://wiki.example.org/mcp"

[profiles.fast]
model = "o4"
"""


def run(*arguments: str) -> tuple[int, str, str]:
    out, err = io.StringIO(), io.StringIO()
    try:
        call_command("import", *arguments, stdout=out, stderr=err)
    except SystemExit as end:
        return int(end.code or 0), out.getvalue(), err.getvalue()
    return 0, out.getvalue(), err.getvalue()


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "mcp.json"
    path.write_text(CONFIG)
    return path


def outside() -> list[str]:
    rows = Source.objects.filter(kind__in=Source.OUTSIDE, removed_at=None)
    return sorted(rows.values_list("name", flat=True))


# ---- importing


def test_shows_first_and_stores_nothing(file: Path) -> None:
    code, out, _ = run(str(file), "--dry-run", "--set", "WIKI_TOKEN=abc")
    assert code == 1
    assert out.splitlines() == [
        "files: adds source files: files-server /data",
        f"wiki: adds source wiki: {URL}",
        "    connection (bearer): token (secret)",
        "shell: refused: it runs a line of a shell: name the program itself, or add it with `toolhub source add` if "
        "you trust it",
        "    ! sh: a shell interprets the rest; name the program itself, with its arguments.",
        "Would be imported: 2 added, 0 exists, 0 own, 0 incomplete, 1 refused.",
    ]
    assert outside() == []
    assert not AuditEntry.objects.filter(action="source.create").exists()


def test_imports_what_it_can_and_says_what_is_missing(file: Path) -> None:
    code, out, _ = run(str(file), "--reason", "move to the hub")
    assert code == 1
    assert "wiki: not imported: values are missing: WIKI_TOKEN" in out
    assert "Imported: 1 added, 0 exists, 0 own, 1 incomplete, 1 refused.\nMissing values: --set WIKI_TOKEN=…" in out
    assert outside() == ["files"]
    code, out, _ = run(str(file), "--set", "WIKI_TOKEN=abc", "--only", "wiki", "--as", "wiki=docs")
    assert (code, outside()) == (0, ["docs", "files"])
    assert Connection.objects.get().names == ["token"]
    assert not Source.objects.filter(name__in=["docs", "files"], enabled=True).exists()
    before = AuditEntry.objects.count()
    _, out, _ = run(str(file))
    assert "wiki: skipped: source docs has the same origin" in out
    assert AuditEntry.objects.count() == before


def test_values_come_from_the_variables_of_the_shell(
    file: Path, monkeypatch: pytest.MonkeyPatch, settings: Any
) -> None:
    settings.TOOLHUB_GIVEN = None
    monkeypatch.setenv("WIKI_TOKEN", "from-the-shell")
    code, out, err = run(str(file), "--json", "--only", "wiki")
    assert (code, err) == (0, "")
    (server,) = json.loads(out)["servers"]
    assert (server["outcome"], server["source"], server["location"]) == ("added", "wiki", URL)
    assert (server["names"], server["secrets"], server["fromShell"]) == (["token"], ["token"], ["WIKI_TOKEN"])
    assert "from-the-shell" not in out


def test_a_person_is_asked(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    asked: list[str] = []

    def typed(prompt: str) -> str:
        asked.append(prompt)
        return "typed"

    monkeypatch.setattr("getpass.getpass", typed)
    code, _, _ = run(str(file), "--only", "wiki")
    assert (code, asked, outside()) == (0, ["WIKI_TOKEN: "], ["wiki"])


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["nowhere.json"], "there is no file nowhere.json, and no client of that name"),
        (["generic"], "there is no file generic"),
        (["{file}", "--only", "nope"], "there is no server 'nope' in it"),
        (["{file}", "--move"], "--move and --undo require a client"),
        (["{file}", "--undo"], "--move and --undo require a client"),
        (["{file}", "--project", "."], "--file and --project require the name of a client"),
        (["claude-desktop", "--project", "."], "Claude Desktop has no project configuration"),
        (["cursor", "--file", "{file}.none"], "there is no file"),
        (["{file}", "--set", "novalue"], "must be like NAME=VALUE"),
    ],
)
def test_says_what_cannot_be(file: Path, arguments: list[str], why: str) -> None:
    out, err = io.StringIO(), io.StringIO()
    with pytest.raises(BaseException) as ended:  # noqa: PT011 – argparse raises an error of Django, commands exit
        call_command("import", *(word.format(file=file) for word in arguments), stdout=out, stderr=err)
    assert why in err.getvalue() + str(ended.value)
    assert outside() == []


def test_what_others_wrote_does_not_control_the_terminal(tmp_path: Path) -> None:
    path = tmp_path / "evil.json"
    entry = {"command": "x\x1b[2J", "args": ["\u202e"], "\x1b]0;owned\x07": 1}
    path.write_text(json.dumps({"mcpServers": {"a\x1b[2Jb": entry, "c": {"type": "\x9b2J"}}}))
    out = "".join(map(str, run(str(path), "--dry-run")[1:]))
    assert not {"\x1b", "\x9b", "\u202e", "\x07"} & set(out)


# ---- moving


def test_moves_a_client_behind_the_hub_and_back(file: Path) -> None:
    move = ("cursor", "--file", str(file), "--set", "WIKI_TOKEN=abc", "--move", "--no-check")
    code, out, err = run(*move)
    assert (code, err) == (1, ""), "one is refused"
    assert f"Moved behind the hub in {file}: files, wiki. Its entry is 'toolhub'." in out
    assert f"toolhub import cursor --file {file} --undo" in out
    entries = ConfigFile(file, "mcpServers").entries()
    assert sorted(entries) == ["shell", "toolhub"]
    assert entries["toolhub"]["args"] == ["-m", "toolhub", "runmcp", "--toolset", "cursor", "--connection", "wiki"]
    assert '"globalShortcut": "", // keep' in file.read_text()
    assert Toolset.objects.get(name="cursor").packs == ["files", "wiki"]
    (backup,) = file.parent.glob(f"*{MOVED}*")
    assert (backup.read_text(), backup.stat().st_mode & 0o777) == (CONFIG, 0o600)
    code, out, _ = run("cursor", "--file", str(file), "--undo")
    assert (code, file.read_text()) == (0, CONFIG)
    assert "is as it was before the move" in out
    assert not backup.exists()
    assert outside() == ["files", "wiki"]
    code, _, err = run("cursor", "--file", str(file), "--undo")
    assert (code, "no servers of" in err) == (1, True)


def test_a_move_can_be_repeated_and_taken_back_step_by_step(file: Path) -> None:
    place = ("cursor", "--file", str(file))
    run(*place, "--only", "files", "--move", "--no-check")
    between = file.read_text()
    _, out, _ = run(*place, "--only", "wiki", "--set", "WIKI_TOKEN=abc", "--move", "--no-check")
    assert "The hub is in the file already; its entry stays as it is. To give it the sources: toolhub connect" in out
    assert "The toolset 'cursor' does not select these sources: wiki." in out
    assert sorted(ConfigFile(file, "mcpServers").entries()) == ["shell", "toolhub"]
    run(*place, "--undo")
    assert file.read_text() == between
    run(*place, "--undo")
    assert file.read_text() == CONFIG


def test_a_file_that_was_changed_since_gets_its_servers_back(file: Path) -> None:
    place = ("cursor", "--file", str(file))
    run(*place, "--set", "WIKI_TOKEN=abc", "--move", "--no-check")
    file.write_text(file.read_text().replace('"globalShortcut": ""', '"globalShortcut": "x", "starts": 2'))
    code, out, _ = run(*place, "--undo")
    assert (code, "was changed after the move. Its servers are back: files, wiki." in out) == (0, True)
    text = file.read_text()
    assert '"globalShortcut": "x", "starts": 2, // keep' in text
    assert sorted(ConfigFile(file, "mcpServers").entries()) == ["files", "shell", "wiki"]


def test_a_file_that_cannot_be_edited_stays_and_nothing_is_left_of_the_move(tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    path.write_text('[mcp_servers]\nfiles = {command = "files-server"}\n')
    before = path.read_bytes()
    code, _, err = run("codex", "--file", str(path), "--move", "--no-check")
    assert (code, "change it by hand. The sources are imported" in err) == (1, True)
    assert (path.read_bytes(), outside()) == (before, ["files"])
    assert not Toolset.objects.exists()
    assert [one.name for one in tmp_path.iterdir()] == ["config.toml"]


def test_moves_only_what_is_a_source(file: Path) -> None:
    code, _, err = run("cursor", "--file", str(file), "--move", "--only", "shell")
    assert (code, "nothing is moved" in err) == (1, True)
    run("cursor", "--file", str(file), "--move", "--dry-run")
    assert (file.read_text(), outside()) == (CONFIG, [])


def test_does_not_replace_another_server_of_that_name(file: Path) -> None:
    code, _, err = run("cursor", "--file", str(file), "--only", "files", "--move", "--no-check", "--name", "shell")
    assert (code, "is another server. Choose another --name" in err) == (2, True)
    assert file.read_text() == CONFIG


def test_moves_the_servers_of_codex(tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    path.write_text(CODEX)
    code, _, err = run("codex", "--file", str(path), "--move", "--no-check")
    assert (code, err) == (0, "")
    text = path.read_text()
    assert text.startswith('model = "o3" # the model\n\n# about the wiki\n[profiles.fast]\nmodel = "o4"\n\n')
    file = ConfigFile.of(CLIENTS["codex"], path)
    assert file.entries()["toolhub"]["args"][2:5] == ["runmcp", "--toolset", "codex"]
    run("codex", "--file", str(path), "--undo")
    assert path.read_text() == CODEX


class OtherProgram:
    """Writes the file when the hub has opened or replaced it so often, as a client may at any moment."""

    def __init__(self, file: Path, text: str, *events: str) -> None:
        self.file, self.text, self.events = file, text, list(events)

    def __call__(self, event: str, arguments: tuple[Any, ...]) -> None:
        if self.events and event == self.events[0] and str(self.file) in map(str, arguments[:2]):
            del self.events[0]
            if not self.events:
                self.file.write_text(self.text)


def others(file: Path) -> list[str]:
    """What is beside the file: a backup holds the secrets of the servers."""
    return [one.name for one in file.parent.iterdir() if one != file]


MOVE = ("--only", "files", "--move", "--no-check")


@pytest.mark.parametrize(
    ("text", "events", "why"),
    [
        # After it was read for the import.
        (CONFIG.replace("files-server", "another"), ["open"] * 3, "files has changed in it meanwhile"),
        (CONFIG.replace('"files":', '"papers":'), ["open"] * 3, "files has changed in it meanwhile"),
        # While it is edited.
        (CONFIG.replace("globalShortcut", "other"), ["open"] * 6, "another program has just written it"),
    ],
)
def test_a_file_that_changes_meanwhile_keeps_the_change(file: Path, text: str, events: list[str], why: str) -> None:
    program = OtherProgram(file, text, *events)
    # It stays until the end of the process, and does nothing any more.
    sys.addaudithook(program)
    code, _, err = run("cursor", "--file", str(file), *MOVE)
    assert not program.events
    assert (code, f"{file} is not changed: {why}. The sources are imported" in err) == (1, True), err
    assert (file.read_text(), others(file)) == (text, [])
    assert (outside(), Toolset.objects.count()) == (["files"], 0)
    assert run("cursor", "--file", str(file), "--undo")[0] == 1, "nothing was moved"


def test_says_that_a_client_has_written_its_servers_again(file: Path) -> None:
    sys.addaudithook(OtherProgram(file, CONFIG, "os.rename", "open"))
    code, _, err = run("cursor", "--file", str(file), *MOVE)
    (backup,) = file.parent.glob(f"*{MOVED}*")
    assert code == 1
    assert f"{file} was written again by another program, and the servers are not moved. End this program first." in err
    assert f"The file before the move: {backup}. The sources are imported" in err
    assert (file.read_text(), backup.read_text(), Toolset.objects.count()) == (CONFIG, CONFIG, 0)
    assert run("cursor", "--file", str(file), *MOVE)[0] == 0
    assert sorted(ConfigFile(file, "mcpServers").entries()) == ["shell", "toolhub", "wiki"]


def test_a_file_that_the_hub_cannot_edit_is_not_imported_for_a_move(tmp_path: Path) -> None:
    path = tmp_path / "mcp.json"
    path.write_text('{"mcpServers": {"files": {"command": "x"}}, "a": {"b": 1, "b": 2}}')
    code, _, err = run("cursor", "--file", str(path), "--move", "--no-check")
    assert (code, "Nothing is imported" in err, outside()) == (2, True, [])


# ---- TOML


@pytest.mark.parametrize(
    "text",
    [
        '[mcp_servers]\nfiles = {command = "x"}\n',
        'mcp_servers.files.command = "x"\n',
        'a = """\n[mcp_servers.files]\n"""\n[mcp_servers.files]\ncommand = "x"\n',
    ],
)
def test_what_cannot_be_edited_is_left_alone(text: str) -> None:
    with pytest.raises(EditError):
        TomlText(text, "mcp_servers").without_entry("files")


def test_a_broken_file_of_codex_is_not_changed(tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    path.write_text("[mcp_servers.x")
    with pytest.raises(ConfigFileError):
        ConfigFile.of(CLIENTS["codex"], path).put("hub", {"command": "x"}, private=False)
    assert path.read_text() == "[mcp_servers.x"


plain_texts = st.text(
    st.characters(codec="utf-8", exclude_characters="\x7f", exclude_categories=("Cc", "Cs")), max_size=8
)


@examples(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(
    st.dictionaries(
        plain_texts, st.fixed_dictionaries({"command": plain_texts, "args": st.lists(plain_texts)}), max_size=4
    ),
    st.sampled_from(["", CODEX, CODEX.replace("\n", "\r\n"), "# nothing\n"]),
)
def test_entries_of_codex_are_added_and_removed(servers: dict[str, dict[str, Any]], text: str) -> None:
    edited = TomlText(text, "mcp_servers")
    before = dict(edited.entries)
    for name, entry in servers.items():
        edited = TomlText(edited.with_entry(name, entry), "mcp_servers")
    assert edited.entries == before | servers
    for name in servers:
        edited = TomlText(edited.without_entry(name), "mcp_servers")
    assert edited.entries == {name: entry for name, entry in before.items() if name not in servers}


def test_no_one_but_the_shell_is_trusted_with_commands() -> None:
    """An import has no way of its own around the rule: what it stores goes through the same function."""
    (planned,) = imports.plan(imports.read(b'{"mcpServers": {"a": {"command": "x"}}}'))
    with pytest.raises(AuthorizationError):
        imports.import_source(planned, actor=governance.of_caller(Caller("key", "key:1", "k", frozenset({"admin:*"}))))
    assert outside() == []
