"""Removes invisible characters from text for agents, so that people see everything that an agent reads.

Removed are tags, zero-width and bidirectional marks, variation selectors that can hide bytes, terminal escape
sequences, and nothing else. Characters that emoji and scripts need for display stay in the places where they need
them. Pure Python, imports nothing of the project.

Whether such a character stays depends on its visible neighbours, which are never removed: cleaning is idempotent.
Every pattern runs in linear time.
"""

from __future__ import annotations

import html
import json
import re
from collections import Counter
from functools import cache, lru_cache, partial
from typing import Any, Final

MARK: Final = "\N{REPLACEMENT CHARACTER}"

_CONTAINERS: Final = (dict, list, tuple)

# ---- removed: every suspect that no rule below keeps

_JOINERS: Final = "\u200c\u200d"
_SELECTORS: Final = "\ufe00-\ufe0f\U000e0100-\U000e01ef"
_TAGS: Final = "\U000e0000-\U000e007f"
_BREAKS: Final = "\r\x0b\x0c\x85\u2028\u2029"  # displayed as line ends, and replaced by \n
_SUSPECTS: Final = (  # the inside of a character class, as all constants below
    "\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e"
    "\u2060-\u206f\u3164\ud800-\udfff\ufdd0-\ufdef\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb\ufffe\uffff"
    "\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U0001fffe\U0001ffff\U0002fffe\U0002ffff"
    "\U0003fffe-\U0010ffff"  # tags, selectors and unassigned planes; a single range keeps the search fast
)
_COMMAND: Final = r"""
    \x1b++
    (?: \[ [0-?]*+ [ -/]*+ [@-~]
      | [\]PX^_] [^\x00-\x1f\x7f-\x9f]*+ (?: \x07 | \x1b\\ | \x9c )
      | (?: [()*+] [0-9A-Z] | [78=>c] ) (?! \ufe0f ) )?
  | \x9b [0-?]++ [ -/]*+ [@-~]
  | [\x90\x98\x9d-\x9f] [^\x00-\x1f\x7f-\x9f]*+ (?: \x07 | \x1b\\ | \x9c )
"""

# ---- kept, and next to which characters

_PICTURES: Final = (  # emoji that are displayed as one when joined
    "\u2194-\u2199\u21a9\u21aa\u231a-\u23ff\u24c2\u25aa-\u25c0\u25fb-\u25fe\u2600-\u27bf\u2934\u2935\u2b05-\u2b55"
    "\U0001f000-\U0001f1e5\U0001f200-\U0001faff"
)
_SIGNS: Final = _PICTURES + "\xa9\xae\u203c\u2049\u2122\u2139\u3030\u303d\u3297\u3299"  # text or emoji presentation
_IDEOGRAPHS: Final = "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0002fa1f\U00030000-\U000323af"
_OPERATORS: Final = "\u2200-\u22ff\u2a00-\u2aff"
_MONGOLIAN: Final = "\u1807\u180a\u1820-\u18aa"
_JOINING: Final = (  # scripts whose letters change with their neighbours, without invisible characters of their blocks
    "\u0610-\u061a\u0620-\u06dc\u06df-\u06ff\u0710-\u07ff\u0840-\u088e\u0898-\u08e1\u08e3-\u08ff"  # Arabic, N’Ko
    "\u0900-\u0963\u0966-\u0df3"  # Devanagari to Sinhala
    "\u0f00-\u109f\u1780-\u17b3\u17b6-\u17e9\u1900-\u19ff\u1a00-\u1aaf\u1b00-\u1c4f\u1cd0-\u1cff"  # Tibetan to Vedic
    "\ua800-\ua82c\ua840-\ua877\ua880-\ua8ff\ua930-\ua9ff\uaa00-\uaaff\uabc0-\uabff"
    "\ufb50-\ufdcf\ufdf0-\ufdfb\ufe70-\ufefc"  # presentation forms
    "\U00010a00-\U00010a9f\U00010ac0-\U00010aff\U00010b80-\U00010baf\U00010d00-\U00010d3f\U00010f30-\U00010fb0"
    "\U00011000-\U00011fff\U0001e900-\U0001e95f" + _MONGOLIAN
)
_VIRAMAS: Final = (  # after these a joiner shapes the letter before, also at the end of a word
    "\u094d\u09cd\u0a4d\u0acd\u0b4d\u0bcd\u0c4d\u0ccd\u0d3b\u0d3c\u0d4d\u0dca\u1039\u103a\u1b44\ua806\ua8c4\ua9c0"
    "\U00011046\U000110b9\U00011133\U000111c0\U00011235\U0001134d\U00011442\U000114c2"
)
# The tag sequences of the only three flags in use: all others are displayed as a black flag.
_ENGLAND: Final = "\U000e0067\U000e0062\U000e0065\U000e006e\U000e0067\U000e007f"
_SCOTLAND: Final = "\U000e0067\U000e0062\U000e0073\U000e0063\U000e0074\U000e007f"
_WALES: Final = "\U000e0067\U000e0062\U000e0077\U000e006c\U000e0073\U000e007f"

