"""`toolhub connect`: what it refuses before it does anything. The rest is in `tests/e2e/test_connect.py`."""

from __future__ import annotations

import pytest
from django.core.management import ManagementUtility

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["claude-desktop", "--http"], "Claude Desktop supports only stdio"),
        (["claude-desktop", "--project", "."], "Claude Desktop has no project configuration"),
        (["cursor", "--project", "/nowhere"], "there is no directory /nowhere"),
        (["cursor", "--show-key"], "--show-key requires --print"),
        (["generic", "--remove"], "--remove requires --file for this client"),
        (
            ["cursor", "--http", "--mode", "search"],
            "--mode works over stdio only; over HTTP, set the mode",
        ),
        (["anthropic-api"], "The Anthropic API connects to the hub itself: give its public address"),
        (["anthropic-api", "--url", "http://hub"], "give its public address, --url https://"),
        (["anthropic-api", "--url", "https://hub", "--file", "x"], "has no configuration file: omit --file"),
        (["cursor", "--mode", "guess"], "invalid choice: 'guess'"),
        (["cursor", "--name", "a b"], "must be letters, digits, - and _"),
        (["cursor", "--url", "ftp://hub"], "must be like https://hub.example.org/mcp"),
        (["cursor", "--url", "http://user:password@hub"], "must be like https://hub.example.org/mcp"),
    ],
)
def test_says_what_cannot_be(arguments: list[str], why: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        ManagementUtility(["toolhub", "connect", *arguments]).execute()
    assert ended.value.code == 2
    said = capsys.readouterr()
    assert why in said.err
    assert said.out == ""
