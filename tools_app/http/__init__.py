"""Outgoing HTTP: every request of a tool to an upstream goes through this package.

    workflow = await ctx.http.get("workflows", workflow_id, operation="get workflow", resource="Workflow")

`ApiClient` sends requests to the one origin of a connection that an operator configured. `WebClient` reads pages of the
open web: public addresses only. Both have one deadline for the whole request, limit memory, ignore proxy settings and
other environment variables, and turn every failure into a `ToolError`. Redirects are never followed by the library.

    addresses   base URLs, path segments, query strings
    bodies      response bodies: decompression, size limits, decoding
    charsets    text encodings, as in browsers
    client      ApiClient
    web         WebClient
    exchange    one request and its response, shared by both
    failures    exceptions and status codes as ToolErrors
    network     the egress guard (permitted addresses) and TLS
    names       DNS, in threads of its own
    pool        the connection pool, based on httpcore2
    transport   httpx's interface of that pool; sdk_transport, the same for the mcp SDK's client
    sockets     lifetime of a client's transport
    events      logging of requests
    public      which addresses are public

httpx is imported at the first request: an agent waits for the start of its process, and most calls need no upstream.

Belongs here: sending, reading within limits, and turning failures into errors.
Does not belong here: which account a call uses (sdk, catalog), and what an upstream's data means (packs).
"""

from __future__ import annotations

from tools_app.http.client import ApiClient
from tools_app.http.responses import Response, UpstreamRefusal
from tools_app.http.web import Page, WebClient

__all__ = ["ApiClient", "Page", "Response", "UpstreamRefusal", "WebClient"]