_SHOWN: Final = rf"""
    [^{_SUSPECTS}]
  | \ufe0f (?<= [{_SIGNS}] \ufe0f ) (?! [{_SELECTORS}] )
  | \u200d (?: (?<= [{_PICTURES}] \u200d ) | (?<= [{_PICTURES}] \ufe0f \u200d ) ) (?= [{_PICTURES}] )
  | [{_JOINERS}] (?: (?<= [{_JOINING}] [{_JOINERS}] ) (?= [{_JOINING}] ) | (?<= [{_VIRAMAS}] [{_JOINERS}] ) )
  | [{_SELECTORS}] (?! [{_SELECTORS}] )
    (?: (?<= [{_IDEOGRAPHS}] [\ufe00-\ufe02\U000e0100-\U000e011f] )  # there are no more variants of any
      | (?<= [{_SIGNS}] \ufe0e )
      | (?<= [0-9\#*] \ufe0f ) (?= \u20e3 )
      | (?<= [{_OPERATORS}] \ufe00 ) )
  | (?<= \U0001f3f4 ) (?: {_ENGLAND} | {_SCOTLAND} | {_WALES} ) (?! [{_TAGS}] )
  | [\u180b-\u180d\u180f] (?<= [{_MONGOLIAN}] . )
  | [\U000f0000-\U000ffffd\U00100000-\U0010fffd]  # private use: displayed as a box, so visible
"""
# No possessive quantifiers on groups: before Python 3.11.5 (Debian 12) they lose the end of the match.
# The limit of 1,000 bounds the memory for backtracking.
_PLAIN: Final = rf"(?: [^{_SUSPECTS}]++ | {_SHOWN} ){{1,1000}}"
_PIECE: Final = rf"( [^{_SUSPECTS}]++ | {_SHOWN} ) | {_COMMAND} | [{_SUSPECTS}]"
_CONTROLS: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")  # the suspects of ASCII

# ---- character references of HTML

_REFERENCE: Final = rf"""
    &
    (?! (?<= [{_JOINING}] & ) (?: zwn?j | \# (?: 820[45] | [xX] 200[c-dC-D] ) ) ; [{_JOINING}] )
    (?: (?! \# (?: 3[2-9] | [4-9][0-9] | 1[01][0-9] | 12[0-6] | [xX] (?: [2-6][0-9a-fA-F] | 7[0-9a-eA-E] ) ) ; )
          \# (?: [xX] 0*+ (?P<hex> [0-9a-fA-F]++ ) | 0*+ (?P<number> [0-9]++ ) ) ;?
        | (?: shy | zwn?j | lrm | rlm | af | it | ic | NoBreak | ApplyFunction | InvisibleTimes | InvisibleComma
            | ZeroWidthSpace | Negative(?:VeryThin|Thin|Medium|Thick)Space ) ;
        | shy (?! [0-9A-Za-z=] ) )  # browsers do without the semicolon; `&shy=1` is part of an address
"""
_CONTEXTUAL: Final = "".join(map(chr, (0x200C, 0x200D, 0x180B, 0x180C, 0x180D, 0x180F, *range(0xFE00, 0xFE10))))
_NOT_OF_WINDOWS: Final = {0x81, 0x8D, 0x8F, 0x90, 0x9D}


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    # At first use: compiling all of them would take most of the time of importing this module.
    return re.compile(pattern, re.VERBOSE)


def cleaned(text: str) -> str:
    """The text without invisible characters; the same object if there are none.

    An HTML character reference, such as `&#8203;`, is removed if its character would be.
    """
    if _is_plain(text) and ("&" not in text or not _compiled(_REFERENCE).search(text)):
        return text
    visible = _without_hidden(text)
    if "&" in visible:
        # Removing a reference can form a new one from its neighbours; those are replaced by a mark.
        for mark in ("", MARK):
            bare = _compiled(_REFERENCE).sub(partial(_replacement, mark), visible)
            if bare == visible:
                break
            visible = _without_hidden(bare)
    return text if visible == text else visible


def written_out(text: str) -> str:
    """The text with invisible characters as JSON escapes, for people who review it."""
    if _is_plain(text):
        return text
    return _compiled(_PIECE).sub(lambda match: match[1] or json.dumps(match[0])[1:-1], text)


