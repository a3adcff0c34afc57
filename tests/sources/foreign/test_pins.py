"""An approval is asked for again after every change of a foreign definition, and after nothing else."""

from __future__ import annotations

import copy
import hashlib
import random
from typing import Any

from tests.sources.foreign.skeletons import Json, describe, mutated, one, shuffled, skeleton, tool, with_schema


def test_a_thousand_changes_and_none_slips_through() -> None:
    for seed in range(1_000):
        chance = random.Random(seed)
        before = skeleton(chance)
        after = mutated(before, chance)
        assert after != before
        pinned = one(before)
        tools, problems = describe(after)
        assert tools or problems
        for changed in tools:
            assert changed.pin_hash != pinned.pin_hash, (seed, before, after)
            assert changed.spec.hash != pinned.spec.hash, (seed, before, after)


def test_a_thousand_orders_of_keys_and_sets_and_no_false_alarm() -> None:
    for seed in range(1_000):
        chance = random.Random(seed)
        definition = skeleton(chance)
        pinned, again = one(definition), one(shuffled(definition, chance))
        assert again.pin_hash == pinned.pin_hash, (seed, definition)
        assert again.spec.hash == pinned.spec.hash, (seed, definition)


def test_the_order_of_everything_else_counts() -> None:
    def either(*types: str) -> Json:
        return with_schema({"properties": {"id": {"anyOf": [{"type": name} for name in types]}}})

    assert one(either("string", "null")).pin_hash != one(either("null", "string")).pin_hash
    first, second = (with_schema({"properties": {"a": {"const": {"enum": names}}}}) for names in ("ab", "ba"))
    assert one(first).pin_hash != one(second).pin_hash


def test_the_order_of_values_in_data_counts() -> None:
    def constant(*names: str) -> Json:
        return with_schema({"properties": {"a": {"const": {"required": list(names)}}}})

    assert one(constant("a", "b")).spec.hash != one(constant("b", "a")).spec.hash


def since(moment: str) -> Json:
    part = {"type": "string", "default": moment, "description": "The time."}
    return with_schema({"properties": {"since": part, "filter": {"type": "object", "properties": {"until": part}}}})


def test_defaults_that_hold_the_time_count_unless_an_operator_said_otherwise() -> None:
    first, second = since("2026-01-01"), since("2026-01-02")
    assert one(first).pin_hash != one(second).pin_hash
    without, also = one(first, pin_defaults=False), one(second, pin_defaults=False)
    assert (without.pin_hash, without.spec.hash) == (also.pin_hash, also.spec.hash)
    other = since("2026-01-01")
    other["inputSchema"]["properties"]["since"]["description"] = "Another."
    assert one(other, pin_defaults=False).pin_hash != without.pin_hash


def test_the_same_words_of_another_kind_or_name_are_something_else() -> None:
    definition = tool("greet")
    (as_tool,), _ = describe(definition)
    (as_prompt,), _ = describe(prompts=[definition])
    assert as_tool.pin_hash != as_prompt.pin_hash
    assert one(definition, stored={("tool", "greet"): "tracker_hello"}).spec.hash != as_tool.spec.hash


def test_what_a_resource_weighs_is_not_pinned() -> None:
    def resource(**fields: Any) -> Json:
        return {"uri": "file:///log", "name": "log", "mimeType": "text/plain", **fields}

    (first,), _ = describe(resources=[resource(size=1, annotations={"lastModified": "2026-01-01T00:00:00Z"})])
    (second,), _ = describe(resources=[resource(size=2, annotations={"lastModified": "2026-01-02T00:00:00Z"})])
    (third,), _ = describe(resources=[resource(mimeType="text/html")])
    assert (first.pin_hash, first.spec.hash) == (second.pin_hash, second.spec.hash)
    assert third.pin_hash != first.pin_hash


def test_an_annotation_that_becomes_stricter_or_looser_is_a_change() -> None:
    reads, writes = (one(tool(annotations={"readOnlyHint": claim})) for claim in (True, False))
    assert reads.spec.hash != writes.spec.hash
    assert reads.spec.body["claims"] == {"readOnlyHint": True}
    assert reads.spec.hints.as_dict() == writes.spec.hints.as_dict()


# Each keyword that holds subschemas, and each set, at several levels: of what operators have approved by now.
_PART: Json = {
    "type": ["string", "null", "array"],
    "enum": ["b", "a", 1, None, {"y": 1, "x": [2, 1]}],
    "default": "b",
    "properties": {"required": {"required": ["b", "a"]}, "type": {"enum": [2, 1], "default": 1}},
    "dependentRequired": {"a": ["c", "b"], "b": "no list"},
}
EVERYTHING = with_schema(
    {
        "type": "object",
        "required": ["z", "a"],
        **{name: {"b": dict(_PART), "a": {"items": dict(_PART)}} for name in ("properties", "patternProperties")},
        **{name: {"b": dict(_PART), "a": True} for name in ("$defs", "definitions", "dependentSchemas")},
        **{name: [dict(_PART), False, dict(_PART)] for name in ("allOf", "prefixItems")},
        **{
            name: dict(_PART)
            for name in (
                *("items", "contains", "unevaluatedItems", "additionalProperties", "unevaluatedProperties"),
                *("propertyNames", "not", "if", "then", "else", "contentSchema"),
            )
        },
        "const": {"enum": ["b", "a"], "default": 1, "properties": {"a": {"required": ["b", "a"]}}},
        "examples": [{"required": ["b", "a"]}],
    }
)


def hashes(*, pin_defaults: bool) -> str:
    """One digest of the hashes of many definitions."""
    definitions = [skeleton(random.Random(seed)) for seed in range(300)]
    tools, problems = describe(*definitions, EVERYTHING, pin_defaults=pin_defaults)
    assert (len(tools), problems) == (301, [])
    digest = hashlib.sha256("".join(f"{made.pin_hash}{made.spec.hash}" for made in tools).encode())
    return digest.hexdigest()


def test_hashes_of_what_operators_have_approved_never_change() -> None:
    assert hashes(pin_defaults=True) == "33ecc4678a8e0e08e9b31a80f66de2fc0b03297bf47840422d4118b18dbccf40"
    assert hashes(pin_defaults=False) == "341e093495662315289d46ada6330e31ae5991a78e84b0d22ae69d4dda7e703f"


def test_a_pin_changes_nothing_of_the_definition() -> None:
    before = copy.deepcopy(EVERYTHING)
    one(EVERYTHING, pin_defaults=False)
    assert before == EVERYTHING
