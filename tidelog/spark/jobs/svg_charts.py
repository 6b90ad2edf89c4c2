"""SvgCharts: charts as SVG elements for a page, with no script and nothing from elsewhere.

Colours are the page's CSS variables, so that a chart is light or dark as the page is. Each mark has
a `<title>`, which browsers show under the pointer.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from html import escape
from typing import Final, NamedTuple

__all__ = ["Column", "bar_chart", "time_chart"]

WIDTH: Final = 640
HEIGHT: Final = 190
LEFT, RIGHT, TOP, BOTTOM = 58, 10, 12, 26
PLOT_WIDTH: Final = WIDTH - LEFT - RIGHT
PLOT_HEIGHT: Final = HEIGHT - TOP - BOTTOM
TICKS: Final = 3
BAR_GAP: Final = 2
ROUND_STEPS: Final = (1, 1.5, 2, 3, 4, 5, 6, 8, 10)
MINUTE_SECONDS: Final = 60
DAY_SECONDS: Final = 86_400

TextOf = Callable[[float], str]


class Column(NamedTuple):
    """One mark of a chart."""

    label: str
    """What it stands for, in words."""
    value: float


def time_chart(
    values: Sequence[float], start_ms: int, step_ms: int, *, name: str, text_of: TextOf
) -> str:
    """Return an area over time.

    Args:
        values: One for each step from the start on; at least one.
        name: What is shown, for those who cannot see it.
        text_of: How a value is written.
    """
    top = _round_up(max(values))
    width = PLOT_WIDTH / len(values)
    points: list[str] = []
    marks: list[str] = []
    for number, value in enumerate(values):
        left, y = LEFT + number * width, _y(value, top)
        points.append(f"{left:.1f},{y:.1f} {left + width:.1f},{y:.1f}")
        moment = _moment(start_ms + number * step_ms)
        marks.append(
            f'<rect class="hover" x="{left:.1f}" y="{TOP}" width="{width:.2f}" '
            f'height="{PLOT_HEIGHT}"><title>{moment:%Y-%m-%d %H:%M:%S}: '
            f"{escape(text_of(value))}</title></rect>"
        )
    line = " ".join(points)
    base = TOP + PLOT_HEIGHT
    shapes = (
        f'<polygon class="area" points="{LEFT},{base} {line} {LEFT + PLOT_WIDTH},{base}"/>'
        f'<polyline class="line" points="{line}"/>'
    )
    times = _time_labels(start_ms, step_ms * len(values))
    return _chart(name, _grid(top, text_of) + shapes + "".join(marks) + times)


def bar_chart(columns: Sequence[Column], *, name: str, text_of: TextOf) -> str:
    """Return a bar a column, with as many of their labels below as there is room for."""
    top = _round_up(max(column.value for column in columns))
    width = PLOT_WIDTH / len(columns)
    every = math.ceil(len(columns) / 12)
    marks: list[str] = []
    for number, column in enumerate(columns):
        left, y = LEFT + number * width, _y(column.value, top)
        height = TOP + PLOT_HEIGHT - y
        marks.append(
            f'<rect class="bar" x="{left + BAR_GAP / 2:.1f}" y="{y:.1f}" rx="2" '
            f'width="{max(width - BAR_GAP, 1):.1f}" height="{height:.1f}">'
            f"<title>{escape(column.label)}: {escape(text_of(column.value))}</title></rect>"
        )
        if number % every == 0:
            marks.append(_label(left + width / 2, HEIGHT - 8, column.label, "middle"))
    return _chart(name, _grid(top, text_of) + "".join(marks))


def _chart(name: str, inside: str) -> str:
    return (
        f'<svg role="img" aria-label="{escape(name)}" viewBox="0 0 {WIDTH} {HEIGHT}">{inside}</svg>'
    )


def _grid(top: float, text_of: TextOf) -> str:
    parts: list[str] = []
    for number in range(TICKS):
        value = top * number / (TICKS - 1)
        y = _y(value, top)
        parts.append(
            f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>'
        )
        parts.append(_label(LEFT - 6, y + 4, text_of(value), "end"))
    return "".join(parts)


def _time_labels(start_ms: int, length_ms: int) -> str:
    length_seconds = length_ms / 1000
    form = "%H:%M:%S" if length_seconds <= 10 * MINUTE_SECONDS else "%H:%M"
    if length_seconds > DAY_SECONDS:
        form = "%b %d" if length_seconds > 4 * DAY_SECONDS else "%b %d %H:%M"
    places = [(0.0, "start"), (0.5, "middle"), (1.0, "end")]
    return "".join(
        _label(
            LEFT + share * PLOT_WIDTH,
            HEIGHT - 8,
            f"{_moment(start_ms + round(share * length_ms)):{form}}",
            anchor,
        )
        for share, anchor in places
    )


def _label(x: float, y: float, text: str, anchor: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(text)}</text>'


def _y(value: float, top: float) -> float:
    return TOP + PLOT_HEIGHT * (1 - value / top)


def _round_up(value: float) -> float:
    """Return a round number that is not smaller."""
    if value <= 0:
        return 1.0
    power: float = 10.0 ** math.floor(math.log10(value))
    return next(step * power for step in ROUND_STEPS if step * power >= value * (1 - 1e-9))


def _moment(time_ms: int) -> datetime:
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=time_ms)
