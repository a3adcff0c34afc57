"""Every field of every model is in the file, observed, or secret. A new one fails here until that is decided."""

from __future__ import annotations

from typing import Final

import pytest
from django.apps import apps

from tools_app import governance
from tools_app.governance.hints import HINTS
from tools_app.models.tools import POLICY
from tools_app.sdk import budgets
from tools_app.setup.configuration import Document
from tools_app.setup.configuration.document import ApiDocument, Kind, Rate

# By model: what is in the file, under which name if it has another; what the hub has observed, or what follows from
# the rest; and what is secret, or stands for it.
FILE: Final[dict[str, dict[str, str]]] = {
    "source": {
        **{part: part for part in ("kind", "location", "command", "trust", "enabled", "start", "per_session")},
        **{part: part for part in ("declares", "connection", "internal", "pin_defaults", "name", *POLICY)},
        "failure_rule": "failure_pattern",
    },
    "sourcedocument": {"source": "document", "address": "address", "selected": "select"},
    "connection": {
        **{
            part: part
            for part in ("name", "form", "url", "read_only", "allow_http", "timeout_ms", "enabled", "options")
        },
        "pack": "source",
        "names": "secret",
        "references": "secret",
    },
    "toolset": {part: part for part in ("name", *governance.TOOLSET)},
    "toolrecord": {
        **{part: part for part in ("name", "enabled", "ask", "tags", *POLICY)},
        **{f"hint_{part}": part for part in HINTS},
    },
    "apikey": {
        **{part: part for part in ("name", "scopes", "toolsets", "connections", "may_write", "may_destroy", "asks")},
        **{part: part for part in ("addresses", "owner", "expires_at", *budgets.PARTS)},
        "uses_environment": "connections",
        "rate_calls": "rate",
        "rate_seconds": "rate",
    },
    "alertrule": {part: part for part in ("name", *governance.ALERT_RULE)},
}
OBSERVED: Final[dict[str, set[str]]] = {
    "source": {"id", "prefix", "epoch", "reconnects", "approved_instructions", "created_by", "created_at",
               "removed_at"},
    "sourcedocument": {"body", "media_type", "etag", "modified", "digest", "facts", "fetched_at", "tried_at", "error",
                       "answers", "answers_of", "uploaded_by"},
    "connection": {"id", "created_at", "updated_at", "checked_at", "healthy", "health"},
    "toolset": {"id", "created_at", "updated_at"},
    "toolrecord": {"id", "folded_name", "kind", "source", "original_name", "title", "description", "version",
                   "category", "author", "source_kind", "pack", "place", "read_only", "definition", "offered",
                   "runtime", "offered_runtime", "registered_at", "updated_at", "retired_at", "absent_since"},
    "apikey": {"id", "created_at", "last_used_at", "revoked_at", "rotated_at"},
    "alertrule": {"id", "host", "failing_since", "error", "created_by", "created_at", "updated_at"},
}  # fmt: skip
SECRET: Final[dict[str, set[str]]] = {
    "connection": {"sealed"},
    "apikey": {"prefix", "hash", "previous_prefix", "previous_hash", "previous_until"},
    "alertrule": {"sealed"},
}
KINDS: Final = {
    "source": Kind.SOURCE, "sourcedocument": Kind.SOURCE, "connection": Kind.CONNECTION, "toolset": Kind.TOOLSET,
    "toolrecord": Kind.TOOL, "apikey": Kind.KEY, "alertrule": Kind.ALERT_RULE,
}  # fmt: skip
# Models that hold nothing which operators decide for good: what happened, what was observed, and what is in force for
# a time. Approvals of definitions are about what a server said at one moment, so a file cannot give them in advance.
NOT_IN_A_FILE: Final = {
    *("admission", "agent", "alert", "alertdelivery", "answerfinding", "approval", "auditcheckpoint", "auditentry"),
    *(
        "auditkey",
        "auditseal",
        "browsersession",
        "budgetuse",
        "call",
        "callhour",
        "calltext",
        "chore",
        "definition",
        "disksample",
        "errorgroup",
    ),
    *(
        "errorhour",
        "errorlog",
        "errornote",
        "idempotencykey",
        "managedrecord",
        "passwordlink",
        "pendingcount",
        "pendingtext",
    ),
    *(
        "process",
        "revision",
        "savedview",
        "signin",
        "sourcestatus",
        "standingapproval",
        "stop",
        "storedanswer",
        "toolcheck",
    ),
    "upstreamtoken",
    # Within their records.
    *("keyconnection", "keytoolset", "tag", "tooltag"),
}


def test_every_model_has_a_decision() -> None:
    models = {model._meta.model_name for model in apps.get_app_config("tools_app").get_models()}
    assert models == FILE.keys() | NOT_IN_A_FILE, "decide whether a configuration file holds it"


@pytest.mark.parametrize("name", FILE)
def test_every_field_has_a_decision(name: str) -> None:
    model = apps.get_model("tools_app", name)
    fields = {field.name for field in (*model._meta.fields, *model._meta.many_to_many)}
    decided = [FILE[name].keys(), OBSERVED[name], SECRET.get(name, set())]
    assert fields == set().union(*decided), "decide: in the file, observed, or secret"
    assert sum(map(len, decided)) == len(fields), "each has one decision"
    known = {"name", *Document.PARTS[KINDS[name]].model_fields}
    if name == "sourcedocument":
        known |= ApiDocument.model_fields.keys()
    assert set(FILE[name].values()) <= known


def test_every_field_of_the_file_is_one_of_a_model() -> None:
    for kind, part in Document.PARTS.items():
        told = {field for name, fields in FILE.items() if KINDS[name] is kind for field in fields.values()}
        told |= {"role"} if kind is Kind.USER else {"secret", "url"} if kind is Kind.ALERT_RULE else set()
        assert part.model_fields.keys() <= told, kind
    assert Rate.model_fields.keys() == {"calls", "seconds"}
    assert list(Document.SECTIONS) == list(Kind), "the order in which they are applied"
