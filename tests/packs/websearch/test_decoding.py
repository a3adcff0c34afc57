"""The bytes of a page are decoded as in a browser, with the encoding labels of the standard."""

from __future__ import annotations

from typing import Any, Final

import pytest

from tests.packs.websearch.conftest import Read, body_of
from tests.packs.websearch.fakes import FakeWeb

JAPANESE = "髙島屋\uff5e①㈱の日本語テキスト、カタカナも。"
QUOTES = "déjà vu “quotes” naïve €5"


def euc_jp(text: str) -> bytes:
    """Encode as the standard does: with the characters of NEC and IBM, which Python's codec lacks."""
    written = b""
    for character in text:
        lead, *trail = character.encode("cp932")
        if trail:
            row = (lead - (0x81 if lead < 0xA0 else 0xC1)) * 2 + (2 if trail[0] > 0x9E else 1)
            cell = trail[0] - (0x9E if trail[0] > 0x9E else 0x3F if trail[0] < 0x7F else 0x40)
            written += bytes((row + 0xA0, cell + 0xA0))
        else:
            written += bytes((lead,)) if lead < 0x80 else bytes((0x8E, lead))
    return written


def iso_2022_jp(text: str) -> bytes:
    return b"\x1b$B" + bytes(byte & 0x7F for byte in euc_jp(text)) + b"\x1b(B"


def in_page(body: bytes, head: bytes = b"") -> bytes:
    return b"<html><head>" + head + b"</head><body><p>" + body + b"</p></body></html>"


_ABOUT: Final = '<meta name=d content="about charset=big5">'
_EQUIV: Final = '<meta http-equiv=content-type content="text/html; charset=sjis">'


def in_html(text: str, encoding: str, head: str = "") -> bytes:
    return f"<html><head>{head}</head><body><p>{text}</p></body></html>".encode(encoding)


@pytest.mark.parametrize(
    ("data", "kind", "shown"),
    [
        # what is declared: by the names that browsers understand, and not by Python's
        (in_html(JAPANESE, "cp932"), "text/html; charset=Shift_JIS", JAPANESE),
        (in_html(JAPANESE, "cp932"), "text/html; charset=windows-31j", JAPANESE),
        (in_html(JAPANESE, "cp932"), 'text/html; charset="x-sjis"', JAPANESE),
        (in_html(JAPANESE, "cp932", "<meta charset=Shift_JIS>"), "text/html", JAPANESE),
        (in_page(euc_jp(JAPANESE)), "text/html; charset=EUC-JP", JAPANESE),
        (in_page(iso_2022_jp(JAPANESE)), "text/html; charset=ISO-2022-JP", JAPANESE),
        (in_html(QUOTES, "cp1252"), "text/html; charset=iso-8859-1", QUOTES),
        (in_html(QUOTES, "cp1252"), "text/html; charset=us-ascii", QUOTES),
        (in_html("Ünlü ğışİ", "cp1254"), "text/html; charset=iso-8859-9", "Ünlü ğışİ"),
        (in_html("汉字 €", "gb18030"), "text/html; charset=gb2312", "汉字 €"),
        (in_html("漢字", "big5hkscs"), "text/html; charset=big5", "漢字"),
        (in_html("한국어 똠", "cp949"), "text/html; charset=euc-kr", "한국어 똠"),
        (in_html("Привет", "koi8-r"), "text/html; charset=koi8-r", "Привет"),
        (in_html("ไทย", "cp874"), "text/html; charset=tis-620", "ไทย"),
        # a BOM wins over the header, the header over the page
        ("\ufeff<p>Grüße €".encode(), "text/html; charset=iso-8859-1", "Grüße €"),
        (b"\xff\xfe" + in_html(JAPANESE, "utf-16-le"), "text/html", JAPANESE),
        (b"\xfe\xff" + in_html(JAPANESE, "utf-16-be"), "text/html; charset=utf-8", JAPANESE),
        (in_html(JAPANESE, "utf-16-le"), "text/html; charset=utf-16", JAPANESE),
        (in_html(JAPANESE, "utf-8", "<meta charset=shift_jis>"), "text/html; charset=utf-8", JAPANESE),
        # what a page says of itself
        (
            in_html(JAPANESE, "cp932", _EQUIV),
            "text/html",
            JAPANESE,
        ),
        (in_html(JAPANESE, "utf-8", "<meta charset='UTF-16'>"), "text/html", JAPANESE),
        (in_html(JAPANESE, "cp932", "<!-- <meta charset=utf-8> --><meta charset=sjis>"), "text/html", JAPANESE),
        (
            in_html(JAPANESE, "cp932", f"{_ABOUT}<meta charset=sjis>"),
            "text/html",
            JAPANESE,
        ),
        (b'<?xml version="1.0" encoding="Shift_JIS"?>' + in_html(JAPANESE, "cp932"), "application/xhtml+xml", JAPANESE),
        (in_html(JAPANESE, "cp932", "<meta charset=sjis>"), "text/html; charset=nonsense", JAPANESE),
        # what nobody says
        (in_html(JAPANESE, "utf-8"), "text/html", JAPANESE),
        (in_html(JAPANESE, "cp932"), "text/html", JAPANESE),
        (in_page(euc_jp(JAPANESE)), "text/html", JAPANESE),
        (in_page(iso_2022_jp(JAPANESE)), "text/html", JAPANESE),
        (JAPANESE.encode("cp932"), "text/plain", JAPANESE),
        (b'<html lang="ja"><p>' + euc_jp("東京都港区"), "text/html", "東京都港区"),
        (b'<html lang="ja"><p>' + "東京都港区".encode("cp932"), "text/html", "東京都港区"),
        (in_html(QUOTES, "cp1252"), "text/html", QUOTES),
        (in_html("un café", "cp1252"), "text/html", "un café"),
        (in_html("Größe über Straßen für Mädchen", "cp1252"), "text/html", "Größe über Straßen für Mädchen"),
        (in_html(JAPANESE * 3_000, "utf-8"), "text/html", JAPANESE * 3_000),
        (in_html(JAPANESE * 3_000, "cp932"), "text/html", JAPANESE * 3_000),
    ],
)
def test_a_page_is_decoded_as_browsers_do_it(
    read: Read, web: FakeWeb, settings: Any, data: bytes, kind: str, shown: str
) -> None:
    settings.TOOLHUB_ANSWER_TOKENS = 1_000_000
    web.say("page", (data, kind))
    assert body_of(read()) == shown


def test_names_of_python_are_no_names_of_encodings(read: Read, web: FakeWeb) -> None:
    for number, name in enumerate(("unicode_escape", "utf-7", "idna", "punycode", "rot13", "mbcs", "utf-32")):
        web.say("page", ("Grüße \\u0041 +AGE-", f"text/plain; charset={name}"))
        assert body_of(read(f"/page/{number}")) == "Grüße \\u0041 +AGE-"
