"""Why a tool that exists cannot be called: operators' decisions, and missing requirements."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Final

from tools_app.base import conf, ports
from tools_app.models import Definition, Source, SourceStatus, Stop, ToolRecord
from tools_app.sdk.hub_errors import (
    ASK_FOR_REASON,
    ASK_TO_RESTART,
    NOT_HERE,
    MaintenanceError,
    Refusal,
    StoppedError,
)
from tools_app.sdk.spec import ToolSpec

Stops = Mapping[tuple[str, str], Stop]

# `Retry-After` of maintenance without an end.
RETRY_SECONDS: Final = 60.0
_ASK_TO_APPROVE: Final = "Ask an operator of this hub: it is listed among the approvals in the admin."
_DECIDE: Final = "Decide on it under Approvals in the admin, or with `POST /v1/definitions/{id}/approve` or `…/refuse`."


class Obstacles:
    """The obstacles of all tools at one moment. Queries the database once."""

    def __init__(self, origins: Mapping[int, Source], stops: Stops) -> None:
        self._stops = stops
        self._origins = origins
        self._code = ports.code()
        self.undecided = {
            definition: (refused_at is not None, reason)
            for definition, refused_at, reason in Definition.objects.filter(
                approved_at=None, current_for__isnull=False
            ).values_list("pk", "refused_at", "reason")
        }
        self._unset: dict[tuple[str, ...], list[str]] = {}

    def of(self, record: ToolRecord, spec: ToolSpec) -> Refusal | None:
        """Why the tool cannot be called now; None if it can."""
        if (stop_refusal := refusal(self._stops, record.pack)) is not None:
            return stop_refusal
        if not record.enabled:
            reason = "switched off until an operator enables it" if spec.starts_off else "switched off by an operator"
            return Refusal(reason, "Ask an operator of this hub to switch it on.")
        origin = self._origins.get(record.source_id or 0)
        if (source_refusal := self._of_source(record, spec, origin)) is not None:
            return source_refusal
        if (approval_refusal := self._of_approval(record, origin)) is not None:
            return approval_refusal
        required = tuple(spec.requires)
        if required not in self._unset:
            self._unset[required] = conf.unset(required)
        if unset_names := self._unset[required]:
            names = ", ".join(unset_names)
            return Refusal(
                f"not configured: {names}",
                f"Ask an operator to set {names}.",
                cure=f"Set {names}, and restart the hub.",
            )
        return None

    def _of_source(self, record: ToolRecord, spec: ToolSpec, origin: Source | None) -> Refusal | None:
        if (
            origin is None
            or record.definition_id is None
            or not (origin.is_outside or self._code.has(origin.name, spec))
        ):
            return Refusal(NOT_HERE, ASK_TO_RESTART, cure="Restart the hub, or run `toolhub synctools`.")
        if not origin.enabled:
            return Refusal(
                f"its source {origin.name} is switched off by an operator",
                "Ask an operator of this hub to switch the source on.",
                cure="Switch it on under Sources in the admin.",
            )
        if origin.is_outside:
            return _of_listing(record, spec, origin)
        status = getattr(origin, "status", None) or SourceStatus()
        if status.availability != SourceStatus.Availability.OK:
            return Refusal(
                f"its source {origin.name} is not available",
                ASK_FOR_REASON,
                cure=f"{origin.name} cannot be described{_since(status)}: {status.error}",
            )
        if record.absent_since is None:
            return None
        problems = (problem for problem in status.load_problems if problem.keeps_out(record.name, record.place))
        problem = next(problems, None)
        return Refusal(
            "it could not be loaded",
            ASK_FOR_REASON,
            cure=f"Fix the load error: {problem or status.error}{_since(status)}",
        )

    def _of_approval(self, record: ToolRecord, origin: Source | None) -> Refusal | None:
        is_refused, comment = self.undecided.get(record.definition_id or 0, (None, ""))
        if is_refused is None:
            return None
        if is_refused:
            reason = f"an operator refused this version{f': {comment}' if comment else ''}"
            return Refusal(reason, _ASK_TO_APPROVE, cure=_DECIDE)
        # The settings decide about all versions, an operator's trust only about those that are described later.
        if origin is not None and not origin.trust and origin.effective_trust == Source.Trust.AUTO:
            return None
        return Refusal("not approved: no operator has reviewed this version", _ASK_TO_APPROVE, cure=_DECIDE)


def _of_listing(record: ToolRecord, spec: ToolSpec, origin: Source) -> Refusal | None:
    """Why a tool of a source outside cannot be called, as far as its listing tells.

    Not whether the source can be reached now: a call says that, and a list that follows every outage is another one for
    each agent, and for the caches of their models.
    """
    if record.absent_since is None:
        return Refusal(spec.uncallable, "Use another tool.") if spec.uncallable else None
    since = f"since {record.absent_since:%Y-%m-%d %H:%M} UTC"
    status = getattr(origin, "status", None) or SourceStatus()
    names = (record.name, record.original_name)
    if (problem := next((one for one in status.load_problems if one.tool in names), None)) is not None:
        return Refusal("its definition cannot be used", ASK_FOR_REASON, cure=f"{problem.reason} ({since})")
    return Refusal(
        f"its source {origin.name} does not list it any more", "Use another tool.", cure=f"It is absent {since}."
    )


def _since(status: SourceStatus) -> str:
    return f" (since {status.since:%Y-%m-%d %H:%M} UTC)" if status.since is not None else ""


def stops() -> Stops:
    """All current stops."""
    return {(stop.kind, stop.name): stop for stop in Stop.objects.all()}


def maintenance(stops: Stops, now: datetime) -> Stop | None:
    """The stop of writes, until its end: no row changes at that moment."""
    stop = stops.get((Stop.Kind.WRITES, ""))
    return stop if stop is not None and stop.is_active(now) else None


def refusal_of_write(stops: Stops) -> MaintenanceError | None:
    """The error for a call that writes, while the hub is in maintenance. Its tools stay listed: it passes."""
    now = datetime.now(UTC)
    stop = maintenance(stops, now)
    if stop is None:
        return None
    left = (stop.until - now).total_seconds() if stop.until is not None else RETRY_SECONDS
    return MaintenanceError.because(stop.words, left)


def refusal(stops: Stops, pack: str) -> Refusal | None:
    """The refusal for all tools of this pack, if an operator has stopped it, or the hub."""
    stop = stops.get((Stop.Kind.HUB, "")) or stops.get((Stop.Kind.PACK, pack))
    if stop is None:
        return None
    return Refusal(
        stop.words, StoppedError.default_next_step, stopped=True, cure="Resume it on the page Stop of the admin."
    )
