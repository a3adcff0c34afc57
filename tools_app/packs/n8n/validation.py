"""What is wrong with a workflow, before n8n has it: n8n finds most of this only when the workflow is activated or runs.

Only problems that a change adds stop it: an existing workflow with an old problem can still be changed.
"""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from tools_app.packs.n8n import expressions
from tools_app.packs.n8n.graph import edges
from tools_app.packs.n8n.originals import as_shown
from tools_app.packs.n8n.runs import STICKY_NOTE, as_list, as_map
from tools_app.packs.n8n.sizes import words
from tools_app.sdk.errors import InvalidArgumentsError, Problem

# Triggers whose type does not end with `Trigger`.
_TRIGGERS: Final = frozenset(
    {f"n8n-nodes-base.{name}" for name in ("webhook", "start", "cron", "interval", "emailReadImap")}
)
_MOST_PROBLEMS: Final = 20
_NAME: Final = 100

Level = Literal["error", "warning", "note"]


@dataclass(frozen=True, slots=True)
class Finding:
    """One problem. A `note` is for reviews only, and no problem of a change.

    `key` says what it is about, so that the same problem is recognized after a change; a renamed node keeps its id.
    """

    level: Level
    node: str
    problem: str
    next_step: str
    key: tuple[str, ...]

    @property
    def sentence(self) -> str:
        return f"{self.problem}: {self.next_step}"

    def as_dict(self) -> dict[str, str]:
        node = {"node": self.node} if self.node else {}
        return {"level": self.level, **node, "problem": self.problem, "nextStep": self.next_step}


def findings(workflow: Mapping[str, Any], credentials: Collection[str] | None = None) -> list[Finding]:
    """All problems of a workflow, errors first. `credentials`: the ids that n8n has, if they are known."""
    nodes = [as_map(node) for node in as_list(workflow.get("nodes"))]
    connections = as_map(workflow.get("connections"))
    found = [
        *_shape(nodes),
        *_duplicates(nodes),
        *_dangling(connections, nodes),
        *_expressions(nodes),
        *_credentials(nodes, credentials),
        *_triggers(nodes),
        *_alone(connections, nodes),
    ]
    order = ("error", "warning", "note")
    return sorted(dict.fromkeys(found), key=lambda finding: order.index(finding.level))


def check(before: Mapping[str, Any], after: Mapping[str, Any], *, imported: bool = False) -> list[str]:
    """Warnings about problems that a change adds.

    `imported`: the workflow was made elsewhere, and names in its expressions are not checked strictly.

    Raises:
        InvalidArgumentsError: the change adds errors.
    """
    old = {finding.key for finding in findings(before)}
    new = [finding for finding in findings(after) if finding.key not in old and finding.level != "note"]
    errors = [each for each in new if each.level == "error" and not (imported and each.key[0] == "expression")]
    if errors:
        problems = [Problem("", each.problem) for each in errors[:_MOST_PROBLEMS]]
        more = [Problem.more(len(errors) - _MOST_PROBLEMS)] if len(errors) > _MOST_PROBLEMS else []
        raise InvalidArgumentsError(
            f"Nothing was saved: {errors[0].problem}", problems=[*problems, *more], next_step=errors[0].next_step
        )
    return [each.sentence for each in new[:_MOST_PROBLEMS]]


def similar(name: str, names: Iterable[str]) -> str:
    """Names that may be meant, as a sentence: the nearest ones, else the first ones."""
    shown = [as_shown(each) for each in names]
    near = difflib.get_close_matches(name, shown[:1000], n=3, cutoff=0.6)
    if near:
        return f"Did you mean {' or '.join(repr(words(each, _NAME)) for each in near)}?"
    listed = ", ".join(repr(words(each, _NAME)) for each in shown[:10])
    return f"There are: {listed}{', …' if len(shown) > 10 else ''}." if shown else "There are none."


def _suggestions(names: Collection[str]) -> Callable[[str], str]:
    """`similar` for the first problems; comparing all names with all others would take too long."""
    left = iter(range(_MOST_PROBLEMS))
    return lambda name: similar(name, names) if next(left, None) is not None else "Correct the name."


def is_trigger(kind: str) -> bool:
    return kind.lower().endswith("trigger") or kind in _TRIGGERS


def _shown(node: Mapping[str, Any]) -> str:
    return words(as_shown(str(node.get("name") or node.get("id") or "?")), _NAME)


def _identity(node: Mapping[str, Any]) -> str:
    return str(node.get("id") or node.get("name"))


