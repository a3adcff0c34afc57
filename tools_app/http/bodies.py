"""Response bodies: decompressed with a size limit and decoded strictly.

httpx decompresses a chunk at once, so 64 KiB can become 64 MiB; here decompression stops at the limit. Long work is
done in pieces or in a thread, so that the event loop stays responsive: deadlines apply, and other calls continue.
"""

from __future__ import annotations

import asyncio
import time
import zlib
from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from contextlib import AsyncExitStack, aclosing
from typing import Any, Final
from weakref import WeakKeyDictionary

from tools_app.http import charsets
from tools_app.http.responses import Reads
from tools_app.sdk import heavy
from tools_app.text import json_text

MOST_BYTES: Final = 10 * 1024 * 1024
MOST_MEMBERS: Final = 1_000  # of one gzip stream
JSON_BOUNDS: Final = json_text.Bounds(depth=200, values=400_000, digits=400, any_text=True)
# For requests with a limit above MOST_BYTES.
LARGE_JSON_BOUNDS: Final = json_text.Bounds(depth=200, values=1_500_000, digits=400, any_text=True)
# Number of bodies larger than MOST_BYTES in memory at once; each needs about six times its size while it is read.
LARGE_AT_ONCE: Final = 2
_STEP: Final = 64 * 1024
_TURN_SECONDS: Final = 0.005
_GZIP: Final = zlib.MAX_WBITS | 16


class UnreadableBody(Exception):
    """The body cannot be used. The message continues `the response of <upstream> …`."""


class TooLarge(UnreadableBody):
    """The body exceeds the limit."""


class WebPage(UnreadableBody):
    """The body is an HTML page instead of an API response, such as a login page."""


async def collect(
    chunks: AsyncIterator[bytes], encoding: str, declared: str, most: int, slots: AsyncExitStack
) -> bytes:
    """The whole body, decompressed. A large one takes a slot (`LARGE_AT_ONCE`) until `slots` exits.

    Raises:
        UnreadableBody: it is larger than `most`, or its compression is invalid.
    """
    if declared.isdecimal() and (len(declared) > 18 or int(declared) > most):
        raise _too_large(most)
    body = bytearray()
    received_bytes, is_large = 0, False
    async with aclosing(_pieces(chunks, _inflater(encoding))) as pieces:
        async for piece, chunk_bytes in pieces:
            body += piece
            received_bytes += chunk_bytes
            if len(body) > most or received_bytes > most:
                raise _too_large(most)
            if not is_large and len(body) > MOST_BYTES:
                is_large = True
                await slots.enter_async_context(_large())
    return bytes(body)


async def read_beginning(chunks: AsyncIterator[bytes], encoding: str, most: int) -> bytes:
    """The first bytes of a body, for display. Errors in it are ignored."""
    body = bytearray()
    received_bytes = 0
    try:
        async with aclosing(_pieces(chunks, _inflater(encoding))) as pieces:
            async for piece, chunk_bytes in pieces:
                body += piece
                received_bytes += chunk_bytes
                if len(body) >= most or received_bytes >= MOST_BYTES:
                    break
    except UnreadableBody:
        pass
    return bytes(body[:most])


def _too_large(most: int) -> TooLarge:
    return TooLarge(f"is too large: more than {most / 1024 / 1024:g} MiB")


_turns: Final[WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Semaphore]] = WeakKeyDictionary()


def _large() -> asyncio.Semaphore:
    return _turns.setdefault(asyncio.get_running_loop(), asyncio.Semaphore(LARGE_AT_ONCE))


async def _pieces(chunks: AsyncIterator[bytes], inflater: _Inflater | None) -> AsyncGenerator[tuple[bytes, int], None]:
    """The decompressed body in bounded pieces, each with the number of received bytes. Yields to the event loop.

    Neither many tiny chunks nor one highly compressed chunk would ever await by itself.
    """
    started_at = time.monotonic()
    async for chunk in chunks:
        chunk_bytes = len(chunk)
        for piece in inflater.pieces(chunk) if inflater is not None else (chunk,):
            yield piece, chunk_bytes
            chunk_bytes = 0
            if time.monotonic() - started_at > _TURN_SECONDS:
                await asyncio.sleep(0)
                started_at = time.monotonic()
    if inflater is not None and inflater.begun and not inflater.ended:
        raise UnreadableBody("ends in the middle")


