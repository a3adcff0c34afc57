"""What an HTTP service answers, as results and errors of this hub. All of it is by outsiders."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from tools_app.http import bodies, failures
from tools_app.http.bodies import UnreadableBody, WebPage
from tools_app.http.network import NotOurOriginError, NotPublicError
from tools_app.http.responses import Response, UpstreamRefusal
from tools_app.sdk import content, heavy, patterns
from tools_app.sdk.content import Audio, EmbeddedResource, Image
from tools_app.sdk.errors import (
    ApiError,
    NotFoundError,
    ToolError,
    ToolTimeoutError,
    UpstreamInvalidResponseError,
    UpstreamUnavailableError,
    UpstreamValidationError,
    shortened,
)
from tools_app.sdk.operation import Operation
from tools_app.sdk.outside import Origin
from tools_app.sdk.resource import OWN_SCHEME
from tools_app.sdk.runner import Returned
from tools_app.sdk.spec import ToolSpec
from tools_app.upstream import results
from tools_app.upstream.openapi.findings import NO_JSON
from tools_app.upstream.openapi.payloads import BYTES
from tools_app.upstream.openapi.styles import is_json

SAFE: Final = frozenset({"GET", "HEAD", "OPTIONS", "TRACE"})
MOST_MESSAGE: Final = 2_000
_MOST_HEADER: Final = 2_000
# What a response without content can still say.
_TOLD: Final = (
    "location",
    "content-location",
    "content-type",
    "content-length",
    "etag",
    "last-modified",
    "retry-after",
)
_TEXTS: Final = re.compile(
    r"text/.*|.*[/+](xml|yaml|json-seq)|application/((x-)?(yaml|javascript|ndjson|jsonl?|graphql|sql|toml|pem-file)"
    r"|x-www-form-urlencoded|json-lines|x-ndjson|jsonlines)"
)
_HTML: Final = ("text/html", "application/xhtml+xml")
_OPERATOR: Final = "An operator should check the address of this source, and its connection."


class Reader:
    """Reads the response to one call of an operation."""

    def __init__(self, origin: Origin, spec: ToolSpec, operation: Operation, *, has_account: bool) -> None:
        self._origin, self._spec, self._operation, self._has_account = origin, spec, operation, has_account
        self._writes = operation.method.upper() not in SAFE
        self._context = {"operation": f"call {spec.name}"}
        # The answer, if it is JSON and says so.
        self.json: Any = NO_JSON

    # ---- success

    async def returned(self, response: Response) -> Returned:
        """The result of a call that the service has carried out.

        Raises:
            ToolError: an operator's rule says that it failed; or it cannot be read.
        """
        if response.warning:
            return Returned({"status": response.status, "message": response.warning})
        if not response.data:
            return Returned(self._without_content(response))
        try:
            return await self._of_content(response)
        except UnreadableBody as error:
            # A web page, such as that of a login, confirms nothing.
            if self._writes and not isinstance(error, WebPage):
                message = f"The call was carried out, but the response of {self._origin.name} {error}."
                return Returned({"status": response.status, "message": message})
            kind = results.UnreadableError if self._writes else UpstreamInvalidResponseError
            message = (
                f"{self._origin.name} answered {self._spec.name} with HTTP {response.status}, but its response {error}"
            )
            raise kind(message, context=self._context, next_step=_OPERATOR) from error

    def _without_content(self, response: Response) -> dict[str, Any]:
        told = {name: shortened(response.headers[name], _MOST_HEADER) for name in _TOLD if name in response.headers}
        if self._operation.method.upper() != "HEAD":
            told = {name: value for name, value in told.items() if not name.startswith("content-")}
        empty = {"status": response.status, "message": "The call succeeded; the response has no content."}
        return {**empty, "headers": told} if told else empty

    async def _of_content(self, response: Response) -> Returned:
        body: bytes = response.data
        kind = response.headers.get("content-type", "")
        media_type = kind.partition(";")[0].strip().lower()
        accepted = [one.partition(";")[0].strip().lower() for one in self._operation.accepts]
        if bodies.is_html(body, kind) and not any(one in _HTML or "*" in one for one in accepted) and accepted:
            raise WebPage("is a web page, which its document does not declare")
        if is_json(media_type) or (any(map(is_json, accepted)) and media_type in ("", "text/plain", BYTES)):
            return await self._of_json(body, kind, is_certain=is_json(media_type))
        if _TEXTS.fullmatch(media_type) or not media_type:
            return await self._of_text(body, kind)
        return self._of_bytes(body, media_type)

    async def _of_json(self, body: bytes, kind: str, *, is_certain: bool) -> Returned:
        """`is_certain`: the service says that it is JSON. Otherwise only its document does."""
        try:
            value = await bodies.read(body, "json", kind)
        except UnreadableBody:
            if is_certain:
                raise
            return await self._of_text(body, kind)
        self.json = value if is_certain else NO_JSON
        self._check(body[: results.MOST_MATCHED * 4].decode("utf-8", "replace"))
        return Returned(value)

    async def _of_text(self, body: bytes, kind: str) -> Returned:
        if b"\0" in body and not kind:
            return self._of_bytes(body, BYTES)
        text = await heavy.by_size(body, bodies.text, body, kind)
        self._check(text)
        return Returned(text)

    def _of_bytes(self, body: bytes, media_type: str) -> Returned:
        if not content.MEDIA_TYPE.fullmatch(media_type):
            media_type = BYTES
        if media_type.startswith("image/"):
            return Returned([Image(body, media_type)])
        if media_type.startswith("audio/"):
            return Returned([Audio(body, media_type)])
        uri = f"{OWN_SCHEME}//{self._origin.name}/{self._spec.name}"
        return Returned([EmbeddedResource(uri, body, media_type)])

    def _check(self, text: str) -> None:
        pattern = self._origin.failure_pattern
        if pattern and patterns.matches(pattern, text[: results.MOST_MATCHED]):
            raise results.failed(self._origin, self._spec, text)

    # ---- refusals

    def refused(self, refusal: UpstreamRefusal, identifiers: str) -> ToolError:
        """The error for a status code other than of success, in the words of the service.

        `identifiers`: the values in the path, which name what was not found.
        """
        status, context = refusal.status, self._context
        message, next_step = self._message(refusal)
        if status in (404, 410) and identifiers:
            about = {**context, "resourceType": shortened(self._operation.path, 200), "resourceId": identifiers}
            error: ToolError = NotFoundError(message, context=about, detail=refusal.detail, next_step=next_step)
            error.nothing_done = True
        elif status in (400, 422):
            error = UpstreamValidationError(message, detail=refusal.detail, next_step=next_step)
            error.nothing_done = True
        else:
            error = ApiError(
                message, status, context, detail=refusal.detail, next_step=next_step, retry_after=refusal.retry_after
            )
        if status in (302, 303) and self._writes:
            # Many services send the browser elsewhere after a change.
            error.nothing_done = False
            error.leave_outcome_open()
        return error

    def _message(self, refusal: UpstreamRefusal) -> tuple[str, str]:
        name, status = self._origin.name, refusal.status
        reasons = shortened("; ".join(refusal.reasons), MOST_MESSAGE)
        why = f"HTTP {status}: {reasons}" if reasons else f"HTTP {status}"
        if status < 400:
            place = failures.shown_target(refusal.headers.get("location", ""))
            return f"{name} redirects to {place}, which is not followed (HTTP {status})", _OPERATOR
        match status:
            case 401 if not self._has_account:
                needs = f": {schemes}" if (schemes := self._schemes()) else ""
                return (
                    f"{name} requires authentication{needs}. This call used no connection ({why})",
                    "Ask an operator of this hub for a connection to this source.",
                )
            case 401:
                return (
                    f"Authentication failed: {name} does not accept the secret of this connection ({why})",
                    "An operator should check the secret of this connection, and whether its form fits.",
                )
            case 403:
                return (
                    f"Permission denied: {name} does not permit this call ({why})",
                    "An operator can check the permissions of this connection's account.",
                )
            case 404 | 410:
                return f"{name} did not find it ({why})", "Check the identifiers, or list what there is."
            case 400 | 422:
                return f"{name} did not accept the values ({why})", "Correct the arguments as the message says."
            case 409 | 412 | 428:
                return f"{name} refused the call because of a conflict ({why})", "Read the present state, then decide."
            case 408 | 429 | 502 | 503 | 504:
                return f"{name} is busy or not available now ({why})", "Try again in a moment."
        if status >= 500:
            return f"{name} failed ({why})", "Tell an operator if the error persists."
        return f"{name} refused the call ({why})", ""

    def _schemes(self) -> str:
        """What the document requires: `header X-Api-Key or http bearer`."""
        alternatives = (
            " with ".join(
                shortened(" ".join(filter(None, (_WORDS.get(kind, kind), place, name))))
                for kind, name, place in schemes
            )
            for schemes in self._operation.security
        )
        return " or ".join(dict.fromkeys(text for text in alternatives if text))

    # ---- no answer

    def unanswered(self, error: ToolError, sent: str) -> ToolError:
        """The error for a request without a usable response. What became of it, only the engine can judge."""
        if isinstance(error.__cause__, NotOurOriginError | NotPublicError):
            closed = UpstreamUnavailableError(
                f"Network error: {self._origin.name} cannot be used: its address is not public",
                context=self._context,
                detail=error.detail,
                next_step="An operator can mark the source as internal, if its address is meant to be private.",
            )
            closed.retryable, closed.nothing_done = False, True
            return closed
        if sent == "no" or error.nothing_done:
            error.nothing_done = True
            return error
        if isinstance(error, ToolTimeoutError) or (sent == "yes" and isinstance(error, UpstreamInvalidResponseError)):
            return error
        kind = results.UnreadableError if isinstance(error, UpstreamInvalidResponseError) else results.UnansweredError
        again = kind(error.message, context=self._context, detail=error.detail, next_step=results.LATER)
        again.blames_upstream = error.blames_upstream
        return again


_WORDS: Final[Mapping[str, str]] = {
    "apiKey": "a key in the",
    "http": "HTTP",
    "oauth2": "OAuth 2",
    "openIdConnect": "OpenID Connect",
}