def _shape(nodes: Sequence[Mapping[str, Any]]) -> Iterator[Finding]:
    for node in nodes:
        missing = [key for key in ("name", "type", "position", "parameters") if node.get(key) is None]
        if missing:
            problem = f"The node {_shown(node)!r} has no {' and no '.join(missing)}"
            yield Finding("error", _shown(node), problem, "Add it.", ("shape", _identity(node), *missing))
        kind = str(node.get("type") or "")
        if kind and "." not in kind:
            problem = f"The node {_shown(node)!r} has the type {words(kind, _NAME)!r}, which names no package"
            step = f"n8n's own nodes are called 'n8n-nodes-base.{words(kind, _NAME)}'."
            yield Finding("error", _shown(node), problem, step, ("type", _identity(node), kind))


def _duplicates(nodes: Sequence[Mapping[str, Any]]) -> Iterator[Finding]:
    for key in ("name", "id"):
        counts = Counter(str(node[key]) for node in nodes if node.get(key))
        for value, count in counts.items():
            if count > 1:
                shown = words(as_shown(value), _NAME)
                step = f"Give each node its own {key}" + ("." if key == "name" else ", or omit it in new nodes.")
                yield Finding(
                    "error", shown, f"{count} nodes have the {key} {shown!r}", step, ("duplicate", key, value)
                )


def _dangling(connections: Mapping[str, Any], nodes: Sequence[Mapping[str, Any]]) -> Iterator[Finding]:
    names = {str(node.get("name")): None for node in nodes}
    suggested = _suggestions(names)
    for source in connections:
        if source not in names:
            shown = words(as_shown(source), _NAME)
            problem = f"There are connections from {shown!r}, and no node of that name"
            yield Finding("error", shown, problem, suggested(shown), ("source", source))
    for source, kind, _, target, _ in edges(connections):
        if target not in names:
            shown, origin = words(as_shown(target), _NAME), words(as_shown(source), _NAME)
            problem = f"{origin!r} is connected to {shown!r}, and there is no node of that name"
            yield Finding("error", origin, problem, suggested(shown), ("target", source, kind, target))


def _expressions(nodes: Sequence[Mapping[str, Any]]) -> Iterator[Finding]:
    names = {str(node.get("name")): None for node in nodes}
    suggested = _suggestions(names)
    for node in nodes:
        for reference in expressions.references(node.get("parameters")):
            if reference.name in names:
                continue
            place, shown = words(as_shown(reference.place), 200), words(as_shown(reference.name), _NAME)
            # Scripts can name nodes in comments, and disabled nodes are not evaluated.
            level: Level = "warning" if reference.in_script or node.get("disabled") else "error"
            problem = f"{_shown(node)!r} uses the node {shown!r} in {place}, and there is no node of that name"
            key = ("expression", _identity(node), reference.place, reference.name)
            yield Finding(level, _shown(node), problem, suggested(shown), key)


def _credentials(nodes: Sequence[Mapping[str, Any]], known: Collection[str] | None) -> Iterator[Finding]:
    for node in nodes:
        for kind, credential in as_map(node.get("credentials")).items():
            identifier = as_map(credential).get("id")
            kind_shown = words(str(kind), _NAME)
            if not identifier:
                problem = f"{_shown(node)!r} names no {kind_shown} credential by its id"
            elif known is not None and str(identifier) not in known:
                problem = (
                    f"{_shown(node)!r} uses the {kind_shown} credential {words(str(identifier), 60)!r}, which n8n "
                )
                problem += "does not list for this connection"
            else:
                continue
            step = "Choose a credential of that type in n8n; it is known by its id."
            key = ("credential", _identity(node), str(kind), str(identifier))
            yield Finding("warning", _shown(node), problem, step, key)


def _triggers(nodes: Sequence[Mapping[str, Any]]) -> Iterator[Finding]:
    real = [node for node in nodes if node.get("type") != STICKY_NOTE]
    if real and not any(is_trigger(str(node.get("type"))) and not node.get("disabled") for node in real):
        yield Finding("warning", "", "No enabled node starts this workflow", "Add a trigger.", ("trigger",))


def _alone(connections: Mapping[str, Any], nodes: Sequence[Mapping[str, Any]]) -> Iterator[Finding]:
    ends = {end for source, _, _, target, _ in edges(connections) for end in (source, target)}
    for node in nodes:
        name, kind = str(node.get("name")), str(node.get("type"))
        if name not in ends and kind != STICKY_NOTE and not is_trigger(kind):
            yield Finding(
                "note", _shown(node), f"{_shown(node)!r} is not connected", "Connect or remove it.", ("alone", name)
            )