# ---- compression


class _Inflater:
    """Decompresses one encoding in bounded pieces."""

    def __init__(self, bits: int) -> None:
        self._bits = bits
        self._stream = zlib.decompressobj(bits)
        self._members = 1
        self.begun = False
        self.ended = False

    def pieces(self, data: bytes) -> Iterator[bytes]:
        """The decompressed data. Pieces may be empty: work without output also takes time."""
        while data or not self.ended:
            if self.ended:
                if self._bits != _GZIP:
                    raise UnreadableBody("has data after its compressed end")
                self._next_member()
            piece = self._inflate(data)
            data = self._stream.unconsumed_tail
            yield piece
            if self._stream.eof:
                self.ended = True
                data = self._stream.unused_data
            elif not data and len(piece) < _STEP:
                return

    def _inflate(self, data: bytes) -> bytes:
        try:
            piece = self._stream.decompress(data, _STEP)
        except zlib.error:
            if self.begun or self._bits != zlib.MAX_WBITS:
                raise UnreadableBody("has an invalid compression") from None
            # Many servers send `deflate` without the zlib header.
            self._bits = -zlib.MAX_WBITS
            self._stream = zlib.decompressobj(self._bits)
            return self._inflate(data)
        self.begun = self.begun or bool(data)
        return piece

    def _next_member(self) -> None:
        self._members += 1
        if self._members > MOST_MEMBERS:
            raise UnreadableBody("is compressed in too many parts")
        self._stream, self.ended = zlib.decompressobj(self._bits), False


def _inflater(encoding: str) -> _Inflater | None:
    """The decompressor for a `Content-Encoding`.

    Raises:
        UnreadableBody: several encodings. Each multiplies a decompression bomb by up to a thousand before the last one
            yields any bytes that could be counted.
    """
    names = [name for part in encoding.lower().split(",") if (name := part.strip()) not in ("", "identity")]
    if len(names) > 1:
        raise UnreadableBody("is compressed more than once")
    bits = {"gzip": _GZIP, "x-gzip": _GZIP, "deflate": zlib.MAX_WBITS}
    if unknown_names := [name for name in names if name not in bits]:
        raise UnreadableBody(f"has an unsupported compression: {unknown_names[0][:20]!r}")
    return _Inflater(bits[names[0]]) if names else None


# ---- what it says


async def read(body: bytes, reads: Reads, content_type: str, most: int = MOST_BYTES) -> Any:
    """The body as Python values, text or bytes; `most` is how large it could have been.

    Raises:
        UnreadableBody: it is not what was asked for.
    """
    if reads == "bytes":
        return body
    if reads == "text":
        return await heavy.by_size(body, text, body, content_type)
    if is_html(body, content_type):
        raise WebPage("is a web page, not JSON")
    bounds = JSON_BOUNDS if most <= MOST_BYTES else LARGE_JSON_BOUNDS
    try:
        if len(body) < heavy.LARGE_BYTES:
            return json_text.parsed(body, bounds)
        return await heavy.aside(json_text.parsed, body, bounds)
    except json_text.TooManyValuesError as error:
        raise TooLarge(f"is too large: {error}") from error
    except json_text.JsonError as error:
        raise UnreadableBody(f"is not valid JSON: {error}") from error


def text(body: bytes, content_type: str) -> str:
    """The text in its declared or detected encoding; invalid bytes become U+FFFD."""
    return charsets.decoded(body, charsets.of_body(body, content_type))


def is_html(body: bytes, content_type: str) -> bool:
    kind = content_type.partition(";")[0].strip().lower()
    if kind in ("text/html", "application/xhtml+xml"):
        return True
    return body[:200].lstrip().lower().startswith((b"<!doctype html", b"<html"))
