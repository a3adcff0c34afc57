"""Masks secrets in everything that is stored or logged: logs, journal, error log.

A secret is recognised by the name of its field (`password`, `X-API-Key`) or, in free text, by its shape (`Bearer …`,
a key of this hub, the password in a URL). In case of doubt, a value is masked.
Every pattern runs in linear time. Pure Python, imports nothing of the project.
"""

from __future__ import annotations

import json
import math
import re
import string
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from typing import Any, Final
from urllib.parse import parse_qsl, urlencode

MASK: Final = "***"
CUT: Final = "…"
MOST_DEPTH: Final = 10
MOST_ITEMS: Final = 100
MOST_NODES: Final = 2_000
MOST_TEXT: Final = 4_096
MOST_WORD: Final = 600
# A match that `replacement` leaves unchanged can match again from its middle. After this number of such characters,
# the rest of the text is left unchanged.
MOST_LEFT: Final = 4 * 1024 * 1024

_SEPARATORS: Final = str.maketrans("", "", "-_. ")
_SECRET_NAME: Final = re.compile(
    "passw(?:or)?[dt]|passphrase|kennwort|パスワード|secret|token(?!iz)|apikey|authorization|cookie|credential|sessionid|"
    r"(?:private|access|account|encryption|signing|session|host)key|signature\d{0,3}$|^t?otp(?:code)?$|"
    "^(?:pwd?|pass|x?auth|jwt)$"
)
# Numbers in fields like `tokens` or `session_id` are counts and ids; in fields with these names they are secrets.
_NUMERIC_SECRET: Final = re.compile(
    "passw(?:or)?[dt]|passphrase|kennwort|パスワード|secret|^t?otp(?:code)?$|^(?:pwd?|pass)$"
)


def is_secret(name: str) -> bool:
    """Whether a field of this name holds a secret. `-`, `_` and case make no difference."""
    return _SECRET_NAME.search(name.translate(_SEPARATORS).lower()) is not None


# ---- free text

