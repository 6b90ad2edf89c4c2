"""SourceOptions: what a read is told, in the words and with the rules of Spark's own Kafka source.

Names do not depend on case. Where two options say where to begin (or end), the one by time wins:
startingTimestamp, then startingOffsetsByTimestamp, then startingOffsets, as in Spark.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from typing import Any, Final, Literal, NoReturn, TypeVar

import msgspec

from protocol.identifiers import TopicPartition
from tidelog.segments.errors import OptionError

__all__ = [
    "BATCHES_OPTIONS",
    "BROKER_OPTIONS",
    "EARLIEST",
    "LATEST",
    "SEGMENTS_OPTIONS",
    "Limit",
    "SourceOptions",
    "parse_options",
]

EARLIEST: Final = -2
"""Stands for the first offset there is, in JSON as well."""
LATEST: Final = -1
"""Stands for the one behind the last there is."""

_RANGES: Final = (
    "subscribe", "subscribePattern", "assign", "startingOffsets", "endingOffsets",
    "startingTimestamp", "endingTimestamp", "startingOffsetsByTimestamp",
    "endingOffsetsByTimestamp", "startingOffsetsByTimestampStrategy", "failOnDataLoss",
    "maxOffsetsPerTrigger", "minPartitions",
)  # fmt: skip
BROKER_OPTIONS: Final = (
    "broker", *_RANGES, "includeHeaders", "checkCrc", "onCorrupt", "isolation",
)  # fmt: skip
SEGMENTS_OPTIONS: Final = (
    "path", *_RANGES, "includeHeaders", "splitBytes", "checkCrc", "onCorrupt", "isolation",
)  # fmt: skip
BATCHES_OPTIONS: Final = (
    "path", *(name for name in _RANGES if name not in ("maxOffsetsPerTrigger", "minPartitions")),
    "splitBytes", "checkCrc",
)  # fmt: skip
"""No minPartitions: that cuts at any offset, and a batch would be a row on each side."""

T = TypeVar("T")


class Limit(msgspec.Struct, frozen=True):
    """Where a read begins or ends: for all partitions, or for each one named."""

    kind: Literal["offset", "timestamp"]
    everywhere: int | None = None
    """An offset, EARLIEST and LATEST among them, or milliseconds; None: see `by_partition`."""
    by_partition: Mapping[TopicPartition, int] = {}


class SourceOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The options of a read, checked; fields are named as the options are. Pickles."""

    path: str | None = None
    """Of a data directory, a partition's directory or a segment file; a URL will do."""
    broker: str | None = None
    """host:port of its native listener."""
    topics: tuple[str, ...] | None = None
    """subscribe: of these only."""
    topic_pattern: str | None = None
    """subscribePattern: of those whose whole name matches."""
    assigned: tuple[TopicPartition, ...] | None = None
    """assign: these partitions only."""
    starting: Limit | None = None
    """None: see `batch_limits` and `stream_start`."""
    ending: Limit | None = None
    later_strategy: Literal["error", "latest"] = "error"
    """Where to begin if no record is as late as the time one is to begin with."""
    fail_on_data_loss: bool = True
    max_offsets_per_trigger: int | None = None
    min_partitions: int | None = None
    include_headers: bool = False
    split_bytes: int = 64 * 1024 * 1024
    """About what one task reads."""
    check_crc: bool = True
    on_corrupt: Literal["fail", "skip", "tag"] = "fail"
    isolation: Literal["read_uncommitted", "read_committed"] = "read_uncommitted"

    def selects(self, partition: TopicPartition) -> bool:
        """Say whether a partition is to be read; all are where nothing is said."""
        if self.assigned is not None:
            return partition in self.assigned
        if self.topics is not None:
            return partition.topic in self.topics
        if self.topic_pattern is not None:
            return re.fullmatch(self.topic_pattern, partition.topic) is not None
        return True

    def batch_limits(self) -> tuple[Limit, Limit]:
        """Return where a batch query begins and ends: by default all there is."""
        starting = self.starting or Limit("offset", EARLIEST)
        ending = self.ending or Limit("offset", LATEST)
        if _names(starting, LATEST):
            raise OptionError("a batch query cannot begin at the latest offset (-1)")
        if _names(ending, EARLIEST):
            raise OptionError("a batch query cannot end at the earliest offset (-2)")
        return starting, ending

    def stream_start(self) -> Limit:
        """Return where a stream without a checkpoint begins: by default at the latest offset."""
        if self.ending is not None:
            raise OptionError("a stream has no end: endingOffsets and the like are for batch")
        return self.starting or Limit("offset", LATEST)


def _names(limit: Limit, offset: int) -> bool:
    return limit.kind == "offset" and offset in (limit.everywhere, *limit.by_partition.values())


