"""The transport for httpx2, the HTTP client of the mcp SDK: the same pool and the same egress guard."""

from __future__ import annotations

import httpx2

from tools_app.http.transport import PooledBody, PooledTransport


class _Body(PooledBody, httpx2.AsyncByteStream):
    pass


class SdkTransport(PooledTransport, httpx2.AsyncBaseTransport):
    library = httpx2
    body = _Body
