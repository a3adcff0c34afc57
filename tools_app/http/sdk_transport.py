"""For the HTTP client of the mcp SDK, httpx2: the same pool, and the same judgement about every address."""

from __future__ import annotations

import httpx2

from tools_app.http.transport import PooledBody, PooledTransport


class _Body(PooledBody, httpx2.AsyncByteStream):
    pass


class SdkTransport(PooledTransport, httpx2.AsyncBaseTransport):
    library = httpx2
    body = _Body
