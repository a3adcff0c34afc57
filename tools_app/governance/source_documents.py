"""OpenAPI documents of sources: previewed, imported, replaced, and the operations of them that are selected."""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from django.db import transaction
from django.utils import timezone

from tools_app.access import actions
from tools_app.base import hub
from tools_app.base.ports import UnavailableError
from tools_app.governance import source_checks
from tools_app.governance.actors import Actor, Change, changing, id_of
from tools_app.governance.managed import Kind as ManagedKind
from tools_app.governance.managed import refuse_managed
from tools_app.governance.outside import add_source, outside_source
from tools_app.models import Source, SourceDocument
from tools_app.models.documents import digest_of
from tools_app.sdk.errors import ConflictError, Problem, RateLimitError, ValidationError
from tools_app.sdk.outside import Origin
from tools_app.sdk.spec import Kind
from tools_app.sources import documents, openapi, outside, sync
from tools_app.sources.documents import Need, SelectionError, Servers
from tools_app.sources.foreign.definitions import MOST_ITEMS
from tools_app.sources.foreign.names import Names
from tools_app.sources.openapi import Document, DocumentError, Found
from tools_app.upstream import documents as addresses
from tools_app.upstream.documents import MOST_BYTES, Fetched

# Each may take a gigabyte for half a minute.
MOST_AT_ONCE: Final = 2
_PLACEHOLDER: Final = "name"


@dataclass(frozen=True, slots=True)
class OperationPreview:
    """An operation, as a tool of the source would be."""

    key: str
    method: str
    path: str
    tag: str
    summary: str
    name: str
    tokens: int
    # `read`, `write` or `destructive`, as the method claims.
    access: str
    # What would break which client.
    problems: tuple[str, ...]
    is_selected: bool


@dataclass(frozen=True, slots=True)
class DocumentPreview:
    """What a document has. All of its texts were written by others."""

    title: str
    version: str
    digest: str
    bytes: int
    operations: tuple[OperationPreview, ...]
    # Keys of operations that cannot be called, each with the reason.
    unsupported: tuple[tuple[str, str], ...]
    # What else the document has, and what of it is ignored.
    notes: tuple[str, ...]
    servers: Servers
    needs: tuple[Need, ...]

    @property
    def tokens(self) -> int:
        """Of the selected operations, in a list of tools."""
        return sum(operation.tokens for operation in self.operations if operation.is_selected)


@dataclass(frozen=True, slots=True)
class ReadDocument:
    """A document that was read, to be stored later: in a transaction nothing is fetched."""

    fetched: Fetched
    document: Document
    # Where it was read; empty: it was given.
    address: str

    @property
    def digest(self) -> str:
        return digest_of(self.fetched.text)


def preview_document(
    *,
    text: bytes | None = None,
    address: str = "",
    internal: bool = False,
    name: str = "",
    select: Collection[str] | None = None,
    actor: Actor,
) -> DocumentPreview:
    """What an OpenAPI document has, before anything is stored. Blocks.

    `text` is the document, or `address` its URL. `name`: of the source that it would be. `select`: None for all.

    Raises:
        ValidationError: it cannot be read.
        AuthorizationError, RateLimitError
    """
    actor.require(actions.SOURCE_PREVIEW)
    read = read_document(text=text, address=address, internal=internal, name=name, actor=actor)
    return _preview(read, name, _chosen(read.document, select))


def read_document(
    *,
    text: bytes | None = None,
    address: str = "",
    internal: bool = False,
    name: str = "",
    actor: Actor,
    origin: Origin | None = None,
) -> ReadDocument:
    """Read a document, for `import_document` and `replace_document`. Blocks.

    Raises:
        ValidationError, AuthorizationError, RateLimitError
    """
    with _one_of_few():
        return _read(text, address, internal, name, actor, origin)


def preview_source(name: str, *, actor: Actor) -> DocumentPreview:
    """The operations of the stored document of a source, and which of them are selected. Blocks.

    Raises:
        NotFoundError
        ConflictError: the source has no document, or it cannot be used.
    """
    actor.require(actions.SOURCES_READ)
    with _one_of_few():
        row, read = _stored(name)
    return _preview(read, name, row.selected)


def import_document(
    name: str,
    *,
    text: bytes | None = None,
    address: str = "",
    digest: str = "",
    location: str = "",
    select: Collection[str] | None = None,
    internal: bool = False,
    connection: str = "",
    failure_pattern: str = "",
    read: ReadDocument | None = None,
    actor: Actor,
    reason: str = "",
) -> Source:
    """Add a source whose tools are the operations of an OpenAPI document. It is a draft, and off. Blocks.

    `location` is the base URL of the service; empty: the only absolute one in the document. `select` are operations or
    patterns; None: all, also those that the document gets later. `digest`: of the document that was previewed. `read`:
    it was read before.

    Raises:
        ValidationError, ConflictError, AuthorizationError, RateLimitError
    """
    actor.require(actions.SOURCE_CREATE)
    source_checks.check_name(name, connection=connection)
    if read is None:
        read = read_document(text=text, address=address, internal=internal, name=name, actor=actor)
    if digest and digest != read.digest:
        raise ConflictError("The document has changed since it was shown", next_step="Look at its operations again.")
    selected = _chosen_for_import(read.document, select)
    location = location or _proposed(read)
    return add_source(
        name,
        kind=Source.Kind.OPENAPI,
        location=location,
        internal=internal,
        failure_pattern=failure_pattern,
        connection=connection,
        document=_put(SourceDocument(selected=selected), read),
        actor=actor,
        reason=reason,
    )


