"""Errors by which the hub refuses or interrupts a call: stops, approvals, limits, shutdown, idempotency keys.

Authors of tools raise none of these; what they raise is in `errors`.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from tools_app.sdk import errors
from tools_app.sdk.errors import ToolDisabledError, ToolError, error_classes, shortened


class AnswerNotFoundError(ToolError):
    """No answer is kept under that handle for this caller: there never was one, it has gone, or it is another's."""

    code = "ANSWER_NOT_FOUND"
    status = 404
    default_next_step = "Call the tool again that gave the answer: its new outline has a new id."

    @classmethod
    def of(cls, handle: str) -> AnswerNotFoundError:
        return cls(f"Answer not found: {shortened(handle)}")

    @classmethod
    def expired(cls, handle: str) -> AnswerNotFoundError:
        """For its own caller only."""
        return cls(f"Answer expired: {shortened(handle)}")


class StoppedError(ToolDisabledError):
    """An operator has stopped the hub, a pack, a connection or a key; the message says since when and why."""

    code = "STOPPED"
    default_next_step = "Do not repeat the call: ask an operator of this hub, who can resume what is stopped."

    @classmethod
    def because(cls, words: str) -> StoppedError:
        return cls(words[:1].upper() + words[1:])


class ApprovalRequiredError(ToolError):
    """The call waits for an operator. Nothing is held open for it: once it is approved, the caller repeats it."""

    code = "APPROVAL_REQUIRED"
    status = 403
    required_context = frozenset({"approvalId", "expiresAt"})
    allowed_context = required_context

    @classmethod
    def of(cls, tool: str, approval_id: str, expires_at: str) -> ApprovalRequiredError:
        return cls(
            f"Approval required: an operator has to approve this call of {tool}",
            context={"approvalId": approval_id, "expiresAt": expires_at},
            next_step=f"Ask an operator of this hub to approve {approval_id} (Approvals in the admin) before "
            f"{expires_at}. Then repeat exactly this call, with approval id {approval_id} if you can send it.",
        )


class ApprovalRefusedError(ToolError):
    """An operator has refused the call, and said why."""

    code = "APPROVAL_REFUSED"
    status = 403
    default_next_step = "Do not repeat this call: do without it, or ask the operators of this hub."

    @classmethod
    def of(cls, tool: str, approval_id: str, reason: str) -> ApprovalRefusedError:
        context = {"approvalId": approval_id, "reason": reason or "no reason was given"}
        return cls(f"Refused by an operator: this call of {tool}", context=context)


class ApprovalInvalidError(ToolError):
    """The approval that the call came with is not for it, or not any more."""

    code = "APPROVAL_INVALID"
    status = 409
    default_next_step = "Make the call without an approval id: it will ask for a new approval."

    @classmethod
    def because(cls, why: str) -> ApprovalInvalidError:
        return cls(f"The approval does not hold: {why}")


class CircuitOpenError(ToolError):
    """The upstream failed too often in a row: nothing is sent until it has had a rest."""

    code = "CIRCUIT_OPEN"
    status = 503
    retryable = True
    nothing_done = True

    @classmethod
    def of(cls, upstream: str, since_seconds: float, retry_after: float) -> CircuitOpenError:
        return cls(
            f"{upstream} keeps failing; calls are held back",
            context={"upstream": upstream, "sinceSeconds": round(since_seconds)},
            retry_after=round(retry_after, 1),
            next_step="Try again after that time; an operator can see in the error log what fails.",
        )


class OverloadedError(ToolError):
    """As many calls of this upstream are running and waiting as it may have."""

    code = "OVERLOADED"
    status = 503
    retryable = True
    nothing_done = True

    @classmethod
    def of(cls, upstream: str, running: int, waiting: int) -> OverloadedError:
        return cls(
            f"Too many calls of {upstream} at once",
            context={"upstream": upstream, "running": running, "waiting": waiting},
            retry_after=1,
            next_step="Call again in a moment, with fewer calls at once.",
        )

    @classmethod
    def by_bodies(cls) -> OverloadedError:
        """More is being sent to the hub at once than it can hold."""
        return cls(
            "The hub is taking in as much as it can",
            retry_after=1,
            next_step="Send again in a moment, less at once.",
        )


