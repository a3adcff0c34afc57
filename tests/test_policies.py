"""Policies, with invented times."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tools_app.sdk.policies import Backoff, Breaker, Bucket, Buckets, Circuit, Rate


def test_waits_double_up_to_a_cap() -> None:
    assert [Backoff().wait(attempt, 0.5) for attempt in range(7)] == [1, 2, 4, 8, 16, 30, 30]
    assert Backoff().wait(10**6, 0.5) == 30


@given(st.integers(0, 100), st.floats(0, 1))
def test_chance_moves_a_wait_by_a_quarter_at_most(attempt: int, chance: float) -> None:
    middle = Backoff().wait(attempt, 0.5)
    assert middle * 0.75 <= Backoff().wait(attempt, chance) <= middle * 1.25


def test_the_higher_the_chance_the_longer_the_wait() -> None:
    assert [Backoff().wait(2, chance) for chance in (0, 0.25, 0.5, 0.75, 1)] == [3, 3.5, 4, 4.5, 5]


@pytest.mark.parametrize(
    ("asked", "waits"),
    [
        *((5.0, 5.0), (0.9, 0.9), (3600.0, 3600.0)),
        *((0.1, 0.75), (None, 0.75), (-3.0, 0.75), (3600.1, 0.75), (10.0**9, 0.75), (0.0, 0.75)),
    ],
)
def test_waits_as_long_as_the_server_asks_within_reason(asked: float | None, waits: float) -> None:
    assert Backoff().wait(0, 0.0, asked) == waits


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


def test_a_bucket_tells_what_is_left_and_when_it_will_be_full_again() -> None:
    bucket = Bucket(Rate(4, 60))
    assert (bucket.left, bucket.full_in) == (4, 0)
    bucket.take(100.0)
    assert (bucket.left, bucket.full_in) == (3, 15)
    for _ in range(4):
        bucket.take(100.0)
    assert (bucket.left, bucket.full_in) == (0, 60)
    bucket.take(137.5)
    assert (bucket.left, bucket.full_in) == (1, 37.5)


def test_the_longest_silent_of_many_buckets_are_forgotten_first() -> None:
    buckets: Buckets[str] = Buckets(2)
    rate = Rate(1, 60)
    for name in ("a", "b", "a", "c"):
        buckets.of(name, rate).take(0.0)
    assert len(buckets) == 2
    assert [buckets.of(name, rate).left for name in ("a", "c", "b")] == [0, 0, 1]


def test_a_bucket_of_another_rate_is_another_bucket() -> None:
    buckets: Buckets[str] = Buckets(2)
    buckets.of("a", Rate(1, 60)).take(0.0)
    assert buckets.of("a", Rate(2, 60)).left == 2
    assert len(buckets) == 1


@given(st.integers(1, 50), st.floats(0.1, 100), st.lists(st.floats(0, 1000), max_size=300))
def test_no_sequence_gets_more_than_the_rate_allows(most: int, seconds: float, times: list[float]) -> None:
    bucket = Bucket(Rate(most, seconds))
    times.sort()
    taken = [now for now in times if bucket.take(now) == 0]
    for first, now in enumerate(taken):
        within = sum(1 for later in taken[first:] if later - now < seconds)
        assert within <= 2 * most, "a full bucket and its refill, never more"


def test_an_open_circuit_says_how_long_it_will_rest() -> None:
    breaker = told("-----")
    assert [breaker.admit(now) for now in (4, 24, 63.5)] == [60, 40, 0.5]


def told(outcomes: str, breaker: Breaker | None = None, start: float = 0.0) -> Breaker:
    """A breaker that was told these outcomes, a second apart: `+` a success, `-` a failure."""
    breaker = breaker or Breaker()
    for now, outcome in enumerate(outcomes):
        (breaker.succeeded if outcome == "+" else breaker.failed)(start + now)
    return breaker


@pytest.mark.parametrize(
    ("outcomes", "state"),
    [
        ("----", Circuit.CLOSED),  # four in a row
        ("-----", Circuit.OPEN),
        ("----+----", Circuit.CLOSED),  # nine outcomes are too few for a share, and a success starts the row again
        ("----+-----", Circuit.OPEN),
        ("++++++++++++-----", Circuit.OPEN),  # five in a row open it, whatever went well before
        ("+-+-+-+-+", Circuit.CLOSED),  # no share of nine
        ("+-+-+-+-+-", Circuit.OPEN),  # half of ten
        ("++-+-+-+-++-", Circuit.CLOSED),  # five of twelve
        ("+++++++++-", Circuit.CLOSED),  # one of ten: successes are no failures
    ],
)
@pytest.mark.parametrize("start", [0, 1000])
def test_failures_in_a_row_or_half_of_ten_open_the_circuit(outcomes: str, state: Circuit, start: float) -> None:
    breaker = told(outcomes, start=start)
    now = start + len(outcomes)
    assert breaker.state(now) is state
    assert (breaker.admit(now) is None) is (state is Circuit.CLOSED)


@pytest.mark.parametrize(
    ("later", "state"),
    [
        (60, Circuit.OPEN),  # what is as old as the window still counts: five of ten
        (60.5, Circuit.CLOSED),  # the first failure is forgotten
        (1000, Circuit.CLOSED),
    ],
)
def test_old_outcomes_do_not_count(later: float, state: Circuit) -> None:
    breaker = told("-+++++---")
    breaker.failed(later)
    assert breaker.state(later) is state


def test_a_breaker_remembers_a_thousand_outcomes_at_most() -> None:
    breaker = Breaker()
    for turn in range(3000):
        breaker.succeeded(turn / 100)
    assert len(breaker.outcomes) == 1000
    assert breaker.outcomes[-1] == (29.99, False)


def opened(at: float = 0) -> Breaker:
    breaker = Breaker()
    for _ in range(5):
        breaker.failed(at)
    return breaker


@pytest.mark.parametrize("at", [0, 100])
def test_an_open_circuit_is_half_open_after_its_rest(at: float) -> None:
    breaker = opened(at)
    states = [breaker.state(at + passed) for passed in (0, 59.9, 60, 1000)]
    assert states == [Circuit.OPEN, Circuit.OPEN, Circuit.HALF_OPEN, Circuit.HALF_OPEN]


def test_after_its_rest_exactly_one_probe_gets_through() -> None:
    breaker = opened()
    assert breaker.admit(59.9) is not None
    admitted = [breaker.admit(60) for _ in range(50)]
    assert admitted.count(None) == 1
    assert breaker.state(60) is Circuit.HALF_OPEN
    breaker.succeeded(61)
    assert breaker.state(61) is Circuit.CLOSED
    assert breaker.admit(61) is None


def test_a_call_during_a_probe_gets_the_time_of_the_next_probe() -> None:
    breaker = opened()
    assert [breaker.admit(now) for now in (70, 71, 129.5, 130)] == [None, 59, 0.5, None]


def test_a_circuit_that_closed_again_has_forgotten_its_failures() -> None:
    breaker = told("-----", Breaker(rest=1))
    assert breaker.admit(5) is None
    told("+----", breaker, start=5)
    assert breaker.state(10) is Circuit.CLOSED


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
