"""A call that a tool refuses for what it was given: the caller's mistake is no alarm, and no part of an error rate."""

from __future__ import annotations

import pytest
from django.utils import timezone

from tests.support.tools import Programmable
from tools_app import engine
from tools_app.alerts import finding
from tools_app.journal import insights, rows
from tools_app.models import Alert, Call, ErrorGroup, ErrorLog
from tools_app.sdk.context import Caller
from tools_app.sdk.errors import (
    ApiError,
    ConflictError,
    NotFoundError,
    ToolError,
    ToolExecutionError,
    UpstreamValidationError,
    ValidationError,
)

pytestmark = pytest.mark.django_db(transaction=True)

MISTAKES = [
    ValidationError("Division by zero", "b"),
    ConflictError("The name is taken"),
    NotFoundError("There is no ticket 7", {"operation": "get", "resourceType": "Ticket", "resourceId": "7"}),
    UpstreamValidationError("Subject cannot be blank", context={"field": "subject"}),
]


def called(programmable: Programmable, caller: Caller, error: ToolError) -> ToolError:
    programmable.outcomes.append(error)
    with pytest.raises(ToolError) as raised:
        engine.call_sync("programmable", {}, caller, door="code")
    return raised.value


@pytest.mark.parametrize("error", MISTAKES, ids=lambda error: error.code)
def test_a_mistake_of_the_caller_is_a_refusal_with_its_message(
    programmable: Programmable, alice: Caller, error: ToolError
) -> None:
    told = called(programmable, alice, error)
    made = Call.objects.get()
    assert (made.status, made.code, made.error) == (Call.Status.REFUSED, error.code, error.message)
    assert (made.attempts, made.pk, made.duration_ms is not None) == (1, told.call_id, True)
    assert not ErrorGroup.objects.exists()
    # What operators look up when a caller asks why.
    event = ErrorLog.objects.get()
    assert (event.pk, event.call_id, event.group_id) == (told.error_id, made.pk, None)
    assert made.error_id == event.pk


def test_mistakes_neither_raise_the_error_rate_nor_an_alert(programmable: Programmable, alice: Caller) -> None:
    for _ in range(8):
        called(programmable, alice, ValidationError("Division by zero", "b"))
    called(programmable, alice, ApiError("The tracker said no"))
    rows.fold()
    figures = insights.together(insights.over(insights.period("24h", timezone.now())))
    assert (figures.calls, figures.refused, figures.errors, figures.not_refused) == (9, 8, 1, 1)
    finding.find(timezone.now())
    assert not Alert.objects.filter(event="errors.rate").exists()


def test_calls_that_ran_have_a_row_each(programmable: Programmable, alice: Caller) -> None:
    """What was never run is counted in a row that many share; what was run may have changed something."""
    for _ in range(15):
        called(programmable, alice, ValidationError("Division by zero", "b"))
    assert Call.objects.filter(status="refused", count=1, attempts=1).count() == 15


def test_faults_of_tools_and_upstreams_stay_errors(programmable: Programmable, alice: Caller) -> None:
    for error in (ApiError("The tracker said no", 422), ToolExecutionError.of("programmable", KeyError("south"))):
        assert called(programmable, alice, error).error_id
    assert set(Call.objects.values_list("status", flat=True)) == {"failed"}
    assert ErrorGroup.objects.count() == 2


# ---- the cause of what is an error


def test_the_cause_of_an_error_is_the_last_line_of_its_stack_trace(programmable: Programmable, alice: Caller) -> None:
    cause = KeyError("south")
    cause.add_note("seen in the northern warehouse")
    called(programmable, alice, ToolExecutionError.of("programmable", cause))
    assert ErrorLog.objects.get().cause == ErrorGroup.objects.get().cause == "KeyError: 'south'"


@pytest.mark.parametrize(
    ("detail", "cause"),
    [
        ("the body of a response", ""),
        (None, ""),
        (ValueError("two\nlines"), "ValueError: two lines"),
        (RuntimeError(), "RuntimeError"),
        (RuntimeError("x" * 5_000), f"RuntimeError: {'x' * 286}"),
        (RuntimeError("the key is password=hunter2hunter2"), None),
    ],
    ids=["text", "none", "lines", "empty", "long", "secret"],
)
def test_a_cause_is_one_line_without_secrets(
    programmable: Programmable, alice: Caller, detail: object, cause: str | None
) -> None:
    called(programmable, alice, ApiError("The tracker said no", detail=detail))
    stored = ErrorLog.objects.get().cause
    assert stored == cause if cause is not None else "hunter2" not in stored


def test_a_secret_where_a_cause_is_cut_is_not_stored(programmable: Programmable, alice: Caller) -> None:
    """Redaction recognises it by what follows it."""
    address = f"https://ann:{'hunter2' * 70}@h.test/ "
    called(programmable, alice, ApiError("The tracker said no", detail=RuntimeError(address * 4)))
    stored = ErrorLog.objects.get().cause
    assert stored.startswith("RuntimeError: https://***@h.test/")
    assert "hunter2" not in stored
