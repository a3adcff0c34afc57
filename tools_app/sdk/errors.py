"""How a call can fail: one hierarchy, one wire form. docs/errors.md lists every code.

`message` is written by us, safe and actionable: it always reaches the caller. `detail` (an exception, an upstream's
body) goes to the error log under `error_id` and never leaves. This module imports nothing of ToolHub.

Arguments by position are those of the documents: `MCPError(message, code, statusCode)`, which is `ToolError` here,
`ApiError(message, statusCode, context)`, `NotFoundError(message, context)`. All others go by their names.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final, Self

# What an upstream answers when it cannot now, but may be able to in a moment.
BUSY_STATUSES: Final = frozenset({408, 429, 502, 503, 504})
_CODE: Final = re.compile(r"[A-Z][A-Z0-9_]{0,39}")
# What an upstream, or a gateway before it, may also answer after it has made a change.
UNSURE_STATUSES: Final = frozenset({408, 500, 502, 504})
CHECK_FIRST: Final = "The outcome is unknown: check whether the change was made before calling again."


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong with what was sent: where, what, and what was expected."""

    path: str
    message: str
    expected: str = ""

    @classmethod
    def more(cls, number: int) -> Problem:
        """Stands for those that are not named: a caller reads a few of them, and an answer has a size."""
        return cls("", f"and {number:,} more")

    def as_dict(self) -> dict[str, str]:
        shown = {"path": self.path, "message": self.message}
        return shown | {"expected": self.expected} if self.expected else shown


class ToolError(Exception):
    """A call failed in a way that the caller can be told about.

    Subclasses say how: `code` and `status` on the wire, whether trying again can help, how loud the log is,
    what the caller can do next, and which keys their `context` must have.
    """

    code: str = "TOOL_ERROR"
    status: int = 500
    retryable: bool = False
    log_level: ClassVar[int] = logging.WARNING
    default_message: ClassVar[str] = ""
    default_next_step: ClassVar[str] = ""
    required_context: ClassVar[frozenset[str]] = frozenset()
    allowed_context: ClassVar[frozenset[str] | None] = None
    # Whether an upstream is to blame; all other errors say that it answered, or nothing about it.
    blames_upstream: bool = False
    # Whether it is certain that nothing was changed: the call was refused, or nothing that could change was sent.
    nothing_done: bool = False
    # Whether a change may have been made all the same.
    outcome_unknown: bool = False

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
                raise ValueError(f"the status {status!r} must be one of HTTP for errors, 400 to 599")
            self.status = status
        self.message = self.default_message if message is None else str(message)
        self.detail = detail
        self.context = self._checked(context)
        self.next_step = self.default_next_step if next_step is None else next_step
        self.retry_after = retry_after
        self.error_id: str | None = None
        self.call_id: str | None = None
        self.duration_ms: int | None = None
        # Whether this is what an earlier call with the same idempotency key was told.
        self.replayed = False
        # Whether it may repeat what was said outside the hub; the engine knows.
        self.untrusted = False
        # Whether another try could help, where it might do harm as well.
        self._may_pass = False
        super().__init__(self.message)

    @property
    def details(self) -> Sequence[Problem]:
        """Everything that is wrong, where more than one thing can be."""
        return ()

    def leave_outcome_open(self) -> None:
        """A change may have been made: a client that repeats the call could make it twice."""
        if self.outcome_unknown:
            return  # and a tool may have added to its next step
        self.outcome_unknown, self._may_pass = True, self.retryable
        self.retryable, self.retry_after, self.next_step = False, None, CHECK_FIRST

    def allow_repeat(self) -> None:
        """The tool may run twice: whether the change was made does not matter."""
        if self.outcome_unknown and self._may_pass:
            self.outcome_unknown, self.retryable = False, True
            self.next_step = self.next_step.replace(CHECK_FIRST, "Call again: this tool may be repeated.")

    def as_dict(self) -> dict[str, Any]:
        """The one form in which an error travels, the same at every door."""
        shown: dict[str, Any] = {"error": self.message, "code": self.code, "retryable": self.retryable}
        if self.outcome_unknown:
            shown["outcomeUnknown"] = True
        if self.details:
            shown["details"] = [problem.as_dict() for problem in self.details]
        if self.context:
            shown["context"] = self.context
        if self.next_step:
            shown["nextStep"] = self.next_step
        if self.retry_after is not None:
            shown["retryAfter"] = self.retry_after
        if self.error_id is not None:
            shown["errorId"] = self.error_id
        if self.untrusted:
            shown["untrusted"] = True
        return shown

    def again(self) -> ToolError:
        """The same error for another call that met it: with its errorId, without the call it happened in."""
        return restored({**self.kept(), "call_id": None, "duration_ms": None})

    def kept(self) -> dict[str, Any]:
        """Everything but what may not leave the hub, as JSON, for `restored`."""
        problems = [problem.as_dict() for problem in self.details]
        own = {"status": self.status} if vars(self).keys() & {"code", "status"} else {}
        return {name: getattr(self, name) for name in ("code", *_KEPT)} | {"problems": problems} | own

    def _checked(self, context: Mapping[str, Any] | None) -> dict[str, Any]:
        given = {key: value for key, value in (context or {}).items() if value is not None}
        if context is not None and (missing := self.required_context - given.keys()):
            raise TypeError(f"{type(self).__name__} context lacks {', '.join(sorted(missing))}")
        if self.allowed_context is not None and (unknown := given.keys() - self.allowed_context):
            raise TypeError(f"{type(self).__name__} context does not know {', '.join(sorted(unknown))}")
        return given


