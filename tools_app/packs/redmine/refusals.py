"""Error responses of Redmine as errors that say what is missing.

Most of them have an empty body with the content type JSON, so the explanation has to come from here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tools_app.sdk.errors import ApiError, NotFoundError, ToolError, UpstreamValidationError, shortened

if TYPE_CHECKING:
    from tools_app.http import UpstreamRefusal

_ADMINISTRATOR: Final = "an administrator of Redmine"
_VERSIONS: Final = "the permission “Manage versions” in this project, which must be open"
_CATEGORIES: Final = "the permission “Manage issue categories” in this project, which must be open"
# By operation: who may do it.
REQUIRED: Final = {
    "list issues": "a role that can see issues in this project",
    "get issue": "a role that can see this issue",
    "create issue": "the permission “Add issues” in this project",
    "update issue": "the permission “Edit issues” in this project",
    "delete issue": "the permission “Delete issues” in this project",
    "add watcher": "the permission “Add watchers” in this project",
    "remove watcher": "the permission “Delete watchers” in this project",
    "get project": "a role in this project",
    "create project": "the permission “Create project”",
    "update project": "the permission “Edit project” in this project",
    "delete project": _ADMINISTRATOR,
    "archive project": _ADMINISTRATOR,
    "unarchive project": _ADMINISTRATOR,
    "set member": "the permission “Manage members” in this project, for these roles",
    "remove member": "the permission “Manage members” in this project, for the roles of this member",
    "list memberships": "a role that can see the members of this project; give an id instead of a name",
    "copy issue": "the permissions “Copy issues” and “Add issues” in this project",
    "edit note": "the permission “Edit notes” in this project, or for own ones “Edit own notes”",
    "create relation": "the permission “Manage issue relations” in this project",
    "delete relation": "the permission “Manage issue relations” in this project",
    **dict.fromkeys(("create version", "update version", "delete version"), _VERSIONS),
    **dict.fromkeys(("create category", "get category", "update category", "delete category"), _CATEGORIES),
    "get attachment": "a role that can see what it is attached to",
    "attach file": "an account that may add issues, comments or wiki pages somewhere",
    "delete attachment": "the permission to edit what it is attached to",
    "list wiki pages": "the permission “View wiki” in this project, and its module Wiki",
    "get wiki page": "the permission “View wiki” in this project, and its module Wiki",
    "write wiki page": "the permission “Edit wiki pages” in this project; a protected page: “Protect wiki pages”",
    "delete wiki page": "the permission “Delete wiki pages” in this project",
    "list time entries": "the permission “View spent time”",
    "get time entry": "the permission “View spent time” in this project",
    "create time entry": "the permission “Log spent time” in this project",
    "update time entry": "the permission “Edit time logs” in this project",
    "delete time entry": "the permission “Edit time logs” in this project",
    "list users": _ADMINISTRATOR,
    "get user": "an administrator of Redmine, or a user who shares a project with this user",
    "create user": _ADMINISTRATOR,
    "update user": _ADMINISTRATOR,
    "delete user": _ADMINISTRATOR,
    "list custom fields": _ADMINISTRATOR,
    "check the key": "a Redmine whose REST web service is enabled",
}
# Operations with lists of ids. A 404 here cannot mean an unknown path: every Redmine has these.
_WITH_IDS: Final = frozenset({"create issue", "create project", "update project"})
_OF_AN_ISSUE: Final = (
    "Correct the values. Fields that are not parameters of this tool are custom fields: list_custom_fields with "
    "project_id has their names and ids."
)
_OF_AN_ENTRY: Final = (
    "Correct the values. list_activities with project_id has the activities; fields that are not parameters of this "
    "tool are custom fields, which can be given by name."
)
_CORRECT: Final = {
    "set member": "The user must exist and be active, and this account must be allowed to give these roles.",
    "create relation": "Both issues must exist, be visible, differ, and not be related already; other projects must be "
    "allowed by Redmine's settings.",
    "create issue": _OF_AN_ISSUE,
    "copy issue": "Give values that the target project has, or clear these fields; custom_fields with null too.",
    "update issue": _OF_AN_ISSUE,
    "create time entry": _OF_AN_ENTRY,
    "update time entry": _OF_AN_ENTRY,
}
ROLES: Final = "Ask an administrator of Redmine for that, or use a connection whose account has it."


def explain_refusal(refusal: UpstreamRefusal) -> ToolError | None:
    """The error for a refusal; None if the default for its status is right."""
    request, reasons = refusal.request, ", ".join(refusal.reasons)
    is_page = "html" in refusal.headers.get("content-type", "")
    context = request.context(statusCode=refusal.status, errorDetails=None if is_page else reasons or None)
    match refusal.status:
        case 401:
            return ApiError(
                "Authentication failed: Redmine does not accept the API key of this connection",
                context=context,
                next_step="Its account may be locked, or the key was reset: an operator should set the key that "
                "Redmine shows under “My account”.",
            )
        case 403:
            required = REQUIRED.get(request.operation, f"a role that may {request.operation}")
            return ApiError(f"Permission denied: requires {required}", context=context, next_step=ROLES)
        case 404:
            return None if is_page else _not_found(refusal)
        case 409:
            return ApiError(
                f"Failed to {request.operation}: another user has changed it in the meantime",
                context=context,
                next_step="Read it again, and repeat the change if it is still wanted.",
            )
        case 422 if not reasons and request.operation == "delete version":
            return UpstreamValidationError(
                "Failed to delete version: issues, custom fields or files still refer to it",
                next_step="Move its issues to another version (list_issues with fixed_version_id and status_id=*), or "
                "close it with update_version.",
            )
        case 422 if not reasons:
            # Redmine sends an empty list if a change refers to an object that no longer exists.
            return UpstreamValidationError(
                f"Failed to {request.operation}: Redmine refused it without a reason",
                next_step="It may have been changed in the meantime: read it again.",
            )
        case 422:
            return UpstreamValidationError(reasons, next_step=_CORRECT.get(request.operation))
        case 500 if not is_page and reasons:
            return ApiError(f"Failed to {request.operation}: {reasons}", context=context)
    return None


def _not_found(refusal: UpstreamRefusal) -> ToolError | None:
    """An empty body means an unknown object, a JSON body an unknown path."""
    request = refusal.request
    if isinstance(refusal.body, dict) and request.operation in _WITH_IDS:
        return UpstreamValidationError(
            f"Failed to {request.operation}: Redmine does not have all of the given ids",
            next_step="Check the ids of trackers and watchers: list_trackers and list_users have them.",
        )
    if isinstance(refusal.body, dict):
        return ApiError(
            f"Failed to {request.operation}: this Redmine does not support it",
            context=request.context(statusCode=refusal.status, errorDetails=", ".join(refusal.reasons) or None),
            next_step="It may be older than Redmine 5.0; else an operator should check the address.",
        )
    if request.resource and request.resource_id:
        about = {"operation": request.operation, "resourceType": request.resource, "resourceId": request.resource_id}
        return NotFoundError(f"{request.resource} #{shortened(request.resource_id)} not found", context=about)
    return None
