"""What an address may ask of a list: the filters that its page offers, and nothing else."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any, Final

import pytest
from django.contrib import admin
from django.contrib.admin.exceptions import DisallowedModelAdminLookup, DisallowedModelAdminToField
from django.contrib.admin.options import IncorrectLookupParameters
from django.contrib.auth.models import Group, User
from django.contrib.messages.storage.cookie import CookieStorage
from django.contrib.sessions.backends.db import SessionStore
from django.db.models import Model
from django.http import HttpRequest
from django.test import Client, RequestFactory
from django.urls import reverse

from tests.admin.conftest import agent, approval, call, days_ago, error_group, failed_call
from tests.admin.pages import page
from tools_app import governance
from tools_app.admin.lists import BoundedPaginator
from tools_app.models import AuditEntry, Call, Connection, ErrorLog, Stop

pytestmark = pytest.mark.django_db

ROLES: Final = ("viewer", "operator", "admin")
LOOKUPS: Final = (
    "", "__exact", "__contains", "__startswith", "__regex", "__iregex", "__gt", "__gte", "__in", "__isnull",
    "__year__gte",
)  # fmt: skip
NEIGHBOURS: Final = ("", "__startswith", "__regex")
GARBAGE: Final = (
    "", "x", "-1", "0", "1e400", "9" * 40, "٣", "²", "None", "%", "'\"\\", "a,b", "2026-13-45",
    "9999-12-31T23:59-23:00", "^(a+)+$", "x" * 1_000, "x " * 500, "key:" + "9" * 40,
)  # fmt: skip
# The column of calls that they are sorted by.
DURATION: Final = 5
# What Django itself reads from the address of a list.
DJANGOS: Final = ("q", "o", "p", "all", "e", "_popup", "_to_field", "_facets")


@pytest.fixture
def browsers(tools: None) -> dict[str, Client]:
    """One signed-in browser for each role."""
    found = {}
    for role in ROLES:
        user = User.objects.create_user(role, is_staff=True)
        user.groups.add(Group.objects.get(name=role))
        found[role] = Client()
        found[role].force_login(user)
    return found


@pytest.fixture
def records(tools: None) -> None:
    """A row in every list that can have one."""
    failed_call("echo", group=error_group("echo"))
    call("echo", arguments='{"salary": 4321}')
    approval()
    agent()
    governance.create_key("laptop", actor=governance.trusted("user:ben"))
    governance.create_toolset("mine", names=["echo"], actor=governance.trusted("user:ben"))
    Connection.objects.create(name="tracker", pack="redmine", url="http://127.0.0.1:1")


def lists() -> list[type[Model]]:
    """All that the admin shows; the stops are a page of their own, which reads nothing from its address."""
    return [model for model in admin.site._registry if model is not Stop]


@cache
def address(model: type[Model]) -> str:
    return reverse(f"admin:{model._meta.app_label}_{model._meta.model_name}_changelist")


def asking(user: User, model: type[Model], query: dict[str, str] | None = None) -> HttpRequest:
    request = RequestFactory().get(address(model), query or {})
    request.user = user
    request.session = SessionStore()
    request._messages = CookieStorage(request)  # type: ignore[attr-defined]  # where a list says what is wrong
    return request


def declared(request: HttpRequest, model: type[Model]) -> set[str]:
    """The parameters that the filters of a list take, as they say it themselves."""
    pages = admin.site._registry[model]
    found: set[str] = set()
    filters: list[Any] = list(pages.get_list_filter(request))
    for one in filters:
        if isinstance(one, type):
            found.add(one.parameter_name)  # type: ignore[attr-defined]
        else:
            path, kind = one if isinstance(one, tuple) else (one, admin.FieldListFilter.create)
            field: Any = model._meta.get_field(path)
            spec = kind(field, request, {}, model, pages, field_path=path)
            found.update(name or "" for name in spec.expected_parameters())
    return found


def lookups(model: type[Model]) -> Iterator[str]:
    """Every column of a table, and those of the tables next to it, in every way to ask for it."""
    for field in model._meta.get_fields():
        yield from (f"{field.name}{lookup}" for lookup in LOOKUPS)
        if field.is_relation and isinstance(field.related_model, type):
            near = (one.name for one in field.related_model._meta.get_fields())
            yield from (f"{field.name}__{name}{lookup}" for name in near for lookup in NEIGHBOURS)


def every_list(test: Any) -> Any:
    return pytest.mark.parametrize("model", lists(), ids=lambda model: model._meta.model_name)(test)


@every_list
def test_a_list_refuses_every_lookup_that_no_filter_of_it_declares(
    browsers: dict[str, Client], records: None, model: type[Model]
) -> None:
    pages = admin.site._registry[model]
    for role, browser in browsers.items():
        user = User.objects.get(username=role)
        allowed = declared(asking(user, model), model)
        refused = [name for name in lookups(model) if name not in allowed]
        for name in refused:
            request = asking(user, model, {name: "1"})
            with pytest.raises(DisallowedModelAdminLookup):
                pages.get_changelist_instance(request)
        if browser.get(address(model)).status_code != 403:
            for name in refused[:12]:
                assert browser.get(address(model), {name: "1"}).status_code == 400, f"{role}: {name}"


@pytest.mark.parametrize("role", ROLES)
@pytest.mark.parametrize(
    ("path", "query"),
    [
        ("call", {"arguments__startswith": "{"}),
        ("call", {"result__contains": "salary"}),
        ("call", {"id__regex": "^([0-9a-f]+)+!"}),
        ("call/export", {"arguments__gte": "a"}),
        ("apikey", {"hash__regex": "^a"}),
        ("apikey", {"owner__password__startswith": "md5"}),
        ("definition", {"body__description__contains": "x"}),
        ("approval", {"request_hash__startswith": "r"}),
        ("connection", {"secret__gte": "a"}),
    ],
)
def test_nobody_reads_through_a_filter_what_the_page_does_not_show(
    browsers: dict[str, Client], records: None, role: str, path: str, query: dict[str, str]
) -> None:
    assert browsers[role].get(f"/admin/tools_app/{path}/", query).status_code in (400, 403)


@every_list
def test_nonsense_in_the_address_of_a_list_breaks_nothing(
    browsers: dict[str, Client], records: None, model: type[Model]
) -> None:
    browser, user = browsers["admin"], User.objects.get(username="admin")
    pages = admin.site._registry[model]
    names = sorted(declared(asking(user, model), model))
    for value in GARBAGE:
        for name in (*names, *DJANGOS):
            try:
                found = pages.get_changelist_instance(asking(user, model, {name: value}))
                list(found.result_list)
                [list(spec.choices(found)) for spec in found.filter_specs]
            except (IncorrectLookupParameters, DisallowedModelAdminToField):
                pass  # which the page answers in words
            except Exception as error:
                raise AssertionError(f"{name}={value[:50]!r}") from error
        if value:
            shown = page(browser, address(model), **dict.fromkeys((*names, "q", "o", "p"), value))
            assert shown.status < 500, value[:50]


@pytest.mark.parametrize("value", ["x" * 60_000, "x " * 5_000, "a\x00b"])
@pytest.mark.parametrize("name", ["q", "tool"])
def test_a_text_that_no_database_looks_for_is_refused_in_words(
    browsers: dict[str, Client], records: None, name: str, value: str
) -> None:
    shown = page(browsers["viewer"], address(Call), **{name: value})
    assert shown.messages == ["The search or filter in this URL is not valid. All entries are shown."]
    taken = page(browsers["viewer"], f"{address(Call)}export/", **{name: value})
    assert "is not valid" in taken.messages[0], "a file of all calls would pass for one of those that were found"


@pytest.mark.parametrize("model", [Call, ErrorLog, AuditEntry])
def test_a_journal_keeps_its_order_whatever_the_address_says(
    browsers: dict[str, Client], records: None, model: type[Model], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Other than by time there is no index, so sorting a million rows would be anybody's to start."""
    user, pages = User.objects.get(username="viewer"), admin.site._registry[model]
    newest_first = pages.get_changelist_instance(asking(user, model)).queryset.query.order_by
    for column in range(9):
        for asked in (f"{column}", f"-{column}"):
            found = pages.get_changelist_instance(asking(user, model, {"o": asked}))
            if model is Call and column == DURATION:
                # Two calls are on record: the bound, and the one that tells that there are more.
                call("older", days_ago(1))
                monkeypatch.setattr(BoundedPaginator, "bound", 1)
                found = pages.get_changelist_instance(asking(user, model, {"o": asked}))
                assert "older" not in [one.tool_name for one in found.queryset]
            else:
                assert found.queryset.query.order_by in (newest_first, ("-pk",)), asked
