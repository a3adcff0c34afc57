"""Compares answers with what documents declare for them, after each call. A difference changes no answer: operators are
told of it (docs/decisions/0064).

What is stored has places and types, and no values of an answer.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from itertools import chain
from types import SimpleNamespace
from typing import Any, Final

from django.db import DatabaseError, transaction
from django.db.models import F
from django.utils import timezone
from jsonschema_rs import ValidationError
from jsonschema_rs import ValidationErrorKind as Kind

from tools_app.base import database
from tools_app.models import AnswerFinding, Source, SourceDocument
from tools_app.models.documents import MOST_DIFFERENCE
from tools_app.sdk import content, heavy
from tools_app.sdk.errors import shortened
from tools_app.sdk.outside import Origin
from tools_app.sdk.schemas import Schema, SchemaError, compiled, parts_of, pointer
from tools_app.sources.documents import declared_answers
from tools_app.text import hygiene

log = logging.getLogger("tools_app.upstream")

# A larger answer is not compared.
MOST_BYTES: Final = 64 * 1024
# Answers that wait to be compared. What comes while there are more is not.
MOST_WAITING: Final = 50
# Operations whose declared answers are in memory, and how long they are.
MOST_DECLARED: Final = 500
DECLARED_SECONDS: Final = 300.0
# Operations of one source that have findings.
MOST_FINDINGS: Final = 100
# How often the finding of an operation is written, after the first time.
WRITE_SECONDS: Final = 60.0
# An answer that is no JSON. It is small, as `heavy` measures.
NO_JSON: Final = SimpleNamespace()
# Source at one moment, method and path.
_Key = tuple[Origin, str]


@dataclass(frozen=True, slots=True)
class Answer:
    """A successful answer to a call of an operation."""

    origin: Origin
    # Method and path.
    operation: str
    status: int
    # As the service names it; None: there is no content.
    media_type: str | None
    # JSON, or NO_JSON. Nothing changes it.
    value: Any


class Declared:
    """What a document declares for one status. Compiled once."""

    def __init__(self, about: Mapping[str, Any]) -> None:
        self._is_json: bool = about.get("json", False)
        self._validator: Any = None
        schema: Schema | None = about.get("schema")
        if schema is None:
            return
        try:
            self._validator = compiled(schema)
        except SchemaError:
            # It cannot be checked, as with a pattern that needs backtracking.
            return
        bodies = [part.body for part in parts_of(schema)]
        # Other names in an answer can be values, such as the keys of a map.
        self._names = frozenset(chain.from_iterable(_properties(body) for body in bodies))

    def difference(self, answer: Answer) -> str:
        """How an answer deviates; empty if it does not."""
        if answer.value is NO_JSON:
            return f"{_media_type(answer)} instead of JSON" if self._is_json else ""
        if self._validator is None or self._validator.is_valid(answer.value):
            return ""
        try:
            self._validator.validate(answer.value)
        except ValidationError as error:
            return self._in_words(error)
        return ""

    def _in_words(self, error: ValidationError) -> str:
        names = (step if step in self._names else "*" for step in error.instance_path)
        place = shortened(pointer([shortened(str(name)) for name in names]) or "/", 150)
        found = _type_of(error.instance)
        match error.kind:
            case Kind.Type(types=types):
                return f"{place}: {found} instead of {' or '.join(sorted(types))}"
            case Kind.Required(property=name):
                return f"{place}: the property {shortened(name)} is missing"
            case Kind.AdditionalProperties() | Kind.UnevaluatedProperties():
                return f"{place}: a property that is not declared"
            case Kind.AnyOf() | Kind.OneOfNotValid() | Kind.OneOfMultipleValid():
                return f"{place}: {found} that does not match exactly one of the alternatives"
            case kind:
                return f"{place}: {found} that violates {kind.name}"


def _properties(body: Schema) -> Sequence[str]:
    return [*body.get("properties", ()), *body.get("required", ())]


def _type_of(value: Any) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "boolean"
        case int():
            return "integer"
        case float():
            return "number"
        case str():
            return "string"
    return "array" if isinstance(value, list) else "object"


def _media_type(answer: Answer) -> str:
    if answer.media_type is None:
        return "no content"
    return answer.media_type if content.MEDIA_TYPE.fullmatch(answer.media_type) else "another media type"


@dataclass(slots=True)
class _Declaration:
    """What a document declares for the answers of one operation."""

    # Of document and selection: a finding is stored only while they are the same.
    made_of: str
    # None: the operation is not among them.
    statuses: Mapping[str, Declared] | None
    read_at: float

    def difference(self, answer: Answer) -> str:
        if not self.statuses:
            # Without any, nothing is said about answers.
            return ""
        for status in (str(answer.status), f"{answer.status // 100}XX", "default"):
            if (declared := self.statuses.get(status)) is not None:
                return declared.difference(answer)
        return f"HTTP {answer.status} is not declared"


@dataclass(slots=True)
class _Finding:
    """Deviating answers of one operation that are not written yet."""

    made_of: str
    first_at: datetime
    last_at: datetime
    status: int = 0
    difference: str = ""
    count: int = 0
    # The next time, of `time.monotonic`.
    write_at: float = 0.0


class Findings:
    """Answers are noted on the event loop of calls, and compared after these by one task."""

    def __init__(self) -> None:
        self._waiting: deque[Answer] = deque()
        self._declarations: dict[_Key, _Declaration] = {}
        self._findings: dict[_Key, _Finding] = {}
        self._task: asyncio.Task[None] | None = None

    def note(self, answer: Answer) -> None:
        """Have an answer compared soon. Takes microseconds."""
        if len(self._waiting) >= MOST_WAITING:
            return
        self._waiting.append(answer)
        loop = asyncio.get_running_loop()
        if self._task is None or self._task.done() or self._task.get_loop() is not loop:
            self._task = loop.create_task(self._compare_all())

    async def close(self) -> None:
        """Compare and write what is left. On any event loop."""
        if self._task is not None and self._task.get_loop() is asyncio.get_running_loop():
            await asyncio.wait([self._task])
        await self._compare_all()
        for key in [key for key, finding in self._findings.items() if finding.count]:
            # A hub ends without its database, too.
            with suppress(DatabaseError):
                await self._write(key)

    async def _compare_all(self) -> None:
        while self._waiting:
            try:
                answer = self._waiting.popleft()
                # Again if the document or the selection has changed since it was read.
                await self._is_compared(answer) or await self._is_compared(answer)
            except Exception as error:  # Whatever a stranger sends must not cost the comparison of other answers.
                log.warning("an answer cannot be compared with its document: %s", type(error).__name__, exc_info=True)

    async def _is_compared(self, answer: Answer) -> bool:
        """False: what it was compared with no longer applies."""
        key = answer.origin, answer.operation
        declaration = await self._declaration(key)
        if difference := await heavy.by_size(answer.value, declaration.difference, answer):
            now = timezone.now()
            finding = self._findings.get(key)
            if finding is None or finding.made_of != declaration.made_of:
                finding = self._findings[key] = _Finding(declaration.made_of, now, now)
            finding.status, finding.difference = answer.status, hygiene.cleaned(difference)[:MOST_DIFFERENCE]
            finding.first_at = finding.first_at if finding.count else now
            finding.last_at, finding.count = now, finding.count + 1
            if time.monotonic() >= finding.write_at:
                return await self._write(key)
        return True

    async def _declaration(self, key: _Key) -> _Declaration:
        declaration = self._declarations.pop(key, None)
        if declaration is None or time.monotonic() - declaration.read_at > DECLARED_SECONDS:
            declaration = await database.run(_read, *key)
            while len(self._declarations) >= MOST_DECLARED:
                oldest = next(iter(self._declarations))
                del self._declarations[oldest]
                self._findings.pop(oldest, None)
        self._declarations[key] = declaration
        return declaration

    async def _write(self, key: _Key) -> bool:
        """Add a finding to what is stored. False: the source, its document or the selection is another one by now."""
        finding = self._findings[key]
        finding.write_at = time.monotonic() + WRITE_SECONDS
        count, finding.count = finding.count, 0
        if not (is_added := await database.run(_add, *key, finding, count)):
            self._declarations.pop(key, None)
            self._findings.pop(key, None)
        return is_added


def _read(origin: Origin, operation: str) -> _Declaration:
    row = SourceDocument.objects.filter(source__name=origin.name).values_list("answers_of", "answers").first()
    made_of, packed = row or ("", None)
    answers = declared_answers(bytes(packed), operation) if packed else None
    statuses = None if answers is None else {status: Declared(about) for status, about in answers.items()}
    return _Declaration(made_of, statuses, time.monotonic())


def _add(origin: Origin, operation: str, finding: _Finding, count: int) -> bool:
    """Add to what is stored of an operation. False: the finding is about what was declared, or cleared, before."""
    with transaction.atomic():
        # The lock is against another process that adds the first one, too.
        documents = SourceDocument.objects.select_for_update(of=("self",)).filter(answers_of=finding.made_of)
        sources = Source.objects.filter(name=origin.name, epoch=origin.epoch, reconnects=origin.reconnects)
        document_id = documents.filter(source__in=sources).values_list("pk", flat=True).first()
        if document_id is None:
            return False
        rows = AnswerFinding.objects.filter(document_id=document_id)
        latest = {"status": finding.status, "difference": finding.difference, "last_at": finding.last_at}
        is_known = rows.filter(operation=operation).update(count=F("count") + count, **latest)
        if not is_known and rows.count() < MOST_FINDINGS:
            rows.create(document_id=document_id, operation=operation, count=count, first_at=finding.first_at, **latest)
    return True