# Where a secret can begin, in lower case text: fast, since every alternative begins with a literal. Then `_PATTERN` is
# matched at that position only.
_BEGINNING: Final = re.compile(
    "passw|passphrase|pwd|pw|kennwort|パスワード|secret|token|api|authorization|cookie|credential|session|private|"
    "access|account|encryption|signing|signature|host|x[-_]auth|otp|totp|bearer|basic|thub_|sshpass|"
    r"-----begin |--(?=[a-z])|-u[ =]|akia|asia|gh[pousr]_|github_pat_|glpat-|xox[abeprs]-|sk_|rk_|sk-|aiza|://|\?|&|eyj"
)
_PATTERN: Final = r"""
    # a name and its value: password=…  "api_key": "…"  X-N8N-API-KEY: …  (b'Set-Cookie', b'…')
    # "name": "X-API-Key", "value": "…"
    (?P<name>
        (?: (?P<header> authorization | cookie )
          | passw(?:or)?[dt] | passphrase | pwd | kennwort | パスワード | secret | token(?!iz) | api[-_ ]?key
          | credential | sessionid | (?:private|access|account|encryption|signing|session|host)[-_]?key
          | (?<! [^\W_] ) (?: pw (?! \w ) | x[-_]auth (?! [a-z] ) | t?otp (?! [a-z] ) ) )
        [\w.-]{0,40}+ \\{0,4}+ ["']? \s{0,3}+
        (?: => | [:=\uff1a\uff1d]
          | , \s{0,3}+ \\{0,4}+ ["'] value \\{0,4}+ ["'] \s{0,3}+ : | , (?= \s{0,3} b?["']) ) \s{0,3}+ )
    (?! (?:none|null|true|false) \b | \d{1,12} (?![\w.-]) | \*{3} )
    (?P<value>
        b?" [^"\\]*+ (?: \\. [^"\\]*+ )* "? [\w-]*+
      | b?' [^'\\]*+ (?: \\. [^'\\]*+ )* '? [\w-]*+
      | \\+" [^"]*+ "?
      | \\+' [^']*+ '?
      | \[ [^\]]*+ \]?
      | \{ [^}]*+ \}?
      | < [^>]*+ >?
      | (?(header) [^\r\n"']++ | (?: (?:bearer|basic|token|digest) \s{1,3}+ )? [^\s&"'<>]++ ) )
    # a short password may be a number, which elsewhere is a count
  | (?P<pin> (?: passw(?:or)?[dt] | passphrase | pwd | kennwort | パスワード | secret
          | (?<! [^\W_] ) (?: pw | t?otp (?: [-_ ]?code )? ) ) ["']? \s{0,3}+ [:=\uff1a\uff1d] \s{0,3}+ ) \d{1,12}
    # in a sentence: a word with digits or signs, or any after "my password is"
  | (?P<said> (?: passw(?:or)?[dt] | passphrase | pwd | kennwort | パスワード | (?<! [^\W_] ) t?otp )
        (?: \s{1,3}+ (?: is | ist ) (?! \w ) :? \s{1,3}+ | は \s{0,3}+ ) ["'「]? )
    (?! \d{1,3} (?! [!-~] ) )
    (?= [!-~]{0,64} [\d@\#$%^&*_+=~] | (?<= my\ password\ is\ ) (?! (?:not|wrong|incorrect|invalid|expired|too|required
        |missing|empty|weak|safe|secure|stored|being|now|no|in|a|the|an|very|longer|shorter|correct|right|ok)
        (?! \w ) ) )
    [^\s"'<>」]{0,256}? (?= [.,;:!?)]{0,3} (?: [\s"'<>」] | \Z ) | [^!-~] )
    # a command line: --db-password X  sshpass -p X  curl -u ann:X
  | (?P<option> -- (?: [a-z\d]{1,20} - ){0,4} (?: passw(?:or)?d | passphrase | pass | pwd | secret | token | api-?key )
        (?! [\w-] ) \s{1,3}+
        (?! - | (?:to|or|and|is|are|for|with|in|if|as|on|at|of|by|the|a|an|flag|option|argument|parameter|value|instead
            |when|was|must|may|can|cannot|will|should|from|that|then|which|needs?|has|takes|sets?) (?! \w ) )
      | sshpass \s{1,3}+ -p \s{0,3}+
      | (?<! [\w-] ) -u [\s=]{1,3}+ (?! \d+ : \d+ (?! \w ) ) (?= ["']? [^\s"':/]{0,100} : [^\s/] )
      | -- (?: proxy- )? user [\s=]{1,3}+ (?! \d+ : \d+ (?! \w ) ) (?= ["']? [^\s"':/]{0,100} : [^\s/] ) )
    (?: "[^"]*+ "? | '[^']*+ '? | [^\s"']++ )
  | (?P<signature> signature (?: [-_]?\d{3} )? ["']? \s{0,3}+ [:=] \s{0,3}+ ["']? ) [\w+/%=.~-]{16,}+
    # prefixes of the keys of well-known services
  | (?P<service> (?<! [^\W_] )
        (?: (?-i: AKIA | ASIA ) (?= [A-Z\d]{16} (?! \w ) ) | gh[pousr]_ (?= \w{16} ) | github_pat_ (?= \w{16} )
          | glpat- (?= [\w-]{16} ) | xox[abeprs]- (?= [\w-]{8} ) | [sr]k_(?:live|test)_ (?= \w{8} )
          | sk- (?= [\w-]{20} ) (?-i: (?= [a-z_-]{0,40} [A-Z\d] ) ) | (?-i: AIza ) (?= [\w-]{30} ) ) ) [\w-]++
  | (?P<scheme> bearer | (?-i: Basic (?= \s{1,8} \w{0,64} [A-Z\d+/=] ) ) ) \s{1,8}+ (?! tokens? \b ) [^\s"',;<>]++
    # a key of this hub: its prefix is not secret
  | (?P<key> thub_ (?! [0-9A-Za-z]{8}_\* ) (?: [0-9A-Za-z]{8}_ )? ) \w{4,}+
  | (?P<address> :// ) [^\s/?\#"'<>\\]{1,512} @
  | (?P<query> [?&] (?: key|sig|signature|auth|code ) = ) [^\s&"'<>\#]++
  | (?P<jwt> (?<! [\w-] ) eyJ ) [\w-]{8,}+ \. [\w-]{4,}+ (?: \. [\w-]*+ )?
  | (?P<pem> -----BEGIN \s [A-Z ]{0,40} PRIVATE \s KEY-----) (?s:.*?) (?: -----END \s [A-Z ]{0,40} ----- | \Z )
"""
_LOWER: Final = str.maketrans(string.ascii_uppercase, string.ascii_lowercase)


@cache
def _pattern() -> re.Pattern[str]:
    # At first use: compiling takes longer than the rest of the import.
    return re.compile(_PATTERN, re.VERBOSE | re.IGNORECASE)


