"""A small Redmine on loopback. It begins with what a real one was recorded to answer, remembers what it is told, and
lies as politely as the real one does: with 204 for changes that it does not make.
"""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Callable, Container, Iterable, Mapping
from types import TracebackType
from typing import Any, Final, Self
from urllib.parse import parse_qsl, unquote, urlsplit

from tests.support import redmine_objects
from tests.support.faultd import Faultd, Seen, Wire
from tests.support.faultd.faults import FAULTS
from tests.support.redmine_answers import (
    IDS,
    PEOPLE,
    REASONS,
    TRUSTED,
    Answer,
    Break,
    Refuse,
    listed,
    named,
    page,
    recorded,
)

# Whose key is whose; `limited` may report and comment on issues of one project, and nothing else.
KEYS: Final = {f"key-of-{login}": login for login in ("admin", "manager", "dev", "limited")}
_INCLUDES: Final = (
    *("children", "attachments", "relations", "changesets", "journals", "watchers", "allowed_statuses"),
    *("trackers", "issue_categories", "enabled_modules", "time_entry_activities", "issue_custom_fields"),
    *("memberships", "groups"),
)
# The custom fields that issues can be filtered by; what is said of others is passed over.
_FILTERS: Final = {"cf_1": 1, "cf_3": 3, "cf_4": 4}
_BETA: Final = {"id": 3, "name": "Beta (private)"}
_CLOSED: Final = {"id": 6, "name": "Closed project"}
# A custom field that only one project has, and of its issues only bugs.
_OWN: Final = {"id": 16, "name": "Root cause", "value": ""}
_COMPUTED: Final = ("start_date", "due_date", "priority_id", "done_ratio")
_NAMED: Final = {
    "tracker_id": ("tracker", "trackers"),
    "status_id": ("status", "issue_statuses"),
    "priority_id": ("priority", "priorities"),
    "activity_id": ("activity", "activities"),
    "category_id": ("category", "categories"),
    "fixed_version_id": ("fixed_version", "versions"),
}


