"""StatsPage: the report of `stats` as one HTML file: no scripts, nothing loaded from elsewhere.

Well-formed XML, too, so that a test can take it apart.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from html import escape
from typing import Final

from tidelog.segments.statistics.log_statistics import LogStatistics
from tidelog.segments.statistics.sketches.log_histogram import RELATIVE_ERROR, LogHistogram
from tidelog.segments.statistics.sketches.time_buckets import TimeBuckets
from tidelog.spark.jobs.stats_result import LogFigures, StatsResult
from tidelog.spark.jobs.stats_style import STYLE
from tidelog.spark.jobs.svg_charts import Column, bar_chart, time_chart

__all__ = ["page_of"]

STEPS_MAX: Final = 240
"""Of a chart over time: about two pixels each."""
UNITS: Final = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")
Cells = Sequence[object]


def page_of(
    source: str, result: StatsResult, topics: Mapping[str, LogStatistics], now: datetime
) -> str:
    """Return the page.

    Args:
        source: Where the logs are, as the user has named it.
        topics: What was found in each topic of the result.
        now: When that was.
    """
    body = "".join(
        _topic(figures, topics[figures.topic], _partitions_of(figures.topic, result))
        for figures in result.topics
    )
    made = f"{now:%Y-%m-%d %H:%M} UTC"
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8"/>
<meta name="viewport" content="width=device-width, initial-scale=1"/>
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'"/>
<meta name="color-scheme" content="light dark"/>
<title>Topics of {escape(source)}</title>
<style>{STYLE}</style>
</head>
<body>
<header><h1>Topics of {escape(source)}</h1>
<p>{escape(made)}. {result.segments:,} segments, {_size(result.size_bytes)}. Times are UTC.</p>
{_contents(result)}</header>
<main>{body}</main>
<footer><p>Quantiles of sizes are within {RELATIVE_ERROR:.0%}; counts are exact where nothing else
is said. Rates count records as they are decompressed.</p></footer>
</body>
</html>
"""


def _contents(result: StatsResult) -> str:
    if len(result.topics) < 2:
        return ""
    links = " ".join(
        f'<a href="#{escape(each.topic)}">{escape(each.topic)}</a>' for each in result.topics
    )
    return f"<nav>{links}</nav>"


def _partitions_of(topic: str, result: StatsResult) -> list[LogFigures]:
    return [each for each in result.partitions if each.topic == topic]


def _topic(figures: LogFigures, found: LogStatistics, partitions: Sequence[LogFigures]) -> str:
    charts = [
        *_rates(found.rates),
        *_sizes("Record sizes", "records", found.record_bytes),
        *_sizes("Batch sizes", "batches", found.batch_bytes),
    ]
    return f"""
<section id="{escape(figures.topic)}"><h2>{escape(figures.topic)}</h2>
<dl>{_tiles(figures)}</dl>
<div class="charts">{"".join(charts)}</div>
<div class="tables">{_top_keys(figures)}{_codecs(figures)}</div>
{_partitions(partitions)}</section>
"""


# --- figures --------------------------------------------------------------------------------------


def _tiles(figures: LogFigures) -> str:
    about = "about " if figures.distinct_keys_error else ""
    sizes = figures.record_bytes
    late = _number(figures.late) + ("" if figures.lateness_is_exact else " or more")
    tiles = [
        ("Records", _number(figures.records), _between(figures)),
        ("Stored", _size(figures.size_bytes), _ratio(figures)),
        ("Records a second", _rate(figures.records_per_second), "from first to last"),
        ("Record size", _size(sizes.p50), f"median; 99 %: {_size(sizes.p99)}"),
        ("Keys", about + _number(figures.distinct_keys), _nulls(figures)),
        ("Late", late, f"{_number(figures.out_of_order)} out of order"),
        (
            "Missing offsets",
            _number(figures.missing_offsets),
            f"gaps between batches: {_number(figures.gaps)}",
        ),
    ]
    if figures.damaged_bytes:
        tiles.append(("Damaged", _size(figures.damaged_bytes), "left out"))
    return "".join(
        f"<div><dt>{escape(name)}</dt><dd>{escape(value)}</dd><dd>{escape(more)}</dd></div>"
        for name, value, more in tiles
    )


def _between(figures: LogFigures) -> str:
    if figures.first_time is None or figures.last_time is None:
        return "without times"
    return f"{figures.first_time:%Y-%m-%d %H:%M} to {figures.last_time:%Y-%m-%d %H:%M}"


def _ratio(figures: LogFigures) -> str:
    ratio = figures.compression_ratio
    return "" if ratio is None else f"compressed {ratio:.2f} to 1"


def _nulls(figures: LogFigures) -> str:
    keys, values = _number(figures.null_keys), _number(figures.null_values)
    return f"{keys} without key, {values} without value"


