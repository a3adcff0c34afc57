"""What the comparison of an upgraded database reports: it must not be silent about a loss."""

from __future__ import annotations

import hashlib
from typing import Any

from tests.upgrade.contents import Contents, Row, lost, wrong_hashes

BEFORE = Contents(
    {"keys": {1: {"id": 1, "name": "a", "hash": "x"}, 2: {"id": 2, "name": "b", "hash": "y"}}, "gone": {1: {"id": 1}}},
    {"keys": ["id", "name", "hash"], "gone": ["id"]},
)


def test_new_tables_columns_and_rows_are_no_loss() -> None:
    rows = {key: {**row, "new": key} for key, row in BEFORE.tables["keys"].items()}
    more = {**rows, 3: {"id": 3, "name": "c", "hash": "z", "new": 3}}
    after = Contents(
        {"keys": more, "gone": BEFORE.tables["gone"], "added": {}},
        {"keys": ["id", "name", "hash", "new"], "gone": ["id"], "added": ["id"]},
    )
    assert list(lost(BEFORE, after)) == []


def test_missing_tables_columns_and_rows_and_changed_values_are_reported() -> None:
    after = Contents({"keys": {1: {"id": 1, "name": "other"}}}, {"keys": ["id", "name"]})
    assert list(lost(BEFORE, after)) == [
        "keys.hash: no longer there",
        "keys: 1 of 2 rows are missing: [2]",
        "keys.name: 1 of 2 rows differ, such as 1: 'a' → 'other'",
        "gone: no longer there, with 1 rows",
    ]


def test_a_hash_that_does_not_fit_is_reported() -> None:
    fitting = hashlib.sha256(b'{"a":1,"b":2}').hexdigest()
    rows: dict[Any, Row] = {1: {"body": '{"b": 2, "a": 1}', "hash": fitting}, 2: {"body": {"a": 2}, "hash": fitting}}
    assert list(wrong_hashes(Contents({"tools_app_definition": rows}))) == [
        "tools_app_definition 2: its hash is not that of its body"
    ]
