"""What Apache Kafka 4.3 and 2.8 have cleaned, cleaned again by us: the same is left, byte for byte.

Kafka had cleaned these logs up to their active segment. So there is nothing to be taken away, its
tombstones keep their horizons, its emptied batches stay for the producers that still count, and a
batch that has to be written again for nothing would show.
"""

from __future__ import annotations

import base64
import gzip
import json
from pathlib import Path

import pytest

from broker.storage.segment_scan import scan_segment
from protocol.legacy_message_set import iterate_records as legacy_records
from protocol.record_batch import iterate_batches, iterate_records
from protocol.record_batch_header import parse_header
from tests.support.cleaning import SealedSegments, last_records

DATA = Path(__file__).resolve().parents[2] / "data"
LONG_AGO_MS = 1_750_000_000_000
"""Before all delete horizons."""


def stored(version: str, partition: str) -> tuple[SealedSegments, list[bytes]]:
    """The sealed segments of a partition, and the contents of all."""
    paths = sorted((DATA / version / partition).glob("*.log*"))
    contents = [
        gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
        for path in paths
    ]
    segments = SealedSegments(int(paths[-1].name[:20]))
    for path, content in zip(paths[:-1], contents[:-1], strict=True):
        segments.write([content], int(path.name[:20]))
    segments.clock.advance(ms=LONG_AGO_MS - segments.clock.now_ms())
    return segments, contents


def served(version: str, partition: str) -> dict[int, tuple[bytes | None, bytes | None]]:
    """Key and value of what Kafka served, by offset."""
    lines = gzip.decompress((DATA / version / f"{partition}.jsonl.gz").read_bytes()).splitlines()
    rows = map(json.loads, lines)
    return {row["offset"]: (_bytes(row["key"]), _bytes(row["value"])) for row in rows}


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else base64.b64decode(text)


def content(segments: SealedSegments) -> bytes:
    """All segments, one behind the other."""
    names = [name for name in segments.disk.list_directory(segments.path) if name[20:] == ".log"]
    return b"".join(segments.disk.read_file(segments.path / name) for name in names)


@pytest.mark.parametrize("partition", ["compacted-idempotent-0", "compacted-txn-0"])
def test_given_a_log_that_kafka_has_cleaned_when_cleaned_then_what_kafka_serves_is_left(partition):
    segments, contents = stored("kafka-4.3", partition)
    before = content(segments)
    batches = [
        data[position : position + header.size_bytes]
        for data in contents
        for position, header in iterate_batches(data)
    ]

    segments.clean(last_records=last_records(batches))

    after = content(segments)
    records = [
        record
        for position, header in iterate_batches(after)
        if not header.is_control
        for record in iterate_records(after, position)
    ]
    expected = served("kafka-4.3", partition)
    assert {each.offset: (each.key, each.value) for each in records} == {
        offset: pair for offset, pair in expected.items() if offset < segments.end_offset
    }
    data_before = [each for each in _batches(before) if not parse_header(each).is_control]
    data_after = [each for each in _batches(after) if not parse_header(each).is_control]
    with_records = [each for each in data_before if parse_header(each).record_count]
    assert [each for each in data_after if parse_header(each).record_count] == with_records
    assert set(data_after) <= set(data_before)


def _batches(data: bytes) -> list[bytes]:
    return [
        data[position : position + header.size_bytes] for position, header in iterate_batches(data)
    ]


def test_given_producers_last_batches_that_kafka_emptied_when_cleaned_then_they_stay_as_they_are():
    segments, contents = stored("kafka-4.3", "compacted-idempotent-0")
    emptied = [each for each in _batches(content(segments)) if not parse_header(each).record_count]
    last = last_records([each for data in contents for each in _batches(data)])

    segments.clean(last_records=last)

    left = [each for each in _batches(content(segments)) if not parse_header(each).record_count]
    still_last = [
        each
        for each in emptied
        if last[parse_header(each).producer_id].last_data_offset == parse_header(each).last_offset
    ]
    assert left == still_last != []


def test_given_markers_whose_horizon_has_passed_when_cleaned_then_they_go_as_in_kafka():
    segments, _ = stored("kafka-4.3", "compacted-txn-0")
    markers = [header for _, header in iterate_batches(content(segments)) if header.is_control]
    with_horizon = {each.base_offset for each in markers if each.has_delete_horizon}
    segments.clock.advance(ms=1_900_000_000_000 - segments.clock.now_ms())

    segments.clean()

    left = {
        header.base_offset for _, header in iterate_batches(content(segments)) if header.is_control
    }
    assert with_horizon
    assert not left & with_horizon


def test_given_old_formats_that_kafka_has_cleaned_when_cleaned_then_nothing_changes():
    """Wrappers with gaps inside stay what they are, in their format."""
    segments, _ = stored("kafka-2.8", "v1-compacted-0")
    before = content(segments)

    segments.clean()

    assert content(segments) == before
    expected = served("kafka-2.8", "v1-compacted-0")
    found = {each.offset: (each.key, each.value) for each in legacy_records(before)}
    assert found == {offset: each for offset, each in expected.items() if offset in found}


def test_given_old_formats_when_cleaned_then_the_last_values_stay_in_their_format():
    segments, contents = stored("kafka-2.8", "upgraded-1")
    segments.write(contents[-1:], segments.end_offset)
    expected = served("kafka-2.8", "upgraded-1")
    segments.end_offset = max(expected) + 1

    segments.clean()

    last: dict[bytes | None, int] = {}
    for offset, (key, _) in expected.items():
        if key is not None:
            last[key] = offset
    found: dict[int, tuple[bytes | None, bytes | None]] = {}
    for base_offset in segments.base_offsets:
        path = segments.path / f"{base_offset:020d}.log"
        file = segments.disk.open(path)
        for data, index, header, _ in scan_segment(
            file, file.size(), base_offset, segments.end_offset, lambda size: None
        ):
            read = iterate_records if header.magic == 2 else legacy_records
            end = index + header.size_bytes
            found |= {each.offset: (each.key, each.value) for each in read(data[index:end])}
    assert found == {offset: expected[offset] for offset in last.values()}
