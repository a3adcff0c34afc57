"""Charts: what is drawn is what is said, and everything drawn leads somewhere."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from django.template.loader import render_to_string

from tests.admin.pages import Page
from tools_app.admin import charts
from tools_app.admin.charts import Place, Series
from tools_app.journal.insights import Bucket
from tools_app.models.figures import DURATIONS

NOON = datetime(2026, 5, 4, 12, tzinfo=UTC)


def buckets(*numbers: tuple[int, int, int]) -> list[Bucket]:
    """Of each the succeeded, refused and failed calls."""
    return [
        Bucket(NOON + timedelta(hours=hour), calls=sum(three), succeeded=three[0], refused=three[1], errors=three[2])
        for hour, three in enumerate(numbers)
    ]


def timed(*positions: int | None) -> list[Bucket]:
    """A bucket for each, with one call that took as long as the position in `DURATIONS` says, or none."""
    return [
        Bucket(NOON + timedelta(hours=hour), durations=tuple(int(at == position) for at in range(len(DURATIONS) + 1)))
        for hour, position in enumerate(positions)
    ]


def drawn(chart: charts.Chart) -> Page:
    return Page(f"<body>{render_to_string('admin/tools_app/chart.html', {'chart': chart})}</body>")


def test_parts_stand_upon_each_other_and_reach_what_the_axis_says() -> None:
    chart = charts.calls(buckets((50, 30, 20), (0, 0, 0), (1, 0, 199)))
    assert chart.scale == ["200", "100", "0"]
    first, empty, last = ([(bar.tone, bar.y, bar.height) for bar in column.bars] for column in chart.columns)
    assert first == [("plain", 75, 25), ("warn", 60, 15), ("bad", 50, 10)]
    assert empty == []
    # One of 200 is seen all the same, and nothing is drawn beyond the top.
    assert last == [("plain", 98, 2), ("bad", 0, 99.5)]


def test_every_number_is_in_the_table_and_leads_to_its_list() -> None:
    chart = charts.calls(
        buckets((1_000, 2, 1), (0, 0, 0)), address=lambda bucket: f"/calls?from={bucket.start:%H}", title="Runs"
    )
    shown = drawn(chart)
    assert [row.text.split() for row in shown.all("tr")][1:] == [
        ["05-04,", "12:00–13:00", "1,000", "2", "1"],
        ["05-04,", "13:00–14:00", "0", "0", "0"],
    ]
    in_table = [link for link in shown.all("a") if "tabindex" not in link.attributes]
    assert [link["href"] for link in in_table] == ["/calls?from=12"]
    assert [link["href"] for link in shown.all("a", tabindex="-1")] == ["/calls?from=12"]
    assert "05-04, 12:00–13:00: Succeeded 1,000, Refused 2, Errors 1" in shown.text
    assert shown.one("h2").text.split() == ["Runs", "1,003", "calls,", "1", "error"]


def test_readers_of_screens_get_the_table_instead_of_the_drawing() -> None:
    shown = drawn(charts.calls(buckets((1, 0, 0)), address=lambda _: "/"))
    hidden = shown.one("div", aria_hidden="true")
    assert shown.one("svg").parents[-1] is hidden
    assert hidden not in shown.one("table").parents
    for element in shown.elements:
        assert not element.attributes.keys() & {"style", "onclick", "onload"}


def test_cancelled_calls_have_a_colour_of_their_own_where_there_are_some() -> None:
    with_others = [Bucket(NOON, calls=5, succeeded=2)]
    assert [series.tone for series in charts.calls(with_others).series] == ["plain", "warn", "bad", "quiet"]
    assert [row.numbers for row in charts.calls(with_others).columns] == [("2", "0", "0", "3")]


def test_whoever_may_not_see_errors_sees_calls() -> None:
    chart = charts.calls(buckets((5, 1, 4)), errors=False)
    assert [series.title for series in chart.series] == ["Calls"]
    assert [row.numbers for row in chart.columns] == [("10",)]
    assert "error" not in chart.words


def test_a_line_is_interrupted_where_nothing_was_timed() -> None:
    chart = charts.durations(timed(0, 2, None, 8))
    half, most = (line.path for line in chart.lines)
    assert half == most == "M0 100H10V66.7H20M30 0H40"
    assert chart.scale == ["10 s", "1 s", "100 ms", "10 ms"]
    assert [row.numbers[0] for row in chart.columns] == ["≤ 10 ms", "≤ 100 ms", "–", "≤ 10 s"]


def test_what_takes_too_long_to_tell_stays_within_the_drawing() -> None:
    chart = charts.durations(timed(len(DURATIONS)))
    assert [line.path for line in chart.lines] == ["M0 0H10", "M0 0H10"]
    assert chart.words == "p50 > 10 s, p95 > 10 s"


def test_a_chart_of_nothing_says_so() -> None:
    for chart in (charts.calls(buckets((0, 0, 0))), charts.calls([]), charts.durations(timed(None))):
        assert chart.empty
        assert drawn(chart).all("svg") == []
        assert "No data for this period." in drawn(chart).text


def test_the_axis_ends_at_a_number_that_reads_well() -> None:
    def scale(number: float) -> Sequence[str]:
        return charts.bars("x", [Series("x")], [Place("", "", (number,))]).scale

    found = {number: scale(number) for number in (1, 2, 3, 7, 11, 41, 99, 100, 101, 8_001, 1_234_567)}
    assert {number: top for number, (top, _, _) in found.items()} == {
        1: "1", 2: "2", 3: "4", 7: "8", 11: "20", 41: "60", 99: "100", 100: "100", 101: "200",
        8_001: "10,000", 1_234_567: "2,000,000",
    }  # fmt: skip
    assert found[1][1] == ""
    assert found[3][1] == "2"


def test_labels_stand_at_even_distances() -> None:
    for number, expected in {12: 6, 24: 6, 28: 7, 30: 6, 31: 1, 0: 0}.items():
        chart = charts.calls(buckets(*[(1, 0, 0)] * number))
        assert len(chart.labels) == expected, number
    assert charts.calls(buckets(*[(1, 0, 0)] * 24)).labels[:2] == ["12:00", "16:00"]


def test_a_sparkline_says_what_it_draws() -> None:
    shown = Page(f"<body>{charts.sparkline([0, 5, 10], '<b>15</b> calls', 'bad')}</body>")
    assert shown.one("svg", class_="hub-tone-bad")["aria-label"] == "<b>15</b> calls"
    assert shown.all("b") == []
    assert shown.all("path")[-1]["d"] == "M4 20v-10h3v10zM8 20v-20h3v20z"
    assert charts.sparkline([], "nothing")