class FakeRedmine:
    """`url` is below a path, as many installations are."""

    def __init__(self) -> None:
        self._server = Faultd()
        self._server.answer("tracker", self._answer)
        issues = listed("issues_list")
        for name in (
            "issue_full",
            "issue_xml_specials",
            "issue_unicode",
            "issue_control_chars",
            "issue_parent_children",
        ):
            issues.append(recorded(name)["issue"])
        issues.append(issues[0] | {"id": 8, "project": _BETA, "subject": "Issue of a private project"})
        issues.append(issues[0] | {"id": 9, "project": _CLOSED, "subject": "Issue of a closed project"})
        parent = _less(issues[-3], "children")
        issues += [parent | {"id": 5, "parent": {"id": 4}}, parent | {"id": 6, "parent": {"id": 5}}]
        for issue in issues:
            issue["custom_fields"] = _own_fields(issue)
        self.issues: dict[int, dict[str, Any]] = {issue["id"]: issue for issue in issues}
        self.projects: dict[int, dict[str, Any]] = {project["id"]: project for project in listed("projects_list")}
        self.projects[1] |= recorded("project_show")["project"]
        self.projects[1]["issue_custom_fields"] = [named(_OWN)]
        alone = _less(self.projects[2], "parent")
        self.projects[5] = alone | {"id": 5, "name": "Empty", "identifier": "empty"}
        self.projects[6] = alone | {"id": 6, "name": "Closed project", "identifier": "closed", "status": 5}
        for project in self.projects.values():
            project.setdefault("trackers", [named(tracker) for tracker in listed("trackers")])
            project.setdefault("issue_custom_fields", [])
        self.entries: dict[int, dict[str, Any]] = {entry["id"]: entry for entry in listed("time_entries")}
        self.users: dict[int, dict[str, Any]] = {user["id"]: user for user in listed("users_list")}
        self.users[5] = recorded("user_as_admin")["user"]
        self.versions: list[dict[str, Any]] = listed("versions")
        self.archived: set[int] = set()
        self.objects = redmine_objects.Objects()
        # Whether it passes over what it is told of custom fields.
        self.keeps_custom_fields = False
        # Names of custom fields without which it takes no new issue.
        self.required_fields: set[str] = set()
        self._broken: dict[str, tuple[str | bytes, str, str]] = {}

    @property
    def url(self) -> str:
        return f"{self._server.url}/tracker"

    @property
    def faults(self) -> str:
        """The address of a server on which everything goes wrong."""
        return self._server.url

    @property
    def requests(self) -> list[Seen]:
        return self._server.requests

    def __enter__(self) -> Self:
        self._server.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.__exit__(kind, error, trace)

    # ---- the wire

    def breaks(self, request: str, fault: str | bytes, kind: str = "application/json", status: str = "200 OK") -> None:
        """From now on, requests like `GET /issues` meet one of faultd's faults, or get these bytes."""
        self._broken[request] = (fault, kind, status)

    async def _answer(self, wire: Wire) -> None:
        asked = f"{wire.seen.method} {wire.seen.target.removeprefix('/tracker')}"
        for request, (fault, kind, status_line) in self._broken.items():
            if asked.startswith(request):
                await self._break(wire, fault, kind, status_line)
                return
        status, data = self._answered(wire.seen)
        if isinstance(data, bytes):
            await wire.answer(data, kind="text/plain")
            return
        body = b"" if data is None else json.dumps(data).encode()
        # Empty bodies are labelled JSON, too; only 204 is not.
        await wire.answer(body, status=f"{status} {REASONS[status]}", kind="" if status == 204 else "application/json")

    async def _break(self, wire: Wire, fault: str | bytes, kind: str, status: str) -> None:
        if isinstance(fault, bytes):
            await wire.answer(fault, kind=kind, status=status)
            return
        name, *figures = fault.split(":")
        await FAULTS[name](Wire(wire.seen, figures, wire.reader, wire.writer, wire.server))

    def _answered(self, seen: Seen) -> Answer:
        address = urlsplit(seen.target)
        params = dict(parse_qsl(address.query))
        login = KEYS.get(seen.headers.get("x-redmine-api-key", ""), "")
        is_json = seen.headers.get("content-type") == "application/json"
        body = json.loads(seen.body) if seen.body and is_json else seen.body or {}
        for method, pattern, answer in _ALL_ROUTES:
            found = re.fullmatch(f"/tracker{pattern}", unquote(address.path))
            if method == seen.method and found is not None:
                try:
                    return answer(self, login, {**params, **found.groupdict()}, body)
                except Refuse as refused:
                    # Whoever is nobody is asked who they are.
                    return (401, None) if refused.answer[0] == 403 and not login else refused.answer
        return 404, recorded("no_route")

    # ---- issues

    def list_issues(self, login: str, params: Mapping[str, str], body: Any) -> Answer:
        project = self._project(login, params["project_id"]) if "project_id" in params else None
        if "query_id" in params:
            # Of these, one is known here: what is open and assigned to whoever asks.
            redmine_objects.check_query(self, params["query_id"])
            params = {key: params[key] for key in ("limit", "offset") if key in params} | {"assigned_to_id": "me"}
        status, numbers = params.get("status_id", "open"), params.get("issue_id", "").split(",")
        found = [
            issue
            for issue in sorted(self.issues.values(), key=lambda issue: -issue["id"])
            if (project is None or issue["project"]["id"] == project["id"])
            and (issue["project"] != _BETA or login in ("admin", "manager"))
            and (status == "*" or str(issue["status"]["id"]) == status or not status.isdecimal())
            and (status not in ("open", "closed") or issue["status"].get("is_closed", False) is (status == "closed"))
            and params.get("tracker_id", str(issue["tracker"]["id"])) == str(issue["tracker"]["id"])
            and (numbers == [""] or str(issue["id"]) in numbers)
            and _is_in_version(issue, params.get("fixed_version_id"))
            and ("parent_id" not in params or issue["id"] in self._below(params["parent_id"]))
            and _is_assigned(issue, params.get("assigned_to_id"), login)
            and all(_has_value(issue, _FILTERS[name], params[name]) for name in _FILTERS.keys() & params.keys())
        ]
        return page("issues", [_without(issue, params) for issue in found], params)

    def get_issue(self, login: str, params: Mapping[str, str], body: Any) -> Answer:
        issue = self._issue(login, params["id"])
        shown = copy.deepcopy(issue)
        shown.setdefault("allowed_statuses", self._allowed(issue))
        shown.setdefault("watchers", [])
        shown.setdefault("journals", [])
        if login not in TRUSTED:
            shown["journals"] = [one for one in shown["journals"] if not one.get("private_notes")]
            del shown["watchers"]
        if not login:
            shown["allowed_statuses"] = []
        return 200, {"issue": _without(shown, params)}

    def create_issue(self, login: str, params: Mapping[str, str], body: Any) -> Answer:
        asked = body.get("issue", {})
        if not login:
            raise Refuse(401)
        try:
            project = self._writable(login, str(asked.get("project_id", "")))
        except Refuse:
            raise Refuse(422, "Project cannot be blank", "Tracker cannot be blank", "Status cannot be blank") from None
        copied = redmine_objects.copied(self, login, body, project)
        if not asked.get("subject", copied.get("subject")):
            raise Refuse(422, *recorded("issue_create_blank")["errors"])
        watchers = asked.pop("watcher_user_ids", ())
        if login not in TRUSTED:
            watchers = ()
        _check_all(watchers, PEOPLE)
        number = max(self.issues) + 1
        issue = copy.deepcopy(recorded("issue_parent_children")["issue"])
        del issue["children"]
        issue |= {"id": number, "project": named(project), "author": {"id": IDS[login], "name": PEOPLE[IDS[login]]}}
        issue |= {"tracker": {"id": 1, "name": "Bug"}, "status": {"id": 1, "name": "New", "is_closed": False}}
        issue |= copied
        issue |= {"id": number, "project": named(project)}
        issue["custom_fields"] = _own_fields(issue)
        issue["watchers"] = [{"id": one, "name": PEOPLE[one]} for one in watchers]
        self.issues[number] = issue
        self._change(issue, asked)
        missing = [
            one["name"] for one in issue["custom_fields"] if one["name"] in self.required_fields and not one["value"]
        ]
        if missing:
            del self.issues[number]
            raise Refuse(422, *(f"{name} cannot be blank" for name in missing))
        redmine_objects.relate_copy(self, body, number)
        return 201, {"issue": _without(issue, {})}

    def update_issue(self, login: str, params: Mapping[str, str], body: Any) -> Answer:
        issue, asked = self._issue(login, params["id"]), body.get("issue", {})
        self._writable(login, str(issue["project"]["id"]))
        if asked.get("subject") == "":
            raise Refuse(422, "Subject cannot be blank")
        if not login:
            raise Refuse(401)
        redmine_objects.attach(self, issue, asked.pop("uploads", []))
        if login == "limited":
            # It may comment, and not in private.
            asked = {key: value for key, value in asked.items() if key == "notes"}
        is_private = asked.pop("private_notes", False)
        if notes := asked.pop("notes", None):
            journal = {
                "id": next(self.objects.numbers),
                "user": {"id": IDS[login], "name": PEOPLE[IDS[login]]},
                "notes": notes,
            }
            journal |= {"created_on": "2026-11-18T10:10:58Z", "private_notes": is_private, "details": []}
            issue.setdefault("journals", []).append(journal)
        if "project_id" in asked:
            self._move(login, issue, str(asked["project_id"]))
        if asked.get("status_id") not in [status["id"] for status in self._allowed(issue)]:
            asked.pop("status_id", None)
        if self._below(str(issue["id"])):
            asked = {key: value for key, value in asked.items() if key not in _COMPUTED}
        self._change(issue, asked)
        issue["custom_fields"] = _own_fields(issue)
        return 204, None

    def _move(self, login: str, issue: dict[str, Any], key: str) -> None:
        """To a project that can be used; without what the other one has not."""
        try:
            project = self._writable(login, key)
        except Refuse:
            return
        if project["id"] != issue["project"]["id"]:
            issue["project"] = named(project)
            issue.pop("category", None)
            issue.pop("fixed_version", None)

    def _below(self, parent: str) -> set[int]:
        """The numbers of the subtasks of an issue; with `~`, of theirs too."""
        number = int(parent.removeprefix("~"))
        found = {one["id"] for one in self.issues.values() if one.get("parent") == {"id": number}}
        return found.union(*(self._below(f"~{one}") for one in found)) if parent.startswith("~") else found

    def _allowed(self, issue: Mapping[str, Any]) -> list[Any]:
        """The statuses that it can have. None closes it while its subtasks, or issues that block it, are open."""
        blocking = [
            relation["issue_id"]
            for relation in issue.get("relations", ())
            if relation["relation_type"] == "blocks" and relation["issue_to_id"] == issue["id"]
        ]
        numbers = {*blocking, *self._below(f"~{issue['id']}")} & self.issues.keys()
        is_held = any(not self.issues[number]["status"].get("is_closed", False) for number in numbers)
        return [status for status in listed("issue_statuses") if not (is_held and status["is_closed"])]

    def delete_issue(self, login: str, params: Mapping[str, str], body: Any) -> Answer:
        issue = self._issue(login, params["id"])
        self._writable(login, str(issue["project"]["id"]))
        if login == "limited":
            raise Refuse(403)
        del self.issues[issue["id"]]
        return 204, None

    def add_watcher(self, login: str, params: Mapping[str, str], body: Any) -> Answer:
        issue = self.issues.get(int(params["id"]))
        # To an issue that is not there, this alone answers as to one that may not be seen.
        if issue is None or login not in TRUSTED:
            raise Refuse(403)
        self._writable(login, str(issue["project"]["id"]))
        if body["user_id"] in PEOPLE:
            issue.setdefault("watchers", []).append({"id": body["user_id"], "name": PEOPLE[body["user_id"]]})
        return 204, None

    def remove_watcher(self, login: str, params: Mapping[str, str], body: Any) -> Answer:
        issue = self.issues.get(int(params["id"]))
        if issue is None or login not in TRUSTED:
            raise Refuse(403)
        self._writable(login, str(issue["project"]["id"]))
        issue["watchers"] = [one for one in issue.get("watchers", ()) if str(one["id"]) != params["user"]]
        return 204, None

    # ---- projects

    def list_projects(self, login: str, params: Mapping[str, str], body: Any) -> Answer:
        statuses = params.get("status", "1").split("|")
        seen = [one for one in self.projects.values() if one["id"] != 3 or login in ("admin", "manager")]
        here = [one for one in seen if str(one["status"]) in statuses and one["id"] not in self.archived]
        return page("projects", [_less(_without(project, params), "homepage") for project in here], params)

    def get_project(self, login: str, params: Mapping[str, str], body: Any) -> Answer:
        project = self._project(login, params["id"])
        own = [named(one) for one in self.objects.categories if one["project"]["id"] == project["id"]]
        return 200, {"project": _without(project | {"issue_categories": own}, params)}

    def create_project(self, login: str, params: Mapping[str, str], body: Any) -> Answer:
        asked = body["project"]
        if login != "admin":
            raise Refuse(403)
        _check_parent(asked)
        _check_all(asked.get("tracker_ids", ()), [one["id"] for one in listed("trackers")])
        if any(one["identifier"] == asked["identifier"] for one in self.projects.values()):
            raise Refuse(422, "Identifier has already been taken")
        number = max(self.projects) + 1
        project = copy.deepcopy(self.projects[2]) | {"id": number, "parent": None}
        project["time_entry_activities"] = listed("activities")
        self.projects[number] = project
        self._change(project, asked)
        return 201, {"project": _without(project, {})}

    def update_project(self, login: str, params: Mapping[str, str], body: Any) -> Answer:
        project = self._writable(login, params["id"])
        if login == "limited":
            raise Refuse(403)
        _check_parent(body["project"])
        self._change(project, body["project"])
        return 204, None

    def archive_project(self, login: str, params: Mapping[str, str], body: Any) -> Answer:
        if login != "admin":
            raise Refuse(403)
        if params["verb"] == "archive":
            self.archived.add(self._project(login, params["id"])["id"])
        else:
            self.archived.discard(
                next(k for k, v in self.projects.items() if params["id"] in (str(k), v["identifier"]))
            )
        return 204, None

    def delete_project(self, login: str, params: Mapping[str, str], body: Any) -> Answer:
        project = self._project(login, params["id"])
        if login != "admin":
            raise Refuse(403)
        del self.projects[project["id"]]
        return 204, None

    # ---- spent time

    def list_entries(self, login: str, params: Mapping[str, str], body: Any) -> Answer:
        user = str(IDS[login]) if params.get("user_id") == "me" else params.get("user_id")
        found = [
            entry
            for entry in sorted(self.entries.values(), key=lambda entry: -entry["id"])
            if user in (None, str(entry["user"]["id"]))
            and params.get("issue_id", str(entry.get("issue", {}).get("id"))) == str(entry.get("issue", {}).get("id"))
            and self._is_in(entry, params.get("project_id"))
            and params.get("from", "") <= entry["spent_on"] <= params.get("to", "9999")
        ]
        return page("time_entries", found, params)

    def _is_in(self, entry: Mapping[str, Any], key: str | None) -> bool:
        return key is None or key in (str(entry["project"]["id"]), self.projects[entry["project"]["id"]]["identifier"])

    def get_entry(self, login: str, params: Mapping[str, str], body: Any) -> Answer:
        return 200, {"time_entry": self._entry(params["id"])}

    def create_entry(self, login: str, params: Mapping[str, str], body: Any) -> Answer:
        asked = body["time_entry"]
        if not login:
            raise Refuse(403)
        self._check_spent_on(login, asked)
        number = max(self.entries) + 1
        entry = self.entries[1] | {"id": number, "user": {"id": IDS[login], "name": PEOPLE[IDS[login]]}}
        entry.pop("issue", None)
        if "issue_id" in asked:
            issue = self._issue(login, str(asked["issue_id"]))
            entry |= {"issue": {"id": issue["id"]}, "project": issue["project"]}
        else:
            entry["project"] = named(self._project(login, str(asked["project_id"])))
        entry |= {"comments": None, "spent_on": "2026-11-18"}
        self.entries[number] = entry
        self._change(entry, {key: value for key, value in asked.items() if key != "issue_id"})
        return 201, {"time_entry": entry}

    def _check_spent_on(self, login: str, asked: Mapping[str, Any]) -> None:
        kind = "Issue" if "issue_id" in asked else "Project"
        try:
            if kind == "Issue":
                issue = self._issue(login, str(asked["issue_id"]))
                self._writable(login, str(issue["project"]["id"]))
            elif not str(asked["project_id"]).isdecimal():
                raise Refuse(404)  # here it takes no identifier
            elif self._writable(login, str(asked["project_id"]))["id"] != 1 and login == "limited":
                raise Refuse(404)
        except Refuse as refused:
            if kind == "Issue" or refused.answer[0] == 404:
                raise Refuse(422, f"{kind} is invalid") from None
            raise
        if "activity_id" not in asked:
            raise Refuse(422, "Activity cannot be blank")

    def update_entry(self, login: str, params: Mapping[str, str], body: Any) -> Answer:
        entry = self._entry(params["id"])
        if login not in ("admin", "manager"):
            raise Refuse(403)
        self._change(entry, body["time_entry"])
        return 204, None

    def delete_entry(self, login: str, params: Mapping[str, str], body: Any) -> Answer:
        entry = self._entry(params["id"])
        if login not in ("admin", "manager"):
            raise Refuse(403)
        del self.entries[entry["id"]]
        return 204, None

    # ---- users

    def current_user(self, login: str, params: Mapping[str, str], body: Any) -> Answer:
        if not login:
            raise Refuse(401)
        user = recorded("user_current")["user"]
        return 200, {"user": user | {"id": IDS[login], "login": login, "admin": login == "admin"}}

    def list_users(self, login: str, params: Mapping[str, str], body: Any) -> Answer:
        if login != "admin":
            raise Refuse(403)
        part = params.get("name", "")
        names = ("login", "firstname", "lastname")
        found = [
            user
            for user in self.users.values()
            if user.get("status", 1) == 1 and any(part in str(user.get(name, "")) for name in names)
        ]
        return page("users", [_less(_without(user, params), "api_key", "status") for user in found], params)

    def get_user(self, login: str, params: Mapping[str, str], body: Any) -> Answer:
        user = self._user(params["id"])
        if login != "admin":
            kept = ("id", "login", "firstname", "lastname", "created_on", "custom_fields", "memberships")
            user = {key: value for key, value in user.items() if key in kept}
        return 200, {"user": _without(user, params)}

    def create_user(self, login: str, params: Mapping[str, str], body: Any) -> Answer:
        if login != "admin":
            raise Refuse(403)
        number = max(self.users) + 1
        asked = {key: value for key, value in body["user"].items() if "passw" not in key}
        self.users[number] = self.users[5] | {"id": number} | asked
        return 201, {"user": self.users[number]}

    def update_user(self, login: str, params: Mapping[str, str], body: Any) -> Answer:
        user = self._user(params["id"])
        if login != "admin":
            raise Refuse(403)
        user |= {key: value for key, value in body["user"].items() if "passw" not in key}
        return 204, None

    def delete_user(self, login: str, params: Mapping[str, str], body: Any) -> Answer:
        user = self._user(params["id"])
        if login != "admin":
            raise Refuse(403)
        del self.users[user["id"]]
        return 204, None

    # ---- lists

    def named_list(self, login: str, params: Mapping[str, str], body: Any) -> Answer:
        if params["list"] == "custom_fields":
            if login != "admin":
                raise Refuse(403)
            fields = listed("custom_fields")
            own = fields[0] | named(_OWN) | {"is_filter": False, "trackers": [{"id": 1, "name": "Bug"}]}
            return 200, {"custom_fields": [*fields, own]}
        return 200, recorded(
            {"issue_priorities": "priorities", "time_entry_activities": "activities"}.get(
                params["list"], params["list"]
            )
        )

    def list_of_project(self, login: str, params: Mapping[str, str], body: Any) -> Answer:
        project = self._project(login, params["id"])
        if params["list"] == "search":
            return self.search(login, params, body)
        if params["list"] == "issue_categories" and login not in ("admin", "manager"):
            raise Refuse(403)
        if params["list"] in ("versions", "issue_categories"):
            things = self.versions if params["list"] == "versions" else self.objects.categories
            found = [one for one in things if one["project"]["id"] == project["id"]]
            return 200, {params["list"]: found, "total_count": len(found)}
        return page("memberships", redmine_objects.members_of(self, project["id"]), params)

    def search(self, login: str, params: Mapping[str, str], body: Any) -> Answer:
        words = [word for word in params["q"].split() if len(word) > 1]
        found = listed("search") if words and words != ["nowhere"] else []
        return page("results", found, params)

    # ---- state

    def _issue(self, login: str, number: str) -> dict[str, Any]:
        issue = self.issues.get(int(number))
        if issue is None:
            raise Refuse(404)
        is_hidden = issue["project"] == _BETA and login not in ("admin", "manager")
        if is_hidden or issue["project"]["id"] in self.archived:
            raise Refuse(403)
        return issue

    def _project(self, login: str, key: str) -> dict[str, Any]:
        found = [one for one in self.projects.values() if key in (str(one["id"]), one["identifier"])]
        if not found:
            raise Refuse(404)
        if found[0]["id"] in self.archived or (found[0]["id"] == 3 and login not in ("admin", "manager")):
            raise Refuse(403)
        return found[0]

    def _writable(self, login: str, key: str) -> dict[str, Any]:
        project = self._project(login, key)
        if project["status"] != 1:
            raise Refuse(403)
        return project

    def _entry(self, number: str) -> dict[str, Any]:
        if int(number) not in self.entries:
            raise Refuse(404)
        return self.entries[int(number)]

    def _user(self, number: str) -> dict[str, Any]:
        if int(number) not in self.users:
            raise Refuse(404)
        return self.users[int(number)]

    def _change(self, thing: dict[str, Any], asked: Mapping[str, Any]) -> None:  # noqa: C901
        """Make a change; what does not exist is passed over in silence."""
        for field, value in asked.items():
            if field in _NAMED:
                name, kind = _NAMED[field]
                kept = {"versions": self.versions, "categories": self.objects.categories}
                known = {one["id"]: one for one in (kept[kind] if kind in kept else listed(kind))}
                if value == "":
                    thing.pop(name, None)
                elif value in known:
                    thing[name] = {key: known[value][key] for key in ("id", "name", "is_closed") if key in known[value]}
            elif field == "assigned_to_id":
                thing["assigned_to"] = {"id": value, "name": PEOPLE[value]} if value else None
            elif field in ("parent_issue_id", "parent_id"):
                thing["parent"] = {"id": int(value)} if str(value).isdecimal() else None
                if field == "parent_id":
                    thing["parent"] = named(self.projects[int(value)])
            elif field == "custom_fields" and self.keeps_custom_fields:
                continue
            elif field == "custom_fields":
                values = {one["id"]: one["value"] for one in value}
                for one in thing["custom_fields"]:
                    one["value"] = values.get(one["id"], one["value"])
            elif field == "enabled_module_names":
                thing["enabled_modules"] = [{"id": 50 + n, "name": name} for n, name in enumerate(value)]
            elif field == "tracker_ids":
                thing["trackers"] = [named(one) for one in listed("trackers") if one["id"] in value]
            elif field not in ("project_id", "issue_id", "user_id"):
                thing[field] = value if value != "" else None


