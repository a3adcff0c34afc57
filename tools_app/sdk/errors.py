"""How a call can fail: one class hierarchy, one wire form. docs/errors.md lists every code.

`message` is written by the hub or a tool and always reaches the caller. `detail` (an exception, a response body) is
written to the error log under `error_id` and never leaves the hub. This module imports nothing of ToolHub.

Positional arguments are those of the specification: `MCPError(message, code, statusCode)`, which is `ToolError` here,
`ApiError(message, statusCode, context)`, `NotFoundError(message, context)`. All others are keyword arguments.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final, Self

# Status codes of an upstream that is temporarily unavailable: a retry can help.
BUSY_STATUSES: Final = frozenset({408, 429, 502, 503, 504})
_CODE: Final = re.compile(r"[A-Z][A-Z0-9_]{0,39}")
# Status codes that an upstream, or a gateway before it, can also send after it has made a change.
UNSURE_STATUSES: Final = frozenset({408, 500, 502, 504})
CHECK_FIRST: Final = "The outcome is unknown: check whether the change was made before calling again."


@dataclass(frozen=True, slots=True)
class Problem:
    """One fault in a request: its path (a JSON Pointer), a message, and the expected value."""

    path: str
    message: str
    expected: str = ""

    @classmethod
    def more(cls, number: int) -> Problem:
        """The last entry of a list that was cut: it says how many problems are not listed."""
        return cls("", f"and {number:,} more")

    def as_dict(self) -> dict[str, str]:
        fields = {"path": self.path, "message": self.message}
        return fields | {"expected": self.expected} if self.expected else fields


class ToolError(Exception):
    """A failure that is reported to the caller.

    Subclasses define `code` and `status` on the wire, whether a retry can help, the log level, the default next
    step, and the required and allowed keys of `context`.
    """

    code: str = "TOOL_ERROR"
    status: int = 500
    retryable: bool = False
    log_level: ClassVar[int] = logging.WARNING
    default_message: ClassVar[str] = ""
    default_next_step: ClassVar[str] = ""
    required_context: ClassVar[frozenset[str]] = frozenset()
    allowed_context: ClassVar[frozenset[str] | None] = None
    # Whether the caller asked for something wrong, although the tool ran: the call is refused. It has not failed,
    # so it is neither an issue nor part of an error rate.
    blames_caller: ClassVar[bool] = False
    # Whether the upstream failed: such errors count for its circuit breaker.
    blames_upstream: bool = False
    # Whether it is certain that nothing was changed: the call was refused, or no request that can change was sent.
    nothing_done: bool = False
    # Whether the upstream got the request, and there is no answer that says what it did.
    is_unanswered: bool = False
    # Whether a change may have been made although the call failed.
    outcome_unknown: bool = False
    # Whether nothing in it comes from the tool or an upstream, although the tool ran.
    is_of_hub: bool = False

    def __init__(
        self,
        message: object = None,
        code: str = "",
        status: int | None = None,
        *,
        detail: object = None,
        context: Mapping[str, Any] | None = None,
        next_step: str | None = None,
        retry_after: float | None = None,
    ) -> None:
        if code:
            if not _CODE.fullmatch(code):
                raise ValueError(f"the code {code!r} must look like MY_CODE, with at most 40 characters")
            self.code = code
        if status is not None:
            if not 400 <= status <= 599:
                raise ValueError(f"the status {status!r} must be an HTTP error status, 400 to 599")
            self.status = status
        self.message = self.default_message if message is None else str(message)
        self.detail = detail
        self.context = self._checked_context(context)
        self.next_step = self.default_next_step if next_step is None else next_step
        self.retry_after = retry_after
        self.error_id: str | None = None
        self.call_id: str | None = None
        self.duration_ms: int | None = None
        # Whether this is the stored outcome of an earlier call with the same idempotency key.
        self.replayed = False
        # Whether the message may contain text from outside the hub; set by the engine.
        self.untrusted = False
        # Whether a retry could help, although it may repeat a change.
        self._was_retryable = False
        super().__init__(self.message)

    @property
    def details(self) -> Sequence[Problem]:
        """All problems, for errors that can have more than one."""
        return ()

    def leave_outcome_open(self) -> None:
        """Mark the outcome as unknown: the change may have been made, and a retry could make it twice."""
        if self.outcome_unknown:
            return  # a tool may have added to its next step
        self.outcome_unknown, self._was_retryable = True, self.retryable
        self.retryable, self.retry_after, self.next_step = False, None, CHECK_FIRST

    def allow_repeat(self) -> None:
        """The tool is idempotent: a retry is safe although the outcome is unknown."""
        if self.outcome_unknown and self._was_retryable:
            self.outcome_unknown, self.retryable = False, True
            self.next_step = self.next_step.replace(CHECK_FIRST, "Call again: this tool may be repeated.")

    def as_dict(self) -> dict[str, Any]:
        """The wire form, the same on every channel."""
        fields: dict[str, Any] = {"error": self.message, "code": self.code, "retryable": self.retryable}
        if self.outcome_unknown:
            fields["outcomeUnknown"] = True
        if self.details:
            fields["details"] = [problem.as_dict() for problem in self.details]
        if self.context:
            fields["context"] = self.context
        if self.next_step:
            fields["nextStep"] = self.next_step
        if self.retry_after is not None:
            fields["retryAfter"] = self.retry_after
        if self.error_id is not None:
            fields["errorId"] = self.error_id
        if self.untrusted:
            fields["untrusted"] = True
        return fields

    def again(self) -> ToolError:
        """A copy for another call with the same outcome: it keeps errorId, but not the id and duration of the call."""
        return restored({**self.kept(), "call_id": None, "duration_ms": None})

    def kept(self) -> dict[str, Any]:
        """The error as JSON for `restored`, without `detail`."""
        problems = [problem.as_dict() for problem in self.details]
        status = {"status": self.status} if vars(self).keys() & {"code", "status"} else {}
        return {name: getattr(self, name) for name in ("code", *_STORED_FIELDS)} | {"problems": problems} | status

    def _checked_context(self, context: Mapping[str, Any] | None) -> dict[str, Any]:
        values = {key: value for key, value in (context or {}).items() if value is not None}
        if context is not None and (missing := self.required_context - values.keys()):
            raise TypeError(f"{type(self).__name__} context lacks {', '.join(sorted(missing))}")
        if self.allowed_context is not None and (unknown := values.keys() - self.allowed_context):
            raise TypeError(f"{type(self).__name__} context has unknown keys: {', '.join(sorted(unknown))}")
        return values


_STORED_FIELDS: Final = (
    *("message", "context", "next_step", "retry_after", "retryable", "blames_upstream"),
    *("error_id", "call_id", "duration_ms", "untrusted", "outcome_unknown"),
)
# Defaults for fields that earlier versions did not store. Without `untrusted`, the message has to count as untrusted.
_MISSING_FIELDS: Final = {"untrusted": True, "outcome_unknown": False}


def restored(stored: Mapping[str, Any]) -> ToolError:
    """The error that `ToolError.kept` stored. A code without a class becomes a `ToolExecutionError`."""
    code_and_status = (stored["code"], stored["status"]) if "status" in stored else ()
    fallback = ToolError if code_and_status else ToolExecutionError
    kind = next((kind for kind in error_classes() if kind.code == stored["code"]), fallback)
    error = kind.__new__(kind)
    # Constructors of subclasses may require arguments that are not stored.
    ToolError.__init__(error, stored["message"], *code_and_status)
    for name in _STORED_FIELDS:
        setattr(error, name, stored[name] if name not in _MISSING_FIELDS else stored.get(name, _MISSING_FIELDS[name]))
    if isinstance(error, ValidationError):
        error.problems = tuple(Problem(**problem) for problem in stored["problems"])
    return error


class ToolNotFoundError(ToolError):
    """No tool of that name exists for this caller: never registered, removed, or outside its toolsets."""

    code = "TOOL_NOT_FOUND"
    status = 404
    default_next_step = "List the tools to see which names exist."

    @classmethod
    def named(cls, name: str) -> ToolNotFoundError:
        return cls(f"Tool not found: {shortened(name)}")

    @classmethod
    def through(cls, tool: str, name: str, similar: Sequence[str]) -> ToolNotFoundError:
        """The name was an argument of another tool."""
        suggestion = f"Did you mean {' or '.join(similar)}? " if similar else ""
        context = {"through": tool, "similar": list(similar)}
        next_step = f"{suggestion}Find tools with search_tools."
        return cls(f"Tool not found: {shortened(name)}", context=context, next_step=next_step)


class ToolDisabledError(ToolError):
    """The tool exists, but cannot be called: an operator disabled it, a setting is missing, or its file is broken."""

    code = "TOOL_DISABLED"
    status = 403

    @classmethod
    def named(cls, name: str, why: str, next_step: str) -> ToolDisabledError:
        return cls(f"Tool is disabled: {name}", context={"reason": why}, next_step=next_step)


class ValidationError(ToolError):
    """The request is not valid.

    `problems` lists every fault; without it, the message is the only one. `context` (`field`, `expectedType`,
    `receivedType`, `constraint`) describes a single fault.
    """

    code = "VALIDATION_ERROR"
    status = 400
    blames_caller = True
    required_context = frozenset({"field"})
    allowed_context = frozenset({"field", "expectedType", "receivedType", "constraint"})

    def __init__(
        self,
        message: object = None,
        context: Mapping[str, Any] | str | None = None,
        *,
        problems: Sequence[Problem] = (),
        detail: object = None,
        next_step: str | None = None,
    ) -> None:
        """`context` can be the name of the field alone."""
        if message is None and problems:
            message = problems[0].message
        self.problems = tuple(problems)
        if isinstance(context, str):
            context = {"field": context}
        super().__init__(message, detail=detail, context=context, next_step=next_step)

    @property
    def details(self) -> Sequence[Problem]:
        return self.problems


class ConflictError(ValidationError):
    """The change conflicts with the current state: a name is taken, or the object to delete is in use."""

    code = "CONFLICT"
    status = 409


class InvalidArgumentsError(ValidationError):
    """The arguments do not match the tool's input schema. The message is the first problem, `details` has all."""

    default_next_step = "Correct the arguments and call again; the tool's input schema says what it takes."


