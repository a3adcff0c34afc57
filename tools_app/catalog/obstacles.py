"""Why a tool that exists cannot be called: operators' decisions, and missing requirements."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from tools_app.base import conf
from tools_app.catalog import connections
from tools_app.models import Definition, Stop, ToolRecord
from tools_app.sdk import accounts
from tools_app.sdk.hub_errors import Refusal, StoppedError
from tools_app.sources.registry import Loaded, Registry

Stops = Mapping[tuple[str, str], Stop]

_ASK_TO_APPROVE: Final = "Ask an operator of this hub: it is listed among the approvals in the admin."
_DECIDE: Final = "Approve or refuse it under Definitions in the admin, or with `PATCH /v1/definitions/{id}`."


class Obstacles:
    """The obstacles of all tools at one moment. Queries the database once."""

    def __init__(self, registry: Registry, stops: Stops) -> None:
        self._problems = registry.problems
        self._resting = registry.resting
        self._stops = stops
        self._definitions = Definitions()
        self._unset: dict[str, list[str]] = {}

    def of(self, record: ToolRecord, loaded: Loaded | None) -> Refusal | None:
        """Why the tool cannot be called now; None if it can."""
        tool = loaded.tool if loaded is not None else None
        if (stop_refusal := refusal(self._stops, record.pack)) is not None:
            return stop_refusal
        if not record.enabled:
            is_new = tool is not None and tool.starts_off
            reason = "switched off until an operator enables it" if is_new else "switched off by an operator"
            return Refusal(reason, "Ask an operator of this hub to switch it on.")
        if loaded is None or tool is None:
            return self._not_loaded(record)
        if (approval_refusal := self._definitions.refusal(record, loaded)) is not None:
            return approval_refusal
        if tool.pack is not None and tool.pack.requires:
            if tool.pack.name not in self._unset:
                self._unset[tool.pack.name] = conf.unset(tool.pack.requires)
            if unset_names := self._unset[tool.pack.name]:
                names = ", ".join(unset_names)
                return Refusal(
                    f"not configured: {names}",
                    f"Ask an operator to set {names}.",
                    cure=f"Set {names}, and restart the hub.",
                )
        return None

    def _not_loaded(self, record: ToolRecord) -> Refusal:
        pack = self._resting.get(record.pack)
        if pack is not None and pack.connection is not None:
            return accounts.not_configured(pack.connection, connections.missing(pack.connection))
        problem = next((problem for problem in self._problems if problem.keeps_out(record.name, record.place)), None)
        if problem is not None:
            return Refusal(
                "it could not be loaded",
                "Ask an operator to run `toolhub doctor`, which reports the reason.",
                cure=f"Fix the load error: {problem}",
            )
        return Refusal(
            "this process does not have it",
            "Ask an operator to restart the hub, or to run `toolhub synctools`.",
            cure="Restart the hub, or run `toolhub synctools`.",
        )


class Definitions:
    """Which versions of tools are approved, for sources that need approval."""

    def __init__(self) -> None:
        self._sources = frozenset(conf.value("TOOLHUB_SOURCES_TO_APPROVE"))
        self._open = {
            (tool, hash): (refused_at is not None, reason)
            for tool, hash, refused_at, reason in Definition.objects.filter(approved_at=None).values_list(
                "tool_id", "hash", "refused_at", "reason"
            )
        }
        self._approved = (
            set(
                Definition.objects.filter(approved_at__isnull=False, tool__source__in=self._sources).values_list(
                    "tool_id", "hash"
                )
            )
            if self._sources
            else set()
        )

    def refusal(self, record: ToolRecord, loaded: Loaded) -> Refusal | None:
        """Why this version may not run. The version loaded in this process counts, not the recorded one."""
        version = (record.pk, loaded.tool.fingerprint)
        needs_approval = str(loaded.origin) in self._sources and version not in self._approved
        if version not in self._open:
            if needs_approval:
                return Refusal("not approved: no operator has reviewed this version", _ASK_TO_APPROVE, cure=_DECIDE)
            return None
        is_refused, comment = self._open[version]
        if is_refused:
            reason = f"an operator refused this version{f': {comment}' if comment else ''}"
            return Refusal(reason, _ASK_TO_APPROVE, cure=_DECIDE)
        if not needs_approval:
            return None
        return Refusal("not approved: this version is pending", _ASK_TO_APPROVE, cure=_DECIDE)


def stops() -> Stops:
    """All current stops."""
    return {(stop.kind, stop.name): stop for stop in Stop.objects.all()}


def refusal(stops: Stops, pack: str) -> Refusal | None:
    """The refusal for all tools of this pack, if an operator has stopped it, or the hub."""
    stop = stops.get((Stop.Kind.HUB, "")) or stops.get((Stop.Kind.PACK, pack))
    if stop is None:
        return None
    return Refusal(
        stop.words, StoppedError.default_next_step, stopped=True, cure="Resume it on the page Stop of the admin."
    )
