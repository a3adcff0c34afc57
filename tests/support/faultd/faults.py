"""Everything that upstreams do to those who ask them. Each fault is a function, named after its first path part."""

from __future__ import annotations

import asyncio
import base64
import gzip
import html
import json
import zlib
from functools import lru_cache
from urllib.parse import quote, unquote

from tests.support.faultd import Fault, Wire

FAULTS: dict[str, Fault] = {}
DRIP_SECONDS = 0.05
BOMB_BYTES = 100 * 1024 * 1024


def fault(function: Fault) -> Fault:
    FAULTS[getattr(function, "__name__").replace("_", "-")] = function  # noqa: B009
    return function


def says(name: str, body: bytes, *, status: str = "200 OK", kind: str = "application/json", headers=()) -> None:
    """A fault that is an answer."""

    async def answer(wire: Wire) -> None:
        await wire.answer(body, status=status, kind=kind, headers=headers)

    FAULTS[name] = answer


# ---- nothing wrong


@fault
async def ok(wire: Wire) -> None:
    """What was asked, as JSON."""
    seen = {"method": wire.seen.method, "target": wire.seen.target, "headers": dict(wire.seen.headers)}
    await wire.answer(json.dumps(seen | {"body": wire.seen.body.decode("latin-1")}).encode())


says("text", "Grüße".encode(), kind="text/plain; charset=utf-8")
says("latin-1", "Grüße".encode("latin-1"), kind="text/plain; charset=ISO-8859-1")
says("odd-charset", "Grüße".encode(), kind="text/plain; charset=unicode_escape")
says("no-content", b"", status="204 No Content", kind="")
says("empty", b"")
says("bom", b"\xef\xbb\xbf" + b'{"a": 1}')
says("script", b'{"a": 1}', kind="application/x-javascript")


@fault
async def packed(wire: Wire) -> None:
    """JSON, compressed as `packed:gzip:deflate` says, first to last."""
    body = b'{"packed": true}'
    for name in wire.figures:
        if name == "identity":
            continue
        body = gzip.compress(body) if name == "gzip" else zlib.compress(body) if name == "deflate" else _raw(body)
    encoding = ", ".join("deflate" if name == "raw" else name for name in wire.figures)
    await wire.answer(body, headers=[f"Content-Encoding: {encoding}"])


@fault
async def members(wire: Wire) -> None:
    """A gzip stream of several members: many, if `members:many`."""
    parts = [b'{"a":', b" 1}"] if not wire.figures else [b" "] * 5000
    await wire.answer(b"".join(map(gzip.compress, parts)), headers=["Content-Encoding: gzip"])


# ---- slow


@fault
async def hang(wire: Wire) -> None:
    await wire.reader.read()


@fault
async def delay(wire: Wire) -> None:
    await asyncio.sleep(int(wire.figures[0]) / 1000)
    await ok(wire)


@fault
async def drip_headers(wire: Wire) -> None:
    await wire.send(b"HTTP/1.1 200 OK\r\n")
    while True:
        await wire.send(b"X-Wait: 1\r\n")
        await asyncio.sleep(DRIP_SECONDS)


