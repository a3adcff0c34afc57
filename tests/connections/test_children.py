"""A child process gets the variables of its connection, with the present values of their references."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support import mcp_upstream
from tests.support.tools import Hub
from tests.upstream.children.conftest import bare_den  # noqa: F401 – a fixture
from tools_app import governance
from tools_app.governance import probes
from tools_app.models import Source, SourceStatus

ACTOR = governance.trusted("test")


@pytest.mark.usefixtures("bare_den")
def test_a_child_gets_the_variables_of_its_connection_and_none_of_the_hub(
    hub: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOOLHUB_SECRET_CHILD", "canary-P2wR6vMb")
    found = tmp_path / "environment"
    python, option, start, options = mcp_upstream.command(tools=[mcp_upstream.tool("look")])
    write = f"import json, os, pathlib; pathlib.Path({str(found)!r}).write_text(json.dumps(dict(os.environ))); "
    command = [python, option, write + start, options]
    source = Source.objects.create(name="kid", prefix="kid", kind="mcp_stdio", command=command)
    SourceStatus.objects.create(source=source)
    secret = {"API_KEY": "key ${TOOLHUB_SECRET_CHILD}"}
    governance.create_connection("ann", "kid", form="environment", secret=secret, actor=ACTOR)

    result = probes.test_sync("ann", actor=ACTOR)
    assert result.words.startswith("kid listed 1 tools after "), result
    environment = json.loads(found.read_text())
    assert environment["API_KEY"] == "key canary-P2wR6vMb"
    assert not [name for name in environment if name.startswith("TOOLHUB_SECRET")]
