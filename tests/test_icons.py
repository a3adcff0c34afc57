"""Icons of tools: small, checked, and carried along."""

from __future__ import annotations

import base64
import re
from typing import Any

import pytest

from tools_app.sdk.decorator import tool
from tools_app.sdk.icons import MAX_BYTES, Icon, IconError, icon
from tools_app.sdk.names import DefinitionError
from tools_app.sdk.pack import Pack

SVG = b'<?xml version="1.0"?>\n<!-- a dot --><svg xmlns="http://www.w3.org/2000/svg"><circle r="4"/></svg>'
PNG = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + (48).to_bytes(4) + (32).to_bytes(4) + b"\x08\x06\0\0\0"


def data(content: bytes, kind: str = "image/svg+xml") -> str:
    return f"data:{kind};base64,{base64.b64encode(content).decode()}"


@pytest.mark.parametrize(
    ("content", "kind", "size"), [(SVG, "image/svg+xml", "any"), (PNG, "image/png", "48x32")], ids=["svg", "png"]
)
def test_a_data_address_is_listed_with_its_type_and_size(content: bytes, kind: str, size: str) -> None:
    made = icon(data(content, kind))
    assert made.as_dict() == {"src": data(content, kind), "mimeType": kind, "sizes": [size]}
    assert made.inline
    assert len(made.identity) < 90


def test_an_address_stays_as_it_is() -> None:
    made = icon("https://cdn.example.org/a.svg?v=1")
    assert made == Icon("https://cdn.example.org/a.svg?v=1")
    assert made.as_dict() == {"src": made.src}
    assert made.identity == made.src


@pytest.mark.parametrize(
    ("declared", "why"),
    [
        ("http://example.org/a.png", "an address that begins with https://"),
        ("https://user:password@example.org/a.png", "an address that begins with https://"),
        ("file:///etc/passwd", "an address that begins with https://"),
        ("weather.svg", "must be a data: address"),
        ("data:text/html;base64,PGI+", "must be image/png or image/svg+xml, in base64"),
        ("data:image/png;base64,=", "it is not base64"),
        (data(SVG, "image/png"), "its declared type is image/png, but its content is image/svg+xml"),
        (data(b"GIF89a"), "it is neither PNG nor SVG"),
        (data(SVG + b" " * MAX_BYTES), f"it is larger than {MAX_BYTES} bytes"),
        (data(PNG.replace(b"\0\0\0 ", b"\0\1\0\0"), "image/png"), "it is 48 by 65536 pixels; at most 1024 each way"),
        (data(b"<svg><script>alert(1)</script></svg>"), "it has active content: '<script'"),
        (data(b"<svg ONLOAD = 'x()'/>"), "it has active content: 'ONLOAD ='"),
        (data(b"<svg><image href='https://spy.test/a.png'/></svg>"), "it has active content"),
        (data(b"<svg><style>a{fill:url(//spy.test/a)}</style></svg>"), "it has active content"),
    ],
)
def test_says_why_something_is_no_picture(declared: str, why: str) -> None:
    with pytest.raises(IconError, match=re.escape(why)):
        icon(declared)


def made(**declared: Any) -> Any:
    @tool(name="one", **declared)
    def one() -> str:
        """One."""
        return "1"

    return one


def test_a_tool_has_its_own_picture_or_that_of_its_pack() -> None:
    pack = Pack("pictured", icon=data(SVG))

    @pack.tool
    def plain() -> str:
        """Plain."""
        return ""

    @pack.tool(icon=data(PNG, "image/png"))
    def own() -> str:
        """Own."""
        return ""

    assert plain.picture == icon(data(SVG))
    assert own.picture == icon(data(PNG, "image/png"))
    assert made().picture is None


def test_an_icon_that_cannot_be_shown_is_a_mistake_of_the_author() -> None:
    with pytest.raises(DefinitionError, match=r"one: icon: it must be a data: address"):
        made(icon="no.svg")


def test_another_picture_makes_another_definition() -> None:
    definitions = [made(), made(icon=data(SVG)), made(icon=data(PNG, "image/png")), made(icon="https://a.test/b.svg")]
    assert len({one.spec.hash for one in definitions}) == 4
    assert "icon" not in definitions[0].definition()
    assert data(SVG) not in str(definitions[1].definition())