def replace_document(
    name: str,
    *,
    text: bytes | None = None,
    address: str = "",
    digest: str = "",
    read: ReadDocument | None = None,
    actor: Actor,
    reason: str = "",
) -> None:
    """Read a source from another version of its document, or from another address. Blocks.

    Changed operations are held like those of any source outside; the selection stays.

    Raises:
        NotFoundError, ValidationError, ConflictError, AuthorizationError, RateLimitError
    """
    actor.require(actions.SOURCE_DOCUMENT)
    with transaction.atomic():
        origin = _document_source(name).origin
    # Only Python has none.
    assert origin is not None  # noqa: S101
    if read is None:
        read = read_document(
            text=text, address=address, internal=origin.internal, name=name, actor=actor, origin=origin
        )
    if digest and digest != read.digest:
        raise ConflictError("The document has changed since it was shown", next_step="Look at its operations again.")
    with changing(actions.SOURCE_DOCUMENT, actor, reason) as change:
        sync.lock()
        source = _document_source(name)
        row = SourceDocument.objects.filter(source=source).first() or SourceDocument(source=source)
        is_same = row.digest == read.digest and row.address == read.address
        if row.address != read.address:
            refuse_managed(ManagedKind.SOURCE, [name])
        before = row.noted
        _distrust(source, row, read, change, actor)
        _put(row, read).uploaded_by = id_of(actor)
        row.save()
        if not is_same:
            change.note(f"source:{name}", {"document": [before, row.noted]})
            # A program that says what the tools are does not approve them.
            Source.objects.filter(pk=source.pk).update(created_by=id_of(actor), trust=source.trust)
        outside.list_again(name)


def select_operations(
    name: str, select: Collection[str] | None, *, actor: Actor, reason: str = ""
) -> tuple[list[str], list[str]]:
    """Import other operations of a document: keys or patterns; None: all. Returns those that are new, and those that
    are not imported any more, which are retired like tools that a server no longer lists. Blocks.

    Raises:
        NotFoundError, ValidationError, ConflictError, AuthorizationError, RateLimitError
    """
    actor.require(actions.SOURCE_SELECT)
    with _one_of_few():
        row, read = _stored(name)
    selected = _chosen_for_import(read.document, select)
    keys = [operation.key for operation in read.document.operations]
    was, now = (set(keys if choice is None else choice) & set(keys) for choice in (row.selected, selected))
    if selected == row.selected:
        return [], []
    with changing(actions.SOURCE_SELECT, actor, reason) as change:
        sync.lock()
        source = _document_source(name)
        refuse_managed(ManagedKind.SOURCE, [name])
        # The operations are those of the document that was read.
        if not SourceDocument.objects.filter(source=source, digest=row.digest).update(selected=selected):
            raise ConflictError("The document has changed meanwhile", next_step="Try again.")
        change.note(f"source:{name}", {"selected": [row.selected, selected]})
        outside.list_again(name)
    return [key for key in keys if key in now - was], [key for key in keys if key in was - now]


def document_of(source: Source) -> SourceDocument | None:
    """The document of a source, without its text."""
    if source.kind != Source.Kind.OPENAPI:
        return None
    return SourceDocument.objects.filter(source=source).defer("body", "answers").first()


def selection_of(source: Source) -> list[str] | None:
    """The operations that are imported; None: all."""
    document = document_of(source)
    return None if document is None else document.selected


# ---- reading


class _Reading:
    def __init__(self) -> None:
        self.places = threading.BoundedSemaphore(MOST_AT_ONCE)


@contextmanager
def _one_of_few() -> Iterator[None]:
    """Raises: RateLimitError."""
    places = hub.part(_Reading).places
    if not places.acquire(blocking=False):
        raise RateLimitError(f"At most {MOST_AT_ONCE} documents can be read at the same time", retry_after=5)
    try:
        yield
    finally:
        places.release()


def _read(
    text: bytes | None, address: str, internal: bool, name: str, actor: Actor, origin: Origin | None = None
) -> ReadDocument:
    """Raises: ValidationError, AuthorizationError."""
    if (text is None) == (not address):
        raise _wrong("document", "Give either the document or its URL")
    if address:
        address = source_checks.clean_location(address, internal=internal, part="document_url")
    with changing(actions.SOURCE_PREVIEW, actor) as change:
        if internal and address:
            actor.require(actions.SOURCE_INTERNAL, name or "a source")
        if address:
            change.note(f"source:{name}" if name else "source", {"address": [None, address]})
    part = "document_url" if address else "document"
    if text is not None and len(text) > MOST_BYTES:
        raise _wrong(part, f"The document is larger than {MOST_BYTES // 1024**2} MiB")
    try:
        fetched = addresses.fetch(address, internal=internal, origin=origin) if text is None else Fetched(text)
        # Without conditions there is always an answer.
        assert fetched is not None  # noqa: S101
        return ReadDocument(fetched, openapi.read(fetched.text, media_type=fetched.media_type), address)
    except UnavailableError as error:
        raise _wrong(part, f"The document cannot be read: {error}") from error
    except DocumentError as error:
        raise _wrong(part, error.message, error.next_step or None) from error


