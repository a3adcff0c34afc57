"""Runs one operation of an HTTP service."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

from tools_app.base import database
from tools_app.catalog import connections
from tools_app.http.responses import Response, UpstreamRefusal, UpstreamRequest
from tools_app.sdk.accounts import Account, Credentials
from tools_app.sdk.context import Context
from tools_app.sdk.errors import ConfigurationError, InvalidArgumentsError, Problem, ToolError, shortened
from tools_app.sdk.operation import Operation, Parameter
from tools_app.sdk.outside import Origin
from tools_app.sdk.runner import InThread, Returned
from tools_app.sdk.spec import ToolSpec
from tools_app.sources.foreign import original_arguments
from tools_app.upstream import results
from tools_app.upstream.oauth.token import NoTokenError
from tools_app.upstream.openapi import findings, payloads, styles
from tools_app.upstream.openapi.answers import SAFE, Reader
from tools_app.upstream.openapi.findings import Answer
from tools_app.upstream.openapi.payloads import Payload
from tools_app.upstream.openapi.services import Service, Services
from tools_app.upstream.openapi.styles import Pair
from tools_app.upstream.opening import secrets_of, with_token
from tools_app.upstream.wire import Broken

if TYPE_CHECKING:
    import httpx

MOST_BYTES: Final = 10 * 1024 * 1024
# The engine's deadline for the call must fire first: its error says more.
_GRACE: Final = 0.1
_MOST_ACCEPTED: Final = 10
_ABSENT: Final = object()


@dataclass(frozen=True, slots=True)
class Draft:
    """A request without credentials and body."""

    path: str
    query: str
    pairs: tuple[Pair, ...]
    headers: tuple[Pair, ...]
    # The values in the path, for errors.
    identifiers: str
    body: Any = _ABSENT


class HttpRunner:
    explain: Callable[[Any], ToolError | None] | None = None

    def __init__(self, services: Services, origin: Origin, spec: ToolSpec) -> None:
        self._services, self._origin, self._spec = services, origin, spec

    @cached_property
    def _operation(self) -> Operation:
        data = self._spec.runtime.get("operation")
        if data is None:
            raise ConfigurationError(
                f"{self._spec.name} has no operation that could be called", next_step="Its source must be read again."
            )
        return Operation.read(data)

    def prepared(self, arguments: Mapping[str, Any]) -> Draft:
        try:
            return self._draft(original_arguments(self._spec, arguments))
        except UnicodeEncodeError as error:
            raise InvalidArgumentsError("A text contains an incomplete character (lone surrogate)") from error

    def _draft(self, arguments: dict[str, Any]) -> Draft:
        """Raises: InvalidArgumentsError: a value cannot be sent in its place."""
        operation = self._operation
        given: list[tuple[Parameter, Any]] = []
        for parameter in operation.parameters:
            value = arguments.pop(parameter.argument, _ABSENT)
            if value is not _ABSENT:
                given.append((parameter, value))
        body = arguments.pop(operation.body.argument, _ABSENT) if operation.body is not None else _ABSENT
        if arguments:
            # What is not sent must not seem to be.
            problems = [Problem(f"/{name}", f"Unknown parameter: {shortened(name)}") for name in sorted(arguments)[:10]]
            raise InvalidArgumentsError(problems=problems)
        in_path = {parameter.name: (parameter, value) for parameter, value in given if parameter.place == "path"}
        path, query = styles.target(operation.path, in_path)
        in_query = ((parameter, value) for parameter, value in given if parameter.place == "query")
        in_header = ((parameter, value) for parameter, value in given if parameter.place == "header")
        return Draft(
            path,
            query,
            tuple(pair for parameter, value in in_query for pair in styles.query(parameter, value)),
            tuple(pair for parameter, value in in_header for pair in styles.header(parameter, value)),
            shortened(", ".join(styles.text_of(value) for _, value in in_path.values())),
            body,
        )

    async def run(self, context: Context, arguments: Draft, in_thread: InThread) -> Returned:
        origin, sent = self._origin, _Sent()
        reader = Reader(origin, self._spec, self._operation, has_account=context.account is not None)
        try:
            service = self._services.of(origin)
            outcome = await self._authorized(service, arguments, context, sent, reader)
            if isinstance(outcome, Response):
                returned = await reader.returned(outcome)
                self._note(outcome, reader.json)
                return returned
            raise reader.refused(outcome, arguments.identifiers)
        except NoTokenError as error:
            sent.begin()
            why = Broken(error.reason, needs_sign_in=error.needs_sign_in, retry_after=error.retry_after)
            raise results.broken(origin, self._spec, why) from error
        finally:
            context.note_sent(sent.state)

    def _note(self, response: Response, value: Any) -> None:
        """Have the answer compared with what the document declares, after the call. HEAD never has content."""
        operation, body = self._operation, response.data or b""
        is_known = operation.success and operation.method.upper() != "HEAD" and not response.warning
        if is_known and len(body) <= findings.MOST_BYTES:
            kind = response.headers.get("content-type", "").partition(";")[0].strip().lower() if body else None
            answer = Answer(self._origin, self._spec.runtime["original"], response.status, kind, value)
            self._services.findings.note(answer)

    async def _authorized(
        self, service: Service, draft: Draft, context: Context, sent: _Sent, reader: Reader
    ) -> Response | UpstreamRefusal:
        """Send a request with the credentials of the account, once more if its token is refused.

        Raises:
            NoTokenError: nothing was done.
            ToolError: there is no usable response.
        """
        credentials = await self._credentials(context.account)
        bearer = service.bearer(context.account, self._origin)
        if bearer is None:
            return await self._exchanged(service, draft, context, credentials, sent, reader)
        token = await bearer.current()
        outcome = await self._exchanged(service, draft, context, with_token(credentials, token), sent, reader)
        if outcome.status != 401:
            bearer.accepted(token)
        # A 401 was not executed. What refuses a new token as well would refuse the next.
        elif (other := await bearer.replacement(token)) is not None:
            sent.begin()
            outcome = await self._exchanged(service, draft, context, with_token(credentials, other), sent, reader)
        return outcome

    async def _exchanged(
        self, service: Service, draft: Draft, context: Context, credentials: Credentials, sent: _Sent, reader: Reader
    ) -> Response | UpstreamRefusal:
        # Imports httpx: at the first call.
        from tools_app.http.exchange import Exchange

        operation, payload = self._operation, Payload()
        if operation.body is not None and draft.body is not _ABSENT:
            payload = await payloads.written(operation.body, draft.body, context)
        method = operation.method.upper()
        exchange = Exchange(
            UpstreamRequest(self._origin.name, method, f"call {self._spec.name}", writes=method not in SAFE),
            self._request(service, draft, payload, credentials, sent),
            secrets_of(credentials),
            context.remaining() + _GRACE,
            MOST_BYTES,
            "bytes",
            is_known=True,
        )
        try:
            async with service.sockets as transport:
                outcome = await exchange.over(transport)
        except ToolError as error:
            sent.is_answered = exchange.response is not None
            raise reader.unanswered(error, sent.state) from error
        sent.is_answered = True
        return outcome

    async def _credentials(self, account: Account | None) -> Credentials:
        """Now, since what they refer to may have changed. May read files."""
        if account is None:
            return Credentials()
        return await database.run(connections.credentials_of, account, self._origin)

    def _request(
        self, service: Service, draft: Draft, payload: Payload, credentials: Credentials, sent: _Sent
    ) -> httpx.Request:
        import httpx

        headers = {"user-agent": "toolhub", "accept": _accepted(self._operation)}
        headers |= {name.lower(): value for name, value in draft.headers}
        if payload.media_type:
            headers["content-type"] = payload.media_type
        # The connection decides: neither arguments nor the document can replace what it sends.
        headers |= {name.lower(): value for name, value in credentials.headers.items()}
        headers["accept-encoding"] = "gzip, deflate"
        own = {quote(name, safe=""): quote(value, safe="") for name, value in credentials.query.items()}
        pairs = [*(pair for pair in draft.pairs if pair[0] not in own), *own.items()]
        query = "&".join(filter(None, [draft.query, *(f"{name}={value}" for name, value in pairs)]))
        target = service.base.path + draft.path + (f"?{query}" if query else "")
        request = httpx.Request(
            self._operation.method.upper(),
            service.base.origin + target,
            headers=headers,
            content=payload.content,
            extensions={"trace": sent},
        )
        if request.url.raw_path != target.encode("ascii"):
            raise InvalidArgumentsError("The path cannot be sent as it is")
        return request


class _Sent:
    """Whether the service got the request. httpcore2 calls it at each step."""

    def __init__(self) -> None:
        self.begin()

    def begin(self) -> None:
        self._has_begun = self.is_answered = False

    async def __call__(self, step: str, _: Mapping[str, Any]) -> None:
        if step.endswith("send_request_headers.started"):
            self._has_begun = True

    @property
    def state(self) -> str:
        return "yes" if self.is_answered else "maybe" if self._has_begun else "no"


def _accepted(operation: Operation) -> str:
    """What the document declares, JSON first."""
    kinds = [
        kind for kind in dict.fromkeys(operation.accepts) if kind.isascii() and kind.isprintable() and "," not in kind
    ]
    kinds = sorted(kinds[:_MOST_ACCEPTED], key=lambda kind: not styles.is_json(kind))
    if not kinds:
        return "application/json, */*;q=0.5"
    first, *others = kinds
    return ", ".join([first, *(f"{kind};q=0.9" for kind in others)])
