"""Serve static files from memory: a few megabytes in all.

Streamed by Django, each would hold two threads and an open file until a slow reader is done.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Final

from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from servestatic.middleware import ServeStaticMiddleware

from tools_app.api.handler import RestHandler
from tools_app.base.asgi import Application

_PART: Final = re.compile(r"bytes (\d+)-(\d+)/")


class StaticFiles(RestHandler):
    """ASGI middleware: serves static files, and passes other requests on."""

    # Buffered for a slow reader, in addition to the server's own buffer.
    chunk_size = 16 * 1024

    def __init__(self, otherwise: Application) -> None:
        super().__init__()
        self._otherwise = otherwise
        self._files: Any = ServeStaticMiddleware(_nothing_else)
        self._contents: dict[str, bytes] = {}

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if self._file(scope["path"]) is None:
            await self._otherwise(scope, receive, send)
        else:
            await super().__call__(scope, receive, send)

    async def _get_response_async(self, request: HttpRequest) -> HttpResponseBase:
        file = self._file(request.path_info)
        # The headers only: the content comes from memory.
        found = file.get_response("HEAD" if request.method == "GET" else request.method, request.META)
        response = HttpResponse(status=int(found.status), headers=dict(found.headers))
        if response.status_code in (200, 206) and hasattr(file, "get_path_and_headers"):
            content = self._content(file.get_path_and_headers(request.META)[0])
            part = _PART.match(response.headers.get("Content-Range", ""))
            response.content = content[int(part[1]) : int(part[2]) + 1] if part else content
        return response

    def _file(self, path: str) -> Any:
        return self._files.find_file(path) if self._files.autorefresh else self._files.files.get(path)

    def _content(self, path: str) -> bytes:
        content = self._contents.get(path)
        if content is None:
            content = Path(path).read_bytes()
            if not self._files.autorefresh:
                self._contents[path] = content
        return content


async def _nothing_else(request: HttpRequest) -> HttpResponseBase:
    raise AssertionError("the middleware is used for its index of files only")