# --- charts ---------------------------------------------------------------------------------------


def _rates(rates: TimeBuckets) -> list[str]:
    buckets = rates.buckets()
    if not buckets:
        return []
    start, width = buckets[0].start_ms, rates.width_ms
    count = (buckets[-1].start_ms - start) // width + 1
    per_step = -(-count // STEPS_MAX)
    step_ms, steps = width * per_step, -(-count // per_step)
    records, size_bytes = [0.0] * steps, [0.0] * steps
    for bucket in buckets:
        step = (bucket.start_ms - start) // step_ms
        records[step] += bucket.records * 1000 / step_ms
        size_bytes[step] += bucket.size_bytes * 1000 / step_ms
    charts = (
        ("Records a second", records, _rate),
        ("Bytes a second", size_bytes, _rate_bytes),
    )
    return [
        _figure(name, time_chart(values, start, step_ms, name=name, text_of=text_of))
        for name, values, text_of in charts
    ]


def _sizes(name: str, unit: str, sizes: LogHistogram) -> list[str]:
    powers = sizes.powers_of_two()
    if not powers:
        return []
    columns = [Column(f"≤{_size(bound)}", count) for bound, count in powers]
    chart = bar_chart(columns, name=name, text_of=_rate)
    return [_figure(f"{name}, {unit} by size", chart)]


def _figure(name: str, chart: str) -> str:
    return f"<figure><figcaption>{escape(name)}</figcaption>{chart}</figure>"


# --- tables ---------------------------------------------------------------------------------------


def _top_keys(figures: LogFigures) -> str:
    if not figures.top_keys:
        return ""
    keyed = max(figures.records - figures.null_keys, 1)
    rows = [
        (key.key or '""', f"{'≥ ' if key.error else ''}{key.count:,}", _share(key.count / keyed))
        for key in figures.top_keys
    ]
    return _table("Frequent keys", ("Key", "Records", "Share"), rows)


def _codecs(figures: LogFigures) -> str:
    rows = [
        (
            each.codec,
            f"{each.batches:,}",
            f"{each.records:,}",
            _size(each.stored_bytes),
            f"{each.raw_bytes / each.stored_bytes:.2f}" if each.stored_bytes else "-",
        )
        for each in figures.codecs
    ]
    return _table("Codecs", ("Codec", "Batches", "Records", "Stored", "Ratio"), rows)


def _partitions(partitions: Sequence[LogFigures]) -> str:
    names = (
        "Partition", "Records", "Stored", "Offsets", "Records/s", "Median record", "Keys",
        "Missing", "Gaps", "Out of order", "Late", "Latest by",
    )  # fmt: skip
    rows = [
        (
            each.partition,
            f"{each.records:,}",
            _size(each.size_bytes),
            "-" if each.first_offset is None else f"{each.first_offset}-{each.last_offset}",
            _rate(each.records_per_second),
            _size(each.record_bytes.p50),
            f"{each.distinct_keys:,}",
            f"{each.missing_offsets:,}",
            f"{each.gaps:,}",
            f"{each.out_of_order:,}",
            f"{each.late:,}",
            f"{each.latest_by_ms / 1000:,.1f} s",
        )
        for each in partitions
    ]
    return _table("Partitions", names, rows)


def _table(name: str, columns: Sequence[str], rows: Iterable[Cells]) -> str:
    head = "".join(f'<th scope="col">{escape(column)}</th>' for column in columns)
    lines = "".join(
        f"<tr>{''.join(f'<td>{escape(_printable(str(cell)))}</td>' for cell in row)}</tr>"
        for row in rows
    )
    return (
        f'<div class="scroll"><table><caption>{escape(name)}</caption>'
        f"<thead><tr>{head}</tr></thead><tbody>{lines}</tbody></table></div>"
    )


# --- texts ----------------------------------------------------------------------------------------


def _printable(text: str) -> str:
    """Return text without control characters, which no page may hold."""
    return "".join(each if each.isprintable() else f"\\x{ord(each):02x}" for each in text)


def _number(value: float) -> str:
    return f"{value:,.0f}"


def _rate(value: float | None) -> str:
    """Return a number with three digits that count, such as 12.3k."""
    if value is None:
        return "-"
    for unit in ("", "k", "M", "G"):
        if value < 1000 or unit == "G":
            break
        value /= 1000
    return _short(value) + unit


def _rate_bytes(value: float) -> str:
    return f"{_rate(value)}B"


def _size(value: float | None) -> str:
    """Return a size as people read it, such as 1.5 MiB."""
    if value is None:
        return "-"
    for unit in UNITS:
        if value < 1024 or unit == UNITS[-1]:
            break
        value /= 1024
    return f"{_short(value)} {unit}"


def _short(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _share(share: float) -> str:
    return f"{share:.1%}"
