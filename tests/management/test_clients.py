"""Where clients keep their servers, on each system."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools_app.setup.clients import CLIENTS, Machine

HOME = Path("/ada")


@pytest.mark.parametrize(
    ("client", "platform", "variables", "expected"),
    [
        ("claude-code", "linux", {}, "/ada/.claude.json"),
        (
            "claude-code",
            "darwin",
            {"CLAUDE_CONFIG_DIR": "/ada/.claude-work"},
            "/ada/.claude-work/.claude.json",
        ),
        ("claude-desktop", "linux", {}, "/ada/.config/Claude/claude_desktop_config.json"),
        (
            "claude-desktop",
            "darwin",
            {},
            "/ada/Library/Application Support/Claude/claude_desktop_config.json",
        ),
        ("claude-desktop", "win32", {"APPDATA": "/roaming"}, "/roaming/Claude/claude_desktop_config.json"),
        ("cursor", "win32", {}, "/ada/.cursor/mcp.json"),
        ("vscode", "linux", {"XDG_CONFIG_HOME": "/etc/ada"}, "/etc/ada/Code/User/mcp.json"),
        ("vscode", "darwin", {}, "/ada/Library/Application Support/Code/User/mcp.json"),
        ("vscode", "win32", {}, "/ada/AppData/Roaming/Code/User/mcp.json"),
    ],
)
def test_the_users_file(client: str, platform: str, variables: dict[str, str], expected: str) -> None:
    find = CLIENTS[client].user_file
    assert find is not None
    assert find(Machine(platform, HOME, variables)) == Path(expected)


def test_claude_desktop_as_a_package_of_windows_has_a_folder_of_its_own(tmp_path: Path) -> None:
    package = tmp_path / "Packages" / "Claude_pzs8sxrjxfjjc"
    package.mkdir(parents=True)
    find = CLIENTS["claude-desktop"].user_file
    assert find is not None
    found = find(Machine("win32", HOME, {"LOCALAPPDATA": str(tmp_path), "APPDATA": "/roaming"}))
    assert found == package / "LocalCache" / "Roaming" / "Claude" / "claude_desktop_config.json"
