"""Serve static files from memory: a few megabytes in all.

Streamed by Django, each would hold two threads and an open file until a slow reader is done. Pages name files below a
fingerprint of all of them (`/static/3f9c…/unfold/css/styles.css`), so that browsers keep them until the next version;
relative addresses in style sheets carry the fingerprint on.
"""

from __future__ import annotations

import gzip
import hashlib
import mimetypes
import re
from functools import cache, cached_property
from pathlib import Path
from typing import Any, Final

from django.conf import settings
from django.contrib.staticfiles import finders
from django.contrib.staticfiles.storage import StaticFilesStorage
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseNotAllowed
from django.http.response import HttpResponseBase
from django.middleware.gzip import GZipMiddleware, re_accepts_gzip
from django.utils.cache import get_conditional_response

from tools_app.api.handler import RestHandler
from tools_app.base.asgi import Application

SAFE: Final = ("GET", "HEAD")
FOREVER: Final = "max-age=31536000, public, immutable"
AN_HOUR: Final = "max-age=3600, public"
# A file of another version, while this one replaces it: not to be stored under that name.
UNKEPT: Final = "no-cache"
_ADDRESS: Final = re.compile(r"(?:([0-9a-f]{12})/)?(.+)", re.DOTALL)
# Where browsers are strict, or systems know fewer types.
_TYPES: Final = {".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml", ".woff2": "font/woff2"}
_COMPRESSIBLE: Final = ("text/", "image/svg", "application/json")


class StaticFile:
    def __init__(self, path: Path) -> None:
        self._path = path
        self.type = _TYPES.get(path.suffix) or mimetypes.guess_type(path)[0] or "application/octet-stream"

    @cached_property
    def content(self) -> bytes:
        return self._path.read_bytes()

    @cached_property
    def compressed(self) -> bytes | None:
        """None where that saves nothing."""
        compressed = gzip.compress(self.content, mtime=0) if self.type.startswith(_COMPRESSIBLE) else self.content
        return compressed if len(compressed) < len(self.content) else None

    @cached_property
    def digest(self) -> str:
        """Of the file at the start; its content is read at the first request."""
        return hashlib.sha256(self._path.read_bytes()).hexdigest()

    @cached_property
    def tag(self) -> str:
        return f'W/"{hashlib.sha256(self.content).hexdigest()[:16]}"'

    @property
    def is_replaced(self) -> bool:
        """Whether another version was installed before the first request."""
        return self.digest[:16] not in self.tag


@cache
def _files() -> dict[str, StaticFile]:
    """Every file by its name; of several with one name the first, as for `collectstatic`."""
    files: dict[str, StaticFile] = {}
    for finder in finders.get_finders():
        for path, storage in finder.list([]):
            name = f"{storage.prefix}/{path}" if getattr(storage, "prefix", None) else path
            if name not in files:
                files[name] = StaticFile(Path(storage.path(path)))
    return files


@cache
def fingerprint() -> str:
    lines = sorted(f"{name} {file.digest}\n" for name, file in _files().items())
    return hashlib.sha256("".join(lines).encode()).hexdigest()[:12]


def _find(address: str) -> tuple[StaticFile, str] | None:
    """The file at an address, and how long browsers may keep it."""
    parts = _ADDRESS.fullmatch(address.removeprefix(settings.STATIC_URL))
    # While files are being edited, they are looked for and read every time.
    files = _files.__wrapped__() if settings.DEBUG else _files()
    if parts is None or (file := files.get(parts[2])) is None:
        return None
    if parts[1] is None:
        return file, UNKEPT if settings.DEBUG else AN_HOUR
    return file, FOREVER if parts[1] == fingerprint() else UNKEPT


class Storage(StaticFilesStorage):
    """Addresses with the fingerprint, except while files are being edited."""

    def url(self, name: str | None) -> str:
        return super().url(name if settings.DEBUG else f"{fingerprint()}/{name}")


def serve(request: HttpRequest, path: str = "") -> HttpResponse:
    """The view for servers other than `serve`, which asks it before Django's middleware.

    Raises: Http404.
    """
    located = _find(request.path_info)
    if located is None:
        raise Http404
    if request.method not in SAFE:
        return HttpResponseNotAllowed(SAFE)
    file, keeping = located
    tag = file.tag
    headers = {"ETag": tag, "Cache-Control": UNKEPT if file.is_replaced else keeping, "Content-Type": file.type}
    response = HttpResponse(file.content, headers=headers)
    if file.compressed is not None:
        response.headers["Vary"] = "Accept-Encoding"
        if re_accepts_gzip.search(request.headers.get("Accept-Encoding", "")):
            response.headers["Content-Encoding"] = "gzip"
            response.content = file.compressed
    return get_conditional_response(request, tag, None, response) or response


class StaticFiles(RestHandler):
    """ASGI middleware: serves static files, and passes other requests on."""

    # Buffered for a slow reader, in addition to the server's own buffer.
    chunk_size = 16 * 1024

    def __init__(self, otherwise: Application) -> None:
        super().__init__()
        self._otherwise = otherwise
        fingerprint()  # now, so that no request waits for it

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        path = scope["path"]
        is_file = path.startswith(settings.STATIC_URL) and _find(path) is not None
        handle = super().__call__ if is_file else self._otherwise
        await handle(scope, receive, send)

    async def _get_response_async(self, request: HttpRequest) -> HttpResponseBase:
        return serve(request)


class CompressedPages(GZipMiddleware):
    """Django's, which adds random bytes against guessing a page's secrets by its length (BREACH), without streams.

    It makes a gzip file of each chunk of an asynchronous stream; Chromium reads only the first.
    """

    def process_response(self, request: HttpRequest, response: HttpResponseBase) -> HttpResponseBase:
        return response if response.streaming else super().process_response(request, response)
