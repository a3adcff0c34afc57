"""Errors with which the hub refuses or interrupts a call: stops, maintenance, approvals, limits, idempotency keys.

Tools raise none of these; `errors` has those that they raise.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from tools_app.sdk import errors
from tools_app.sdk.budgets import Limit
from tools_app.sdk.errors import ToolDisabledError, ToolError, error_classes, shortened

# Why code is missing, and what to do about it.
NOT_HERE: Final = "this process does not have it"
ASK_FOR_REASON: Final = "Ask an operator to run `toolhub doctor`, which reports the reason."
ASK_TO_RESTART: Final = "Ask an operator to restart the hub, or to run `toolhub synctools`."


class AnswerNotFoundError(ToolError):
    """This caller has no stored answer with that id: it never existed, was deleted, or belongs to another caller."""

    code = "ANSWER_NOT_FOUND"
    status = 404
    default_next_step = "Call the tool that gave the answer again: the new outline has a new id."

    @classmethod
    def of(cls, handle: str) -> AnswerNotFoundError:
        return cls(f"Answer not found: {shortened(handle)}")

    @classmethod
    def expired(cls, handle: str) -> AnswerNotFoundError:
        """Only for the caller that the answer belonged to: others get "not found"."""
        return cls(f"Answer expired: {shortened(handle)}")


class StoppedError(ToolDisabledError):
    """An operator has stopped the hub, a pack, a connection or a key (kill switch); the message has time and reason."""

    code = "STOPPED"
    default_next_step = "Do not repeat the call: ask an operator of this hub, who can remove the stop."

    @classmethod
    def because(cls, words: str) -> StoppedError:
        return cls(words[:1].upper() + words[1:])


class MaintenanceError(ToolError):
    """The hub is in maintenance: tools that write are refused, and those that only read can be called."""

    code = "MAINTENANCE"
    status = 503
    retryable = True
    nothing_done = True
    default_next_step = "Call again after `retryAfter` seconds; tools that only read can be called meanwhile."

    @classmethod
    def because(cls, words: str, retry_after: float) -> MaintenanceError:
        return cls(words[:1].upper() + words[1:], retry_after=max(1, math.ceil(retry_after)))


class DefinitionChangedError(ToolError):
    """The code of the tool is another version than the definition that agents see; nothing was run."""

    code = "DEFINITION_CHANGED"
    status = 409
    nothing_done = True
    default_next_step = "List the tools again, and call it as its new definition says."

    @classmethod
    def of(cls, name: str) -> DefinitionChangedError:
        return cls(f"The definition of {name} has changed; the call was not run")

    @classmethod
    def held(cls, name: str) -> DefinitionChangedError:
        error = cls(f"The definition of {name} has changed, and no operator has approved the new version")
        error.next_step = "Ask an operator of this hub: it is listed among the approvals in the admin."
        return error

    @classmethod
    def outdated(cls, name: str) -> DefinitionChangedError:
        error = cls(f"This process has loaded another version of {name} than the recorded one")
        error.next_step = "Ask an operator of this hub to restart this process."
        return error


class ApprovalRequiredError(ToolError):
    """The call needs an operator's approval. It is not kept open: once it is approved, the caller repeats it."""

    code = "APPROVAL_REQUIRED"
    status = 403
    required_context = frozenset({"approvalId", "expiresAt"})
    allowed_context = required_context

    @classmethod
    def of(cls, tool: str, approval_id: str, expires_at: str) -> ApprovalRequiredError:
        return cls(
            f"Approval required: an operator must approve this call of {tool}",
            context={"approvalId": approval_id, "expiresAt": expires_at},
            next_step=f"Ask an operator of this hub to approve {approval_id} (Approvals in the admin) before "
            f"{expires_at}. Then repeat exactly this call, with approval id {approval_id} if you can send it.",
        )


class ApprovalRefusedError(ToolError):
    """An operator has refused the call; `context.reason` has the operator's words."""

    code = "APPROVAL_REFUSED"
    status = 403
    default_next_step = "Do not repeat this call: continue without it, or ask the operators of this hub."

    @classmethod
    def of(cls, tool: str, approval_id: str, reason: str) -> ApprovalRefusedError:
        context = {"approvalId": approval_id, "reason": reason or "no reason given"}
        return cls(f"An operator refused this call of {tool}", context=context)