def _own_fields(issue: Mapping[str, Any]) -> list[Any]:
    """The custom fields of an issue, as its project and tracker have them."""
    fields = [field for field in issue["custom_fields"] if field["id"] != _OWN["id"]]
    if issue["project"]["id"] != 1 or issue["tracker"]["id"] != 1:
        return fields
    return [*fields, next((field for field in issue["custom_fields"] if field["id"] == _OWN["id"]), dict(_OWN))]


def _without(thing: Mapping[str, Any], params: Mapping[str, str]) -> dict[str, Any]:
    """What is shown only when it is asked for."""
    wanted = params.get("include", "").split(",")
    return {key: value for key, value in thing.items() if key not in _INCLUDES or key in wanted}


def _less(thing: Mapping[str, Any], *keys: str) -> dict[str, Any]:
    """What is shown of one thing, and not of many."""
    return {key: value for key, value in thing.items() if key not in keys}


def _check_parent(asked: Mapping[str, Any]) -> None:
    if not str(asked.get("parent_id", 1)).isdecimal():
        raise Break(500)


def _check_all(asked: Iterable[int], known: Container[int]) -> None:
    if any(number not in known for number in asked):
        raise Break(404)


def _has_value(issue: Mapping[str, Any], number: int, wanted: str) -> bool:
    found = next((one["value"] for one in issue.get("custom_fields", ()) if one["id"] == number), None)
    values = found if isinstance(found, list) else [found] if found else []
    if wanted in ("*", "!*"):
        return bool(values) is (wanted == "*")
    if wanted[0] == "~":
        return any(wanted[1:].casefold() in value.casefold() for value in values)
    return bool({*values} & {*wanted.split("|")})


