"""Answers larger than the budget of their call: stored in full, and replaced by an outline."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

from tools_app import answers as parts
from tools_app.answers import Document, PageRequest, pointers
from tools_app.base import conf, database
from tools_app.catalog import catalog
from tools_app.catalog.entry import READER, Entry
from tools_app.engine.answers import Answer
from tools_app.journal.writer import PATIENCE
from tools_app.models import StoredAnswer
from tools_app.models.idempotency import REPLAYED_FOR
from tools_app.sdk import heavy
from tools_app.sdk.checker import MAX_PROBLEMS, meant
from tools_app.sdk.context import Caller, Kept, NotKeptError
from tools_app.sdk.errors import InvalidArgumentsError, Problem, shortened
from tools_app.sdk.hub_errors import AnswerNotFoundError, StorageBusyError
from tools_app.sdk.spec import FIELDS, ToolSpec
from tools_app.shelf import storage
from tools_app.text.budget import written

log = logging.getLogger("tools_app.calls")

# Pages are usually read one after the other: the last document stays in memory for this long.
_HELD_SECONDS: Final = 30.0


class Shelf:
    """Reads stored answers. Used on one event loop."""

    def __init__(self) -> None:
        # The last document: a caller usually reads page after page, and parsing takes longer than reading a page.
        self._last: tuple[str, Document] | None = None
        self._eviction: asyncio.TimerHandle | None = None

    def for_call(
        self, entry: Entry, caller: Caller, call_id: str, tokens: int, fields: Sequence[str] = ()
    ) -> AnswersOfCall:
        """`fields`: the parts of the answer that the caller asked for; empty: all.

        Raises:
            InvalidArgumentsError: one of them is no path.
        """
        try:
            if fields:
                parts.check_paths(fields)
        except parts.SelectionError as error:
            raise _wrong_fields(str(error)) from error
        return AnswersOfCall(self, entry, caller, call_id, tokens, fields)

    def contents(self, handles: Collection[str], caller_id: str) -> Iterator[tuple[str, bytes, bool]]:
        """For threads."""
        return storage.contents(handles, caller_id) if handles else iter(())

    async def page(
        self, caller: Caller, handle: str, request: PageRequest, most_bytes: int
    ) -> tuple[dict[str, Any], bool]:
        """A page, and whether it may contain text from outside the hub.

        Raises:
            AnswerNotFoundError, InvalidArgumentsError, StorageBusyError
        """
        document, passes_on = await self.document(caller, handle)
        try:
            page = await heavy.in_turn(caller.id, parts.page, document, request, handle=handle, most_bytes=most_bytes)
        except parts.PageError as error:
            raise InvalidArgumentsError(problems=[Problem(f"/{error.field}", str(error))]) from error
        return page, passes_on

    async def document(self, caller: Caller, handle: str) -> tuple[Document, bool]:
        """A whole answer, and whether it may contain text from outside the hub.

        Raises:
            AnswerNotFoundError, StorageBusyError
        """
        last = self._last
        try:
            is_other = not last or last[0] != handle
            answer = await database.run_within(PATIENCE, storage.find, handle, caller, with_content=is_other)
        except TimeoutError as error:
            raise StorageBusyError(detail=error) from error
        entry = (await catalog.fresh()).seen_by(caller).find(answer.tool_name)
        if entry is None or not entry.callable:
            # A caller that may not call the tool any more cannot read its answers either.
            raise AnswerNotFoundError.of(handle)
        passes_on = entry.spec.passes_on
        if last is not None and last[0] == handle:
            return last[1], passes_on
        document = await heavy.in_turn(caller.id, _open, answer)
        self._hold(handle, document)
        return document, passes_on

    def _hold(self, handle: str, document: Document) -> None:
        if self._eviction is not None:
            self._eviction.cancel()
        self._last = handle, document
        self._eviction = asyncio.get_running_loop().call_later(_HELD_SECONDS, self._drop)

    def _drop(self) -> None:
        self._last = None


@dataclass(slots=True)
class AnswersOfCall:
    """The stored answers of one caller: read in pages that fit one call, which adds its own."""

    shelf: Shelf
    entry: Entry
    caller: Caller
    call_id: str
    tokens: int
    fields: Sequence[str] = ()
    # True if a page that was read contains untrusted content.
    untrusted: bool = False

    async def page(self, handle: str, request: PageRequest) -> dict[str, Any]:
        page, passes_on = await self.shelf.page(self.caller, handle, request, parts.bytes_of(self.tokens))
        self.untrusted = self.untrusted or passes_on
        return page

    async def value(self, handle: str) -> Any:
        document, passes_on = await self.shelf.document(self.caller, handle)
        self.untrusted = self.untrusted or passes_on
        return document.value

    async def keep(self, value: Any, *, hours: float = 0) -> Kept:
        # ASCII, since text may contain unpaired surrogates.
        content = await asyncio.to_thread(lambda: json.dumps(value).encode())
        seconds = _seconds_stored()
        answer = await self._store(content, seconds and max(seconds, hours * 3600))
        return Kept(answer.pk, answer.expires_at)

    async def fitted(self, answer: Answer, is_replayable: bool) -> Answer:
        """The parts of the answer that were asked for, or their outline if they are above the token budget of the call.

        Raises:
            InvalidArgumentsError: the answer does not have them. Of a tool that wrote, it says so instead.
        """
        if self.fields:
            answer = await heavy.in_turn(self.caller.id, _selected, self.entry, answer, self.fields)
        if answer.size_to_send <= parts.bytes_of(self.tokens):
            return answer
        if answer.content is not None and len(answer.text.encode()) <= parts.bytes_of(self.tokens):
            return answer  # Images and audio are not read as text.
        document, content, is_text = await heavy.in_turn(self.caller.id, _prepared, self.entry.spec, answer)
        about = document, len(content), self.tokens
        try:
            row = await self._store_readable(content, is_text=is_text, is_replayable=is_replayable)
        except NotKeptError as error:
            log.info("[%s] Answer of %d bytes outlined, not stored: %s", self.entry.name, len(content), error)
            outline = await heavy.in_turn(self.caller.id, parts.outline_alone, *about, str(error))
        else:
            log.info("[%s] Answer of %d bytes outlined and stored", self.entry.name, len(content))
            outline = await heavy.in_turn(
                self.caller.id, parts.outline, *about, handle=row.pk, expires_at=row.expires_at
            )
        return _replaced(self.entry.spec, answer, outline)

    async def _store_readable(self, content: bytes, *, is_text: bool, is_replayable: bool) -> StoredAnswer:
        """Raises: NotKeptError."""
        seconds = _seconds_stored()
        if seconds and not await self._can_read():
            raise NotKeptError(f"{READER} cannot be called here")
        if seconds and is_replayable:
            seconds = max(seconds, REPLAYED_FOR.total_seconds())
        return await self._store(content, seconds, is_text=is_text)

    async def _can_read(self) -> bool:
        try:
            reader = (await catalog.fresh()).seen_by(self.caller).find(READER)
        except StorageBusyError:
            return True  # Nothing can be stored now either; that is the error to report.
        return reader is not None and reader.callable

    async def _store(self, content: bytes, seconds: float, *, is_text: bool = False) -> StoredAnswer:
        """Raises: NotKeptError."""
        if not seconds:
            raise NotKeptError("this hub keeps no answers")
        keep = partial(storage.keep, caller=self.caller, tool=self.entry.name, call_id=self.call_id)
        try:
            return await database.run_within(PATIENCE, keep, content, is_text=is_text, seconds=seconds)
        except TimeoutError as error:
            raise NotKeptError("the hub's database does not answer") from error


def _seconds_stored() -> float:
    """How long answers are stored; 0: not at all."""
    return float(conf.value("TOOLHUB_ANSWER_SECONDS")) if conf.value("TOOLHUB_ANSWERS_BYTES") else 0.0


def _selected(entry: Entry, answer: Answer, fields: Sequence[str]) -> Answer:
    """Raises: InvalidArgumentsError."""
    data = _data_of(entry.spec, answer)
    if not isinstance(data, dict | list):
        if entry.hints.writes:
            return replace(answer, remark="The answer is text: it has no fields.")
        raise _wrong_fields("the answer is text, which has no parts: omit it")
    part, missing = parts.selected(data, fields)
    if missing and not entry.hints.writes:
        raise InvalidArgumentsError(problems=[_missing_field(one) for one in missing[:MAX_PROBLEMS]])
    remark = " ".join(f"Not in the answer: {shortened(one.path)}." for one in missing[:MAX_PROBLEMS])
    structured = part if isinstance(part, dict) else None
    if answer.content is not None:
        text = written(part)
        pieces = [{"type": "text", "text": text}, *filter(_is_media, answer.content)]
        size = len(written(pieces).encode())
        return replace(answer, value=pieces, text=text, structured=structured, size=size, content=pieces, remark=remark)
    value = {**answer.value, "data": part} if entry.spec.done else part
    text = written(value)
    size = len(text.encode())
    return replace(answer, value=value, text=text, structured=structured, size=size, marks=False, remark=remark)


def _data_of(spec: ToolSpec, answer: Answer) -> Any:
    """What the tool answered, as JSON if it can be read as that."""
    if answer.content is not None:
        data: Any = answer.structured if answer.structured is not None else answer.text
    else:
        data = answer.value["data"] if spec.done else answer.value
    if isinstance(data, str):
        document = parts.opened(data.encode(), text=True)
        return document.value if document.kind != "text" else data
    return data


def _missing_field(missing: parts.Missing) -> Problem:
    names = [name for name in missing.names if parts.is_plain(name) or name == "*"]
    known = f"one of: {', '.join(names)}" if names else "nothing below it"
    near = meant(missing.name, names)
    hint = f"{pointers.joined(missing.reached, near)}, or {known}" if near else known
    place = f" after {shortened(missing.reached)}" if missing.reached else ""
    return Problem(f"/{FIELDS}", f"{shortened(missing.path)} is not in the answer{place}: expected {hint}", hint)


def _wrong_fields(reason: str) -> InvalidArgumentsError:
    message = f"Invalid value for parameter {FIELDS}: {reason}"
    return InvalidArgumentsError(problems=[Problem(f"/{FIELDS}", message, "paths like /items/*/id")])


def _prepared(spec: ToolSpec, answer: Answer) -> tuple[Document, bytes, bool]:
    """The document to outline, the content to store, and whether that is text."""
    if answer.content is not None:
        data: Any = answer.text
    else:
        data = answer.value["data"] if spec.done else answer.value
    is_json = data is answer.value and not spec.formats_text
    text = answer.text if is_json or isinstance(data, str) else written(data)
    return parts.beginning_of(data), (data if isinstance(data, str) else text).encode(), isinstance(data, str)


def _open(answer: StoredAnswer) -> Document:
    return parts.opened(storage.content_of(answer), text=answer.is_text)


def _replaced(spec: ToolSpec, answer: Answer, outline: dict[str, Any]) -> Answer:
    """The answer with its data replaced by the outline."""
    if answer.content is None:
        value = {**answer.value, "data": outline} if spec.done else outline
        text = written(value)
        size = len(text.encode())
        return Answer(value, text, outline, size, untrusted=answer.untrusted, left_out=answer.left_out)
    text = written(outline)
    pieces = [{"type": "text", "text": text}, *filter(_is_media, answer.content)]
    size = len(written(pieces).encode())
    return Answer(pieces, text, None, size, pieces, untrusted=answer.untrusted, left_out=answer.left_out)


def _is_media(piece: dict[str, Any]) -> bool:
    return "data" in piece or "blob" in piece.get("resource", ())