@fault
async def drip_body(wire: Wire) -> None:
    await wire.send(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 100000\r\n\r\n[")
    while True:
        await wire.send(b" ")
        await asyncio.sleep(DRIP_SECONDS)


@fault
async def continues(wire: Wire) -> None:
    """`100 Continue` for ever."""
    while True:
        await wire.send(b"HTTP/1.1 100 Continue\r\n\r\n")
        await asyncio.sleep(DRIP_SECONDS)


# ---- broken off


@fault
async def close(wire: Wire) -> None:
    wire.writer.close()


@fault
async def close_after(wire: Wire) -> None:
    """Close the connection after this number of bytes of the response."""
    body = b'{"id": "1", "name": "half of this"}'
    whole = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body)
    await wire.send(whole[: int(wire.figures[0])])
    wire.writer.close()


@fault
async def half_close(wire: Wire) -> None:
    await wire.send(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n{")
    wire.writer.write_eof()


@fault
async def reset(wire: Wire) -> None:
    wire.reset()


@fault
async def reset_in_body(wire: Wire) -> None:
    await wire.send(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n{")
    wire.reset()


# ---- too much


@fault
async def big(wire: Wire) -> None:
    """A text of JSON with this number of bytes."""
    size = int(wire.figures[0])
    await wire.answer(b'"' + b"a" * (size - 2) + b'"')


@fault
async def endless(wire: Wire) -> None:
    await wire.send(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n")
    while True:
        await wire.send(b"10000\r\n" + b" " * 65536 + b"\r\n")


@fault
async def says_too_much(wire: Wire) -> None:
    """A false length."""
    await wire.send(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 99999999999\r\n\r\n{}")
    await wire.reader.read()


@fault
async def bomb(wire: Wire) -> None:
    """100 MiB of zeros in gzip, deflate or several at once: `bomb:gzip:gzip`."""
    await wire.answer(_bomb(tuple(wire.figures)), headers=[f"Content-Encoding: {', '.join(wire.figures)}"])


@fault
async def huge_header(wire: Wire) -> None:
    await wire.send(b"HTTP/1.1 200 OK\r\nX-Huge: " + b"a" * 1_000_000 + b"\r\nContent-Length: 2\r\n\r\n{}")


@fault
async def endless_headers(wire: Wire) -> None:
    await wire.send(b"HTTP/1.1 200 OK\r\n")
    while True:
        await wire.send(b"X-More: 1\r\n" * 1000)


# ---- nonsense

says("html", b"<!doctype html><title>Log in</title><p>Please log in", kind="text/html; charset=utf-8")
says("html-as-json", b"<html><title>Log in</title></html>")
says("invalid-json", b"{'id': 1}")
says("truncated-json", b'{"id": "1", "name": ')
says("nan", b'{"value": NaN}')
says("infinity", b"[1e400]")
says("duplicate-keys", b'{"id": 1, "id": 2}')
says("deep-json", b"[" * 100_000 + b"]" * 100_000)
says("wide-json", b"[" + b"[]," * 750_000 + b"[]]")
says("huge-number", b"[" + b"9" * 5_000 + b"]")
says("half-character", rb'["\ud83d", "\u0000"]')
says("invalid-utf-8", b'{"name": "\xff\xfe"}')
says("wrong-charset", '{"name": "é"}'.encode("utf-16"), kind="application/json; charset=utf-8")
says("unasked-encoding", b"\x0b\x02\x80{}\x03", headers=["Content-Encoding: br"])
says("not-gzip", b'{"id": 1}', headers=["Content-Encoding: gzip"])
says("truncated-gzip", gzip.compress(b'{"id": 1}')[:-6], headers=["Content-Encoding: gzip"])
says("many-encodings", b"{}", headers=["Content-Encoding: gzip, gzip, gzip, gzip"])
says("cookie", b"{}", headers=["Set-Cookie: session=theirs; Path=/"])
says(
    "stack",
    b"<!DOCTYPE html><title>Error</title><pre>SyntaxError: at /app/index.js",
    status="500 Oops",
    kind="text/html",
)
says("challenge", b"<html><form id='challenge-form'></form></html>", status="202 Accepted", kind="text/html")
says("unknown", b'{"message": "faultd knows no such fault"}', status="404 Not Found")


@fault
async def garbage(wire: Wire) -> None:
    await wire.send(b"SSH-2.0-OpenSSH_9.6\r\n\r\n")
    wire.writer.close()


@fault
async def split_header(wire: Wire) -> None:
    """A header that would be two."""
    await wire.send(b"HTTP/1.1 200 OK\r\nX-Odd: a\rX-Admin: 1\nContent-Length: 2\r\n\r\n{}")


# ---- refusals


@fault
async def status(wire: Wire) -> None:
    """A status, with words under `message`, or what follows: `status:422:errors`."""
    code, *shape = wire.figures
    body = (
        {"errors": ["Subject cannot be blank", "Tracker is not included"]} if shape else {"message": "Said by faultd"}
    )
    await wire.answer(json.dumps(body).encode(), status=f"{code} Status")


@fault
async def bare(wire: Wire) -> None:
    """A status with an empty body that says it is JSON, as Redmine does."""
    await wire.answer(b"", status=f"{wire.figures[0]} Status")


@fault
async def busy(wire: Wire) -> None:
    """`busy:429:3`, with the seconds, or any other text, in Retry-After."""
    code, *after = wire.figures
    await wire.answer(b"{}", status=f"{code} Busy", headers=[f"Retry-After: {unquote(':'.join(after))}"])


@fault
async def echo_secret(wire: Wire) -> None:
    """An error that repeats every header that was sent."""
    said = json.dumps({"message": " ".join(f"{name}={value}" for name, value in wire.seen.headers.items())})
    await wire.answer(said.encode(), status="400 Bad")


@fault
async def echo_all(wire: Wire) -> None:
    """A success that repeats every header that was sent, as they are and encoded in several ways."""
    sent = [value.encode() for value in wire.seen.headers.values()]
    said = {
        "plain": [value.decode() for value in sent],
        "percent": [quote(value, safe="") for value in sent],
        "base64": [base64.b64encode(value).decode() for value in sent],
        "base64url": [base64.urlsafe_b64encode(value).decode().rstrip("=") for value in sent],
        "inner": [base64.b64encode(b"x" * length + value).decode() for value in sent for length in range(3)],
        "hex": [value.hex() for value in sent] + [value.hex().upper() for value in sent],
        "html": [html.escape(value.decode()) for value in sent],
    }
    usual, unusual = (b"/", b"\\/") if "slashes" in wire.seen.target else (b"+", b"\\u002B")
    body = json.dumps(said).encode().replace(usual, unusual)
    await wire.answer(body, headers=["X-Echo: " + sent[-1].decode()])


@fault
async def redirect(wire: Wire) -> None:
    """`redirect:302?to=…`, to wherever that says."""
    target = unquote(wire.seen.target.partition("to=")[2])
    await wire.answer(b"", status=f"{wire.figures[0]} Moved", headers=[f"Location: {target}"])


@fault
async def loop(wire: Wire) -> None:
    await wire.answer(b"", status="302 Found", headers=[f"Location: {wire.server.url}/loop"])


# ---- made once


@lru_cache(8)
def _bomb(encodings: tuple[str, ...]) -> bytes:
    first, *others = encodings
    maker = zlib.compressobj(1, zlib.DEFLATED, 31 if first == "gzip" else 15)
    block = bytes(1024 * 1024)
    body = b"".join(maker.compress(block) for _ in range(BOMB_BYTES // len(block))) + maker.flush()
    for name in others:
        body = gzip.compress(body) if name == "gzip" else zlib.compress(body)
    return body


def _raw(body: bytes) -> bytes:
    maker = zlib.compressobj(wbits=-15)
    return maker.compress(body) + maker.flush()
