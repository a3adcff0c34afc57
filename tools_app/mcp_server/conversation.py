"""Messages between a running call and its client: progress, log messages, questions and answers.

In the handshake era the client is asked over its connection while the call waits. In the modern era the call returns
the questions, and the client repeats it with the answers. Earlier answers travel with the client in an encrypted
`requestState` that is bound to caller, call and expiry.
"""

from __future__ import annotations

import asyncio
import json
import logging
import threading
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

import anyio
import mcp_types as types
from mcp.server.connection import Connection
from mcp.server.context import ServerRequestContext
from mcp.shared.exceptions import MCPError
from mcp.shared.message import ServerMessageMetadata
from mcp_types import INVALID_PARAMS, LOG_LEVEL_META_KEY, MISSING_REQUIRED_CLIENT_CAPABILITY
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import ValidationError

from tools_app.base import conf, loops, secrets
from tools_app.sdk.context import Caller
from tools_app.sdk.errors import InputRequiredError
from tools_app.sdk.questions import LEVELS, Ask, InputRequired, Question, Unfit
from tools_app.text import hygiene, json_text, redaction

log = logging.getLogger("tools_app.mcp")

RequestContext = ServerRequestContext[Any, Any]

# A client that does not read is not waited for; messages beyond these limits are dropped.
PATIENCE_SECONDS: Final = 1.0
MOST_WAITING: Final = 100
MOST_MESSAGE: Final = 4_000
MOST_ANSWERS: Final = 64 * 1024
STATE_SECONDS: Final = 600
_LEVEL: Final = "toolhub.level"
_REQUESTS: Final[Mapping[str, tuple[Any, Any]]] = {
    "elicitation/create": (types.ElicitRequest, types.ElicitResult),
    "sampling/createMessage": (types.CreateMessageRequest, types.CreateMessageResult),
    "roots/list": (types.ListRootsRequest, types.ListRootsResult),
}


def connection_of(context: RequestContext) -> Connection:
    # A session lives for one message; what lasts longer is kept with the connection, which the SDK makes private.
    return context.session._connection


async def set_level(context: RequestContext, params: types.SetLevelRequestParams) -> types.EmptyResult:
    """Set the minimum log level of a client of the handshake era."""
    connection_of(context).state[_LEVEL] = params.level
    return types.EmptyResult()