class ShuttingDownError(ToolError):
    """This process is ending and takes no new calls."""

    code = "SHUTTING_DOWN"
    status = 503
    retryable = True
    default_message = "The hub is shutting down"
    default_next_step = "Call again in a moment."

    @classmethod
    def amid(cls, *, writes: bool) -> ShuttingDownError:
        """The call was running and has been broken off."""
        error = cls("The hub is shutting down; the call was broken off")
        if writes:
            error.leave_outcome_open()
        return error


class StorageBusyError(ToolError):
    """The database cannot be read or written now, so the call cannot be recorded."""

    code = "STORAGE_BUSY"
    status = 503
    retryable = True
    log_level = logging.ERROR
    default_message = "The hub's database cannot be used right now"
    default_next_step = "Call again in a moment; if it stays so, an operator should run `toolhub doctor`."


class IdempotencyInProgressError(ToolError):
    """The first call with this idempotency key has not ended yet."""

    code = "IDEMPOTENCY_IN_PROGRESS"
    status = 409
    retryable = True
    default_message = "A call with this Idempotency-Key is still under way"
    default_next_step = "Wait, then send the same request again: it will get the answer of the first."

    def __init__(self, message: object = None, **others: Any) -> None:
        super().__init__(message, **{"retry_after": 1, **others})


class IdempotencyMismatchError(ToolError):
    """The idempotency key belongs to a request for something else."""

    code = "IDEMPOTENCY_MISMATCH"
    status = 422
    default_message = "This Idempotency-Key was used for a different request"
    default_next_step = "Use a new key for every new request."


class OutcomeUnknownError(ToolError):
    """The first call with this idempotency key was broken off while a tool that writes ran."""

    code = "OUTCOME_UNKNOWN"
    status = 409
    default_next_step = "Check whether the change was made; if it was not, call again with a new key."

    @classmethod
    def of(cls, call_id: str) -> OutcomeUnknownError:
        message = "The call with this Idempotency-Key was broken off, and its outcome is unknown"
        return cls(message, context={"callId": call_id or None})


class ReplyGoneError(ToolError):
    """The call with this idempotency key has ended, but what it answered has been deleted to make room."""

    code = "REPLY_GONE"
    status = 409
    default_next_step = "It is not run again under this key. To run it again, send a new key."

    @classmethod
    def of(cls, call_id: str, status: str) -> ReplyGoneError:
        ended = f" ({status})" if status else ""
        message = f"The call with this Idempotency-Key has ended{ended}, and its answer is no longer kept"
        return cls(message, context={"callId": call_id, "status": status or None})


class ContractBrokenError(ToolError):
    """A tool does not answer one of its examples as its author wrote. Nobody called it: `checktools` looked."""

    code = "CONTRACT_BROKEN"
    status = 500
    log_level = logging.ERROR

    @classmethod
    def of(cls, tool: str, example: str, faults: Iterable[str]) -> ContractBrokenError:
        return cls(
            f"{tool} no longer answers its example {shortened(example, 80)!r}",
            detail="\n".join(faults),
            context={"operation": shortened(example, 80)},
            next_step="Mend the tool, or the example where the upstream has changed for good.",
        )


@dataclass(frozen=True)
class Refusal:
    """Why a tool cannot be called although it exists, in words for whoever asked."""

    reason: str
    next_step: str = ""
    # Whether nothing is wrong: nobody has begun to set it up.
    unused: bool = False
    # Whether an operator has stopped what it needs.
    stopped: bool = False
    # The tools that the reason names.
    names: tuple[str, ...] = ()
    # What an operator can do about it; the next step is for callers.
    cure: str = ""

    @property
    def advice(self) -> str:
        """The next step of an operator."""
        return self.cure or self.next_step

    def error(self, tool: str) -> ToolDisabledError:
        """What a call of the tool is told."""
        if self.stopped:
            return StoppedError.because(self.reason)
        return ToolDisabledError.named(tool, self.reason, self.next_step)


def all_errors() -> list[type[ToolError]]:
    """Every class with a code of its own, for the documentation and the tests."""
    return sorted(
        (kind for kind in error_classes() if kind.__module__ in {errors.__name__, __name__}),
        key=lambda error: error.code,
    )
