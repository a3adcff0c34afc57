"""What an upstream sends: decompressed by us, counted while it comes, and decoded strictly.

httpx decompresses a chunk at once, and 64 KiB can become 64 MiB: here never more is made than may still be kept.
"""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import AsyncIterator, Iterable, Iterator
from typing import Any, Final

from tools_app import json_text
from tools_app.http import charsets
from tools_app.http.responses import Reads

MOST_RATIO: Final = 100
# Below this, text that repeats itself may be compressed as well as it likes.
RATIO_FROM: Final = 1024 * 1024
MOST_ENCODINGS: Final = 3
MOST_MEMBERS: Final = 1_000  # of one gzip stream
JSON_BOUNDS: Final = json_text.Bounds(depth=200, values=1_000_000, digits=400, any_text=True)
# Reading so much takes long enough for others to notice.
_IN_THREAD: Final = 256 * 1024
_STEP: Final = 64 * 1024
_GZIP: Final = zlib.MAX_WBITS | 16


class Unreadable(Exception):
    """The body cannot be used. The message goes on from `the answer`."""


class TooLarge(Unreadable):
    """There is more of it than is taken."""


class WebPage(Unreadable):
    """It is a page for people, where an interface was asked."""


async def collected(chunks: AsyncIterator[bytes], encoding: str, declared: str, most: int) -> bytes:
    """The whole body, decompressed.

    Raises:
        Unreadable: it is larger than `most`, or is not compressed the way it says.
    """
    if declared.isdigit() and int(declared) > most:
        raise _too_large(most)
    body = bytearray()
    received = 0
    decoders = _decoders(encoding)
    async for chunk in chunks:
        received += len(chunk)
        for piece in _through(decoders, chunk):
            body += piece
            if len(body) > most:
                raise _too_large(most)
            if decoders and len(body) > RATIO_FROM and len(body) > MOST_RATIO * received:
                raise TooLarge(f"unpacks to more than {MOST_RATIO} times its size")
        if received > most:
            raise _too_large(most)
    if body and not all(decoder.ended for decoder in decoders):
        raise Unreadable("ends in the middle")
    return bytes(body)


async def beginning(chunks: AsyncIterator[bytes], encoding: str, most: int) -> bytes:
    """As much of a body as is worth showing; nothing that is wrong with it is an error."""
    body = bytearray()
    try:
        decoders = _decoders(encoding)
        async for chunk in chunks:
            for piece in _through(decoders, chunk):
                body += piece
                if len(body) >= most:
                    return bytes(body[:most])
    except Unreadable:
        pass
    return bytes(body)


def _too_large(most: int) -> TooLarge:
    return TooLarge(f"has more than {most / 1024 / 1024:g} MiB")


# ---- compression


class _Inflater:
    """Undoes one encoding, a bounded piece at a time."""

    def __init__(self, bits: int) -> None:
        self._bits = bits
        self._stream = zlib.decompressobj(bits)
        self._members = 1
        self._begun = False
        self.ended = False

    def pieces(self, data: bytes) -> Iterator[bytes]:
        while data or not self.ended:
            if self.ended:
                if self._bits != _GZIP:
                    raise Unreadable("goes on after its end")
                self._next_member()
            piece = self._inflated(data)
            data = self._stream.unconsumed_tail
            if piece:
                yield piece
            if self._stream.eof:
                self.ended = True
                data = self._stream.unused_data
            elif not data and len(piece) < _STEP:
                return

    def _inflated(self, data: bytes) -> bytes:
        try:
            piece = self._stream.decompress(data, _STEP)
        except zlib.error:
            if self._begun or self._bits != zlib.MAX_WBITS:
                raise Unreadable("is not compressed the way it says") from None
            # Many send `deflate` without its wrapping.
            self._bits = -zlib.MAX_WBITS
            self._stream = zlib.decompressobj(self._bits)
            return self._inflated(data)
        self._begun = self._begun or bool(data)
        return piece

    def _next_member(self) -> None:
        self._members += 1
        if self._members > MOST_MEMBERS:
            raise Unreadable("is compressed in too many parts")
        self._stream, self.ended = zlib.decompressobj(self._bits), False


def _decoders(encoding: str) -> list[_Inflater]:
    """Those that undo a `Content-Encoding`, in the order in which they have to."""
    names = [name for part in encoding.lower().split(",") if (name := part.strip()) not in ("", "identity")]
    if len(names) > MOST_ENCODINGS:
        raise Unreadable("is compressed too many times")
    bits = {"gzip": _GZIP, "x-gzip": _GZIP, "deflate": zlib.MAX_WBITS}
    if unknown := [name for name in names if name not in bits]:
        raise Unreadable(f"is compressed in a way that was not asked for: {unknown[0][:20]!r}")
    return [_Inflater(bits[name]) for name in reversed(names)]


def _through(decoders: list[_Inflater], data: bytes) -> Iterable[bytes]:
    if not decoders:
        return (data,)
    first, *others = decoders
    if not others:
        return first.pieces(data)
    return (piece for outer in first.pieces(data) for piece in _through(others, outer))


# ---- what it says


async def read(body: bytes, reads: Reads, content_type: str) -> Any:
    """The body as Python values, text or bytes.

    Raises:
        Unreadable: it is not what was asked for.
    """
    if reads == "bytes":
        return body
    if reads == "text":
        return text(body, content_type)
    if is_html(body, content_type):
        raise WebPage("is a web page, and no JSON")
    try:
        if len(body) < _IN_THREAD:
            return json_text.parsed(body, JSON_BOUNDS)
        return await asyncio.to_thread(json_text.parsed, body, JSON_BOUNDS)
    except json_text.JsonError as error:
        raise Unreadable(f"is no JSON: {error}") from error


def text(body: bytes, content_type: str) -> str:
    """In the encoding that it says, or else looks like; what does not fit into that is marked."""
    return charsets.decoded(body, charsets.of_body(body, content_type))


def is_html(body: bytes, content_type: str) -> bool:
    kind = content_type.partition(";")[0].strip().lower()
    if kind in ("text/html", "application/xhtml+xml"):
        return True
    return body[:200].lstrip().lower().startswith((b"<!doctype html", b"<html"))