class Conversation:
    """The conversation of one call. `about` identifies the request: answers are valid for no other."""

    def __init__(self, context: RequestContext, caller: Caller, about: list[Any]) -> None:
        self._context = context
        self._caller = caller
        self._about = about
        self._modern = context.protocol_version in MODERN_PROTOCOL_VERSIONS
        self._thread = threading.get_ident()
        self._loop = asyncio.get_running_loop()
        self._queue: deque[Callable[[], Awaitable[None]]] = deque()
        self._send_task: asyncio.Task[None] | None = None
        self._last_progress = float("-inf")
        self._answers_by_key: dict[str, Any] | None = None
        self._question_counts: Counter[str] = Counter()

    # ---- for the tool

    @property
    def session_id(self) -> str:
        """Of a client of the handshake era over HTTP; empty for others."""
        return connection_of(self._context).session_id or ""

    def can(self, capability: str) -> bool:
        if not self._modern and not self._context.session.can_send_request:
            return False
        return getattr(self._context.session.client_capabilities, capability, None) is not None

    def progress(self, done: float, total: float | None, message: str) -> None:
        self._post(lambda: self._report(done, total, _sanitize(message) or None))

    def tell(self, level: str, message: str, data: Mapping[str, Any]) -> None:
        minimum = self._level()
        if minimum is None or LEVELS.index(level) < LEVELS.index(minimum):
            return
        content: Any = _sanitize(message)
        if data:
            content = {"message": content, **redaction.redacted(hygiene.cleaned_json(dict(data)))}
        params: dict[str, Any] = {"level": level, "data": content, "logger": "tool"}
        notification = types.LoggingMessageNotification(params=types.LoggingMessageNotificationParams(**params))
        self._post(lambda: self._context.session.send_notification(notification, self._context.request_id))

    async def ask(self, questions: Mapping[str, Question]) -> Mapping[str, Any]:
        for question in questions.values():
            if not self.can(question.capability):
                raise InputRequiredError.nobody_can(question.capability)
        if self._modern:
            return self._answers({self._numbered_key(key): key for key in questions}, questions)
        return {key: await self._ask_now(question) for key, question in questions.items()}

    # ---- for the door

    async def end(self) -> None:
        """Send pending messages before the result."""
        if self._send_task is not None:
            with anyio.move_on_after(PATIENCE_SECONDS):
                await self._send_task
            self._send_task.cancel()

    def result(self, ask: Ask) -> dict[str, Any]:
        """The result that carries the questions in the modern era."""
        requests = {key: {"method": one.method, "params": one.params()} for key, one in ask.questions.items()}
        return {"resultType": "input_required", "inputRequests": requests, "requestState": self._seal()}

    def refusal(self, error: InputRequiredError) -> MCPError | None:
        """The protocol's error for a client that lacks a capability; None in the handshake era."""
        capability = error.context.get("capability")
        if not self._modern or capability is None:
            return None
        data: dict[str, Any] = {"requiredCapabilities": {capability: {}}}
        return MCPError(MISSING_REQUIRED_CLIENT_CAPABILITY, error.message, data)

    # ---- notifications

    def _level(self) -> str | None:
        if self._modern:
            level: Any = (self._context.meta or {}).get(LOG_LEVEL_META_KEY)
        else:
            level = connection_of(self._context).state.get(_LEVEL, "info")
        return level if level in LEVELS else None

    async def _report(self, done: float, total: float | None, message: str | None) -> None:
        # Progress must increase: reports from several threads may arrive out of order.
        if done > self._last_progress:
            self._last_progress = done
            await self._context.session.report_progress(done, total, message)

    def _post(self, message: Callable[[], Awaitable[None]]) -> None:
        if threading.get_ident() != self._thread:
            loops.post(self._loop, self._post, message)
            return
        if len(self._queue) >= MOST_WAITING:
            self._queue.popleft()
        self._queue.append(message)
        if self._send_task is None or self._send_task.done():
            self._send_task = self._loop.create_task(self._send())

    async def _send(self) -> None:
        while self._queue:
            message = self._queue.popleft()
            try:
                await message()
            except Exception as error:
                log.debug("a message could not be sent to the client: %r", error)
                return

    # ---- questions

    async def _ask_now(self, question: Question) -> Any:
        request_type, result_type = _REQUESTS[question.method]
        request = request_type.model_validate({"method": question.method, "params": question.params()})
        metadata = ServerMessageMetadata(related_request_id=self._context.request_id)
        timeout = conf.value("TOOLHUB_ASK_SECONDS")
        try:
            reply = await self._context.session.send_request(request, result_type, timeout, metadata)
            return question.read(reply.model_dump(by_alias=True, mode="json", exclude_none=True))
        except (ValidationError, Unfit) as error:
            raise InputRequiredError.unanswered("the answer is invalid", detail=error) from error
        except MCPError as error:
            raise InputRequiredError.unanswered("the client refused or timed out", detail=error) from error

    def _numbered_key(self, key: str) -> str:
        """A unique key for each question: in every run the n-th question with the same key is the same one."""
        self._question_counts[key] += 1
        return key if self._question_counts[key] == 1 else f"{key}-{self._question_counts[key]}"

    def _answers(self, keys: Mapping[str, str], questions: Mapping[str, Question]) -> Mapping[str, Any]:
        answers = self._sent_answers()
        results: dict[str, Any] = {}
        open_questions: dict[str, Question] = {}
        for number, key in keys.items():
            try:
                if number not in answers:
                    raise Unfit("not answered yet")
                results[key] = questions[key].read(answers[number])
            except Unfit:
                answers.pop(number, None)
                open_questions[number] = questions[key]
        if open_questions:
            raise InputRequired(open_questions)
        return results

    def _sent_answers(self) -> dict[str, Any]:
        if self._answers_by_key is None:
            params = self._context.params or {}
            responses = params.get("inputResponses")
            responses = {} if responses is None else responses
            if not isinstance(responses, dict):
                raise MCPError(INVALID_PARAMS, "Invalid inputResponses: expected an object, with an answer to each key")
            if len(json.dumps(responses)) > MOST_ANSWERS:
                raise MCPError(INVALID_PARAMS, f"The answers are longer than {MOST_ANSWERS:,} characters")
            self._answers_by_key = {**self._unseal(params.get("requestState")), **responses}
        return self._answers_by_key

    def check(self) -> None:
        """Check the answers before the call starts.

        Raises:
            MCPError: the `requestState` is not valid for this call.
        """
        if self._modern and self._context.params and self._context.params.keys() & {"requestState", "inputResponses"}:
            self._sent_answers()

    def _seal(self) -> str:
        content = {"for": self._caller.id, "about": json_text.digest(self._about), "said": self._answers_by_key or {}}
        return secrets.sealed(json.dumps(content, separators=(",", ":")).encode())

    def _unseal(self, state: object) -> dict[str, Any]:
        if state is None:
            return {}
        plain = secrets.unsealed(state, STATE_SECONDS) if isinstance(state, str) else None
        content = json.loads(plain) if plain is not None else {}
        if content.get("for") != self._caller.id or content.get("about") != json_text.digest(self._about):
            log.warning("refused: a requestState that is not of this call of %s", self._caller)
            raise MCPError(INVALID_PARAMS, "Invalid or expired requestState")
        answers: dict[str, Any] = content["said"]
        return answers


def _sanitize(message: str) -> str:
    """A tool may have taken the message from anywhere."""
    return redaction.redacted_text(hygiene.cleaned(str(message)))[:MOST_MESSAGE]