class ApprovalInvalidError(ToolError):
    """The approval id of the call is not valid for it: it belongs to another call, was used, or has expired."""

    code = "APPROVAL_INVALID"
    status = 409
    default_next_step = "Make the call without an approval id: it will ask for a new approval."

    @classmethod
    def because(cls, why: str) -> ApprovalInvalidError:
        return cls(f"The approval is not valid: {why}")


class BudgetSpentError(ToolError):
    """The budget of the caller's key, or of a toolset that it uses, is spent; nothing was run."""

    code = "BUDGET_SPENT"
    status = 429
    retryable = True
    nothing_done = True

    @classmethod
    def of(cls, whose: str, limit: Limit, now: datetime) -> BudgetSpentError:
        resets_at = f"{limit.resets_at.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}"
        return cls(
            f"The budget of {whose} is spent: {limit.most:,} {limit.unit} a {limit.period}",
            context={
                "budget": whose,
                "unit": limit.unit,
                "period": limit.period,
                "limit": limit.most,
                "used": limit.used,
                "resetsAt": resets_at,
            },
            retry_after=max(1, math.ceil((limit.resets_at - now).total_seconds())),
            next_step=f"Do not call before {resets_at}, when it resets; an operator of this hub can raise it.",
        )


class CircuitOpenError(ToolError):
    """The circuit breaker of an upstream is open: after repeated failures, no calls are sent to it for some time."""

    code = "CIRCUIT_OPEN"
    status = 503
    retryable = True
    nothing_done = True

    @classmethod
    def of(cls, upstream: str, since_seconds: float, retry_after: float) -> CircuitOpenError:
        return cls(
            f"{upstream} keeps failing; calls to it are suspended (circuit open)",
            context={"upstream": upstream, "sinceSeconds": round(since_seconds)},
            retry_after=round(retry_after, 1),
            next_step="Try again after `retryAfter` seconds; the error log shows operators what fails.",
        )


class OverloadedError(ToolError):
    """The limits for running and waiting calls of this upstream are reached (bulkhead)."""

    code = "OVERLOADED"
    status = 503
    retryable = True
    nothing_done = True

    @classmethod
    def of(cls, upstream: str, running: int, waiting: int) -> OverloadedError:
        return cls(
            f"Too many concurrent calls to {upstream}",
            context={"upstream": upstream, "running": running, "waiting": waiting},
            retry_after=1,
            next_step="Call again in a moment, with fewer concurrent calls.",
        )

    @classmethod
    def by_bodies(cls) -> OverloadedError:
        """All request bodies together exceed the memory that the hub reserves for them."""
        return cls(
            "The hub is receiving as much data as it can hold",
            retry_after=1,
            next_step="Retry in a moment, with fewer or smaller requests at once.",
        )


class UpstreamStartingError(ToolError):
    """A source outside is starting, and could not take the call within its time."""

    code = "UPSTREAM_STARTING"
    status = 503
    retryable = True
    nothing_done = True
    blames_upstream = False

    @classmethod
    def of(cls, upstream: str, why: str, retry_after: float) -> UpstreamStartingError:
        seconds = max(1, round(retry_after))
        return cls(
            f"{upstream} is still starting: {why}",
            context={"upstream": upstream},
            retry_after=seconds,
            next_step=f"Call again in {seconds} seconds, or with a longer timeout. Nothing was sent.",
        )


class UpstreamSignInError(ToolError):
    """The hub's account at a source outside has to be signed in again, by a person; the source was not asked."""

    code = "UPSTREAM_SIGN_IN"
    status = 503
    nothing_done = True
    blames_upstream = False
    log_level = logging.WARNING

    @classmethod
    def of(cls, upstream: str, why: str) -> UpstreamSignInError:
        return cls(
            f"The account of this hub at {upstream} cannot be used: {why}",
            context={"upstream": upstream},
            next_step="Do not repeat the call: ask an operator of this hub to sign in, on the page of the connection "
            "in the admin. The tool works again at once.",
        )

    @classmethod
    def without_identity(cls, upstream: str) -> UpstreamSignInError:
        """Every caller signs in on its own, and nothing tells who this one is."""
        return cls(
            f"Every caller of {upstream} has a sign-in of its own, and the hub does not know as which user this "
            "process runs",
            context={"upstream": upstream},
            next_step="Do not repeat the call: set the variable USER for the process of the hub, or use an API key.",
        )