def _stored(name: str) -> tuple[SourceDocument, ReadDocument]:
    """Raises: NotFoundError, ConflictError."""
    with transaction.atomic():
        row = SourceDocument.objects.filter(source=_document_source(name)).first()
    if row is None:
        raise ConflictError(f"Source {name} has no document", next_step="Upload one, or enter its URL.")
    fetched = Fetched(row.text, row.media_type)
    try:
        return row, ReadDocument(fetched, openapi.read(fetched.text, media_type=row.media_type), row.address)
    except DocumentError as error:
        raise ConflictError(
            f"Source {name} cannot be read: {error.message}", next_step=error.next_step or None
        ) from error


def _document_source(name: str) -> Source:
    """Raises: NotFoundError, ConflictError."""
    source = outside_source(name)
    if source.kind != Source.Kind.OPENAPI:
        raise ConflictError(f"Source {name} is not made from an OpenAPI document")
    return source


def _preview(read: ReadDocument, name: str, selected: Collection[str] | None) -> DocumentPreview:
    facts = documents.facts_of(read.document)
    names = Names(name or _PLACEHOLDER, outside.names_of(name) if name else {})
    wanted = None if selected is None else set(selected)
    notes = list(read.document.notes)
    if (number := len(read.document.operations if selected is None else selected)) > MOST_ITEMS:
        notes.append(f"A source has at most {MOST_ITEMS:,} operations; these are {number:,}: select fewer.")
    return DocumentPreview(
        title=facts["title"],
        version=facts["version"],
        digest=read.digest,
        bytes=len(read.fetched.text),
        operations=tuple(_operation(operation, names, wanted) for operation in read.document.operations),
        unsupported=tuple(read.document.unsupported),
        notes=tuple(notes),
        servers=documents.servers_of(read.document, read.address),
        needs=tuple(documents.needs_of(facts)),
    )


def _operation(operation: Found, names: Names, wanted: set[str] | None) -> OperationPreview:
    return OperationPreview(
        key=operation.key,
        method=operation.method,
        path=operation.path,
        tag=operation.tag,
        summary=operation.summary,
        name=names.of(Kind.TOOL, operation.key, str(operation.tool["name"])),
        tokens=operation.tokens,
        access=documents.access_of(operation.claims),
        problems=tuple(operation.problems),
        is_selected=wanted is None or operation.key in wanted,
    )


def _chosen(document: Document, select: Iterable[str] | None) -> list[str] | None:
    """Raises: ValidationError."""
    try:
        return None if select is None else documents.chosen(document.operations, list(select))
    except SelectionError as error:
        raise _wrong("select", f"The selection cannot be used: {error}") from error


def _chosen_for_import(document: Document, select: Iterable[str] | None) -> list[str] | None:
    """Raises: ValidationError."""
    selected = _chosen(document, select)
    number = len(document.operations if selected is None else selected)
    if number > MOST_ITEMS:
        problem = f"A source has at most {MOST_ITEMS:,} operations; these are {number:,}"
        raise _wrong("select", problem, "Select those that agents need.")
    return selected


def _proposed(read: ReadDocument) -> str:
    """Raises: ValidationError."""
    servers = documents.servers_of(read.document, read.address)
    if not servers.proposal:
        choices = ", ".join(servers.choices)
        problem = f"The document names these base URLs: {choices}" if choices else "The document names no base URL"
        raise _wrong("location", problem, "Enter the base URL of the service, such as https://api.example.org/v1.")
    return servers.proposal


# ---- storing


def _put(row: SourceDocument, read: ReadDocument) -> SourceDocument:
    row.text, row.address = read.fetched.text, read.address
    row.media_type, row.etag, row.modified = read.fetched.media_type, read.fetched.etag, read.fetched.modified
    row.facts, row.error = documents.facts_of(read.document), ""
    row.fetched_at = row.tried_at = timezone.now()
    return row


def _distrust(source: Source, row: SourceDocument, read: ReadDocument, change: Change, actor: Actor) -> None:
    """Another address, or a program, is not trusted because the document was before."""
    if not source.trust or (row.address == read.address and actor.principal is None):
        return
    may_trust = actor.principal is None or actions.SOURCE_TRUST_MORE.permits(actor.principal)
    if row.address != read.address or not may_trust:
        change.note(f"source:{source.name}", {"trust": [source.trust, ""]})
        source.trust = ""


def _wrong(part: str, message: str, next_step: str | None = None) -> ValidationError:
    return ValidationError(problems=[Problem(f"/{part}", message)], next_step=next_step)
