"""The way out: every request that a tool sends to an upstream goes through here.

    workflow = await ctx.http.get("workflows", workflow_id, operation="get workflow", resource="Workflow")

`ApiClient` speaks to the one upstream that an operator has set up: its origin, and nothing else of its network.
`WebClient` reads pages of the open web: public addresses, and nothing else. Both keep one deadline over a whole
request, hold no more than they may, follow no redirect on their own, take nothing from the environment, and turn
whatever goes wrong into a `ToolError`.

    addresses   what a request is addressed to: base URLs, path parts, queries
    bodies      what comes back: decompressed, counted, decoded
    charsets    from bytes to text, as browsers do it
    client      ApiClient
    web         WebClient
    exchange    one request and its answer, the same for both
    failures    from exceptions and status codes to errors
    network     where a connection may go, and TLS
    names       DNS, in threads of its own
    pool        the connections, kept by httpcore2
    transport   httpx's interface over that pool; sdk_transport, the same for the mcp SDK's client
    sockets     how long a client keeps its transport
    events      what is logged of a request
    public      which addresses belong to the open web

httpx is imported with the first request: an agent waits for the start of its process, and most calls need no upstream.

Belongs here: sending, reading within limits, and turning failures into errors.
Does not belong here: which account a call uses (sdk, catalog), and what an upstream's data means (packs).
"""

from __future__ import annotations

from tools_app.http.client import ApiClient
from tools_app.http.responses import Refused, Response
from tools_app.http.web import Page, WebClient

__all__ = ["ApiClient", "Page", "Refused", "Response", "WebClient"]