def redacted_text(text: str) -> str:
    """The text with everything masked that looks like a secret."""
    return replaced(text, lambda _match, masked: masked)


def redacted_query(query: str) -> str:
    """The query of a URL with its values masked like texts."""
    return urlencode([(name, redacted_text(value)) for name, value in parse_qsl(query, keep_blank_values=True)])


def replaced(text: str, replacement: Callable[[re.Match[str], str], str | None]) -> str:
    """The text with everything that looks like a secret replaced by `replacement(match, masked text)`.

    If it returns None, the match stays, and is searched for other secrets.
    """
    lowered = text.lower()
    if len(lowered) != len(text):  # the lower case of a few letters has two characters, which would shift positions
        lowered = text.translate(_LOWER)
    parts: list[str] = []
    done, left = 0, MOST_LEFT
    for beginning in _BEGINNING.finditer(lowered):
        place = beginning.start()
        if place < done or left < 0 or (match := _pattern().match(text, place)) is None:
            continue
        substitute = replacement(match, _masked(match))
        if substitute is None:
            left -= len(match[0])
            continue
        parts += (text[done:place], substitute)
        done = match.end()
    return "".join((*parts, text[done:])) if parts else text


def redacted_beginning(text: str, length: int) -> str:
    """At most `length` characters of a text, redacted.

    Some secrets are recognised by what follows them: the word at the cut could be one, and is left out.
    """
    if len(text) > length:
        whole = length
        while whole > max(0, length - MOST_WORD) and not text[whole - 1].isspace():
            whole -= 1
        text = text[:whole]
    return redacted_text(text)


def redacted_ends(text: str, length: int) -> str:
    """Beginning and end of a long text, `length` characters of each, redacted, without the words at the cuts."""
    if len(text) <= 2 * length:
        return redacted_text(text)
    end = text[-length:]
    whole = 0
    while whole < min(length, MOST_WORD) and not end[whole].isspace():
        whole += 1
    return f"{redacted_beginning(text, length)}\n{CUT}\n{redacted_text(end[whole:])}"


def _masked(match: re.Match[str]) -> str:
    kind = match.lastgroup
    if kind == "value":
        value = match["value"]
        quote = value[0] if value[0] in "\"'" else ""
        return f"{match['name']}{quote}{MASK}{quote}"
    if kind == "scheme":
        return f"{match[kind]} {MASK}"
    if kind == "address":
        return f"://{MASK}@"
    return MASK if kind is None or kind in ("jwt", "pem") else f"{match[kind]}{MASK}"


# ---- structures


def redacted(value: Any) -> Any:
    """A copy of JSON-like data with masked secrets, of bounded depth and size, that is always valid JSON.

    `…` marks what is left out.
    """
    return _Copy().of(value)


class _Copy:
    """One pass over a value, with the number of nodes that it can still copy."""

    def __init__(self) -> None:
        self.left = MOST_NODES

    def of(self, value: Any, depth: int = 0) -> Any:
        self.left -= 1
        if isinstance(value, str):
            return _short(value)
        match value:
            case None | bool():
                return value
            case int():
                return value if value.bit_length() < 1024 else f"<a number of {value.bit_length()} bits>"
            case float():
                return value if math.isfinite(value) else str(value)
            case bytes() | bytearray() | memoryview():
                return f"<{len(value)} bytes>"
        if depth >= MOST_DEPTH or self.left <= 0:
            return CUT
        match value:
            case Mapping():
                return self._mapping(value, depth)
            case list() | tuple() | set() | frozenset():
                return self._items(value, depth)
        return _short(_plain(value))

    def _mapping(self, value: Mapping[Any, Any], depth: int) -> dict[str, Any]:
        copy: dict[str, Any] = {}
        value_name = name_of_value(value)
        for key, item in value.items():
            if len(copy) >= MOST_ITEMS or self.left <= 0:
                copy[CUT] = f"{len(value) - len(copy)} more"
                break
            name = key if isinstance(key, str) else _plain(key)
            hidden = is_secret(name) or (name == "value" and value_name != "" and is_secret(value_name))
            copy[_short(name)] = self._mask(name, item, depth) if hidden else self.of(item, depth + 1)
        return copy

    def _mask(self, name: str, item: Any, depth: int) -> Any:
        if item is None or isinstance(item, bool) or item in ("", [], {}):
            return item
        if isinstance(item, int | float) and not _NUMERIC_SECRET.search(name.translate(_SEPARATORS).lower()):
            return self.of(item, depth + 1)
        return MASK

    def _items(self, value: Iterable[Any], depth: int) -> list[Any]:
        items = list(value)
        match items:
            case [str() as name, str() | bytes()] if is_secret(name):  # a header, as a pair
                return [_short(name), MASK]
            case [bytes() as name, bytes()] if is_secret(name[:100].decode("latin-1")):
                return [name[:100].decode("latin-1"), MASK]
        copy: list[Any] = []
        for item in items:
            if len(copy) >= MOST_ITEMS or self.left <= 0:
                copy.append(f"{CUT} {len(items) - len(copy)} more")
                break
            copy.append(self.of(item, depth + 1))
        return copy