def cleaned_json(value: Any) -> Any:
    """`cleaned` for every text in a JSON value, including keys; the same object if nothing changes.

    If keys become equal, the keys that were clean stay, and the others are numbered: `id`, `id (2)`.
    """
    return counted_json(value)[0]


def counted_json(value: Any) -> tuple[Any, int]:
    """The same, and the number of removed characters. Line ends that became `\\n` are visible and do not count."""
    if isinstance(value, str):
        visible = cleaned(value)
        return visible, _removed_count(value, visible)
    if not isinstance(value, _CONTAINERS):
        return value, 0
    joined = "\n".join(_texts(value))
    visible = cleaned(joined)
    return (value, 0) if visible is joined else (_copy(value), _removed_count(joined, visible))


def _removed_count(text: str, visible: str) -> int:
    return 0 if visible is text else len(text.replace("\r\n", "\n")) - len(visible)


def _is_plain(text: str) -> bool:
    if text.isascii():
        return not _CONTROLS.search(text)
    plain, end = _compiled(_PLAIN), 0
    while (match := plain.match(text, end)) is not None:
        end = match.end()
    return end == len(text)


def _without_hidden(text: str) -> str:
    if _is_plain(text):
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        # Surrogate pairs become their character, lone surrogates a mark.
        text = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    text = text.replace("\r\n", "\n")
    for line_break in _BREAKS:
        text = text.replace(line_break, "\n")
    return text if _is_plain(text) else "".join(_compiled(_PIECE).findall(text))


def _replacement(mark: str, match: re.Match[str]) -> str:
    """The replacement of a reference: itself, or the mark if its character is invisible."""
    reference, hexadecimal, number = match.group(0, "hex", "number")
    character = _hidden_character(reference, hexadecimal, number)
    if not character:
        return reference
    if character in _CONTEXTUAL:
        # Whether it stays depends on the next character and the two before it.
        (start, end), text = match.span(), match.string
        before = text[start - 2 : start] if start > 1 else text[:start]
        if not before.isascii() and _compiled(_SHOWN).match(before + character + text[end : end + 1], len(before)):
            return reference
    return mark


@lru_cache(4096)
def _hidden_character(reference: str, hexadecimal: str | None, number: str | None) -> str:
    """The character of a reference; empty if it is visible in every context."""
    digits = hexadecimal or number
    if digits is None:
        return html.unescape(reference)
    code = int(digits, 16 if hexadecimal else 10) if len(digits) < 8 else 0
    if code == 0 or 0xD800 <= code < 0xE000 or code > 0x10FFFF:
        return ""  # browsers show a mark
    if 0x80 <= code < 0xA0 and code not in _NOT_OF_WINDOWS:
        return ""  # browsers read it as Windows-1252
    character = chr(code)
    return "" if character in _BREAKS or _compiled(_SHOWN).match(character) else character


def _texts(value: Any) -> list[str]:
    texts: list[str] = []
    pending = [value]
    visited: set[int] = set()  # containers can contain themselves
    while pending:
        container = pending.pop()
        if id(container) in visited:
            continue
        visited.add(id(container))
        if isinstance(container, dict):
            texts += [key for key in container if isinstance(key, str)]
            container = container.values()
        for part in container:
            if isinstance(part, str):
                texts.append(part)
            elif isinstance(part, _CONTAINERS):
                pending.append(part)
    return texts


def _copy(value: Any) -> Any:
    top = [value]
    pending: list[Any] = [top]
    copies: dict[int, Any] = {}
    while pending:
        container = pending.pop()
        for place, part in container.items() if isinstance(container, dict) else enumerate(container):
            if isinstance(part, str):
                container[place] = cleaned(part)
            elif isinstance(part, _CONTAINERS):
                if id(part) not in copies:
                    copies[id(part)] = _with_clean_keys(part) if isinstance(part, dict) else list(part)
                    pending.append(copies[id(part)])
                container[place] = copies[id(part)]
    return top[0]


def _with_clean_keys(mapping: dict[Any, Any]) -> dict[Any, Any]:
    names = {key: cleaned(key) for key in mapping if isinstance(key, str)}
    used_names = {key for key in mapping if names.get(key, key) == key}
    if len(used_names) == len(mapping):
        return mapping.copy()
    times: Counter[str] = Counter()
    copy = {}
    for key, part in mapping.items():
        name = key
        if key not in used_names:
            plain = name = names[key]
            while name in used_names:
                times[plain] += 1
                name = f"{plain} ({times[plain] + 1})"
            used_names.add(name)
        copy[name] = part
    return copy
