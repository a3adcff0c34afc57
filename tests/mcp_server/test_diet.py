"""The SDK, imported in parts, is still complete for every importer."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.support.processes import CHECKOUT

SLIM = """
import sys
from tools_app.mcp_server import diet
with diet.slim():
    from mcp.server.lowlevel import Server
for name in ("mcp.client", "mcp.server.mcpserver", "sse_starlette", "mcp.server.auth.routes", "uvicorn"):
    assert name not in sys.modules, name
"""


@pytest.mark.parametrize(
    "use",
    [
        "from mcp import ClientSession; ClientSession.initialize",
        "import mcp; mcp.ClientSession, mcp.StdioServerParameters(command='x')",
        "import mcp; mcp.server.Server is Server or sys.exit('another class')",
        "from mcp.server import MCPServer; MCPServer('x')",
        "from mcp.client.client import Client; Client(Server('x'))",
        "import mcp.server.stdio; mcp.server.stdio.stdio_server",
        "import pydantic; assert 'defer_build' not in pydantic.BaseModel.model_config",
        "import pydantic; assert pydantic.TypeAdapter.__init__.__module__ == 'pydantic.type_adapter'",
        "from mcp_types import client_request_adapter as a; a.validate_python({'method': 'ping'}).method",
        "from mcp.server.streamable_http import EventSourceResponse as r; r(content=iter(())).status_code",
        "from sse_starlette import EventSourceResponse as r; r(content=iter(())).status_code",
        "Server('x').streamable_http_app().routes",
        "import mcp\ntry: mcp.nothing\nexcept AttributeError: pass\nelse: sys.exit('found nothing')",
    ],
)
def test_a_tool_can_use_the_rest_of_the_sdk(use: str) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", SLIM + use],
        cwd=CHECKOUT,
        capture_output=True,
        text=True,
        timeout=20,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