def name_of_value(mapping: Mapping[Any, Any]) -> str:
    """The name for `value` in pairs like {"name": "Authorization", "value": "…"} of HAR files and n8n."""
    return next((mapping[key] for key in ("name", "key") if isinstance(mapping.get(key), str)), "")


def _short(text: str) -> str:
    # Reads more than the limit, since masked text is shorter.
    clean = redacted_beginning(text, 2 * MOST_TEXT)
    if len(clean) <= MOST_TEXT and len(text) <= 2 * MOST_TEXT:
        return clean
    return f"{clean[:MOST_TEXT]}{CUT}"


def _plain(value: Any) -> str:
    try:
        return str(value)
    except Exception:
        return f"<{type(value).__name__}>"


# ---- one line

# Characters that can end a line, control a terminal or hide text: C0, DEL, C1, zero-width and bidirectional marks, line
# and paragraph separators, lone surrogates, invisible tags. Joiners within emoji and scripts stay.
_UNSAFE: Final = re.compile(
    "[\x00-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ud800-\udfff\ufeff\ufff9-\ufffb"
    "\U000e0000-\U000e007f]"
)
_encoded: Final = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode
_SHORT_ESCAPES: Final = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}


def one_line(text: str) -> str:
    """The text with every character escaped that can end a line, control a terminal or hide text."""
    return text if text.isascii() and text.isprintable() else _UNSAFE.sub(_escaped, text)


def one_line_json(value: Any) -> str:
    """Compact JSON, as safe as `one_line`. Takes what `redacted` returns."""
    return _safe(_encoded(value))


def _safe(text: str) -> str:
    return text if text.isascii() and "\x7f" not in text else _UNSAFE.sub(_escaped_in_json, text)


def _escaped(match: re.Match[str]) -> str:
    character = match[0]
    if (code := ord(character)) < 0x100:
        return _SHORT_ESCAPES.get(character) or f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def _escaped_in_json(match: re.Match[str]) -> str:
    code = ord(match[0])
    if 0xD800 <= code < 0xE000:
        return f"\\\\u{code:04x}"  # only Python's parser accepts lone surrogates: it becomes text
    if code < 0x10000:
        return f"\\u{code:04x}"
    return f"\\u{0xD7C0 + (code >> 10):04x}\\u{0xDC00 + (code & 0x3FF):04x}"


def summary(arguments: Any, limit: int = 2048, text: str = "") -> str:
    """Arguments as they are stored: redacted, on one line, at most `limit` bytes of UTF-8.

    `text`: the same as compact JSON, if it is known. If nothing in it has to be masked or cut, it is stored as it is.
    """
    text = _safe(text) if text and _is_unchanged(text) else one_line_json(redacted(arguments))
    encoded = text.encode()
    if len(encoded) <= limit:
        return text
    mark = CUT.encode()
    return encoded[: max(0, limit - len(mark))].decode(errors="ignore") + CUT


# Matches JSON without escapes wherever `_SECRET_NAME` matches a name in it.
_SECRET_IN_JSON: Final = re.compile(_SECRET_NAME.pattern.replace("$", '"').replace("^", '"'))


def _is_unchanged(text: str) -> bool:
    """Whether `redacted` would certainly not change the value of this compact JSON."""
    if len(text) > MOST_TEXT or text.count(",") >= MOST_ITEMS or text.count("[") + text.count("{") > MOST_DEPTH:
        return False
    if "\\" in text:
        return False
    lowered = text.lower()
    return not (_BEGINNING.search(lowered) or _SECRET_IN_JSON.search(lowered.translate(_SEPARATORS)))
