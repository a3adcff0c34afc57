"""What an admission test checks: a table. Each entry judges what one run has shown, and decides nothing.

A check has passed, has findings, or was not tried, and says why.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from tools_app.catalog import listed
from tools_app.sdk import wording
from tools_app.sdk.errors import shortened
from tools_app.sdk.spec import Kind, ToolSpec
from tools_app.sources.provider import SourceContents
from tools_app.text import hygiene

if TYPE_CHECKING:
    from tools_app.upstream.admission import Evidence, Run

PASSED: Final = "passed"
FINDING: Final = "finding"
NOT_TRIED: Final = "not_tried"
MOST_DETAILS: Final = 20
MOST_TEXT: Final = 500
MIB: Final = 1024 * 1024
# From here on, a figure is a finding.
SLOW_END: Final = 2.0
SLOW_START: Final = 10.0
MOST_MEMORY: Final = 512 * MIB
MOST_TOKENS: Final = 10_000
# Directories of a user in which many programs write all the time.
_BUSY: Final = frozenset({".cache", ".npm", ".local", ".pnpm-store", ".yarn", ".bun", ".cargo", "Library"})
_MOST_TEXTS: Final = 256 * 1024
# A variable that is probably a secret.
_SECRET: Final = re.compile(
    r"\b[A-Z][A-Z0-9]{0,40}(?:_[A-Z0-9]{1,40}){0,8}_(?:KEY|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIALS|PAT)\b|\bAPI_?KEY\b"
)


@dataclass
class Facts:
    """What the checks look at."""

    evidence: Evidence
    # What the hub makes of the listing; None: there is none, or it cannot be read.
    contents: SourceContents | None = None
    # The pack of every tool of the hub, by its folded name.
    packs: Mapping[str, str] = field(default_factory=dict)
    # Figures that the checks have measured.
    figures: dict[str, float] = field(default_factory=dict)

    @property
    def runs(self) -> Sequence[Run]:
        """Those with the secrets of the connection."""
        return [run for run in (self.evidence.first, self.evidence.second) if run is not None]

    @property
    def specs(self) -> Sequence[ToolSpec]:
        return [tool.spec for tool in self.contents.tools] if self.contents is not None else ()

    @property
    def tools(self) -> Sequence[ToolSpec]:
        return [spec for spec in self.specs if spec.kind is Kind.TOOL]


@dataclass
class Found:
    """With findings, the check has not passed. `untried`: why it could not be made."""

    summary: str = ""
    findings: Sequence[str] = ()
    notes: Sequence[str] = ()
    untried: str = ""


@dataclass(frozen=True, slots=True)
class Check:
    key: str
    title: str
    look: Callable[[Facts], Found]
    # What an operator does about a finding.
    next_step: str
    # What it cannot do without: names of `_NEEDS`.
    needs: tuple[str, ...] = ()


_NEEDS: Final[Mapping[str, tuple[str, Callable[[Facts], bool]]]] = {
    "process": ("Its program does not run here: only its address is known", lambda facts: facts.evidence.is_process),
    "end": ("Its end was not seen", lambda facts: any(run.ended is not None for run in facts.runs)),
    "proc": (
        "This system does not show processes; only Linux does",
        lambda facts: any(run.ended is not None and run.ended.is_seen for run in facts.runs),
    ),
    "session": ("There was no session", lambda facts: any(run.version for run in facts.runs)),
    "listing": ("There is no list of tools that can be read", lambda facts: facts.contents is not None),
}


def line_of(check: Check, facts: Facts) -> dict[str, Any]:
    """A line of the report, as JSON of limited size."""
    missing = next((words for words, has in map(_NEEDS.__getitem__, check.needs) if not has(facts)), "")
    found = Found(untried=missing) if missing else check.look(facts)
    state = NOT_TRIED if found.untried else FINDING if found.findings else PASSED
    details = [*found.findings, *found.notes]
    more = [f"and {len(details) - MOST_DETAILS:,} more"] if len(details) > MOST_DETAILS else []
    return {
        "check": check.key,
        "title": check.title,
        "state": state,
        "found": _shown(found.untried or found.summary),
        "details": [*map(_shown, details[:MOST_DETAILS]), *more],
        "next_step": check.next_step if state == FINDING else "",
    }


def _shown(text: str) -> str:
    return shortened(hygiene.cleaned(text), MOST_TEXT)


# ---- the program


def _start(facts: Facts) -> Found:
    listing, problems = facts.evidence.listing, [run.problem for run in facts.runs if run.problem]
    if listing is None:
        return Found("It cannot be used", problems or ["there was no answer"], facts.evidence.first.errors)
    if facts.contents is None:
        return Found("It answers", ["its list of tools cannot be read"])
    return Found(f"{listing.server or 'A server without a name'}; tools: {len(listing.tools):,}", notes=problems)


def _eras(facts: Facts) -> Found:
    first, second = facts.evidence.first, facts.evidence.second
    versions = ", ".join(sorted({run.version for run in facts.runs if run.version}))
    if second is None:
        return Found(untried=f"There was no time for the newer era; it speaks {versions}")
    failures = [
        f"asked for the {era} era, it fails: {run.problem or 'no answer'}"
        for era, run in (("earlier", first), ("newer", second))
        if not run.version
    ]
    if first.version == second.version:
        return Found(f"One era, {versions}; the hub translates for clients of the other", failures)
    return Found(f"Both eras: {versions}" if not failures else f"It speaks {versions}", failures)


def _output(facts: Facts) -> Found:
    run = max(facts.runs, key=lambda run: run.stray)
    if not run.stray:
        return Found("Only messages are written to standard output")
    return Found(f"Lines of standard output that are no messages: {run.stray:,}", run.strays)


def _end(facts: Facts) -> Found:
    findings, seconds = [], 0.0
    for ended in (run.ended for run in facts.runs if run.ended is not None and run.version):
        if ended.how == "itself":
            findings.append(f"it ended by itself after {ended.seconds:.1f} s, with exit code {ended.code}")
            continue
        seconds = max(seconds, ended.seconds)
        if ended.how.startswith("SIG"):
            findings.append(f"it ignored the end of input, and was ended with {ended.how} after {ended.seconds:.0f} s")
        elif ended.code:
            findings.append(f"it ended with exit code {ended.code}")
        elif ended.seconds > SLOW_END:
            findings.append(f"it took {ended.seconds:.1f} s")
    if seconds:
        facts.figures["end_seconds"] = seconds
    return Found(f"It ends {seconds:.2f} s after the end of its input" if not findings else "", findings)


def _children(facts: Facts) -> Found:
    ended = [run.ended for run in facts.runs if run.ended is not None]
    left = [f"left running: {command}" for one in ended for command in one.left]
    left += ["not all of its processes could be ended"] if not all(one.is_gone for one in ended) else []
    most = max(one.processes for one in ended)
    return Found(f"Processes at the same time: {most}" + ("" if left else "; all of them ended with it"), left)


def _files(facts: Facts) -> Found:
    evidence = facts.evidence
    opened = {path for run in facts.runs if run.ended is not None for path in run.ended.files}
    usual = Counter(path.rpartition("/")[0] for path in evidence.changed if _is_usual(path, evidence))
    words = "changed during the run, by it or by another program"
    findings = [f"open for writing: {path}" for path in sorted(opened)]
    findings += [f"{words}: {path}" for path in evidence.changed if not _is_usual(path, evidence)]
    notes = [f"{words}, files in {folder}: {number:,}" for folder, number in sorted(usual.items())]
    kept = sorted({path.split("/")[0] for path in evidence.written})
    notes += [f"in its temporary home, files: {len(evidence.written):,}, in {', '.join(kept[:10])}"] if kept else []
    partly = "" if evidence.is_compared_completely else " (the upper levels only)"
    notes.insert(
        0,
        f"compared before and after: {', '.join(evidence.compared)}{partly}. "
        "Not seen: files elsewhere that were open for less than 0.2 s, what was read, and the network",
    )
    return Found("Nothing was seen outside of its temporary home" if not findings else "", findings, notes)


def _is_usual(path: str, evidence: Evidence) -> bool:
    """Whether a change is no finding: in a directory that the command names, or in a cache of the user."""
    in_home = path.removeprefix(f"{evidence.user_home}/")
    is_given = any(path.startswith(f"{folder}/") for folder in evidence.given)
    return is_given or in_home.split("/")[0] in _BUSY


def _start_time(facts: Facts) -> Found:
    first, second = facts.evidence.first, facts.evidence.second
    parts, findings = [], []
    for name, title, run in (("cold_seconds", "first", first), ("warm_seconds", "next", second)):
        if run is not None and run.version:
            facts.figures[name] = run.seconds
            parts.append(f"{title} {run.seconds:.2f} s")
    if facts.figures.get("warm_seconds", 0.0) > SLOW_START:
        findings.append(f"the next start takes longer than {SLOW_START:g} s")
    word = "start" if facts.evidence.is_process else "connection"
    home = "; the first one with an empty home" if facts.evidence.is_process else ""
    return Found(f"Until the session begins, by {word}: {', '.join(parts)}{home}", findings)


def _memory(facts: Facts) -> Found:
    most = max(run.ended.memory for run in facts.runs if run.ended is not None)
    facts.figures["memory"] = most
    findings = [f"more than {MOST_MEMORY // MIB} MiB"] if most > MOST_MEMORY else []
    words = f"Resident memory of all of its processes, at most: {most / MIB:.0f} MiB"
    return Found(words, findings, ["shared pages count for each process; looked at every 0.2 s"])


def _secrets(facts: Facts) -> Found:
    evidence = facts.evidence
    given, asked = set(evidence.own_variables), set[str]()
    texts = [run.problem + " " + " ".join(run.errors) for run in (*facts.runs, evidence.bare) if run is not None]
    texts += [text for spec in facts.specs for _, text in wording.texts(spec.body)]
    texts += [evidence.listing.instructions] if evidence.listing is not None else []
    for text in texts:
        asked.update(_SECRET.findall(text[:_MOST_TEXTS]))
    findings = [f"names {name}, which it was not given" for name in sorted(asked - given)]
    notes = [f"given by its connection: {', '.join(sorted(given))}"] if given else []
    inherited = sorted(set(evidence.variables) - given)
    notes += [f"of the hub, it gets only: {', '.join(inherited)}"] if inherited else []
    if evidence.bare is not None:
        said = evidence.bare.problem or "it starts"
        notes.append(f"without the secrets of its connection: {said}")
        notes += [f"standard error then: {line}" for line in evidence.bare.errors[-3:]]
    elif given:
        notes.append("a start without its secrets was not tried: there was no time left")
    words = "It names no secret that it was not given" if not findings else "It names secrets that it was not given"
    return Found(words, findings, notes)


# ---- the definitions


def _tokens(facts: Facts) -> Found:
    tokens = facts.figures["tokens"] = sum(map(listed.cost_of, facts.tools))
    findings = [f"more than {MOST_TOKENS:,} tokens"] if tokens > MOST_TOKENS else []
    return Found(f"All of its tools in a list: about {tokens:,} tokens", findings)


def _schemas(facts: Facts) -> Found:
    problems = [str(problem) for problem in facts.contents.problems] if facts.contents is not None else []
    unchecked = [
        f"{_original(spec)}: arguments are not checked, since {spec.runtime['unchecked']}"
        for spec in facts.specs
        if spec.runtime.get("unchecked")
    ]
    notes = [
        f"{_original(spec)}: the schema of its results is not listed, since {spec.runtime['output']}"
        for spec in facts.specs
        if spec.runtime.get("output")
    ]
    broken = [*problems, *unchecked]
    return Found(
        "All schemas can be checked" if not broken else f"Cannot be used or checked: {len(broken):,}", broken, notes
    )


def _names(facts: Facts) -> Found:
    prefix = f"{facts.evidence.source}_"
    named = [spec for spec in facts.specs if spec.kind in (Kind.TOOL, Kind.PROMPT)]
    changed = [
        f"{shortened(_original(spec))} → {spec.name}" for spec in named if spec.name != f"{prefix}{_original(spec)}"
    ]
    changed += [
        f"{_original(spec)}: parameter {shortened(old)} → {new}"
        for spec in named
        for new, old in dict(spec.runtime.get("keys", {})).items()
    ]
    words = f"Names and parameters that were changed: {len(changed):,}" if changed else "All names fit"
    return Found(words, changed)


def _wording(facts: Facts) -> Found:
    findings = [
        f"{_original(spec)}: {finding}"
        for spec in facts.specs
        for finding in wording.findings(spec.body, wording.Others(facts.evidence.source, facts.packs))
    ]
    instructions = facts.evidence.listing.instructions if facts.evidence.listing is not None else ""
    findings += (
        [f"instructions: {fault}" for fault in wording.faults(instructions, outside=True)] if instructions else []
    )
    words = "No hidden text, and no instructions to agents" if not findings else f"Texts to read: {len(findings):,}"
    return Found(words, findings)


def _annotations(facts: Facts) -> Found:
    missing = [
        f"{_original(spec)}: does not say whether it only reads"
        for spec in facts.tools
        if "readOnlyHint" not in spec.body.get("claims", {})
    ]
    number = len(facts.tools) - len(missing)
    return Found(f"Tools that say whether they only read: {number:,} of {len(facts.tools):,}", missing)


def _stability(facts: Facts) -> Found:
    names = sorted(facts.evidence.listing.unstable) if facts.evidence.listing is not None else []
    words = "Two lists in a row were equal" if not names else "Two lists in a row differed"
    return Found(words, [shortened(name) for name in names])


def _arguments(facts: Facts) -> Found:
    calls = facts.evidence.calls
    if calls is None:
        return Found(untried="Calls of tools that say they only read were not permitted for this run")
    if not calls:
        return Found(untried="No tool says that it only reads, with arguments that can be tried")
    findings = [f"{call.tool}: accepts {call.sent}" for call in calls if call.is_refused is False]
    notes = [f"{call.tool}: no answer to {call.sent}" for call in calls if call.is_refused is None]
    if all(call.is_refused is None for call in calls):
        return Found(untried=f"There was no answer to {len(calls)} calls")
    notes.append("every error counts as a refusal; results were not kept")
    refused = sum(call.is_refused is True for call in calls)
    return Found(f"Calls with wrong arguments that it refused: {refused} of {len(calls)}", findings, notes)


def _original(spec: ToolSpec) -> str:
    return str(spec.runtime.get("original", spec.name))


CHECKS: Final = (
    Check("start", "Starts and lists", _start, "Correct its command, address or connection."),
    Check(
        "eras",
        "Eras of the protocol",
        _eras,
        "The hub uses the era that works. Report the other one to the authors.",
        ("session",),
    ),
    Check(
        "output",
        "Standard output has only messages",
        _output,
        "The hub skips such lines, other clients may not. Look for an option that turns them off.",
        ("process",),
    ),
    Check(
        "end",
        "Ends at the end of input",
        _end,
        "If it ended by itself, look at its standard error. Otherwise the hub ends it with SIGTERM, then SIGKILL, and "
        "data that it has not saved may be lost.",
        ("process", "session", "end"),
    ),
    Check(
        "children",
        "Leaves no process",
        _children,
        "The hub ends them on Linux, other clients may not. Report it to the authors.",
        ("process", "end", "proc"),
    ),
    Check(
        "files",
        "Writes only in its own directories",
        _files,
        "Look at these files. If you do not trust the program, run it in a container.",
        ("process", "end", "proc"),
    ),
    Check(
        "start_time",
        "Start, cold and warm",
        _start_time,
        "Let it start with the hub (--always), or install the program instead of downloading it at each start.",
        ("session",),
    ),
    Check(
        "memory",
        "Memory",
        _memory,
        "Check whether the machine has room for one process for each connection.",
        ("process", "end", "proc"),
    ),
    Check(
        "secrets",
        "Secrets it asks for",
        _secrets,
        "Create a connection of the form `environment` with these variables, if the tools that you need use them.",
    ),
    Check(
        "tokens",
        "Tokens of its list",
        _tokens,
        "Switch on only the tools that agents need, or give the toolset the mode `search`.",
        ("listing",),
    ),
    Check("schemas", "Schemas", _schemas, "Leave these tools off, or report them to the authors.", ("listing",)),
    Check(
        "names",
        "Names and parameters",
        _names,
        "Use the new names in prompts and documents. In calls the hub maps them back.",
        ("listing",),
    ),
    Check(
        "wording",
        "Wording",
        _wording,
        "Read these texts before you approve them, or leave the tools off.",
        ("listing",),
    ),
    Check(
        "annotations",
        "Annotations",
        _annotations,
        "Set the hints of these tools when you approve them; until then the hub assumes that they destroy.",
        ("listing",),
    ),
    Check(
        "stability",
        "Lists are stable",
        _stability,
        "Turn off `Pin defaults` if only defaults differ; otherwise each difference waits for approval.",
        ("listing",),
    ),
    Check(
        "arguments",
        "Validates its arguments",
        _arguments,
        "The hub checks arguments itself, where the schema can be checked. Report it to the authors.",
        ("session",),
    ),
)  # fmt: skip