class AuthenticationError(ToolError):
    """The request has no key or session, or one that is unknown, revoked, expired or not allowed from its address."""

    code = "AUTHENTICATION_ERROR"
    status = 401
    default_message = "Authentication required"
    default_next_step = "Send a key as `Authorization: Bearer <key>` or `X-API-Key: <key>`."


class AuthorizationError(ToolError):
    """The caller is authenticated, but lacks the permission."""

    code = "AUTHORIZATION_ERROR"
    status = 403

    @classmethod
    def lacking(cls, scope: str) -> AuthorizationError:
        return cls(
            f"Permission denied: requires scope {scope}",
            context={"requiredScope": scope},
            next_step="Ask an administrator of this hub for a key with that scope.",
        )

    @classmethod
    def beyond(cls, tool: str, kind: str) -> AuthorizationError:
        """The caller may not use tools with this access level: `write` or `destroy`."""
        return cls(
            f"Permission denied: {tool} can {kind}, and you may not use tools that do",
            context={"tool": tool, "requires": kind},
            next_step=f"Ask an administrator of this hub for access to tools that {kind}.",
        )


class RateLimitError(ToolError):
    """The caller exceeded its rate limit; `retry_after` is the number of seconds to wait."""

    code = "RATE_LIMIT_EXCEEDED"
    status = 429
    retryable = True
    nothing_done = True
    default_message = "Rate limit exceeded"

    def __init__(self, message: object = None, retry_after: float | None = None, **others: Any) -> None:
        super().__init__(message, retry_after=retry_after, **others)

    @classmethod
    def by_bodies(cls, most: int) -> RateLimitError:
        """The request bodies of one caller, or of one anonymous address, exceed its share of memory."""
        return cls(
            f"Too many bytes at once: the request bodies of one caller are limited to {most:,} bytes at a time",
            context={"limit": most},
            retry_after=1,
            next_step="Retry in a moment, with fewer or smaller requests at once.",
        )


