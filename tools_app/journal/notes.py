"""What the journal says of one call: fills its row and writes it, at most twice."""

from __future__ import annotations

import hashlib
import secrets
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from tools_app.base import conf
from tools_app.catalog.entry import Entry
from tools_app.journal.failures import failure, storable
from tools_app.journal.journal import Journal
from tools_app.journal.rows import Failure, Reply
from tools_app.journal.writer import JournalEntry
from tools_app.models import Call, IdempotencyKey
from tools_app.models.audit import address_of_request
from tools_app.sdk.context import Caller
from tools_app.sdk.errors import ToolError
from tools_app.sdk.hub_errors import IdempotencyInProgressError
from tools_app.sdk.spec import Kind
from tools_app.text import redaction

if TYPE_CHECKING:
    from tools_app.http import ApiClient

# How much is stored of arguments and answers, depending on TOOLHUB_PAYLOADS.
MOST_REDACTED: Final = 2 * 1024
MOST_FULL: Final = 64 * 1024
_PROGRESS: Final = (Call.Sent.UNKNOWN, Call.Sent.NO, Call.Sent.MAYBE, Call.Sent.YES)
_DEFAULTS: Final[dict[str, Any]] = {field.attname: field.get_default() for field in Call._meta.concrete_fields}


class CallNotes:
    def __init__(self, journal: Journal, name: str, caller: Caller, door: str, *, quiet: bool) -> None:
        """`quiet`: only a failure is recorded."""
        self.quiet = quiet
        # True once its first row has been sent to the database, and once its end has.
        self.is_begun = False
        self.is_ended = False
        # The budgets that it counts for; none until they have been checked.
        self.counts_for: tuple[str, ...] = ()
        # The HTTP client of this call, which measures the upstream's time.
        self.upstream: ApiClient | None = None
        self._journal = journal
        self._received_at = time.monotonic()
        values: dict[str, Any] = {
            # A call that is not recorded has no id to search for.
            "id": "" if quiet else secrets.token_hex(16),
            # A caller may send anything as a name.
            "tool_name": storable(redaction.redacted_beginning(str(name), 1000), 100),
            "door": door,
            "caller_kind": caller.kind,
            "caller_id": caller.id,
            "caller_name": storable(caller.name, 150),
            "address": address_of_request(),
            "status": Call.Status.STARTED,
            "attempts": 0,
            "process_id": journal.process_id,
            "started_at": datetime.now(UTC),
        }
        # By position: by name, Django takes three times as long.
        in_order: Any = (_DEFAULTS | values).values()
        self.call = Call(*in_order)

    def resolved(self, entry: Entry) -> None:
        call = self.call
        call.tool_name, call.tool_version = entry.name, entry.version
        call.definition_hash = entry.definition_hash if entry.spec.kind is not Kind.COMPLETION else ""
        if entry.source_epoch:
            call.source, call.source_epoch = entry.source_name, entry.source_epoch

    def forwarded(self, entry: Entry, through: Entry) -> None:
        """Switch to another tool, and discard what was recorded for the one it was called through."""
        self.call.tool_name, self.call.via = entry.name, through.name
        self.call.tool_version = self.call.definition_hash = ""
        self.received(0, "")

    def received(self, size: int, arguments: str) -> None:
        self.call.argument_bytes, self.call.arguments = size, arguments

    async def attempt(self, number: int, claim: IdempotencyKey | None, *, first: bool) -> None:
        """An attempt begins. `first`: the call is recorded first, before it can change anything.

        Raises:
            IdempotencyInProgressError: another call has claimed the key.
            StorageBusyError
        """
        if first and not self.is_begun:
            self.is_begun = True
            if not await self._journal.write(JournalEntry(call=self.call, claim=claim)):
                self.is_begun = False
                raise IdempotencyInProgressError
        if number == 1:
            self.call.queued_ms = self._milliseconds()
        self.call.attempts = number

    def sent(self, sent: str, session: str) -> None:
        """Of several attempts, the one that got furthest counts."""
        if _PROGRESS.index(sent) >= _PROGRESS.index(self.call.sent):
            self.call.sent, self.call.upstream_session = sent, storable(session, 64)

    def answered(self, size: int, text: str, value: Any) -> None:
        self.call.result_bytes = size
        self.call.result_hash = hashlib.sha256(text.encode()).hexdigest()
        if conf.value("TOOLHUB_PAYLOADS") == "full":
            self.call.result = payload(value)

    def failed(self, error: ToolError, *, is_logged: bool) -> Failure | None:
        """Note an error, and give it the id of its entry in the error log, which is returned if there is none yet.

        `is_logged`: whether there is one. Calls that were refused before they ran have none.
        """
        call = self.call
        call.code, call.error = error.code, storable(redaction.redacted_text(error.message), 1000)
        if not is_logged:
            return None
        if error.error_id is not None:
            # Already in the error log: this call got the error of another call's run.
            call.error_id = error.error_id
            return None
        call.error_id = secrets.token_hex(16)
        return failure(error, call.error_id, call)

    def count_refusal(self) -> bool:
        """True if this refusal is counted in an existing row, whose id the call takes."""
        self.stop(Call.Status.REFUSED)
        if (row := self._journal.count_refusal(self.call)) is not None:
            self.call.id = row.id
        return row is not None

    def stop(self, status: Call.Status) -> None:
        call = self.call
        call.status, call.finished_at, call.duration_ms = status, datetime.now(UTC), self._milliseconds()
        if self.upstream is not None and self.upstream.seconds:
            call.upstream_ms = round(self.upstream.seconds * 1000)

    async def end(self, failure_rows: Failure | None = None, reply: Reply | None = None) -> None:
        """Raises: StorageBusyError; the end is queued, and will be written when possible."""
        if reply is not None:
            reply = await self._journal.replies.applied(reply)
        self.is_ended = True
        entry = JournalEntry(self.call, failure_rows, known=self.is_begun, reply=reply, counts_for=self.counts_for)
        await self._journal.write(entry)

    def post(self, failure_rows: Failure | None, *, with_call: bool = False) -> None:
        """Write later, without waiting."""
        self._journal.post(JournalEntry(self.call if with_call else None, failure_rows, known=with_call))

    def _milliseconds(self) -> int:
        """Milliseconds since the call was received."""
        return round((time.monotonic() - self._received_at) * 1000)


def payload(value: Any, text: str = "") -> str:
    """The part of arguments or of an answer that the operator wants stored, redacted. `text`: its JSON, if known."""
    mode = conf.value("TOOLHUB_PAYLOADS")
    if mode == "none":
        return ""
    return redaction.summary(value, MOST_FULL if mode == "full" else MOST_REDACTED, text)