def _is_assigned(issue: Mapping[str, Any], wanted: str | None, login: str) -> bool:
    if wanted is None:
        return True
    number = str(IDS[login]) if wanted == "me" else wanted
    return str((issue.get("assigned_to") or {}).get("id")) == number


def _is_in_version(issue: Mapping[str, Any], wanted: str | None) -> bool:
    return wanted is None or not wanted.isdecimal() or str((issue.get("fixed_version") or {}).get("id")) == wanted


_Route = tuple[str, str, Callable[[FakeRedmine, str, Mapping[str, str], Any], Answer]]
_ID: Final = "(?P<id>[^/]+)"
_ROUTES: Final[tuple[_Route, ...]] = (
    ("GET", "/users/current", FakeRedmine.current_user),
    ("GET", "/issues", FakeRedmine.list_issues),
    ("POST", "/issues", FakeRedmine.create_issue),
    ("GET", f"/issues/{_ID}", FakeRedmine.get_issue),
    ("PUT", f"/issues/{_ID}", FakeRedmine.update_issue),
    ("DELETE", f"/issues/{_ID}", FakeRedmine.delete_issue),
    ("POST", f"/issues/{_ID}/watchers", FakeRedmine.add_watcher),
    ("DELETE", f"/issues/{_ID}/watchers/(?P<user>[0-9]+)", FakeRedmine.remove_watcher),
    ("GET", "/projects", FakeRedmine.list_projects),
    ("POST", "/projects", FakeRedmine.create_project),
    ("GET", f"/projects/{_ID}", FakeRedmine.get_project),
    ("PUT", f"/projects/{_ID}", FakeRedmine.update_project),
    ("DELETE", f"/projects/{_ID}", FakeRedmine.delete_project),
    ("PUT", f"/projects/{_ID}/(?P<verb>archive|unarchive)", FakeRedmine.archive_project),
    ("GET", f"/projects/{_ID}/(?P<list>versions|memberships|issue_categories|search)", FakeRedmine.list_of_project),
    ("GET", "/time_entries", FakeRedmine.list_entries),
    ("POST", "/time_entries", FakeRedmine.create_entry),
    ("GET", f"/time_entries/{_ID}", FakeRedmine.get_entry),
    ("PUT", f"/time_entries/{_ID}", FakeRedmine.update_entry),
    ("DELETE", f"/time_entries/{_ID}", FakeRedmine.delete_entry),
    ("GET", "/users", FakeRedmine.list_users),
    ("POST", "/users", FakeRedmine.create_user),
    ("GET", f"/users/{_ID}", FakeRedmine.get_user),
    ("PUT", f"/users/{_ID}", FakeRedmine.update_user),
    ("DELETE", f"/users/{_ID}", FakeRedmine.delete_user),
    ("GET", "/search", FakeRedmine.search),
    (
        "GET",
        "/(?:enumerations/)?(?P<list>trackers|issue_statuses|issue_priorities|time_entry_activities|custom_fields)",
        FakeRedmine.named_list,
    ),
)
# Only files are got without a suffix.
_ALL_ROUTES: Final = (
    *((method, rf"{path}\.json", answer) for method, path, answer in _ROUTES),
    *redmine_objects.ROUTES,
)
