"""OpenAPI documents: read from their address, and read again when that is due."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final

from django.db import transaction
from django.utils import timezone

from tools_app.base import database
from tools_app.base.ports import UnavailableError
from tools_app.catalog import connections
from tools_app.http import WebClient, addresses
from tools_app.http.network import NotPublicError
from tools_app.http.public import Address, is_of_the_machine, is_public
from tools_app.http.web import MOST_HOPS, NOT_MODIFIED, PORTS
from tools_app.models import AnswerFinding, SourceDocument
from tools_app.models.documents import MOST_ERROR, MOST_VALIDATOR, digest_of
from tools_app.sdk.accounts import Credentials
from tools_app.sdk.errors import ToolError, ToolTimeoutError
from tools_app.sdk.outside import Listing, Origin
from tools_app.sources import documents, openapi
from tools_app.sources.openapi import Document, DocumentError
from tools_app.text import hygiene
from tools_app.text.budget import written
from tools_app.upstream.oauth.token import NoTokenError
from tools_app.upstream.opening import bearer_of, secrets_of, with_token

log = logging.getLogger("tools_app.upstream")

MOST_BYTES: Final = 32 * 1024 * 1024
SECONDS: Final = 30.0
# A document is not requested more often, unless an operator asks for it.
FRESH_SECONDS: Final = 300.0
_OPERATION: Final = "read the document"


@dataclass(frozen=True, slots=True)
class Fetched:
    """A document as its address serves it."""

    text: bytes
    media_type: str = ""
    # What a later request says to get it only if it has changed.
    etag: str = ""
    modified: str = ""


def fetch(
    address: str, *, internal: bool, etag: str = "", modified: str = "", origin: Origin | None = None
) -> Fetched | None:
    """The document at an address; None if it is still the one of `etag` and `modified`. Blocks.

    `origin`: the source that it is for. On the server of that, its connection is used.

    Raises:
        UnavailableError: the message is for operators.
    """
    return asyncio.run(_fetch(address, internal, etag, modified, origin))


async def _fetch(address: str, internal: bool, etag: str, modified: str, origin: Origin | None) -> Fetched | None:
    parts = addresses.split(address)
    if isinstance(parts, str):
        raise UnavailableError(f"its URL {parts}")
    known = {"if-none-match": etag, "if-modified-since": modified}
    credentials = await _credentials(origin, parts[:3])
    client = WebClient(
        timeout=SECONDS,
        most_bytes=MOST_BYTES,
        # Those of the address itself, and of a redirect to the standard ones.
        ports=PORTS | {parts[2]},
        allowed=_may_be_internal if internal else is_public,
        # A secret is sent to the server that it was set for, and nowhere else.
        hops=0 if credentials.secrets else MOST_HOPS,
        secrets=secrets_of(credentials),
    )
    try:
        headers = {**{name: value for name, value in known.items() if value}, **credentials.headers}
        page = await client.get(
            address, operation=_OPERATION, reads="bytes", headers=headers, params=credentials.query or None
        )
    except ToolTimeoutError as error:
        raise UnavailableError(f"it was not read within {SECONDS:.0f} s") from error
    except ToolError as error:
        if isinstance(error.__cause__, NotPublicError):
            reason = "its address is not public; permit an internal address if it is one of your own"
            raise UnavailableError(reason) from error
        raise UnavailableError(hygiene.cleaned(error.message.removeprefix(f"Failed to {_OPERATION}: "))) from error
    finally:
        await client.close()
    if page.status == NOT_MODIFIED:
        return None
    return Fetched(
        page.data,
        page.headers.get("content-type", "")[:100],
        _validator(page.headers.get("etag", "")),
        _validator(page.headers.get("last-modified", "")),
    )


async def _credentials(origin: Origin | None, server: tuple[str, str, int]) -> Credentials:
    """Those of the connection with which a source is listed, for a document on its own server; otherwise none.

    Raises:
        UnavailableError: they cannot be used now.
    """
    if origin is None or not origin.connection or addresses.split(origin.location)[:3] != server:
        return Credentials()
    if server[0] != "https" and not origin.internal:
        return Credentials()
    try:
        account = await database.run(connections.account_of, origin.connection)
        credentials = await database.run(connections.credentials_of, account, origin)
        bearer = bearer_of(account, origin)
        return credentials if bearer is None else with_token(credentials, await bearer.current())
    except ToolError as error:
        raise UnavailableError(error.message) from error
    except NoTokenError as error:
        raise UnavailableError(error.reason) from error


def listing(origin: Origin) -> Listing:
    """The selected operations of the document of a source, which is read again first if that is due. Blocks.

    A document that cannot be read again stays as it is, with the reason: calls do not need its server.

    Raises:
        UnavailableError: there is no document that can be used.
    """
    row = SourceDocument.objects.filter(source__name=origin.name).first()
    if row is None:
        raise UnavailableError("it has no document: upload one, or enter its URL")
    if _is_due(row):
        _refresh(row, origin)
    made_of = _digest_of_choice(row)
    is_changed = row.answers_of != made_of
    try:
        document = openapi.read(row.text, media_type=row.media_type, selected=row.selected, answers=is_changed)
    except DocumentError as error:
        raise UnavailableError(error.message) from error
    if is_changed:
        _store_answers(row, document, made_of)
    return openapi.listing(document)


def _digest_of_choice(row: SourceDocument) -> str:
    return digest_of(written([row.digest, row.selected]).encode())


def _store_answers(row: SourceDocument, document: Document, made_of: str) -> None:
    """What answers are compared with from now on. Findings are about what was declared before."""
    with transaction.atomic():
        stored = SourceDocument.objects.filter(pk=row.pk, digest=row.digest)
        if stored.update(answers=documents.packed_answers(document), answers_of=made_of):
            AnswerFinding.objects.filter(document_id=row.pk).delete()


def _is_due(row: SourceDocument) -> bool:
    if not row.address:
        return False
    return row.tried_at is None or row.tried_at <= timezone.now() - timedelta(seconds=FRESH_SECONDS)


def _refresh(row: SourceDocument, origin: Origin) -> None:
    """Read a document again, and store it if it has changed."""
    now = timezone.now()
    # An operator may replace the document meanwhile.
    stored = SourceDocument.objects.filter(pk=row.pk, address=row.address, digest=row.digest)
    try:
        fetched = fetch(row.address, internal=origin.internal, etag=row.etag, modified=row.modified, origin=origin)
        document = None
        if fetched is not None and digest_of(fetched.text) != row.digest:
            document = openapi.read(fetched.text, media_type=fetched.media_type)
    except (UnavailableError, DocumentError) as error:
        reason = hygiene.cleaned(str(error))
        log.warning("the document of %s cannot be read again: %s", origin.name, reason)
        stored.update(tried_at=now, error=reason[:MOST_ERROR])
        return
    changes: dict[str, Any] = {"tried_at": now, "fetched_at": now, "error": ""}
    if fetched is not None:
        changes |= {"etag": fetched.etag, "modified": fetched.modified}
    if fetched is not None and document is not None:
        row.text, row.media_type = fetched.text, fetched.media_type
        changes |= {"body": row.body, "digest": row.digest, "media_type": row.media_type}
        changes["facts"] = documents.facts_of(document)
    if not stored.update(**changes):
        raise UnavailableError("its document was replaced while it was read")


def _may_be_internal(address: Address) -> bool:
    return not is_of_the_machine(address)


def _validator(text: str) -> str:
    return text if len(text) <= MOST_VALIDATOR else ""
