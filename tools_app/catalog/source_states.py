"""What state a source is in, for operators."""

from __future__ import annotations

from enum import StrEnum
from typing import Final

from django.db.models import Q

from tools_app import sources
from tools_app.models import Source, SourceStatus

_Availability = SourceStatus.Availability


class SourceState(StrEnum):
    AVAILABLE = "available"
    INCOMPLETE = "incomplete"
    FAILED = "failed"
    STARTING = "starting"
    SIGN_IN = "sign_in"
    NOT_CONFIGURED = "not_configured"
    OFF = "off"


_OBSERVED: Final = {
    _Availability.DOWN: SourceState.FAILED,
    _Availability.STARTING: SourceState.STARTING,
    _Availability.SIGN_IN: SourceState.SIGN_IN,
}


def status_of(source: Source) -> SourceStatus:
    """The status of a source, also if it was never described."""
    return getattr(source, "status", None) or SourceStatus(source=source)


def state_of(source: Source) -> SourceState:
    """A switched-off source is only that; a source that this process does not have is not configured. A source outside
    that was never listed is starting."""
    if not source.enabled:
        return SourceState.OFF
    if not is_configured(source):
        return SourceState.NOT_CONFIGURED
    status = status_of(source)
    if source.is_outside and not (status.described_at or status.error):
        return SourceState.STARTING
    if (observed := _OBSERVED.get(_Availability(status.availability))) is not None:
        return observed
    return SourceState.INCOMPLETE if status.error else SourceState.AVAILABLE


def is_configured(source: Source) -> bool:
    """Whether this process can describe and run it."""
    return source.is_outside or source.name in sources.current().providers


def having(state: SourceState) -> Q:
    """The condition for sources in a state, as `state_of` decides."""
    if state is SourceState.OFF:
        return Q(enabled=False)
    configured = Q(kind__in=Source.OUTSIDE) | Q(name__in=list(sources.current().providers))
    if state is SourceState.NOT_CONFIGURED:
        return Q(enabled=True) & ~configured
    is_new = Q(kind__in=Source.OUTSIDE) & (Q(status=None) | Q(status__described_at=None, status__error=""))
    described = Q(status=None) | Q(status__availability=_Availability.OK)
    for availability, observed in _OBSERVED.items():
        if observed is state:
            described = Q(status__availability=availability)
    if state is SourceState.INCOMPLETE:
        described &= Q(status__error__gt="")
    elif state is SourceState.AVAILABLE:
        described &= Q(status=None) | Q(status__error="")
    described = described | is_new if state is SourceState.STARTING else described & ~is_new
    return Q(enabled=True) & configured & described
