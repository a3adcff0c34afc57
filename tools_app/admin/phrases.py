"""Sentences that code below writes in English, in the language of the page.

Imports, documents and checks give their reasons as text, which the shell and REST show as it is. Here is how each of
them is recognised and translated, with what it names. A new reason is added here; a test compares them with the code.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache
from typing import Final

from django.utils.translation import get_language, gettext
from django.utils.translation import gettext_noop as _noop

MOST_CHARACTERS: Final = 1_000
# `why` is a reason itself. Of two that fit, the first counts.
PHRASES: Final = (
    # Imports: what a server becomes, and why not.
    _noop("it is this hub"),
    _noop("source %(name)s has the same origin"),
    _noop("values are missing: %(names)s"),
    _noop("the name %(name)s is given to another server"),
    _noop("no name is free for it: choose one"),
    _noop("it is not an object with a command or URL"),
    _noop("it has neither a command nor a URL"),
    _noop("its type %(type)s is not known"),
    _noop("its args are not a list"),
    _noop("its %(part)s are not an object"),
    _noop("its %(part)s contain something else than texts"),
    _noop("%(name)s has more than %(number)s characters"),
    _noop("it speaks HTTP+SSE of 2024, which the hub does not: use its streamable HTTP address"),
    _noop("it speaks HTTP+SSE of 2024, which the hub does not"),
    _noop(
        "a placeholder in its command is a secret, and every user of the machine can read arguments: give "
        "it as a variable of the program (env)"
    ),
    _noop("a placeholder in its URL is a secret: give it as a header"),
    _noop("it has secrets both in its URL and in headers, and a connection has one form"),
    _noop("a quotation mark in its command is not closed"),
    _noop("it runs a line of a shell: name the program itself, or add it with `toolhub source add` if you trust it"),
    _noop("a header of mcp-remote is not built as Name: value"),
    _noop("the hub does not know the option %(option)s of mcp-remote"),
    _noop("the hub connects to the URL itself, without mcp-remote"),
    _noop("not known, and not imported: %(names)s"),
    _noop("%(name)s is empty, and left out"),
    _noop("the hub sets the header %(name)s itself"),
    _noop("it contains `${` that is no placeholder"),
    _noop("%(name)s must be one of %(choices)s"),
    _noop("the hub cannot replace ${%(name)s}: write its value in its place"),
    _noop("it refers to ${%(name)s}, a variable of this hub, which is not sent to servers"),
    _noop("it has neither a package over stdio nor a remote URL"),
    _noop("the hub derives no command for packages of the type %(type)s"),
    _noop("it is in a package registry of its own, which the hub does not use"),
    _noop("its package has no single version"),
    _noop("its image has no version"),
    _noop("the name of its package is not valid"),
    _noop("the hub does not check the hash of the package, which the runner installs"),
    _noop("it asks for the option %(option)s of its runner: add it with `toolhub source add`"),
    _noop("the name of one of its options is not valid"),
    _noop("one of its values contains `${`"),
    _noop("the name or default of one of its inputs is not valid"),
    _noop("it is not built as the registry's format says"),
    _noop("one of its lists has more than %(number)s items"),
    _noop("its %(part)s is not a text"),
    _noop("it is also a package, which can be added as a command instead"),
    _noop("servers of single projects in it are not read; number of projects with servers: %(number)s"),
    _noop("a variable is named with letters, digits and underscores, and does not begin with a digit"),
    _noop("variables of the hub are not for child processes"),
    _noop("it can make a program run other code; such options belong to the command of the source"),
    _noop("the hub starts programs in a directory of its own (cwd): use absolute paths"),
    _noop("envFile is not read: add its variables to the connection of the source"),
    _noop("headersHelper is not run: add the headers as a connection"),
    _noop("the settings for signing in (oauth) are not imported"),
    _noop("the settings for signing in (auth) are not imported"),
    _noop("the sandbox of the client does not apply: the program runs as the user of the hub"),
    # Commands.
    _noop("%(program)s: the server would run with other rights than the hub."),
    _noop("%(program)s: a shell interprets the rest; name the program itself, with its arguments."),
    _noop("npx: add -y, or it waits for an answer before it installs the package."),
    _noop("%(program)s: %(package)s has no version; write %(example)s."),
    _noop("%(program)s run: add %(options)s, or the container gets no input."),
    _noop("%(program)s run: add %(options)s, or the container is left behind after it exits."),
    # OpenAPI: why an operation is no tool, and what to know of one.
    _noop("its path does not begin with /"),
    _noop("TRACE answers with the request, and so with its credentials"),
    _noop("its path has a query (?), which belongs into parameters"),
    _noop("its path has blanks, or characters that are not printable"),
    _noop("its path is too long, or cannot be stored"),
    _noop("it is not an object"),
    _noop("it cannot be read (%(error)s)"),
    _noop("the definitions before it are too large together; select fewer operations"),
    _noop("a parameter is not an object"),
    _noop("a parameter has no name or no place (in)"),
    _noop("a parameter cannot be read: %(why)s"),
    _noop("it has more than %(number)s parameters"),
    _noop("its body is %(types)s; of multipart, only form-data is supported"),
    _noop("Its body is not sent as %(types)s: of multipart, only form-data is supported."),
    _noop("its body cannot be read: %(why)s"),
    _noop("its body is not an object"),
    _noop("its body is required and has no media type"),
    _noop("the parameter %(name)s cannot be read: %(why)s"),
    _noop("the parameter %(name)s is sent as a cookie, which is not supported"),
    _noop("the parameter %(name)s is in %(place)s, which OpenAPI 3 does not have"),
    _noop("the parameter %(name)s has the style %(style)s, which is not supported"),
    _noop("the parameter %(name)s has a name that no header can have"),
    _noop("the parameter %(name)s has a name that cannot be stored"),
    _noop("The optional parameter %(name)s is left out: it is sent as a cookie, which is not supported."),
    _noop("The optional parameter %(name)s is left out: it is in %(place)s, which OpenAPI 3 does not have."),
    _noop("The optional parameter %(name)s is left out: it has the style %(style)s, which is not supported."),
    _noop("The optional parameter %(name)s is left out: it has a name that no header can have."),
    _noop("The optional parameter %(name)s is left out: it has a name that cannot be stored."),
    _noop("a reference that is not a text"),
    _noop("a reference that leads back to itself"),
    _noop("The document says that it is deprecated."),
    _noop("Its path has #%(fragment)s, which is never sent."),
    _noop("It needs the security scheme %(name)s, which is not declared."),
    _noop("Its path has {%(name)s}, which is not declared: it is a text."),
    _noop("The parameter %(name)s is not in its path."),
    _noop("The parameter %(name)s is called %(argument)s, as clients refuse its name."),
    _noop("Its body is sent as %(type)s; the service also accepts %(others)s."),
    _noop("It has callbacks, which this hub does not receive."),
    _noop("It has a schema that refers to itself; some clients cannot read those."),
    _noop("Its schemas are large: only their upper levels are listed."),
    _noop("A schema is missing: %(why)s."),
    _noop("A property has a name that cannot be listed."),
    _noop("The document has %(number)s webhooks, which this hub does not receive."),
    _noop("The document has no paths, and so no operations."),
    _noop("The document is OpenAPI %(version)s: what is new since 3.1 is ignored."),
    _noop("%(name)s is not in the document"),
    _noop("%(name)s is in another document, and references to those are not followed"),
    # What clients do not accept.
    _noop("%(client)s refuses the tool, or the whole list: %(why)s"),
    _noop("%(client)s refuses the whole list: %(why)s"),
    _noop("%(client)s leaves the tool out, or refuses the whole list: %(why)s"),
    _noop("%(client)s refuses the request: %(why)s"),
    _noop("%(client)s refuses the list, or does not see the structure of the parameter: %(why)s"),
    _noop("%(client)s leaves the tool out: %(why)s"),
    _noop("%(client)s warns, and may leave tools out: %(why)s"),
    _noop("%(client)s leaves the tool out"),
    _noop("%(client)s warns, and may leave tools out"),
    _noop("%(number)s tools are more than %(most)s"),
    _noop("the name has %(number)s characters with the %(added)s that it adds, of at most %(most)s"),
    _noop("the name has %(number)s characters, of at most %(most)s"),
    _noop("%(number)s of its parameters have names with other characters than A-Z a-z 0-9 _ . -"),
    _noop("its parameters have %(keywords)s at the top level"),
    _noop("its parameters refer to definitions ($ref)"),
    _noop("%(client)s refuses the tool, or the whole list"),
    _noop("%(client)s refuses the whole list"),
    _noop("%(client)s leaves the tool out, or refuses the whole list"),
    _noop("%(client)s refuses the request"),
    _noop("%(client)s refuses the list, or does not see the structure of the parameter"),
    # Findings in the wording of tools.
    _noop("the definition had invisible characters, which agents do not see"),
    _noop("the title %(why)s"),
    _noop("the description of parameter %(name)s %(why)s"),
    _noop("the values of parameter %(name)s %(why)s"),
    _noop("the description of an example %(why)s"),
    _noop("the description %(why)s"),
    _noop("the note of deprecation %(why)s"),
    _noop("the keywords %(why)s"),
    _noop("has more than %(number)s lines"),
    _noop("has more than %(number)s characters"),
    _noop("has invisible characters"),
    _noop("contains a run of unreadable characters"),
    _noop("speaks in the marks of a system prompt (%(quote)s)"),
    _noop("tells agents to set aside what they were told (%(quote)s)"),
    _noop("asks to keep something from people (%(quote)s)"),
    _noop("gives agents orders about other tools (%(quote)s)"),
    _noop("gives agents orders beyond itself (%(quote)s)"),
    _noop("reaches for secrets (%(quote)s)"),
    _noop("asks for what was said before (%(quote)s)"),
    _noop("asks to send things elsewhere (%(quote)s)"),
    _noop("holds a key or password (%(quote)s)"),
    _noop("names tools of other packs (%(names)s)"),
)
_NAMES: Final = re.compile(r"%\((\w+)\)s")


def spoken(text: str) -> str:
    """The text in the language of the page. What is not known stays as it is."""
    if (get_language() or "en").partition("-")[0] == "en":
        return text
    return _translated(text) or text


def all_spoken(texts: Iterable[str]) -> list[str]:
    return [spoken(text) for text in texts]


def _translated(text: str) -> str:
    """Empty: nothing in it is known."""
    if len(text) > MOST_CHARACTERS:
        return ""
    if whole := _reason(text):
        return whole
    parts = text.split("; ")
    reasons = [_reason(part) for part in parts]
    return "; ".join(reason or part for reason, part in zip(reasons, parts, strict=True)) if all(reasons) else ""


def _reason(text: str, depth: int = 2) -> str:
    """A phrase, or one after the name of what it is about. Empty: it is neither."""
    for phrase, pattern in _patterns():
        if (match := pattern.fullmatch(text)) is not None:
            parts = match.groupdict()
            if depth and "why" in parts:
                parts["why"] = _reason(parts["why"], depth - 1) or parts["why"]
            return gettext(phrase) % parts
    subject, mark, rest = text.partition(": ")
    reason = _reason(rest, depth - 1) if mark and depth else ""
    return f"{subject}{mark}{reason}" if reason else ""


@cache
def _patterns() -> tuple[tuple[str, re.Pattern[str]], ...]:
    return tuple((phrase, _pattern(phrase)) for phrase in PHRASES)


def _pattern(phrase: str) -> re.Pattern[str]:
    parts = _NAMES.split(phrase)
    text = "".join(f"(?P<{part}>.+?)" if number % 2 else re.escape(part) for number, part in enumerate(parts))
    return re.compile(text, re.DOTALL)
