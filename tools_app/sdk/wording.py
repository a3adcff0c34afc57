"""Finds prompt injection in the descriptions of tools.

Models trust a description as if their operator had written it. Invisible characters are refused when the tool is
defined (`hidden`). Text that gives agents orders, asks them to hide something from people, refers to other tools, or
is not a description at all is a finding, which operators see and decide about.

The rules match words and can be evaded with others: they find copied and careless injections.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Container, Iterator, Mapping
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any, Final

from tools_app.sdk.errors import shortened
from tools_app.sdk.schemas import parts_of
from tools_app.text import hygiene

MOST_LINES: Final = 4
MOST_CHARACTERS: Final = 1_024
# The rules check no more than this.
MOST_CHECKED: Final = 8_192
MOST_FINDINGS: Final = 20

_PEOPLE: Final = r"(?:users?|humans?|people|persons?|operators?|owners?|admins?|anyone|anybody|them|him|her)"
_TEXTS: Final = (
    r"(?:instructions?|prompts?|rules|guidelines|guidance|polic(?:y|ies)|restrictions?|directions|"
    r"everything|the above|tool descriptions?|(?:system|developer)\s(?:message|prompt)|(?:content\s)?filters?|"
    r"what\syou\s(?:have\sbeen|were|are)\s(?:told|taught|given)|safety\s\w+)"
)
_MODELS: Final = r"(?:(?:ai\s)?(?:assistants?|models?|agents?)|llms?|ais?)"
_TALK: Final = (
    r"(?:(?:whole|entire|full|complete|chat|all)\s(?:\w+\s){0,2}?)?"
    r"(?:conversations?|dialogues?|chat\shistory|context\swindow|previous\smessages|system\sprompt|initial\sinstructions)"
)
_HAND_OVER: Final = (
    r"(?:send|post|forward|upload|pass|put|include|append|attach|add|copy|provide|transmit|exfiltrate|share|"
    r"print|repeat|read|open|cat)"
)
_SECRETS: Final = (
    r"(?:~/\.\w+|\.ssh\b|id_rsa|\.env\b|/etc/(?:passwd|shadow)|\.aws\b|mcp\.json|"
    r"(?:environment\svariables|private\skeys?|session\stokens?|api\skeys?|credentials|user's\spassword)\b)"
)
_QUIETLY: Final = r"(?:silently|secretly|quietly|covertly|unnoticed)"

_RULES: Final[Mapping[str, str]] = {
    "speaks in the marks of a system prompt": (
        r"<\s*/?\s*(?:important|system|secret|instructions?|hidden|admin|critical|override)\s*>|\[/?inst\]|"
        r"<\|\w+\|>|<!--|\b(?:system|developer)\s(?:override|message)\s?:|#+\s?system\b"
    ),
    "tells agents to set aside what they were told": (
        r"\b(?:ignore|disregard|forget|override|bypass|discard|do\snot\sfollow|don't\sfollow|pay\sno\sattention\sto)\b"
        rf"(?:\s(?!and\b)[\w']+){{0,4}}?\s{_TEXTS}\b|"
        r"\b(?:ignore|disregard|forget)\sthe\sabove|\b(?:safety|all)\s(?:rules|restrictions)\s(?:\w+\s){0,2}?"
        r"(?:lifted|do\snot\sapply)|\bnew\sinstructions\s?:|\byou\sare\snow\b|\bdo\snot\sfollow\sthe\suser|"
        r"\bact\sas\s(?:the|an?)\s(?:\w+\s)?(?:admin\w*|system|root|developer|user|unrestricted)\b|"
        r"\byour\s(?:previous|earlier|prior|initial|original)\s(?:instructions|prompt|orders|task)\b|"
        r"(?:指示|命令|プロンプト|ルール)を?(?:すべて|全て|全部)?(?:無視|忘れ)"
    ),
    "asks to keep something from people": (
        r"\b(?:do\snot|don't|never|must\snot|should\snot|without|need\snot|no\sneed\sto|avoid)\s(?:\w+\s){0,2}?"
        r"(?:tell|inform|mention|show|reveal|notify|disclose|ask|let|say|know|learn|telling|informing|asking|"
        rf"mentioning|bother)\w*\s(?:[\w']+\s){{0,6}}?(?:to\s)?(?:the\s)?{_PEOPLE}\b(?!\slist)|"
        rf"\bif\sthe\s{_PEOPLE}\sasks?\s(?:[\w']+\s){{0,4}}?(?:,\s)?(?:say|answer|reply|claim|pretend|deny)\b|"
        rf"\bif\sthe\s{_PEOPLE}\sasks?\b[^.!?。]{{0,40}}?,\s?(?:say|answer|reply|claim|pretend|deny)\b|"
        rf"\btell\sthe\s{_PEOPLE}\s(?:that\s)?(?:all|everything|it)\s(?:is|was|went)\b|"
        rf"\breply\sto\sthe\s{_PEOPLE}\swith\b|\b(?:remains?|stays?|kept|keep)\s(?:\w+\s)?unaware\b|"
        r"\b(?:secretly|covertly)\b|,\s(?:quietly|silently)\b|"
        r"\bpre-?approved\s(?:all|any|every)|\bno\s(?:approval|confirmation|consent)\s(?:is\s)?(?:needed|required)|"
        rf"\b{_PEOPLE}\s(?:must|should|may|can)?\s?(?:not|never)\s(?:know|learn|see|notice|be\stold)\w*|"
        rf"\bwithout\sthe\s{_PEOPLE}(?:'s)?\s(?:knowledge|consent|knowing|noticing|permission)|"
        rf"\b(?:keep|hide)\s(?:\w+\s){{0,2}}?(?:hidden\s)?from\sthe\s{_PEOPLE}|"
        rf"\b{_QUIETLY}\b(?:\s\w+){{0,2}}?\s{_HAND_OVER}|\bnever\sreveal|"
        r"\b(?:skip|omit)\sany\sconfirmation|\bdo\snot\sask\sfor\sconfirmation|"
        r"(?:ユーザー?|利用者|人間)に(?:は)?(?:絶対に|決して)?[^。]{0,6}?(?:伝えない|言わない|知らせない|教えない|黙って|秘密)"
    ),
    "gives agents orders about other tools": (
        r"\b(?:before|after|prior\sto|instead\sof)\s(?:using\s|calling\s|invoking\s|you\suse\s)?"
        r"(?:any|every|each|all)\s(?:other\s)?tools?\b|\b(?:before|with)\s(?:any|every|each)\s(?:other\s)?"
        r"(?:tool\s)?calls?\b|\bdo\snot\suse\sany\sother\stool|\b(?:supersedes|replaces|overrides)\s(?:all|any|every)\s"
        r"(?:other\s)?tools?|\balways\s(?:call|use|run|invoke)\sthis\b|\buse\sthis\stool\sfirst\b|"
        r"\bmust\salways\s(?:call|use|run|invoke)\b|\b(?:only\strust|trust\sonly)\sthis\b|"
        r"\bat\sthe\s(?:start|beginning|end)\sof\s(?:each|every)\s(?:turn|conversation|session|reply|answer|response)|"
        r"\bbefore\syou\s(?:answer|reply|respond)\b"
    ),
    "gives agents orders beyond itself": (
        rf"\bfrom\snow\son\b|\b(?:notes?|instructions?|messages?)\s(?:to|for)\s(?:the\s|all\s)?{_MODELS}\s?[:,]|"
        rf"\bnote\s(?:to|for)\s(?:the\s)?{_MODELS}\b|\bmandatory\sthat\b|\bpriority\sover\sthe\s|"
        rf"\bfollow(?:ed)?\sverbatim\b|\bevery\s(?:reply|answer|response|message)\syou\b|"
        r"\b(?:ai\s)?(?:assistants?|models?|llms?|agents?|ai)\s(?:must|should|has\sto|have\sto|reading\sthis)\b|"
        r"\bassistant\s?[:,]|\byou\sare\srequired\sto\b|\bevery\s(?:reply|answer)\smust\b|"
        r"\bwhenever\sthe\suser\sasks\b|\bsay\sthat\sthere\swas\s"
    ),
    "reaches for secrets": (
        rf"(?:~/\.ssh|id_rsa|\.aws/credentials|/etc/(?:passwd|shadow)|mcp\.json)|"
        rf"\b{_HAND_OVER}\b[^.!?。]{{0,60}}?{_SECRETS}|\bincluding\s(?:all\s|any\s)?(?:secrets|passwords|keys)\b|"
        r"\b(?:enter|type|give|confirm)\s(?:\w+\s)?your\spassword|\b(?:encode|encrypt|hide)\sthe\spasswords?\b"
    ),
    "asks for what was said before": (
        rf"\b{_HAND_OVER}\b[^.!?。]{{0,50}}?{_TALK}|\bcontents\sof\s(?:your|the)\scontext\swindow|"
        r"\beverything\s(?:above|before)\sthis\b|"
        r"\{[^{}]{0,40}\b(?:messages|conversation|secrets?|passwords?|prompt)\b[^{}]{0,40}\}"
    ),
    "asks to send things elsewhere": (
        r"\b(?:as\sbcc|to\sbcc)\b|\bbcc'?d\sto\b|\b(?:curl|wget)\b[^.!?。|]{0,60}\|\s?(?:sh|bash)\b|\b(?:send|forward|upload|post)\b[^.!?。]{0,40}?\b"
        r"(?:https?://|to\s\+\d{6,}|the\scallback)|\bthird\sparty\b|!\[[^\]]{0,80}\]\(https?://|"
        r"\bchange\sthe\srecipient\b|\bcharge\sthe\scard\b"
    ),
    "holds a key or password": (
        r"\b(?:sk|pk|rk)-[\w-]{16,}|\bgh[pousr]_\w{20,}|\bakia[0-9a-z]{12,}|\bxox[abprs]-[\w-]{10,}|"
        r"\beyj[\w-]{10,}\.[\w-]{10,}|-----begin\s|\bthub_\w{20,}|\bbearer\s[\w.~+/-]{20,}"
    ),
}
# Runs that are not words: base64, or hexadecimal that is longer than a digest.
_BLOB: Final = re.compile(r"[A-Za-z0-9+/_-]{48,}={0,2}")
_NAME: Final = re.compile(r"[a-z][a-z0-9]*(?:[_-][a-z0-9]+)+")


@dataclass(frozen=True, slots=True)
class Others:
    """The names of all tools outside a pack, as a container with constant-time lookup."""

    pack: str
    # The pack of every tool, by its folded name.
    packs: Mapping[str, str]

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and self.packs.get(name, self.pack) != self.pack


@dataclass(frozen=True, slots=True)
class Finding:
    """A finding in the texts of a tool: the place, and the fault."""

    place: str
    fault: str

    def __str__(self) -> str:
        return f"the {self.place} {self.fault}"


def hidden(text: str) -> bool:
    """Whether a text has invisible characters."""
    return hygiene.cleaned(text) != text


def faults(text: str, others: Container[str] = ()) -> list[str]:
    """The faults of a description. `others` are folded names of tools that it should not mention."""
    return [*_size_faults(text), *_word_faults(text[:MOST_CHECKED]), *_name_faults(text[:MOST_CHECKED], others)]


def findings(definition: Mapping[str, Any], others: Container[str] = ()) -> list[Finding]:
    """The first findings in the texts of a definition."""
    results: list[Finding] = []
    for place, text in texts(definition):
        results += [Finding(place, fault) for fault in faults(text, others)]
    return results[:MOST_FINDINGS]


def texts(definition: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """The texts of a definition, each with its place."""
    yield "title", definition.get("title") or ""
    yield "description", definition.get("description") or ""
    yield "note of deprecation", definition.get("deprecated") or ""
    yield "keywords", " ".join(map(str, definition.get("keywords") or ()))
    for part in parts_of(definition.get("inputSchema") or {}):
        if isinstance(text := part.body.get("description"), str):
            yield f"description of parameter {part}", text
    for example in definition.get("examples") or ():
        yield "description of an example", str(example.get("description") or "")


def _size_faults(text: str) -> Iterator[str]:
    if len(text.splitlines()) > MOST_LINES:
        yield f"has more than {MOST_LINES} lines"
    if len(text) > MOST_CHARACTERS:
        yield f"has more than {MOST_CHARACTERS:,} characters"


@lru_cache(4096)
def _word_faults(text: str) -> tuple[str, ...]:
    visible = hygiene.cleaned(text)
    results = ["has invisible characters"] if visible != text else []
    # Look-alikes of letters and repeated whitespace would evade every rule.
    plain = " ".join(unicodedata.normalize("NFKC", visible).casefold().replace("’", "'").split())
    for fault, pattern in _patterns():
        if match := pattern.search(plain):
            results.append(f"{fault} ({shortened(match[0], 60)!r})")
    if any(_is_blob(match[0]) for match in _BLOB.finditer(visible)):
        results.append("contains a run of unreadable characters")
    return tuple(results)


@cache
def _patterns() -> tuple[tuple[str, re.Pattern[str]], ...]:
    # Compiled at first use: few processes need them, and it would slow down every start.
    return tuple((fault, re.compile(pattern)) for fault, pattern in _RULES.items())


def _is_blob(run: str) -> bool:
    digits = sum(character.isdigit() for character in run)
    mixed = any(map(str.isupper, run)) and any(map(str.islower, run))
    hexadecimal = not run.strip("0123456789abcdefABCDEF") and len(run) > 64
    return hexadecimal or (mixed and digits > 0)


def _name_faults(text: str, others: Container[str]) -> Iterator[str]:
    names = sorted(name for name in {match[0].replace("-", "_") for match in _NAME.finditer(text)} if name in others)
    if names:
        yield f"names tools of other packs ({', '.join(names[:5])})"
