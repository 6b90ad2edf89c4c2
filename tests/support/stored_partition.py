"""A partition's directory as a broker leaves it, for tools that look at stopped brokers."""

from protocol.record_batch_builder import build_batch
from protocol.record_batch_header import parse_header
from protocol.stored import index_entries
from protocol.stored.index_entries import OffsetIndexEntry, TimeIndexEntry


def batches(first_offset, counts, *, timestamp=1_000):
    """Build a run of batches with `counts` records each; timestamps grow with the offsets."""
    built, offset = [], first_offset
    for count in counts:
        records = [
            (offset + number, timestamp + offset + number, b"k", b"value %d" % (offset + number))
            for number in range(count)
        ]
        built.append(build_batch(records, base_offset=offset))
        offset += count
    return built


def write_segment(directory, built):
    """Write batches and indexes with an entry for each batch; return the log's path."""
    directory.mkdir(parents=True, exist_ok=True)
    headers = [parse_header(batch) for batch in built]
    base_offset, position = headers[0].base_offset, 0
    offsets, times = [], []
    for header, batch in zip(headers, built, strict=True):
        if position:
            offsets.append(OffsetIndexEntry(header.last_offset, position))
        times.append(TimeIndexEntry(header.max_timestamp, header.last_offset))
        position += len(batch)
    stem = f"{base_offset:020d}"
    log = directory / f"{stem}.log"
    log.write_bytes(b"".join(built))
    index = index_entries.encode_offset_index(offsets, base_offset)
    (directory / f"{stem}.index").write_bytes(index)
    time_index = index_entries.encode_time_index(times, base_offset)
    (directory / f"{stem}.timeindex").write_bytes(time_index)
    return log
