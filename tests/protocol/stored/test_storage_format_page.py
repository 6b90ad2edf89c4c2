"""docs/storage-format.md: every example in it is what the codecs read and write."""

from __future__ import annotations

import re
from pathlib import Path
from uuid import UUID

from protocol.identifiers import TopicPartition
from protocol.record_batch import check_batch, iterate_records
from protocol.stored import (
    durable_offsets,
    file_names,
    leader_epoch_checkpoint,
    meta_properties,
    partition_metadata,
    producer_snapshot,
    transaction_index,
)
from protocol.stored.checkpoint import offset_checkpoint_decode
from protocol.stored.index_entries import decode_offset_index, decode_time_index

PAGE = Path(__file__).resolve().parents[3] / "docs" / "storage-format.md"
TEXT = PAGE.read_text(encoding="utf-8")
BLOCKS: dict[str, str] = {
    title: body
    for _, title, body in re.findall(
        r'^```(\w+) title="([^"]+)"\n(.*?)^```$', TEXT, re.DOTALL | re.MULTILINE
    )
}
TOPIC_ID = UUID("6e3265a1-4d7d-47ba-91ab-173b868aa84c")


def hex_block(title: str) -> bytes:
    lines = BLOCKS[title].splitlines()
    return bytes.fromhex("".join(line.split(";")[0] for line in lines))


def text_block(title: str) -> bytes:
    return BLOCKS[title].encode()


def test_given_the_pages_record_batch_when_read_then_it_holds_what_the_page_says() -> None:
    batch = hex_block("record batch")

    header = check_batch(batch)
    records = list(iterate_records(batch))

    assert header.size_bytes == len(batch)
    assert [record[:4] for record in records] == [
        (42, 1750000000000, b"k", b"hello"),
        (43, 1750000000250, None, b"tide"),
    ]
    assert [record.headers for record in records] == [(("h", b"v"),), ()]


def test_given_the_pages_indexes_when_read_then_they_hold_what_the_page_says() -> None:
    """R12: entries of both indexes, on the page as in the files."""
    assert decode_offset_index(hex_block("offset index"), 24) == [(29, 587), (33, 855)]
    assert decode_time_index(hex_block("time index"), 24) == [(1750000001212, 29)]


def test_given_the_pages_transaction_files_when_read_then_they_hold_what_the_page_says() -> None:
    snapshot = producer_snapshot.decode(hex_block("producer snapshot"))
    aborted = transaction_index.decode(hex_block("transaction index"))

    assert snapshot == [(1004, 1, 3, 20, 1, 1750000000779, 2, 14)]
    assert aborted == [(1005, 5, 10, 11)]


def test_given_the_pages_texts_when_read_then_they_hold_what_the_page_says() -> None:
    offsets = offset_checkpoint_decode(text_block("offset checkpoint"))
    epochs = leader_epoch_checkpoint.decode(text_block("leader epochs"))
    topic_id = partition_metadata.decode(text_block("partition.metadata"))
    properties = meta_properties.decode(text_block("meta.properties"))

    assert offsets == {TopicPartition("web-logs", 0): 1042, TopicPartition("web-logs", 1): 977}
    assert epochs == [(0, 0), (2, 126)]
    assert topic_id == TOPIC_ID
    assert meta_properties.encode(properties) == text_block("meta.properties")
    assert properties.data_format_version == meta_properties.DATA_FORMAT_VERSION


def test_given_the_pages_durable_offsets_when_read_then_they_hold_what_the_page_says() -> None:
    slots = durable_offsets.decode(hex_block("durable-offsets"))

    assert slots == [(0, TOPIC_ID, 3, 1000)]


def test_given_the_names_of_files_when_the_page_is_searched_then_each_is_told() -> None:
    names = [
        value
        for name, value in vars(file_names).items()
        if isinstance(value, str) and name.isupper()
    ]

    missing = [name for name in names if name not in TEXT]

    assert len(names) > 15
    assert missing == []
