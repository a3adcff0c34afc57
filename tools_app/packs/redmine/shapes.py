"""Allow-lists for Redmine's responses: only fields that are named here are returned.

A shape is a JSON Schema, which tools publish as their output schema and which selects the fields.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from tools_app.sdk.schemas import Schema

TEXT: Final[Schema] = {"type": "string"}
NUMBER: Final[Schema] = {"type": "number"}
COUNT: Final[Schema] = {"type": "integer"}
FLAG: Final[Schema] = {"type": "boolean"}
# The value of a custom field.
VALUE: Final[Schema] = {"description": "Text, a list of texts for multi-value fields, or null."}


def thing(**parts: Schema) -> Schema:
    return {"type": "object", "properties": parts}


def many(part: Schema) -> Schema:
    return {"type": "array", "items": part}


NAMED: Final = thing(id=COUNT, name=TEXT)
STATUS: Final = thing(id=COUNT, name=TEXT, is_closed=FLAG)
FIELDS: Final = many(thing(id=COUNT, name=TEXT, value=VALUE))
# Recursive: has the shape of `_CHILDREN`, which a schema without references cannot express.
_DESCENDANTS: Final[Schema] = {"type": "array", "items": {"type": "object"}}
_CHILDREN: Final = many(thing(id=COUNT, tracker=NAMED, subject=TEXT, children=_DESCENDANTS))
_JOURNALS: Final = many(
    thing(
        id=COUNT,
        user=NAMED,
        created_on=TEXT,
        private_notes=FLAG,
        notes=TEXT,
        details=many(thing(property=TEXT, name=TEXT, old_value=TEXT, new_value=TEXT)),
    )
)
ATTACHMENT: Final = thing(
    id=COUNT,
    filename=TEXT,
    filesize=COUNT,
    content_type=TEXT,
    description=TEXT,
    content_url=TEXT,
    author=NAMED,
    created_on=TEXT,
)
RELATION: Final = thing(id=COUNT, issue_id=COUNT, issue_to_id=COUNT, relation_type=TEXT, delay=COUNT)

LISTED_ISSUE: Final = thing(
    id=COUNT,
    subject=TEXT,
    project=NAMED,
    tracker=NAMED,
    status=STATUS,
    priority=NAMED,
    author=NAMED,
    assigned_to=NAMED,
    category=NAMED,
    fixed_version=NAMED,
    parent=thing(id=COUNT),
    start_date=TEXT,
    due_date=TEXT,
    done_ratio=COUNT,
    is_private=FLAG,
    estimated_hours=NUMBER,
    spent_hours=NUMBER,
    description=TEXT,
    custom_fields=FIELDS,
    created_on=TEXT,
    updated_on=TEXT,
    closed_on=TEXT,
    attachments=many(ATTACHMENT),
    relations=many(RELATION),
)
ISSUE: Final = thing(
    **LISTED_ISSUE["properties"],
    children=_CHILDREN,
    changesets=many(thing(revision=TEXT, user=NAMED, comments=TEXT, committed_on=TEXT)),
    journals=_JOURNALS,
    watchers=many(NAMED),
    allowed_statuses=many(STATUS),
)
PROJECT: Final = thing(
    id=COUNT,
    name=TEXT,
    identifier=TEXT,
    status=TEXT,
    is_public=FLAG,
    inherit_members=FLAG,
    parent=NAMED,
    created_on=TEXT,
    updated_on=TEXT,
    homepage=TEXT,
    description=TEXT,
    enabled_modules=many(NAMED),
    trackers=many(NAMED),
    issue_categories=many(NAMED),
    time_entry_activities=many(thing(id=COUNT, name=TEXT, is_default=FLAG, active=FLAG)),
    issue_custom_fields=many(NAMED),
    custom_fields=FIELDS,
)
TIME_ENTRY: Final = thing(
    id=COUNT,
    project=NAMED,
    issue=thing(id=COUNT),
    user=NAMED,
    activity=NAMED,
    hours=NUMBER,
    comments=TEXT,
    spent_on=TEXT,
    custom_fields=FIELDS,
    created_on=TEXT,
    updated_on=TEXT,
)
# Never the API key, which Redmine returns to administrators and to the user.
USER: Final = thing(
    id=COUNT,
    login=TEXT,
    firstname=TEXT,
    lastname=TEXT,
    mail=TEXT,
    status=TEXT,
    admin=FLAG,
    created_on=TEXT,
    updated_on=TEXT,
    last_login_on=TEXT,
    passwd_changed_on=TEXT,
    custom_fields=FIELDS,
    groups=many(NAMED),
    memberships=many(thing(project=NAMED, roles=many(NAMED))),
)
VERSION: Final = thing(
    id=COUNT,
    name=TEXT,
    project=NAMED,
    status=TEXT,
    due_date=TEXT,
    sharing=TEXT,
    description=TEXT,
    wiki_page_title=TEXT,
    custom_fields=FIELDS,
)
MEMBERSHIP: Final = thing(id=COUNT, user=NAMED, group=NAMED, roles=many(thing(id=COUNT, name=TEXT, inherited=FLAG)))
QUERY: Final = thing(id=COUNT, name=TEXT, is_public=FLAG, project_id=COUNT)
CATEGORY: Final = thing(id=COUNT, name=TEXT, project=NAMED, assigned_to=NAMED)
_OF_A_PAGE: Final = {"version": COUNT, "parent": thing(title=TEXT), "created_on": TEXT, "updated_on": TEXT}
LISTED_PAGE: Final = thing(title=TEXT, **_OF_A_PAGE)
WIKI_PAGE: Final = thing(title=TEXT, text=TEXT, author=NAMED, comments=TEXT, **_OF_A_PAGE, attachments=many(ATTACHMENT))
TRACKER: Final = thing(id=COUNT, name=TEXT, default_status=STATUS, description=TEXT)
ENUMERATED: Final = thing(id=COUNT, name=TEXT, is_default=FLAG, active=FLAG)
CUSTOM_FIELD: Final = thing(
    id=COUNT,
    name=TEXT,
    customized_type=TEXT,
    field_format=TEXT,
    is_required=FLAG,
    is_filter=FLAG,
    multiple=FLAG,
    possible_values=many(TEXT),
    trackers=many(NAMED),
)
FOUND: Final = thing(id=COUNT, title=TEXT, type=TEXT, url=TEXT, description=TEXT, datetime=TEXT)


def shown(shape: Schema, value: Any) -> Any:
    """The parts of a value that the shape allows; None for other types and empty values."""
    if shape is _DESCENDANTS:
        shape = _CHILDREN
    match shape.get("type"):
        case "object":
            parts: Mapping[str, Schema] = shape["properties"]
            if not isinstance(value, dict):
                return None
            parts_of_value = {key: shown(part, value[key]) for key, part in parts.items() if key in value}
            # Custom fields are kept without a value, too.
            return {key: part for key, part in parts_of_value.items() if part is not None or parts[key] is VALUE}
        case "array":
            items = [shown(shape["items"], each) for each in value] if isinstance(value, list) else None
            return items and [each for each in items if each is not None]
        case "string":
            return str(value) if isinstance(value, str | int | float) and not isinstance(value, bool) else None
        case "boolean":
            return value if isinstance(value, bool) else None
        case "integer" | "number":
            is_number = isinstance(value, int | float) and not isinstance(value, bool)
            return value if is_number and (shape is NUMBER or isinstance(value, int)) else None
    return _value(value)


def _value(value: Any) -> Any:
    """Plugins may store other types in custom fields than Redmine does."""
    if isinstance(value, list):
        return [each for each in value if isinstance(each, str | int | float)]
    return value if isinstance(value, str | int | float) else None


def part_of(thing: Any, name: str) -> dict[str, Any]:
    """The object under a name; empty if it is not an object."""
    part = thing.get(name) if isinstance(thing, dict) else None
    return part if isinstance(part, dict) else {}


def parts_of(thing: Any, name: str) -> list[dict[str, Any]]:
    """The objects in the list under a name."""
    parts = thing.get(name) if isinstance(thing, dict) else None
    return [each for each in parts if isinstance(each, dict)] if isinstance(parts, list) else []


def one(name: str, shape: Schema) -> Schema:
    """The answer of a tool that gets an object."""
    return thing(**{name: shape}) | {"required": [name]}


def page(name: str, shape: Schema, **more: Schema) -> Schema:
    """The answer of a tool that lists objects."""
    counts = {"total_count": COUNT, "offset": COUNT, "limit": COUNT}
    return thing(**{name: many(shape)}, **counts, **more) | {"required": [name, "total_count"]}


def written(name: str = "") -> Schema:
    """The answer of a tool that changes an object; the object's schema is that of the tool that gets it."""
    status: Schema = {"type": "string", "enum": ["success", "partial"]}
    about: dict[str, Schema] = {name: {"type": "object"}} if name else {}
    response = thing(status=status, message=TEXT, warnings=many(TEXT), **about) | {"required": ["status", "message"]}
    return one("response", response)