_KEPT: Final = (
    *("message", "context", "next_step", "retry_after", "retryable", "blames_upstream"),
    *("error_id", "call_id", "duration_ms", "untrusted", "outcome_unknown"),
)
# What earlier versions did not keep: they do not say whose words an error repeats.
_NOT_KEPT_BEFORE: Final = {"untrusted": True, "outcome_unknown": False}


def restored(kept: Mapping[str, Any]) -> ToolError:
    """An error as it was. A code that nobody knows any more becomes a `ToolExecutionError`."""
    own = (kept["code"], kept["status"]) if "status" in kept else ()
    unknown = ToolError if own else ToolExecutionError
    kind = next((known for known in error_classes() if known.code == kept["code"]), unknown)
    error = kind.__new__(kind)
    # Not by its own constructor, which may ask for what it was made of.
    ToolError.__init__(error, kept["message"], *own)
    for name in _KEPT:
        setattr(error, name, kept[name] if name not in _NOT_KEPT_BEFORE else kept.get(name, _NOT_KEPT_BEFORE[name]))
    if isinstance(error, ValidationError):
        error.problems = tuple(Problem(**problem) for problem in kept["problems"])
    return error


class ToolNotFoundError(ToolError):
    """No tool of that name exists for this caller: never registered, gone, or outside its toolset."""

    code = "TOOL_NOT_FOUND"
    status = 404
    default_next_step = "List the tools to see which names exist."

    @classmethod
    def named(cls, name: str) -> ToolNotFoundError:
        return cls(f"Tool not found: {shortened(name)}")

    @classmethod
    def through(cls, tool: str, name: str, similar: Sequence[str]) -> ToolNotFoundError:
        """For whoever named it in the arguments of another tool."""
        meant = f"Did you mean {' or '.join(similar)}? " if similar else ""
        context = {"through": tool, "similar": list(similar)}
        next_step = f"{meant}Find tools with search_tools."
        return cls(f"Tool not found: {shortened(name)}", context=context, next_step=next_step)


class ToolDisabledError(ToolError):
    """The tool exists, but an operator, a missing setting or a broken file keeps it from being called."""

    code = "TOOL_DISABLED"
    status = 403

    @classmethod
    def named(cls, name: str, why: str, next_step: str) -> ToolDisabledError:
        return cls(f"Tool is disabled: {name}", context={"reason": why}, next_step=next_step)


class ValidationError(ToolError):
    """Something that was sent is not what was asked for.

    `problems` holds every fault found; without it, the message is the only one. The context of the documents
    (`field`, `expectedType`, `receivedType`, `constraint`) describes a single fault.
    """

    code = "VALIDATION_ERROR"
    status = 400
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
        """`context` may be the name of the field alone."""
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
    """What is there already stands against it: a name is taken, or somebody uses what should go."""

    code = "CONFLICT"
    status = 409


class InvalidArgumentsError(ValidationError):
    """The arguments do not fit the tool's schema; the message is the first fault, `details` are all of them."""

    default_next_step = "Correct the arguments and call again; the tool's input schema says what it takes."


class AuthenticationError(ToolError):
    """No key or session, or one that is unknown, revoked or expired."""

    code = "AUTHENTICATION_ERROR"
    status = 401
    default_message = "Authentication required"
    default_next_step = "Send a key as `Authorization: Bearer <key>` or `X-API-Key: <key>`."


class AuthorizationError(ToolError):
    """The caller is known, but lacks what this needs."""

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
        """The caller may not use tools of this kind: `write` or `destroy`."""
        return cls(
            f"Permission denied: {tool} can {kind}, and you may not use tools that do",
            context={"tool": tool, "requires": kind},
            next_step=f"Ask an administrator of this hub for access to tools that {kind}.",
        )


class RateLimitError(ToolError):
    """The caller sent more than it may; `retry_after` says in how many seconds it may go on."""

    code = "RATE_LIMIT_EXCEEDED"
    status = 429
    retryable = True
    nothing_done = True
    default_message = "Rate limit exceeded"

    def __init__(self, message: object = None, retry_after: float | None = None, **others: Any) -> None:
        super().__init__(message, retry_after=retry_after, **others)

    @classmethod
    def by_bodies(cls, most: int) -> RateLimitError:
        """One caller, or one address of strangers, sends more at once than its share."""
        return cls(
            f"Too much is being sent at once: at most {most:,} bytes of one caller are taken in at a time",
            context={"limit": most},
            retry_after=1,
            next_step="Send again in a moment, less at once.",
        )


