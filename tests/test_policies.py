"""Policies, with invented times."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tools_app.policies import Backoff, Breaker, Bucket, Circuit, Rate


def test_waits_double_up_to_a_cap() -> None:
    assert [Backoff().wait(attempt, 0.5) for attempt in range(7)] == [1, 2, 4, 8, 16, 30, 30]
    assert Backoff().wait(10**6, 0.5) == 30


@given(st.integers(0, 100), st.floats(0, 1))
def test_chance_moves_a_wait_by_a_quarter_at_most(attempt: int, chance: float) -> None:
    middle = Backoff().wait(attempt, 0.5)
    assert middle * 0.75 <= Backoff().wait(attempt, chance) <= middle * 1.25


@pytest.mark.parametrize(
    ("asked", "waits"), [(5.0, 5.0), (0.1, 1.0), (None, 1.0), (-3.0, 1.0), (10.0**9, 1.0), (0.0, 1.0)]
)
def test_waits_as_long_as_the_server_asks_within_reason(asked: float | None, waits: float) -> None:
    assert Backoff().wait(0, 0.5, asked) == waits


def test_a_bucket_allows_exactly_its_limit_and_says_when_to_come_back() -> None:
    bucket = Bucket(Rate(3, 60))
    assert [bucket.take(100.0) for _ in range(3)] == [0, 0, 0]
    assert bucket.take(100.0) == pytest.approx(20)
    assert bucket.take(119.9) == pytest.approx(0.1)
    assert bucket.take(120.0) == 0
    assert bucket.take(120.0) > 0


def test_a_refused_call_takes_nothing() -> None:
    bucket = Bucket(Rate(1, 10))
    bucket.take(0.0)
    for _ in range(100):
        assert bucket.take(5.0) == pytest.approx(5)
    assert bucket.take(10.0) == 0


def test_a_bucket_may_be_forgotten_when_it_is_full_again() -> None:
    bucket = Bucket(Rate(10, 60))
    assert bucket.idle(0.0)
    bucket.take(0.0)
    assert not bucket.idle(59.9)
    assert bucket.idle(60.0)


@given(st.integers(1, 50), st.floats(0.1, 100), st.lists(st.floats(0, 1000), max_size=300))
def test_no_sequence_gets_more_than_the_rate_allows(most: int, seconds: float, times: list[float]) -> None:
    bucket = Bucket(Rate(most, seconds))
    times.sort()
    taken = [now for now in times if bucket.take(now) == 0]
    for first, now in enumerate(taken):
        within = sum(1 for later in taken[first:] if later - now < seconds)
        assert within <= 2 * most, "a full bucket and its refill, never more"


def test_five_failures_in_a_row_open_the_circuit() -> None:
    breaker = Breaker()
    for now in range(4):
        breaker.failed(now)
        assert breaker.admit(now) is None
    breaker.failed(4)
    assert breaker.state(4) is Circuit.OPEN
    assert breaker.admit(4) == 60
    assert breaker.admit(24) == 40


def test_a_success_in_between_starts_the_count_again() -> None:
    breaker = Breaker()
    for now in range(4):
        breaker.failed(now)
    breaker.succeeded(4)
    breaker.failed(5)
    assert breaker.state(5) is Circuit.CLOSED


def test_half_of_ten_within_a_minute_opens_it_too() -> None:
    breaker = Breaker()
    for turn in range(5):
        breaker.succeeded(turn)
        breaker.failed(turn)
    assert breaker.state(5) is Circuit.OPEN


def test_old_outcomes_do_not_count() -> None:
    breaker = Breaker()
    for turn in range(4):
        breaker.failed(turn)
        breaker.succeeded(turn)
    for turn in range(4):
        breaker.succeeded(100 + turn)
    breaker.failed(104)
    assert breaker.state(104) is Circuit.CLOSED


def opened() -> Breaker:
    breaker = Breaker()
    for _ in range(5):
        breaker.failed(0)
    return breaker


def test_after_its_rest_exactly_one_probe_gets_through() -> None:
    breaker = opened()
    assert breaker.admit(59.9) is not None
    admitted = [breaker.admit(60) for _ in range(50)]
    assert admitted.count(None) == 1
    assert breaker.state(60) is Circuit.HALF_OPEN
    breaker.succeeded(61)
    assert breaker.state(61) is Circuit.CLOSED
    assert breaker.admit(61) is None


def test_a_probe_that_fails_opens_it_again() -> None:
    breaker = opened()
    assert breaker.admit(60) is None
    breaker.failed(61)
    assert breaker.admit(61) == 60
    assert breaker.admit(121) is None


def test_a_probe_that_says_nothing_lets_another_try() -> None:
    breaker = opened()
    assert breaker.admit(60) is None
    assert breaker.admit(61) is not None
    breaker.abandoned()
    assert breaker.admit(62) is None
    assert breaker.admit(63) is not None
    assert breaker.admit(122) is None, "a probe that vanished does not close the door for good"


def test_late_outcomes_of_earlier_calls_do_not_close_an_open_circuit() -> None:
    breaker = opened()
    breaker.succeeded(1)
    assert breaker.state(2) is Circuit.OPEN
    breaker.failed(30)
    assert breaker.admit(59) == 1


@given(st.lists(st.tuples(st.floats(0, 500), st.booleans()), max_size=200))
def test_it_always_recovers_after_success(events: list[tuple[float, bool]]) -> None:
    breaker = Breaker()
    for now, good in sorted(events):
        if breaker.admit(now) is None:
            (breaker.succeeded if good else breaker.failed)(now)
    later = 500 + 3 * breaker.rest
    assert breaker.admit(later) is None
    breaker.succeeded(later)
    assert breaker.admit(later) is None