def parse_options(
    raw: Mapping[str, str], allowed: Collection[str], *, required: str | None = None
) -> SourceOptions:
    """Return options checked one by one and against each other.

    Args:
        raw: As Spark gives them, under names in any case.
        allowed: What the source knows, such as SEGMENTS_OPTIONS.
        required: The one of them without which it has nothing to read.

    Raises:
        OptionError: one that is not there, that cannot have this value, or two that exclude each
            other.
    """
    names = {name.lower(): name for name in allowed}
    for name in raw:
        if name.lower() not in names:
            raise OptionError(f"there is no option {name!r}; there are {', '.join(allowed)}")
    given = {names[name.lower()]: value for name, value in raw.items()}
    if required is not None and not given.get(required):
        raise OptionError(f"option {required} is missing")
    strategies = [name for name in ("subscribe", "subscribePattern", "assign") if name in given]
    if len(strategies) > 1:
        raise OptionError(f"{' and '.join(strategies)} exclude each other: give one")

    def option(name: str, parse: Callable[[str, str], T], default: T) -> T:
        return parse(name, given[name].strip()) if name in given else default

    return SourceOptions(
        path=given.get("path"),
        broker=given.get("broker"),
        topics=option("subscribe", _topics, None),
        topic_pattern=option("subscribePattern", _pattern, None),
        assigned=option("assign", _assigned, None),
        starting=_limit(given, "starting"),
        ending=_limit(given, "ending"),
        later_strategy=option(
            "startingOffsetsByTimestampStrategy", _one_of("error", "latest"), "error"
        ),
        fail_on_data_loss=option("failOnDataLoss", _flag, True),
        max_offsets_per_trigger=option("maxOffsetsPerTrigger", _positive, None),
        min_partitions=option("minPartitions", _positive, None),
        include_headers=option("includeHeaders", _flag, False),
        split_bytes=option("splitBytes", _positive, 64 * 1024 * 1024),
        check_crc=option("checkCrc", _flag, True),
        on_corrupt=option("onCorrupt", _one_of("fail", "skip", "tag"), "fail"),
        isolation=option(
            "isolation", _one_of("read_uncommitted", "read_committed"), "read_uncommitted"
        ),
    )


def _refuse(name: str, value: str, allowed: str) -> NoReturn:
    raise OptionError(f"option {name} must be {allowed}, not {value!r}")


def _flag(name: str, value: str) -> bool:
    if value.lower() not in ("true", "false"):
        _refuse(name, value, "true or false")
    return value.lower() == "true"


def _positive(name: str, value: str) -> int:
    if not re.fullmatch(r"[0-9]{1,18}", value, re.ASCII) or int(value) == 0:
        _refuse(name, value, "a whole number above 0")
    return int(value)


def _one_of(*allowed: str) -> Callable[[str, str], Any]:
    def parse(name: str, value: str) -> str:
        if value.lower() not in allowed:
            _refuse(name, value, f"{', '.join(allowed[:-1])} or {allowed[-1]}")
        return value.lower()

    return parse


def _topics(name: str, value: str) -> tuple[str, ...]:
    topics = tuple(topic.strip() for topic in value.split(",") if topic.strip())
    if not topics:
        _refuse(name, value, "topics with commas between them")
    return topics


def _pattern(name: str, value: str) -> str:
    try:
        re.compile(value)
    except re.error as error:
        _refuse(name, value, f"a regular expression ({error})")
    return value


def _assigned(name: str, value: str) -> tuple[TopicPartition, ...]:
    try:
        topics = msgspec.json.decode(value, type=dict[str, list[int]])
    except msgspec.MsgspecError:
        topics = {}
    assigned = tuple(TopicPartition(topic, n) for topic, each in topics.items() for n in each)
    if not assigned:
        _refuse(name, value, 'JSON such as {"web-logs":[0,1]}')
    return assigned


def _limit(given: Mapping[str, str], side: Literal["starting", "ending"]) -> Limit | None:
    """Return where to begin or end by the option that wins; the others are checked as well."""
    name = f"{side}Offsets"
    limit = _offset_limit(name, given[name].strip()) if name in given else None
    name = f"{side}OffsetsByTimestamp"
    if name in given:
        times = _by_partition(
            name, given[name].strip(), 'JSON such as {"web-logs":{"0":1700000000000}}'
        )
        if any(time < 0 for time in times.values()):
            _refuse(name, given[name], "milliseconds since 1970, 0 or above, for each partition")
        limit = Limit("timestamp", None, times)
    name = f"{side}Timestamp"
    if name in given:
        if not re.fullmatch(r"[0-9]{1,18}", given[name].strip(), re.ASCII):
            _refuse(name, given[name], "milliseconds since 1970, 0 or above")
        limit = Limit("timestamp", int(given[name]))
    return limit


def _offset_limit(name: str, value: str) -> Limit:
    words = {"earliest": EARLIEST, "latest": LATEST}
    if value.lower() in words:
        return Limit("offset", words[value.lower()])
    allowed = 'earliest, latest, or JSON such as {"web-logs":{"0":23,"1":-2}}'
    offsets = _by_partition(name, value, allowed)
    if any(offset < EARLIEST for offset in offsets.values()):
        _refuse(name, value, "offsets of 0 or above, -1 (latest) or -2 (earliest)")
    return Limit("offset", None, offsets)


def _by_partition(name: str, value: str, allowed: str) -> dict[TopicPartition, int]:
    try:
        topics = msgspec.json.decode(value, type=dict[str, dict[int, int]])
    except msgspec.MsgspecError:
        _refuse(name, value, allowed)
    return {
        TopicPartition(topic, partition): number
        for topic, each in topics.items()
        for partition, number in each.items()
    }