class InputRequiredError(ToolError):
    """A tool cannot go on without an answer that it cannot get."""

    code = "INPUT_REQUIRED"
    status = 409
    default_message = "The tool needs an answer from you, and cannot ask for it here"
    default_next_step = "Call it from an MCP client that can be asked."

    @classmethod
    def nobody_can(cls, capability: str) -> InputRequiredError:
        """This client never said that it can do that."""
        what = {"elicitation": "ask its user", "sampling": "ask its model", "roots": "name its roots"}[capability]
        message = f"The tool needs a client that can {what} ({capability}), and this one cannot"
        return cls(message, context={"capability": capability})

    @classmethod
    def unanswered(cls, why: str, detail: object = None) -> InputRequiredError:
        return cls(f"The tool asked a question and got no answer: {why}", detail=detail, next_step="Call again.")


class ToolTimeoutError(ToolError):
    """The deadline of the call passed."""

    blames_upstream = True
    code = "TIMEOUT"
    status = 408
    retryable = True

    @classmethod
    def after(cls, milliseconds: int, *, writes: bool, limited_by: str = "") -> ToolTimeoutError:
        """`writes`: whether it may have changed something that must not be changed twice. `limited_by`: who set a limit
        that the caller cannot raise."""
        if limited_by:
            next_step = f"Call again with less to do: {limited_by} allows at most {milliseconds} ms."
        else:
            next_step = "Call again, or with a longer timeout."
        error = cls(f"Execution timeout after {milliseconds}ms", next_step=next_step)
        if writes:
            error.leave_outcome_open()
        return error


class ToolExecutionError(ToolError):
    """A tool raised something nobody foresaw; the exception itself is only in the error log."""

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
        """It is not the tool that is broken: what it asks could not be reached. Another try can help."""
        self.retryable = self.blames_upstream = True
        self.next_step = f"Try again later: a connection of the tool failed. {self.default_next_step}"
        return self


class UpstreamError(ToolError):
    """What an upstream did to a call."""

    status = 502
    blames_upstream = True
    log_level = logging.ERROR


class ApiError(UpstreamError):
    """The upstream answered with an error. Trying again can help where its status says that it is busy."""

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
        # With a status of its own below 500 the upstream is well, and does not like the request.
        self.blames_upstream = not (isinstance(status, int) and status < 500)
        self.nothing_done = isinstance(status, int) and status not in UNSURE_STATUSES


class NotFoundError(ToolError):
    """The upstream has no such thing."""

    code = "NOT_FOUND"
    status = 404
    required_context = frozenset({"operation", "resourceType", "resourceId"})
    allowed_context = required_context

    def __init__(self, message: object = None, context: Mapping[str, Any] | None = None, **others: Any) -> None:
        super().__init__(message, context=context, **others)


class UpstreamValidationError(ToolError):
    """The upstream did not accept the values; the message is in its own words."""

    code = "UPSTREAM_VALIDATION"
    status = 422
    required_context = frozenset({"field"})
    allowed_context = frozenset({"field", "expectedType", "receivedType", "constraint"})


class UpstreamUnavailableError(UpstreamError):
    """The upstream could not be reached, or broke off."""

    code = "UPSTREAM_UNAVAILABLE"
    retryable = True


class UpstreamTlsError(UpstreamError):
    """The upstream could not prove who it is."""

    code = "UPSTREAM_TLS"


class MCPServerError(UpstreamError):
    """An MCP server to which a tool passes its calls on has failed."""

    code = "MCP_SERVER_ERROR"


class UpstreamInvalidResponseError(UpstreamError):
    """The upstream answered, but not with what its interface promises."""

    code = "UPSTREAM_INVALID_RESPONSE"


class ConfigurationError(ToolError):
    """A setting is missing or wrong; the message names it."""

    code = "CONFIGURATION_ERROR"
    log_level = logging.ERROR


class InternalError(ToolError):
    """A bug of the hub itself; what happened is only in the error log."""

    code = "INTERNAL_ERROR"
    log_level = logging.ERROR
    default_message = "Internal server error"
    default_next_step = "Tell an operator the errorId: the error log has the cause."


def error_classes() -> Iterator[type[ToolError]]:
    waiting: list[type[ToolError]] = [ToolError]
    while waiting:
        for child in waiting.pop().__subclasses__():
            waiting.append(child)
            if "code" in vars(child):
                yield child


def shortened(text: str, limit: int = 100) -> str:
    """Text from outside, fit to be quoted in a message: one line, printable, not long."""
    clean = "".join(character if character.isprintable() else "\N{REPLACEMENT CHARACTER}" for character in text)
    return clean if len(clean) <= limit else clean[: limit - 1] + "…"
