"""Node types in the form in which n8n exports them: one a line. `tests/real/n8n` reads all that a real one has."""

from __future__ import annotations

import json
from typing import Any, Final


def only(**show: Any) -> dict[str, Any]:
    return {"displayOptions": {"show": {key.replace("at_", "@"): value for key, value in show.items()}}}


def choice(name: str, *values: str, **more: Any) -> dict[str, Any]:
    options = [{"name": value.title(), "value": value, "action": f"{value.title()} a message"} for value in values]
    return {"displayName": name.title(), "name": name, "type": "options", "options": options, **more}


_SLACK: Final[list[dict[str, Any]]] = [
    {"displayName": "<b>New</b>", "name": "notice", "type": "notice"},
    choice("authentication", "accessToken", "oAuth2", default="accessToken"),
    choice("resource", "channel", "message", default="message", noDataExpression=True),
    choice("operation", "archive", default="archive", **only(resource=["channel"])),
    choice("operation", "delete", "send", default="send", **only(resource=["message"])),
    choice("select", "channel", "user", required=True, **only(resource=["message"], operation=["send"])),
    {
        "displayName": "Channel",
        "name": "channelId",
        "type": "resourceLocator",
        "required": True,
        "default": {"mode": "list", "value": ""},
        "modes": [{"name": "list"}, {"name": "id"}, {"name": "name"}, {"name": "url"}],
        **only(resource=["message"], operation=["send"], select=["channel"]),
    },
    {"displayName": "User", "name": "user", "type": "string", **only(operation=["send"], select=["user"])},
    {
        "displayName": "Text",
        "name": "text",
        "type": "string",
        "description": 'What to post. <a href="https://docs.n8n.io/">More</a>.',
        **only(resource=["message"], operation=["send"], kind=["text"]),
    },
    {
        "displayName": "Old",
        "name": "old",
        "type": "string",
        **only(at_version=[{"_cnd": {"lt": 2}}], operation=["send"]),
    },
]


def _type(name: str, title: str, version: Any, *properties: dict[str, Any], **more: Any) -> dict[str, Any]:
    described = {"displayName": title, "name": f"n8n-nodes-base.{name}", "version": version, "inputs": ["main"]}
    return {**described, "group": ["output"], "outputs": ["main"], "properties": list(properties), **more}


_SCALARS: Final = ("boolean", "dateTime", "number", "string")
TYPES: Final[list[dict[str, Any]]] = [
    _type("slack", "Slack", 1, *_SLACK, description="Consume Slack API"),
    _type(
        "slack",
        "Slack",
        [2, 2.7],
        *_SLACK,
        description="Consume Slack API",
        defaultVersion=2.7,
        codex={"alias": ["human", "approval"]},
        credentials=[{"name": "slackApi", "required": True, **only(authentication=["accessToken"])}],
    ),
    _type("slackTool", "Slack Tool", 2.7, description="Consume Slack API"),
    _type(
        "if",
        "If",
        1,
        {
            "displayName": "Conditions",
            "name": "conditions",
            "type": "fixedCollection",
            "typeOptions": {"multipleValues": True},
            "options": [
                {"name": kind, "values": [{"name": "value1", "type": kind, "default": ""}]} for kind in _SCALARS
            ],
        },
        defaultVersion=2.3,
        outputs=["main", "main"],
    ),
    _type(
        "if", "If", [2, 2.3], {"displayName": "Conditions", "name": "conditions", "type": "filter"}, defaultVersion=2.3
    ),
    _type("webhook", "Webhook", [1, 2.1], choice("httpMethod", "GET", "POST"), description="Starts by a request"),
]


def exported(types: list[dict[str, Any]] = TYPES) -> str:
    return "[\n" + ",\n".join(json.dumps(each) for each in types) + "\n]\n"
