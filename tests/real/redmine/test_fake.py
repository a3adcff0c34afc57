"""Our own Redmine compared with a real one: the same questions get answers of the same form."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest

from tests.packs.redmine.office import Office
from tests.support.redmine import KEYS, FakeRedmine

# Where nobody of those who are asked can spend time.
SPENT_ON: list[dict[str, Any]] = [{"project_id": "nowhere"}, {"issue_id": 999999}]
QUESTIONS = [
    ("GET", "/users/current.json", None),
    ("GET", "/issues.json?issue_id=1,2,3,4,11&status_id=*", None),
    ("GET", "/issues.json?project_id=nowhere", None),
    ("GET", "/issues.json?project_id=beta", None),
    ("GET", "/issues.json?project_id=alpha&cf_3=%2A&status_id=%2A", None),
    ("GET", "/issues.json?issue_id=1&status_id=%2A&cf_3=%21%2A", None),
    ("GET", "/issues.json?issue_id=1&status_id=%2A&cf_5=%21%2A", None),
    ("GET", "/issues.json?issue_id=1&status_id=%2A&cf_999=%2A", None),
    ("GET", "/issues.json?issue_id=1&status_id=%2A&sort=nonsense", None),
    ("GET", "/issues/1.json", None),
    ("GET", "/issues/1.json?include=journals,watchers,relations,attachments,allowed_statuses,children", None),
    ("GET", "/issues/8.json", None),
    ("GET", "/issues/999999.json", None),
    ("GET", "/projects.json?limit=100", None),
    ("GET", "/projects.json?limit=100&status=1%7C5", None),
    ("GET", "/projects/closed.json", None),
    ("GET", "/projects/alpha.json?include=trackers,issue_categories,enabled_modules,time_entry_activities", None),
    ("GET", "/projects/nowhere.json", None),
    ("GET", "/projects/alpha/versions.json", None),
    ("GET", "/projects/alpha/memberships.json?limit=100", None),
    ("GET", "/projects/alpha/issue_categories.json", None),
    ("GET", "/time_entries.json?limit=100", None),
    ("GET", "/time_entries/999999.json", None),
    *(("POST", "/time_entries.json", {"time_entry": {"hours": 1, "activity_id": 8, **on}}) for on in SPENT_ON),
    ("GET", "/trackers.json", None),
    ("GET", "/issue_statuses.json", None),
    ("GET", "/enumerations/issue_priorities.json", None),
    ("GET", "/enumerations/time_entry_activities.json", None),
    ("GET", "/custom_fields.json", None),
    ("GET", "/users.json?limit=100", None),
    ("GET", "/users/5.json?include=memberships,groups", None),
    ("GET", "/users/999999.json", None),
    ("GET", "/search.json?q=issue&limit=100", None),
    ("GET", "/no/such/place.json", None),
    ("GET", "/attachments/1.json", None),
    ("GET", "/attachments/999999.json", None),
    ("DELETE", "/attachments/999999.json", None),
    ("PUT", "/issues/3.json", {"issue": {"uploads": [{"token": "9.9", "filename": "x"}]}}),
    ("GET", "/projects/alpha/wiki/index.json", None),
    ("GET", "/projects/beta/wiki/index.json", None),
    ("GET", "/projects/alpha/wiki/Wiki.json?include=attachments", None),
    ("GET", "/projects/alpha/wiki/Wiki/1.json", None),
    ("GET", "/projects/alpha/wiki/Nowhere.json", None),
    ("PUT", "/projects/alpha/wiki/Wiki.json", {"wiki_page": {"text": "x", "version": 1}}),
    ("PUT", "/projects/alpha/wiki/Wiki.json", {"wiki_page": {"text": ""}}),
    ("PUT", "/projects/alpha/wiki/Above.json", {"wiki_page": {"text": "x", "parent_title": "Nowhere"}}),
    ("DELETE", "/projects/alpha/wiki/Nowhere.json", None),
    ("POST", "/issues/2/relations.json", {"relation": {"issue_to_id": 999999, "relation_type": "relates"}}),
    ("POST", "/issues/999999/relations.json", {"relation": {"issue_to_id": 2, "relation_type": "relates"}}),
    ("DELETE", "/relations/999999.json", None),
    ("GET", "/versions/1.json", None),
    ("GET", "/versions/999999.json", None),
    ("POST", "/projects/alpha/versions.json", {"version": {"name": "1.0"}}),
    ("PUT", "/versions/1.json", {"version": {"status": "nonsense"}}),
    ("DELETE", "/versions/1.json", None),
    ("GET", "/issue_categories/1.json", None),
    ("DELETE", "/issue_categories/999999.json", None),
    ("POST", "/issues.json", {"copy_from": 999999, "issue": {"project_id": "alpha"}}),
    ("PUT", "/journals/999999.json", {"journal": {"notes": "x"}}),
    ("POST", "/projects/alpha/memberships.json", {"membership": {"user_id": 999999, "role_ids": [5]}}),
    ("POST", "/projects/alpha/memberships.json", {"membership": {"user_id": 7, "role_ids": [5]}}),
    ("DELETE", "/memberships/999999.json", None),
    ("GET", "/roles.json", None),
    ("GET", "/queries.json", None),
    ("GET", "/issues.json?query_id=999999", None),
    ("POST", "/issues.json", {"issue": {"project_id": "nowhere", "subject": "x"}}),
    ("POST", "/issues.json", {"issue": {"project_id": "alpha"}}),
    ("POST", "/projects.json", {"project": {"name": "x", "identifier": "x", "tracker_ids": [99]}}),
    ("PUT", "/issues/2.json", {"issue": {"status_id": 99}}),
    ("PUT", "/issues/999999.json", {"issue": {"subject": "x"}}),
    ("DELETE", "/issues/999999.json", None),
    ("POST", "/issues/3/watchers.json", {"user_id": 999}),
    ("POST", "/projects.json", {"project": {"name": "x", "identifier": "alpha"}}),
    ("POST", "/projects.json", {"project": {"name": "x", "identifier": "x", "parent_id": "alpha"}}),
]


def asked(url: str, key: str, method: str, body: Any) -> tuple[int, str, set[str]]:
    """Status, type and form of an answer."""
    data = json.dumps(body).encode() if body is not None else None
    headers = {"X-Redmine-API-Key": key, "Content-Type": "application/json"}
    request = Request(url, data, headers, method=method)  # noqa: S310
    try:
        with urlopen(request) as response:  # noqa: S310
            status, kind, text = response.status, response.headers.get_content_type(), response.read()
    except HTTPError as error:
        status, kind, text = error.code, error.headers.get_content_type(), error.read()
    return status, kind if text.strip() else "", set(form(json.loads(text))) if text.strip() else set()


def form(value: Any, place: str = "") -> Iterator[str]:
    """What there is, and of which type: `issues[].author.name: str`."""
    if isinstance(value, dict):
        for key, part in value.items():
            yield from form(part, f"{place}.{key}")
    elif isinstance(value, list):
        yield f"{place}: list"
        for part in value:
            yield from form(part, f"{place}[]")
    elif value is not None:
        yield f"{place}: {'number' if type(value) in (int, float) else type(value).__name__}"


@pytest.mark.parametrize("login", ["admin", "limited", "somebody"])
@pytest.mark.parametrize(("method", "path", "body"), QUESTIONS)
def test_ours_says_nothing_that_a_real_one_would_not(
    office: Office, login: str, method: str, path: str, body: Any
) -> None:
    own = next((key for key, name in KEYS.items() if name == login), "0" * 40)
    with FakeRedmine() as fake:
        status, kind, said = asked(fake.url + path, own, method, body)
    real_status, real_kind, really_said = asked(office.url + path, office.keys.get(login, "0" * 40), method, body)
    assert (status, kind) == (real_status, real_kind)
    assert said - really_said == set()