class ShuttingDownError(ToolError):
    """This process is shutting down and accepts no new calls."""

    code = "SHUTTING_DOWN"
    status = 503
    retryable = True
    default_message = "The hub is shutting down"
    default_next_step = "Call again in a moment."

    @classmethod
    def amid(cls, *, writes: bool) -> ShuttingDownError:
        """The call was running and has been interrupted."""
        error = cls("The hub is shutting down; the call was interrupted")
        if writes:
            error.leave_outcome_open()
        return error


class StorageBusyError(ToolError):
    """The database cannot be read or written, so the call cannot be recorded."""

    code = "STORAGE_BUSY"
    status = 503
    retryable = True
    log_level = logging.ERROR
    default_message = "The hub's database cannot be used right now"
    default_next_step = "Call again in a moment; if this continues, an operator should run `toolhub doctor`."


class IdempotencyInProgressError(ToolError):
    """The first call with this idempotency key is still running."""

    code = "IDEMPOTENCY_IN_PROGRESS"
    status = 409
    retryable = True
    default_message = "A call with this Idempotency-Key is still running"
    default_next_step = "Wait, then send the same request again to get the answer of the first."

    def __init__(self, message: object = None, **others: Any) -> None:
        super().__init__(message, **{"retry_after": 1, **others})


class IdempotencyMismatchError(ToolError):
    """The idempotency key was used for a different request."""

    code = "IDEMPOTENCY_MISMATCH"
    status = 422
    default_message = "This Idempotency-Key was used for a different request"
    default_next_step = "Use a new key for every new request."


class OutcomeUnknownError(ToolError):
    """The first call with this idempotency key was interrupted while a tool that writes was running."""

    code = "OUTCOME_UNKNOWN"
    status = 409
    default_next_step = "Check whether the change was made; if it was not, call again with a new key."

    @classmethod
    def of(cls, call_id: str) -> OutcomeUnknownError:
        message = "The call with this Idempotency-Key was interrupted, and its outcome is unknown"
        return cls(message, context={"callId": call_id or None})


class ReplyGoneError(ToolError):
    """The call with this idempotency key has ended, but its stored reply was deleted to free space."""

    code = "REPLY_GONE"
    status = 409
    default_next_step = "The call is not run again under this key. To run it again, send a new key."

    @classmethod
    def of(cls, call_id: str, status: str) -> ReplyGoneError:
        status_note = f" ({status})" if status else ""
        message = f"The call with this Idempotency-Key has ended{status_note}, and its answer is no longer stored"
        return cls(message, context={"callId": call_id, "status": status or None})


class ContractBrokenError(ToolError):
    """The result of a tool differs from one of its examples. Raised by `checktools`, not by a call."""

    code = "CONTRACT_BROKEN"
    status = 500
    log_level = logging.ERROR

    @classmethod
    def of(cls, tool: str, example: str, faults: Iterable[str]) -> ContractBrokenError:
        return cls(
            f"{tool} no longer returns the result of its example {shortened(example, 80)!r}",
            detail="\n".join(faults),
            context={"operation": shortened(example, 80)},
            next_step="Fix the tool, or correct the example if the upstream has changed permanently.",
        )


@dataclass(frozen=True)
class Refusal:
    """Why an existing tool cannot be called, in words for callers and operators."""

    reason: str
    next_step: str = ""
    # Whether this is not a fault: the connection was never configured.
    unused: bool = False
    # Whether a kill switch is the reason.
    stopped: bool = False
    # The tools that the reason names.
    names: tuple[str, ...] = ()
    # What an operator can do; `next_step` is for callers.
    cure: str = ""

    @property
    def advice(self) -> str:
        """The next step for an operator."""
        return self.cure or self.next_step

    def error(self, tool: str) -> ToolDisabledError:
        """The error for a call of the tool."""
        if self.stopped:
            return StoppedError.because(self.reason)
        return ToolDisabledError.named(tool, self.reason, self.next_step)


def all_errors() -> list[type[ToolError]]:
    """Every class with a code of its own, for the documentation and the tests."""
    return sorted(
        (kind for kind in error_classes() if kind.__module__ in {errors.__name__, __name__}),
        key=lambda error: error.code,
    )
