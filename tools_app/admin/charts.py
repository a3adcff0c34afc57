"""Charts as inline SVG: no scripts, no requests, accessible to screen readers.

    calls(buckets, address=…)      how many calls ended how, stacked, a column for each bucket of `insights`
    durations(buckets, address=…)  p50 and p95 of the same buckets, as lines
    bars(…)                        stacked columns of any other numbers
    sparkline(numbers, words)      a trend as wide as a word, ready for a cell of a list

A chart is shown by `{% include "admin/tools_app/chart.html" with chart=chart %}`, which renders the heading
(`chart.title`), a summary (`chart.words`) and the same data as a table, for keyboards and screen readers: like a
column, each row links to `address(bucket)`, the list behind its number. `chart.empty`: there is no data, and the page
says so instead. Tones are those of marks: good, warn, bad, quiet, and plain for the colour of the theme.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import ClassVar, Final

from django.utils import timezone
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from tools_app.journal import insights
from tools_app.journal.insights import Bucket, Figures
from tools_app.models.figures import DURATIONS

Number = float | None

HEIGHT: Final = 100
STEP: Final = 10
BAR: Final = 8
SPARK_HEIGHT: Final = 20
# Possible numbers of labels under the axis, evenly spaced: they fit side by side on a phone.
_LABELS: Final = (6, 7, 5, 4, 3, 8, 2)
# Range of the logarithmic duration axis, in milliseconds.
_SHORTEST, _LONGEST = 10, 10_000


@dataclass(frozen=True, slots=True)
class Series:
    """Numbers of one kind, with title and colour."""

    title: str
    tone: str = "plain"


@dataclass(frozen=True, slots=True)
class Place:
    """One position on the axis: short label, full label, a number per series, and a link."""

    label: str
    words: str
    numbers: tuple[Number, ...]
    address: str = ""


@dataclass(frozen=True, slots=True)
class Bar:
    tone: str
    y: float
    height: float


@dataclass(frozen=True, slots=True)
class Column:
    """One position, as drawn and as a row of the table."""

    x: int
    words: str
    numbers: tuple[str, ...]
    series: Sequence[Series]
    address: str
    bars: tuple[Bar, ...]

    @property
    def in_words(self) -> str:
        values = (f"{one.title} {number}" for one, number in zip(self.series, self.numbers, strict=True))
        return f"{self.words}: {', '.join(values)}"


@dataclass(frozen=True, slots=True)
class ChartLine:
    tone: str
    path: str


@dataclass(frozen=True, slots=True)
class Chart:
    title: str
    words: str
    series: Sequence[Series]
    columns: tuple[Column, ...]
    lines: Sequence[ChartLine]
    scale: Sequence[str]
    """Labels of the left axis, evenly spaced, from the top."""
    labels: Sequence[str]
    """Labels under the axis, each at the start of its section."""
    empty: bool
    height: ClassVar = HEIGHT
    step: ClassVar = STEP
    bar: ClassVar = BAR

    @property
    def width(self) -> int:
        return len(self.columns) * STEP

    @property
    def grid(self) -> list[float]:
        steps = len(self.scale) - 1
        return [HEIGHT * number / steps for number in range(steps)]


def calls(
    buckets: Sequence[Bucket], *, address: Callable[[Bucket], str] | None = None, title: str = "", errors: bool = True
) -> Chart:
    """Calls per bucket by outcome. Without `errors` (no permission), one series for all."""
    series = [Series(_("Calls"))]
    numbers: list[tuple[Number, ...]] = [(bucket.calls,) for bucket in buckets]
    if errors:
        series = [Series(_("Succeeded")), Series(_("Refused"), "warn"), Series(_("Errors"), "bad")]
        numbers = [(bucket.succeeded, bucket.refused, bucket.errors) for bucket in buckets]
        if any(bucket.others for bucket in buckets):
            series.append(Series(_("Cancelled or needs input"), "quiet"))
            numbers = [(*counts, bucket.others) for counts, bucket in zip(numbers, buckets, strict=True)]
    places = [
        Place(_label(bucket), _span(bucket), counts, address(bucket) if address and bucket.calls else "")
        for counts, bucket in zip(numbers, buckets, strict=True)
    ]
    return bars(title or _("Calls"), series, places, words=_calls_in_words(buckets, errors=errors))


def durations(buckets: Sequence[Bucket], *, address: Callable[[Bucket], str] | None = None, title: str = "") -> Chart:
    """Median and 95th percentile of durations per bucket."""
    shares = (0.5, 0.95)
    places = [
        Place(
            _label(bucket),
            _span(bucket),
            tuple(insights.percentile([bucket], share) for share in shares),
            address(bucket) if address and sum(bucket.durations) else "",
        )
        for bucket in buckets
    ]
    half, most = (in_time(insights.percentile(buckets, share)) for share in shares)
    words = _("p50 %(half)s, p95 %(most)s") % {"half": half, "most": most}
    series = [Series(_("Median (p50)")), Series(_("p95"), "warn")]
    decades = round(math.log10(_LONGEST / _SHORTEST))
    scale = [length(_SHORTEST * 10**number) for number in range(decades, -1, -1)]
    lines = [ChartLine(one.tone, _path([place.numbers[index] for place in places])) for index, one in enumerate(series)]
    return _chart(title or _("Call duration"), words, series, places, scale, in_time, lines=lines)


def bars(title: str, series: Sequence[Series], places: Sequence[Place], *, words: str = "") -> Chart:
    """Stacked columns, the first series at the bottom."""
    top = _round_up(max((sum(number or 0 for number in place.numbers) for place in places), default=0))
    scale = [_plain(top), _plain(top / 2) if top > 1 else "", "0"]
    return _chart(title, words, series, places, scale, _plain, top=top)


def sparkline(numbers: Sequence[float], words: str, tone: str = "plain") -> SafeString:
    """A small trend without axes; `words` is the text alternative."""
    top = max(numbers, default=0) or 1
    commands = []
    for position, number in enumerate(numbers):
        height = _height(number, top, SPARK_HEIGHT)
        if height:
            commands.append(f"M{position * 4} {SPARK_HEIGHT}v{-height:g}h3v{height:g}z")
    return format_html(
        '<svg class="hub-spark hub-tone-{}" viewBox="0 0 {} {}" role="img" aria-label="{}">'
        '<title>{}</title><path class="hub-spark-ground" d="M0 {}h{}"/><path d="{}"/></svg>',
        tone, max(1, len(numbers) * 4 - 1), SPARK_HEIGHT, words, words,
        SPARK_HEIGHT, max(1, len(numbers) * 4 - 1), "".join(commands),
    )  # fmt: skip


def in_time(milliseconds: Number) -> str:
    """The upper bound of a percentile: an estimate that is never too short."""
    if milliseconds is None:
        return "–"
    return f"> {length(DURATIONS[-1])}" if math.isinf(milliseconds) else f"≤ {length(milliseconds)}"


def share(figures: Figures) -> str:
    """The error rate in per cent; rounded to 0 or 100 only if exact."""
    rate = figures.error_rate
    if 0 < rate < 0.001:
        return "<0.1%"
    return ">99.9%" if 0.999 < rate < 1 else f"{rate:.1%}"


def share_of(figures: Figures) -> str:
    """The error rate with the numbers that it is made of: “2 of 78, 2.6%”."""
    values = {"errors": f"{figures.errors:,}", "calls": f"{figures.not_refused:,}", "share": share(figures)}
    return _("%(errors)s of %(calls)s, %(share)s") % values


def length(milliseconds: float) -> str:
    """A duration in its shortest form."""
    return f"{milliseconds:g} ms" if milliseconds < 1_000 else f"{milliseconds / 1_000:g} s"


def _chart(
    title: str,
    words: str,
    series: Sequence[Series],
    places: Sequence[Place],
    scale: Sequence[str],
    say: Callable[[Number], str],
    *,
    lines: Sequence[ChartLine] = (),
    top: float | None = None,
) -> Chart:
    columns = tuple(
        Column(
            position * STEP,
            place.words,
            tuple(map(say, place.numbers)),
            series,
            place.address,
            tuple(_stack(series, place, top)) if top is not None else (),
        )
        for position, place in enumerate(places)
    )
    empty = not any(number for place in places for number in place.numbers)
    return Chart(title, words, series, columns, lines, scale, _labels(places), empty)


def _stack(series: Sequence[Series], place: Place, top: float) -> Iterable[Bar]:
    ground = float(HEIGHT)
    for one, number in zip(series, place.numbers, strict=True):
        height = _height(number or 0, top, HEIGHT)
        if height:
            ground = max(0, ground - height)
            yield Bar(one.tone, ground, height)


def _height(number: float, top: float, height: int) -> float:
    # Small numbers stay visible.
    return max(2, round(height * number / top, 1)) if number else 0


def _path(numbers: Sequence[Number]) -> str:
    commands: list[str] = []
    before = None
    for position, number in enumerate(numbers):
        if number is not None:
            y = round(HEIGHT * (1 - _level(number)), 1)
            commands.append(f"M{position * STEP} {y:g}" if before is None else f"V{y:g}")
            commands.append(f"H{(position + 1) * STEP}")
        before = number
    return "".join(commands)


def _level(milliseconds: float) -> float:
    clamped = min(max(milliseconds, _SHORTEST), _LONGEST)
    return math.log10(clamped / _SHORTEST) / math.log10(_LONGEST / _SHORTEST)


def _round_up(number: float) -> float:
    """The next round number whose half is round too."""
    if number <= 2:
        return 2 if number > 1 else 1
    power = 10 ** math.floor(math.log10(number))
    steps = (1, 2, 4, 6, 8, 10) if power > 1 else (2, 4, 6, 8, 10)
    return float(next(step * power for step in steps if step * power >= number))


def _labels(places: Sequence[Place]) -> list[str]:
    parts = next((parts for parts in _LABELS if len(places) % parts == 0), 1)
    return [place.label for place in places[:: max(1, len(places) // parts)]]


def _plain(number: Number) -> str:
    return "–" if number is None else f"{number:,.10g}"


def _calls_in_words(buckets: Sequence[Bucket], *, errors: bool) -> str:
    number, faults = sum(bucket.calls for bucket in buckets), sum(bucket.errors for bucket in buckets)
    calls = ngettext("%(number)s call", "%(number)s calls", number) % {"number": f"{number:,}"}
    if not errors:
        return calls
    return f"{calls}, {ngettext('%(number)s error', '%(number)s errors', faults) % {'number': f'{faults:,}'}}"


def _label(bucket: Bucket) -> str:
    start = timezone.localtime(bucket.start)
    return f"{start:%H:%M}" if bucket.length < timedelta(hours=6) else _day(start)


def _span(bucket: Bucket) -> str:
    start, end = timezone.localtime(bucket.start), timezone.localtime(bucket.end)
    if bucket.length >= timedelta(hours=23):
        return _day(start)
    return f"{_day(start)}, {start:%H:%M}–{end:%H:%M}"


def _day(moment: datetime) -> str:
    # Month and day as everywhere else in the admin, independent of the language.
    return f"{moment:%m-%d}"