class InputRequiredError(ToolError):
    """The tool needs input from the client or its user and cannot get it."""

    code = "INPUT_REQUIRED"
    status = 409
    default_message = "The tool needs input from you, and cannot ask for it on this channel"
    default_next_step = "Call it from an MCP client that supports this."

    @classmethod
    def nobody_can(cls, capability: str) -> InputRequiredError:
        """The client did not declare this capability."""
        ability = {"elicitation": "ask its user", "sampling": "ask its model", "roots": "list its roots"}[capability]
        message = f"The tool needs a client that can {ability} ({capability}), and this one cannot"
        return cls(message, context={"capability": capability})

    @classmethod
    def unanswered(cls, why: str, detail: object = None) -> InputRequiredError:
        return cls(f"The tool asked a question and got no answer: {why}", detail=detail, next_step="Call again.")


class ToolTimeoutError(ToolError):
    """The call exceeded its time limit."""

    blames_upstream = True
    code = "TIMEOUT"
    status = 408
    retryable = True

    @classmethod
    def after(cls, milliseconds: int, *, writes: bool, limited_by: str = "") -> ToolTimeoutError:
        """`writes`: whether a retry could make a change twice. `limited_by`: who set a limit that the caller cannot
        raise."""
        if limited_by:
            next_step = f"Call again with less to do: {limited_by} allows at most {milliseconds} ms."
        else:
            next_step = "Call again, if needed with a longer timeout."
        error = cls(f"Execution timeout after {milliseconds}ms", next_step=next_step)
        error.is_of_hub = True
        if writes:
            error.leave_outcome_open()
        return error


