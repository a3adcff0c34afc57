"""OpenAPI documents as sources: previewed, imported, read again, replaced; which operations are tools, and who may."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from tests.support import shop as shops
from tests.support.shop import Shop, document
from tests.test_governing_outside import PASSWORD, entries, person, program
from tools_app import governance, sources
from tools_app.access.actions import ADMIN, ALL, MANAGE, OPERATOR, SOURCES
from tools_app.base import ports
from tools_app.base.ports import UnavailableError
from tools_app.governance import Actor
from tools_app.models import AuditEntry, Connection, Definition, Source, SourceDocument, SourceStatus, ToolRecord
from tools_app.sdk.errors import AuthorizationError, ConflictError, RateLimitError, ValidationError
from tools_app.sources import lister

pytestmark = pytest.mark.usefixtures("hub")

SHELL = governance.trusted("command:ann")
BASE = "https://shop.example.org/v1"


@pytest.fixture
def shop() -> Iterator[Shop]:
    with shops.running() as running:
        yield running


def text(**others: Any) -> bytes:
    return json.dumps(document(**others)).encode()


def imported(name: str = "shop", *, actor: Actor = SHELL, **parts: Any) -> Source:
    if not {"text", "address"} & parts.keys():
        parts["text"] = text()
    return governance.import_document(name, actor=actor, **parts)


def fetched(shop: Shop, **parts: Any) -> Source:
    return imported(address=shop.document_url, internal=True, **parts)


def row(name: str = "shop") -> SourceDocument:
    return SourceDocument.objects.get(source__name=name)


def listed(name: str = "shop") -> list[str]:
    """Describe the source, and return the names of its tools."""
    governance.change_source(name, enabled=True, actor=SHELL)
    sources.current().describe(name, actor="test")
    return names(name)


def names(name: str = "shop") -> list[str]:
    present = ToolRecord.objects.present().filter(source__name=name, absent_since=None)
    return sorted(present.values_list("original_name", flat=True))


def age(name: str = "shop") -> None:
    """An hour goes by."""
    then = timezone.now() - timedelta(hours=1, minutes=1)
    SourceDocument.objects.filter(source__name=name).update(tried_at=then)
    SourceStatus.objects.filter(source__name=name).update(described_at=then)


# ---- preview


def test_a_preview_shows_operations_and_stores_nothing() -> None:
    found = governance.preview_document(text=text(), name="shop", actor=SHELL)
    assert (found.title, found.version, found.bytes) == ("Shop", "1.0", len(text()))
    by_key = {one.key: one for one in found.operations}
    assert len(by_key) == 5
    one = by_key["DELETE /orders/{orderId}"]
    assert (one.method, one.path, one.tag, one.access) == ("DELETE", "/orders/{orderId}", "orders", "destructive")
    assert one.name.startswith("shop_cancel_order")
    assert (by_key["GET /orders"].access, by_key["POST /orders"].access) == ("read", "write")
    assert found.tokens == sum(one.tokens for one in found.operations) > 0
    ((key, reason),) = found.unsupported
    assert (key, "cookie" in reason) == ("GET /basket", True)
    assert found.servers.proposal == BASE
    assert [need.words for need in found.needs] == ["header X-Api-Key"]
    assert not Source.objects.filter(kind="openapi").exists()
    assert not SourceDocument.objects.exists()


def test_a_preview_counts_only_what_is_selected() -> None:
    found = governance.preview_document(text=text(), select=["tag:stock"], actor=SHELL)
    assert [one.key for one in found.operations if one.is_selected] == ["GET /stock/{sku}"]
    assert found.tokens == next(one.tokens for one in found.operations if one.is_selected)


def test_a_preview_from_a_url_is_on_record(shop: Shop) -> None:
    governance.preview_document(address=shop.document_url, internal=True, name="shop", actor=SHELL)
    (entry,) = entries("source.preview")
    assert (entry.subject, entry.changes) == ("source:shop", {"address": [None, shop.document_url]})


@pytest.mark.parametrize(
    ("parts", "path"),
    [
        ({}, "/document"),
        ({"text": b"{}", "address": "https://shop.example.org/x"}, "/document"),
        ({"text": b"\0\xff"}, "/document"),
        ({"text": b"[1]"}, "/document"),
        ({"text": b'{"swagger": "2.0"}'}, "/document"),
        ({"text": b" " * (32 * 1024**2 + 1)}, "/document"),
        ({"address": "http://shop.example.org/x"}, "/document_url"),
        ({"address": "https://10.0.0.1/x"}, "/document_url"),
        ({"address": "https://shop.example.org/x?api_key=abcdef123456"}, "/document_url"),
        ({"address": "http://169.254.169.254/x", "internal": True}, "/document_url"),
        ({"text": text(), "select": ["GET /nothing"]}, "/select"),
    ],
)
def test_what_cannot_be_read_is_refused_at_its_part(parts: dict[str, Any], path: str) -> None:
    with pytest.raises(ValidationError) as told:
        governance.preview_document(actor=SHELL, **parts)
    assert told.value.problems[0].path == path
    assert "abcdef123456" not in told.value.message


def test_what_a_server_answers_instead_of_a_document_is_told(shop: Shop) -> None:
    with pytest.raises(ValidationError, match="The document cannot be read: there is no such page"):
        governance.preview_document(address=f"{shop.url}/nowhere", internal=True, actor=SHELL)
    shop.broken = b"<html>Sign in</html>"
    with pytest.raises(ValidationError) as told:
        governance.preview_document(address=shop.document_url, internal=True, actor=SHELL)
    assert told.value.problems[0].path == "/document_url"
    shop.stop()
    with pytest.raises(ValidationError, match="The document cannot be read"):
        governance.preview_document(address=shop.document_url, internal=True, actor=SHELL)


def test_a_source_has_at_most_two_thousand_operations_and_says_so() -> None:
    paths = {f"/things/{number}": {"get": {"operationId": f"look{number}"}} for number in range(2_001)}
    large = text(paths=paths)
    note = "A source has at most 2,000 operations; these are 2,001: select fewer."
    shown = governance.preview_document(text=large, name="shop", actor=SHELL)
    assert (len(shown.operations), note in shown.notes) == (2_001, True)
    assert note not in governance.preview_document(text=large, select=["GET /things/1*"], actor=SHELL).notes
    for select in (None, ["GET *"]):
        with pytest.raises(ValidationError, match="at most 2,000 operations; these are 2,001") as refused:
            imported(text=large, select=select)
        assert refused.value.next_step == "Select those that agents need."
    assert not Source.objects.filter(kind="openapi").exists()
    imported()
    governance.replace_document("shop", text=large, actor=SHELL)
    assert note in governance.preview_source("shop", actor=SHELL).notes
    assert len(listed()) == 2_000
    (problem,) = SourceStatus.objects.get(source__name="shop").load_problems
    assert problem.reason == "only the first 2,000 of 2,001 tools are used"


def test_few_documents_are_read_at_the_same_time(monkeypatch: pytest.MonkeyPatch) -> None:
    from tools_app.governance import source_documents

    with source_documents._one_of_few(), source_documents._one_of_few(), pytest.raises(RateLimitError):
        governance.preview_document(text=text(), actor=SHELL)
    governance.preview_document(text=text(), actor=SHELL)


# ---- import


def test_an_imported_document_is_a_draft_that_is_off() -> None:
    made = imported(select=["tag:orders"], reason="for the team")
    source = Source.objects.get(name="shop")
    assert (source.kind, source.location, source.enabled, source.effective_trust) == (
        "openapi", BASE, False, Source.Trust.HOLD_ALL,
    )  # fmt: skip
    stored = row()
    assert (made.pk, stored.text, stored.address, stored.uploaded_by) == (source.pk, text(), "", "command:ann")
    assert stored.selected == ["GET /orders", "POST /orders", "GET /orders/{orderId}", "DELETE /orders/{orderId}"]
    assert stored.facts["operations"] == 5
    assert not ToolRecord.objects.filter(source=source).exists()
    (entry,) = entries("source.create")
    assert (entry.reason, entry.changes["document"]) == (
        "for the team",
        [None, {"address": "", "digest": stored.digest}],
    )
    assert "operationId" not in json.dumps(entry.changes)


def test_the_base_url_is_given_or_certain() -> None:
    with pytest.raises(ValidationError, match=r"names these base URLs: https://a\.example\.org, /v2") as told:
        imported(
            text=text(
                servers=[{"url": "https://{x}.example.org", "variables": {"x": {"default": "a"}}}, {"url": "/v2"}]
            )
        )
    assert told.value.problems[0].path == "/location"
    with pytest.raises(ValidationError, match="must begin with https://"):
        imported(text=text(base="http://shop.example.org"))
    assert imported(text=text(servers=[]), location="https://other.example.org/api").location == (
        "https://other.example.org/api"
    )


@pytest.mark.parametrize(
    "location",
    [
        "https://shop.example.org/v1?x=1",
        "https://10.0.0.1/v1",
        "https://ann:pw@shop.example.org",
        "https://hub.example.org",
        "https://hub.example.org/v1",
    ],
)
def test_a_base_url_is_public_and_ends_before_its_query(location: str, settings: Any) -> None:
    settings.ALLOWED_HOSTS = ["hub.example.org"]
    with pytest.raises(ValidationError) as told:
        imported(location=location)
    assert told.value.problems[0].path == "/location"
    assert not Source.objects.filter(kind="openapi").exists()


def test_a_document_that_changed_since_it_was_shown_is_not_imported(shop: Shop) -> None:
    seen = governance.preview_document(address=shop.document_url, internal=True, actor=SHELL).digest
    shop.document["info"]["title"] = "Another shop"
    with pytest.raises(ConflictError, match="has changed since it was shown"):
        fetched(shop, digest=seen)
    assert not Source.objects.filter(kind="openapi").exists()


def test_a_source_without_a_document_is_none() -> None:
    with pytest.raises(ValidationError, match="only openapi has a document"):
        governance.add_source("shop", kind="openapi", location=BASE, actor=SHELL)


def test_a_removed_source_leaves_no_document() -> None:
    imported()
    governance.remove_source("shop", actor=SHELL)
    assert not SourceDocument.objects.exists()


# ---- listing


def test_the_selected_operations_become_tools_that_wait() -> None:
    imported(select=["tag:orders", "GET /stock/{sku}"])
    assert listed() == [
        "DELETE /orders/{orderId}",
        "GET /orders",
        "GET /orders/{orderId}",
        "GET /stock/{sku}",
        "POST /orders",
    ]
    assert not ToolRecord.objects.filter(source__name="shop", enabled=True).exists()
    assert len(governance.waiting_versions(Source.objects.get(name="shop"))) == 5
    status = SourceStatus.objects.get(source__name="shop")
    assert (status.server, status.era.startswith("OpenAPI 3.1")) == ("Shop 1.0", True)


def test_a_claim_is_accepted_like_those_of_servers() -> None:
    imported()
    listed()
    governance.approve_tools("shop", accept_hints=True, actor=SHELL)
    by_key = {tool.original_name: tool for tool in ToolRecord.objects.filter(source__name="shop")}
    assert by_key["GET /orders"].hint_read_only is True
    assert by_key["DELETE /orders/{orderId}"].hint_destructive in (True, None)
    assert by_key["POST /orders"].hint_read_only in (False, None)


def test_a_test_shows_the_selected_operations_and_records_none() -> None:
    imported(select=["tag:stock"])
    found = governance.test_source("shop", actor=SHELL)
    assert (len(found.tools), found.server) == (1, "Shop 1.0")
    assert not ToolRecord.objects.filter(source__name="shop").exists()


def test_a_document_is_requested_again_when_it_is_due_and_only_then(shop: Shop) -> None:
    fetched(shop)
    assert shop.conditions == [""]
    listed()
    assert shop.conditions == [""], "it was read a moment ago"
    age()
    before = row()
    listed()
    assert shop.conditions == ["", before.etag]
    assert row().digest == before.digest
    assert row().fetched_at > before.tried_at  # type: ignore[operator]
    shop.document["paths"].pop("/stock/{sku}")
    age()
    assert "GET /stock/{sku}" not in listed()
    assert row().facts["operations"] == 4
    assert row().etag != before.etag


def test_a_document_without_a_validator_is_compared_by_its_content(shop: Shop) -> None:
    shop.has_etag = False
    fetched(shop)
    before = row()
    assert before.etag == ""
    age()
    listed()
    assert (shop.conditions, row().digest, row().error) == (["", ""], before.digest, "")


@pytest.mark.parametrize("trouble", ["down", "broken"])
def test_a_document_that_cannot_be_read_again_stays_and_says_why(shop: Shop, trouble: str) -> None:
    fetched(shop)
    before = listed()
    age()
    if trouble == "down":
        shop.stop()
    else:
        shop.broken = b"<html>Sign in</html>"
    assert listed() == before
    assert row().error
    assert row().fetched_at < row().tried_at  # type: ignore[operator]
    # It is still selected from.
    governance.select_operations("shop", ["GET /orders"], actor=SHELL)
    assert listed() == ["GET /orders"]
    if trouble == "broken":
        shop.broken = None
        age()
        listed()
        assert row().error == ""


def test_reconnecting_and_testing_read_the_document_again(shop: Shop) -> None:
    fetched(shop)
    governance.reconnect_source("shop", actor=SHELL)
    listed()
    assert len(shop.conditions) == 2
    governance.test_source("shop", actor=SHELL)
    assert len(shop.conditions) == 3


def test_a_listing_does_not_overwrite_a_document_that_was_replaced_meanwhile(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tools_app.upstream import documents

    source = fetched(shop)
    age()
    shop.document["info"]["title"] = "Old"
    fetch = documents.fetch

    def replaced(*args: Any, **options: Any) -> Any:
        answer = fetch(*args, **options)
        SourceDocument.objects.filter(source=source).update(digest="0" * 64)
        return answer

    monkeypatch.setattr(documents, "fetch", replaced)
    assert source.origin is not None
    with pytest.raises(UnavailableError, match="was replaced while it was read"):
        ports.upstreams().listing(source.origin)
    assert row().digest == "0" * 64


# ---- a document that requires credentials


def guarded(shop: Shop, form: str = "header", name: str = "X-Api-Key") -> Source:
    """A source with an uploaded document and a connection, at a service whose document requires the key."""
    shop.key, shop.guards_document = shops.KEY, True
    source = imported(text=json.dumps(shop.document).encode(), location=shop.base, internal=True)
    secret = {name: shops.KEY}
    governance.create_connection("main", "shop", form=form, secret=secret, actor=SHELL)
    governance.change_origin("shop", connection="main", actor=SHELL)
    return source


@pytest.mark.parametrize(("form", "name"), [("header", "X-Api-Key"), ("query", "key")])
def test_a_document_on_the_server_of_the_source_is_read_with_its_connection(
    shop: Shop, form: str, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    guarded(shop, form, name)
    governance.replace_document("shop", address=shop.document_url, actor=SHELL)
    shop.document["info"]["title"] = "Guarded"
    age()
    listed()
    assert (row().facts["title"], row().error) == ("Guarded", "")
    # With its validator, too.
    age()
    listed()
    assert shop.conditions[-1] != ""
    assert shops.KEY not in caplog.text + row().address + json.dumps(row().facts)


def test_without_a_connection_a_guarded_document_is_not_read(shop: Shop) -> None:
    guarded(shop)
    governance.change_origin("shop", connection="", actor=SHELL)
    with pytest.raises(ValidationError, match="requires a login"):
        governance.replace_document("shop", address=shop.document_url, actor=SHELL)
    assert "x-api-key" not in shop.seen[-1]


def test_the_secret_is_sent_to_no_other_server(shop: Shop) -> None:
    guarded(shop)
    with shops.running() as other:
        governance.replace_document("shop", address=other.document_url, actor=SHELL)
        age()
        listed()
        assert len(other.seen) == 2
        assert not any("x-api-key" in headers for headers in other.seen)
        shop.moved_to = other.document_url
        with pytest.raises(ValidationError, match="it is redirected"):
            governance.replace_document("shop", address=shop.document_url, actor=SHELL)
        assert shop.seen[-1]["x-api-key"] == shops.KEY
        assert len(other.seen) == 2


def test_a_disabled_connection_is_a_reason_and_the_document_stays(shop: Shop) -> None:
    guarded(shop)
    governance.replace_document("shop", address=shop.document_url, actor=SHELL)
    requests = len(shop.seen)
    Connection.objects.update(enabled=False)
    age()
    assert len(listed()) == 5
    assert "disabled" in row().error
    assert len(shop.seen) == requests


def test_documents_are_listed_every_hour() -> None:
    imported()
    listed()
    now = timezone.now()
    SourceStatus.objects.filter(source__name="shop").update(next_try_at=None)
    assert "shop" not in lister.due(now + timedelta(minutes=55))
    assert "shop" in lister.due(now + timedelta(minutes=61))


# ---- other versions, and another selection


def test_a_changed_operation_is_held_and_the_approved_one_stays(shop: Shop) -> None:
    fetched(shop)
    listed()
    governance.approve_tools("shop", enable=True, actor=SHELL)
    shop.document["paths"]["/orders"]["get"]["summary"] = "List all orders of everybody"
    shop.document["paths"]["/orders"]["get"]["operationId"] = "renamed"
    age()
    listed()
    (waiting,) = governance.waiting_versions(Source.objects.get(name="shop"))
    assert waiting.definition.tool.original_name == "GET /orders"
    assert waiting.is_change
    assert waiting.definition.tool.name.startswith("shop_list_orders"), "its name is kept"


def test_what_is_not_selected_any_more_is_refused_and_then_retired() -> None:
    imported()
    listed()
    added, removed = governance.select_operations("shop", ["tag:orders"], actor=SHELL, reason="no stock")
    assert (added, removed) == ([], ["GET /stock/{sku}"])
    (entry,) = entries("source.select")
    assert (entry.reason, entry.changes["selected"][0]) == ("no stock", None)
    assert "GET /stock/{sku}" not in listed()
    retired = ToolRecord.objects.filter(original_name="GET /stock/{sku}", retired_at__isnull=False)
    assert not retired.exists()
    listed()
    assert retired.exists()
    assert governance.select_operations("shop", None, actor=SHELL) == (["GET /stock/{sku}"], [])
    assert row().selected is None
    assert "GET /stock/{sku}" in listed()
    assert governance.select_operations("shop", None, actor=SHELL) == ([], [])
    assert len(entries("source.select")) == 2


def test_a_selection_excludes_what_the_document_gets_later() -> None:
    imported(select=["GET *"])
    paths = document()["paths"] | {"/new": {"get": shops.operation("getNew", "new", "New")}}
    governance.replace_document("shop", text=text(paths=paths), actor=SHELL)
    assert "GET /new" not in listed()
    shown = {one.key: one.is_selected for one in governance.preview_source("shop", actor=SHELL).operations}
    assert (shown["GET /new"], shown["GET /orders"]) == (False, True)


def test_a_replaced_document_changes_what_is_held_and_is_on_record(shop: Shop) -> None:
    imported()
    listed()
    governance.approve_tools("shop", actor=SHELL)
    before = row().digest
    other = document()
    other["paths"]["/orders"]["get"]["summary"] = "List some orders"
    governance.replace_document("shop", text=json.dumps(other).encode(), actor=SHELL, reason="1.1")
    (entry,) = entries("source.document")
    assert (entry.reason, entry.changes["document"][0]["digest"], entry.changes["document"][1]["digest"]) == (
        "1.1", before, row().digest,
    )  # fmt: skip
    listed()
    assert [
        one.definition.tool.original_name for one in governance.waiting_versions(Source.objects.get(name="shop"))
    ] == ["GET /orders"]
    governance.replace_document("shop", text=json.dumps(other).encode(), actor=SHELL)
    assert len(entries("source.document")) == 1, "it is the same"
    with pytest.raises(ValidationError):
        governance.replace_document("shop", text=b"{}", actor=SHELL)
    assert row().digest == entries("source.document")[0].changes["document"][1]["digest"]


def test_another_base_url_quarantines_the_source() -> None:
    imported()
    listed()
    governance.approve_tools("shop", actor=SHELL)
    governance.change_origin("shop", location="https://evil.example.org/v1", actor=SHELL)
    source = Source.objects.get(name="shop")
    assert (source.enabled, source.epoch) == (False, 2)
    listed()
    assert len(governance.waiting_versions(source)) == 5


def test_only_documents_have_operations() -> None:
    governance.add_source("wiki", kind="mcp_http", location="https://wiki.example.org/mcp", actor=SHELL)
    for change in (
        lambda: governance.preview_source("wiki", actor=SHELL),
        lambda: governance.select_operations("wiki", None, actor=SHELL),
        lambda: governance.replace_document("wiki", text=text(), actor=SHELL),
    ):
        with pytest.raises(ConflictError, match="not made from an OpenAPI document"):
            change()


# ---- who may


def test_administrators_import_documents_and_operators_do_not() -> None:
    operator = governance.of_user(person(OPERATOR))
    imported(actor=governance.of_user(person(ADMIN)))
    for refused in (
        lambda: imported("other", actor=operator),
        lambda: governance.preview_document(text=text(), actor=operator),
        lambda: governance.replace_document("shop", text=text(), actor=operator),
        lambda: governance.select_operations("shop", [], actor=operator),
    ):
        with pytest.raises(AuthorizationError):
            refused()
    assert governance.preview_source("shop", actor=operator).operations


def test_a_program_needs_the_scope_for_sources_and_gives_no_internal_address(shop: Shop) -> None:
    with pytest.raises(AuthorizationError, match="requires scope sources:manage"):
        imported(actor=program(MANAGE))
    for part in ({"address": shop.document_url}, {"location": "http://10.0.0.1/v1"}):
        with pytest.raises(AuthorizationError, match="cannot give shop an internal address"):
            imported(internal=True, actor=program(SOURCES), **part)
    assert shop.conditions == [], "nothing was requested"
    assert not AuditEntry.objects.filter(action="source.preview").exists()
    imported(actor=program(SOURCES))
    fetched(shop, name="mine", actor=program(ALL))
    with pytest.raises(AuthorizationError, match="cannot give mine an internal address"):
        governance.replace_document("mine", address=f"{shop.url}/other", actor=program(SOURCES))


def test_a_program_does_not_approve_what_it_imported_or_replaced() -> None:
    actor = program(SOURCES, MANAGE)
    imported(actor=actor)
    listed()
    with pytest.raises(AuthorizationError, match="cannot approve what shop lists"):
        governance.approve_tools("shop", actor=actor)
    imported("second")
    listed("second")
    governance.replace_document("second", text=text(base="https://x.example.org"), actor=actor)
    with pytest.raises(AuthorizationError, match="cannot approve what second lists"):
        governance.approve_tools("second", actor=actor)


def test_a_source_that_is_trusted_is_not_when_a_program_replaces_its_document() -> None:
    imported()
    governance.change_source("shop", trust="auto", actor=SHELL)
    governance.replace_document("shop", text=text(base="https://a.example.org"), actor=SHELL)
    assert Source.objects.get(name="shop").trust == "auto"
    governance.replace_document("shop", text=text(base="https://b.example.org"), actor=program(SOURCES))
    assert Source.objects.get(name="shop").trust == ""
    (entry,) = (one for one in entries("source.document") if "trust" in one.changes)
    assert entry.changes["trust"] == ["auto", ""]
    listed()
    assert not Definition.objects.filter(tool__source__name="shop", approved_at__isnull=False).exists()


def test_a_user_of_the_admin_is_no_program() -> None:
    boss = governance.confirmed(person(superuser=True), PASSWORD)
    imported(actor=boss)
    listed()
    assert len(governance.approve_tools("shop", actor=boss)) == 5
