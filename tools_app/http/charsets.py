"""From bytes to text as browsers do it. https://encoding.spec.whatwg.org, https://html.spec.whatwg.org/#encoding-sniffing-algorithm

Precedence: BOM, header, declaration in the page. Without any, UTF-8 is tried first, then the Japanese encodings; the
fallback is windows-1252.
"""

from __future__ import annotations

import codecs
import re
from typing import Final

import webencodings

UTF_8: Final = "utf-8"
_FALLBACK: Final = "windows-1252"
_BOMS: Final = ((codecs.BOM_UTF8, UTF_8), (codecs.BOM_UTF16_LE, "utf-16le"), (codecs.BOM_UTF16_BE, "utf-16be"))
_UTF_16: Final = ("utf-16le", "utf-16be")
_LABEL: Final = re.compile(r"charset\s*=\s*[\"']?([\w.:-]{1,40})", re.IGNORECASE)
# Where a page can declare its encoding.
_HEAD: Final = 4_096
_COMMENT: Final = re.compile(rb"<!--.*?-->", re.DOTALL)
_XML: Final = re.compile(rb"\s*<\?xml[^>]{1,200}?encoding\s*=\s*[\"']([\w.:-]{1,40})")
_META: Final = re.compile(rb"<meta[\s/][^>]{1,500}", re.IGNORECASE)
_IN_META: Final = re.compile(rb"[\s;\"'/]charset\s*=\s*[\"']?\s*([\w.:-]{1,40})", re.IGNORECASE)
_IS_JAPANESE: Final = re.compile(rb"<html[^>]{1,300}?lang\s*=\s*[\"']?ja\b", re.IGNORECASE)
# How much of a text is used to detect its encoding.
_SAMPLE: Final = 64 * 1024
_ASCII: Final = bytes(range(128))
_KANA: Final = re.compile("[\u3041-\u30fe]")
# Python's names, where Python has a different table under the name of the standard.
_CODECS: Final = {"gbk": "gb18030", "euc-jp": "euc_jp", "iso-2022-jp": "iso2022_jp_ext", "replacement": UTF_8}
# Characters of JIS X 0208 that Python and the standard map differently.
_DIFFERING: Final = tuple(zip("\u301c\u2016\u2212\xa2\xa3\xac", "\uff5e\u2225\uff0d\uffe0\uffe1\uffe2", strict=True))
_WITH_NEC: Final = "toolhub.nec"
# Each takes a microsecond: millions of invalid bytes would take seconds.
_MOST_OF_NEC: Final = 20_000


def of_body(body: bytes, content_type: str, *, markup: bool = False) -> str:
    """The standard's name of the encoding of a body; with `markup`, also from a declaration in the body."""
    for bom, name in _BOMS:
        if body.startswith(bom):
            return name
    label = _LABEL.search(content_type)
    return (_encoding(label[1]) if label else "") or (_declared_encoding(body) if markup else "") or _detect(body)


def has_bom(body: bytes) -> bool:
    return any(body.startswith(bom) for bom, _ in _BOMS)


def is_utf_16(name: str) -> bool:
    return name in _UTF_16


def decoded(body: bytes, name: str) -> str:
    """The text; invalid bytes become U+FFFD."""
    for bom, _ in _BOMS:
        body = body.removeprefix(bom)
    if name in ("euc-jp", "iso-2022-jp"):
        text = body.decode(_CODECS[name], errors="replace")
        if 0 < text.count("\ufffd") <= _MOST_OF_NEC:
            text = body.decode(_CODECS[name], errors=_WITH_NEC)
        for pythons, standards in _DIFFERING:
            text = text.replace(pythons, standards)
        return text
    if name in _CODECS:
        return body.decode(_CODECS[name], errors="replace")
    text, _ = webencodings.decode(body, name, errors="replace")
    return str(text)


def _encoding(label: str) -> str:
    """The encoding of a label; empty if it is unknown."""
    encoding = webencodings.lookup(label)
    return encoding.name if encoding is not None else ""


def _declared_encoding(body: bytes) -> str:
    head = body[:_HEAD]
    xml = _XML.match(head)
    labels = [xml[1]] if xml else []
    for tag in _META.findall(_COMMENT.sub(b"", head)):
        # Other meta tags may contain the word charset too, for example a description.
        label = _IN_META.search(tag)
        if label and (b"http-equiv" in tag.lower() or b"content" not in tag.lower()):
            labels.append(label[1])
    for declared in labels:
        if name := _encoding(declared.decode()):
            # The declaration was readable as ASCII, so the page is not UTF-16.
            return {"utf-16le": UTF_8, "utf-16be": UTF_8, "x-user-defined": _FALLBACK}.get(name, name)
    return ""


def _detect(body: bytes) -> str:
    sample = body[:_SAMPLE]
    high = len(sample.translate(None, _ASCII))
    if not high:
        return "iso-2022-jp" if b"\x1b$B" in sample or b"\x1b$@" in sample else UTF_8
    # The end of the sample may split a character, and old pages have a few invalid bytes.
    few = high // 50 + (len(body) > _SAMPLE)
    if sample.decode(UTF_8, errors="replace").count("\ufffd") <= few:
        return UTF_8
    japanese = _IS_JAPANESE.search(sample[:_HEAD]) is not None
    best, most = _FALLBACK, 0
    for name in ("euc-jp", "shift_jis"):
        text = decoded(sample, name)
        # Every Japanese text contains kana, and no other text does in any of these encodings.
        kana = len(_KANA.findall(text)) + japanese
        if text.count("\ufffd") <= few and kana > most and (japanese or kana * 20 > high):
            best, most = name, kana
    return best


def _with_nec(error: UnicodeError) -> tuple[str, int]:
    """Decode NEC and IBM characters, which the standard has in all Japanese encodings, Python in one only."""
    if not isinstance(error, UnicodeDecodeError):
        raise error
    pair = bytes(byte & 0x7F for byte in error.object[error.start : error.start + 2])
    if len(pair) == 2 and all(0x21 <= byte <= 0x7E for byte in pair):
        row, cell = pair[0] - 0x20, pair[1] - 0x20
        lead = (row - 1) // 2 + (0x81 if row <= 62 else 0xC1)
        trail = cell + 0x9E if row % 2 == 0 else cell + (0x3F if cell < 64 else 0x40)
        text = bytes((lead, trail)).decode("cp932", errors="ignore")
        if text:
            return text, error.start + 2
    return "\ufffd", error.end


codecs.register_error(_WITH_NEC, _with_nec)