class ToolExecutionError(ToolError):
    """A tool raised an unexpected exception, which is written to the error log only."""

    code = "TOOL_EXECUTION_ERROR"
    log_level = logging.ERROR
    default_next_step = "Tell an operator the errorId: the error log has the cause."

    def __init__(self, message: object = None, detail: object = None, **others: Any) -> None:
        super().__init__(message, detail=detail, **others)

    @classmethod
    def of(cls, name: str, detail: object, shown_cause: str = "") -> ToolExecutionError:
        cause = f": {shown_cause}" if shown_cause else ""
        return cls(f"Tool execution failed: {name}{cause}", detail=detail)

    def by_network(self) -> Self:
        """The cause is a network failure, not a bug of the tool: a retry can help."""
        self.retryable = self.blames_upstream = True
        self.next_step = f"Try again later: a network connection of the tool failed. {self.default_next_step}"
        return self


class UpstreamError(ToolError):
    """The upstream failed."""

    status = 502
    blames_upstream = True
    log_level = logging.ERROR


class ApiError(UpstreamError):
    """The upstream answered with an error. A retry can help if its status says that it is temporarily unavailable."""

    code = "API_ERROR"
    required_context = frozenset({"operation"})
    allowed_context = frozenset({"operation", "resourceType", "resourceId", "statusCode", "errorDetails"})

    def __init__(
        self,
        message: object = None,
        upstream_status: int | None = None,
        context: Mapping[str, Any] | None = None,
        *,
        detail: object = None,
        next_step: str | None = None,
        retry_after: float | None = None,
    ) -> None:
        super().__init__(message, detail=detail, context=context, next_step=next_step, retry_after=retry_after)
        if upstream_status is not None:
            self.context.setdefault("statusCode", upstream_status)
        status = self.context.get("statusCode")
        self.retryable = status in BUSY_STATUSES
        # Below 500 the upstream works and rejected the request.
        self.blames_upstream = not (isinstance(status, int) and status < 500)
        self.nothing_done = isinstance(status, int) and status not in UNSURE_STATUSES


class NotFoundError(ToolError):
    """The upstream has no such object."""

    code = "NOT_FOUND"
    status = 404
    blames_caller = True
    required_context = frozenset({"operation", "resourceType", "resourceId"})
    allowed_context = required_context

    def __init__(self, message: object = None, context: Mapping[str, Any] | None = None, **others: Any) -> None:
        super().__init__(message, context=context, **others)


class UpstreamValidationError(ToolError):
    """The upstream rejected the values; the message is the upstream's own."""

    code = "UPSTREAM_VALIDATION"
    status = 422
    blames_caller = True
    required_context = frozenset({"field"})
    allowed_context = frozenset({"field", "expectedType", "receivedType", "constraint"})


class UpstreamUnavailableError(UpstreamError):
    """The upstream could not be reached, or closed the connection."""

    code = "UPSTREAM_UNAVAILABLE"
    retryable = True


class UpstreamTlsError(UpstreamError):
    """The TLS connection to the upstream failed, for example because its certificate is not valid."""

    code = "UPSTREAM_TLS"


class MCPServerError(UpstreamError):
    """The MCP server behind a tool failed."""

    code = "MCP_SERVER_ERROR"


class UpstreamInvalidResponseError(UpstreamError):
    """The upstream sent a response that its API does not allow."""

    code = "UPSTREAM_INVALID_RESPONSE"


class ConfigurationError(ToolError):
    """A setting is missing or not valid; the message names it."""

    code = "CONFIGURATION_ERROR"
    log_level = logging.ERROR


class InternalError(ToolError):
    """A bug of the hub; the exception is written to the error log only."""

    code = "INTERNAL_ERROR"
    log_level = logging.ERROR
    default_message = "Internal server error"
    default_next_step = "Tell an operator the errorId: the error log has the cause."


def error_classes() -> Iterator[type[ToolError]]:
    """Every imported subclass of `ToolError` with a code of its own."""
    pending: list[type[ToolError]] = [ToolError]
    while pending:
        for child in pending.pop().__subclasses__():
            pending.append(child)
            if "code" in vars(child):
                yield child


def shortened(text: str, limit: int = 100) -> str:
    """Text from outside, safe to quote in a message: one line, printable, of limited length."""
    clean = "".join(character if character.isprintable() else "\N{REPLACEMENT CHARACTER}" for character in text)
    return clean if len(clean) <= limit else clean[: limit - 1] + "…"
