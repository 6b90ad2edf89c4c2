"""The driver's and the tasks' side of `tidelog`: what is planned, and what if it is gone then."""

from __future__ import annotations

import pickle
import re

import pytest

from tests.support.running_broker import BrokerProcess
from tests.support.scripted_server import ScriptedServer
from tests.support.spark_broker import planned, read, reader, stream, with_topic
from tests.support.spark_logs import EPOCH_MS, some_records
from tidelog.client import Client
from tidelog.segments.errors import DataLossError, OptionError, SegmentError
from tidelog.segments.read_options import ReadOptions
from tidelog.spark import broker_link
from tidelog.spark.errors import BrokerUnreachableError
from tidelog.spark.jobs.archive_source import BrokerSource as ArchiveBroker

RECORDS = some_records(100)


@pytest.fixture(scope="module")
def address(broker) -> str:
    with_topic(broker.address, "reads-a", RECORDS, RECORDS[:40])
    with_topic(broker.address, "reads-b", RECORDS[:10], [])
    return broker.address


A0, A1, B0 = ("reads-a", 0, 0, 100), ("reads-a", 1, 0, 40), ("reads-b", 0, 0, 10)
CHOICES = {
    "subscribe": ({"subscribe": "reads-a"}, [A0, A1]),
    "pattern": ({"subscribePattern": "reads-.*"}, [A0, A1, B0]),
    "assign": ({"assign": '{"reads-a":[1],"reads-b":[0,1]}'}, [A1, B0]),
    "offsets": (
        {
            "subscribe": "reads-a",
            "startingOffsets": '{"reads-a":{"0":7,"1":-2}}',
            "endingOffsets": '{"reads-a":{"0":9,"1":-1}}',
        },
        [("reads-a", 0, 7, 9), A1],
    ),
    "times": (
        {
            "subscribe": "reads-a",
            "startingTimestamp": str(EPOCH_MS + 20_500),
            "endingTimestamp": str(EPOCH_MS + 50_000),
        },
        [("reads-a", 0, 21, 50), ("reads-a", 1, 21, 40)],
    ),
    "more tasks": (
        {"subscribe": "reads-b", "minPartitions": "2"},
        [("reads-b", 0, 0, 5), ("reads-b", 0, 5, 10)],
    ),
}


@pytest.mark.parametrize(("options", "expected"), CHOICES.values(), ids=CHOICES)
def test_given_options_when_planned_then_these_offsets_of_these_partitions(
    address, options, expected
):
    made = reader(address, **options)

    assert planned(made) == expected
    assert len(read(made)) == sum(end - start for _, _, start, end in expected)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"subscribe": "reads-c"}, "reads-c is not there; there is .*reads-a"),
        ({"subscribes": "reads-a"}, "no option 'subscribes'; there are broker, subscribe"),
        ({"broker": "a/b"}, "option broker: 'a/b' is not one HOST:PORT"),
        ({"broker": ""}, "option broker is missing"),
    ],
)
def test_given_options_that_cannot_be_when_planned_then_one_sentence_says_so(
    address, options, sentence
):
    with pytest.raises(OptionError, match=sentence):
        reader(**{"address": address, **options}).partitions()


LOST = "offsets 0 to {} of {}-0 are there no more; failOnDataLoss=false goes on"


@pytest.mark.parametrize("is_deleted", [False, True], ids=["retention", "topic"])
def test_given_retention_that_overtakes_a_read_when_it_goes_on_then_it_fails_or_leaves_out(
    broker, is_deleted
):
    topic = with_topic(broker.address, f"reads-lost-{is_deleted}", RECORDS)
    strict = reader(broker.address, subscribe=topic)
    lenient = reader(broker.address, subscribe=topic, failOnDataLoss="false")
    inputs = strict.partitions()
    with Client(broker.address) as client:
        if is_deleted:
            client.delete_topic(topic)
        else:
            client.delete_records(topic, {0: 30})

    with pytest.raises(DataLossError, match=LOST.format(99 if is_deleted else 29, topic)):
        read(strict, inputs)
    left = read(lenient, inputs)

    assert [row["offset"] for row in left] == ([] if is_deleted else list(range(30, 100)))


def test_given_a_log_that_is_shorter_than_planned_when_read_then_that_is_loss(broker):
    topic = with_topic(broker.address, "reads-shorter", RECORDS)
    strict = reader(broker.address, subscribe=topic)
    inputs = strict.partitions()
    with Client(broker.address) as client:
        client.delete_topic(topic)
    with_topic(broker.address, topic, RECORDS[:20])

    with pytest.raises(DataLossError, match=f"{topic}-0 ends at 20, and was to be read from 20"):
        read(strict, inputs)


@pytest.mark.parametrize("fails", [True, False])
def test_given_retention_that_overtook_a_stream_when_planned_then_it_fails_or_leaves_out(
    broker, fails
):
    topic = with_topic(broker.address, f"reads-overtaken-{fails}", RECORDS)
    made = stream(broker.address, subscribe=topic, failOnDataLoss=str(fails).lower())
    with Client(broker.address) as client:
        client.delete_records(topic, {0: 50})
    start, end = {topic: {"0": 30}}, {topic: {"0": 100}}

    if fails:
        with pytest.raises(DataLossError, match=f"30 to 99 of {topic}-0 were asked for, it has 50"):
            made.partitions(start, end)
    else:
        (task,) = made.partitions(start, end)
        assert (task.value.start, task.value.end) == (50, 100)
    made.stop()


def test_given_new_topics_and_partitions_when_a_stream_is_asked_then_it_goes_to_all_there_is(
    broker,
):
    with_topic(broker.address, "reads-new-a", RECORDS)
    made = stream(broker.address, subscribePattern="reads-new-.", startingOffsets="earliest")
    unpickled = pickle.loads(pickle.dumps(made))  # as Spark does for the tasks

    first = made.initialOffset()
    with_topic(broker.address, "reads-new-b", [], RECORDS[:10])
    latest = made.latestOffset(first, made.getDefaultReadLimit())

    assert first == {"reads-new-a": {"0": 0}}
    assert latest == {"reads-new-a": {"0": 100}, "reads-new-b": {"0": 0, "1": 10}}
    tasks = made.partitions(first, latest)
    assert [(*each.value.partition, each.value.end) for each in tasks] == [
        ("reads-new-a", 0, 100),
        ("reads-new-b", 1, 10),
    ]
    assert sum(len(batch) for each in tasks for batch in unpickled.read(each)) == 110
    made.stop()


def test_given_damage_on_the_brokers_disk_when_read_then_it_fails_or_is_left_out_or_is_a_row(
    tmp_path,
):
    with BrokerProcess(tmp_path) as broker:
        with_topic(broker.address, "logs", RECORDS[:40])  # batches of 10
        broker.stop()
        (log,) = broker.data_directory.glob("logs-0/*.log")
        data = bytearray(log.read_bytes())
        data[len(data) // 2] ^= 0xFF
        log.write_bytes(data)
        broker.start()

        def rows(on_corrupt: str, *columns: str) -> list[dict]:
            return read(reader(broker.address, columns, subscribe="logs", onCorrupt=on_corrupt))

        with pytest.raises(SegmentError, match=r"logs-0 of .* is damaged from offset 20 on"):
            rows("fail", "offset")
        skipped = rows("skip", "offset")
        tagged = rows("tag", "corrupt", "offset", "key")
        source = ArchiveBroker(broker.address, ["logs"])
        ((key, (start, end)),) = source.bounds().items()
        options = ReadOptions(columns=("offset",), on_corrupt="skip")
        archived = [
            offset
            for piece in source.pieces(key, start, end, 500)
            for batch in source.batches(piece, options)
            for offset in batch.column("offset").to_pylist()
        ]

    assert [row["offset"] for row in skipped] == [*range(20), *range(30, 40)]
    assert archived == [*range(20), *range(30, 40)]
    assert [row["offset"] for row in tagged] == [*range(21), *range(30, 40)]
    assert tagged[20] == {
        "corrupt": "offsets 20 to 29 of logs-0 are damaged",
        "offset": 20,
        "key": None,
    }
    assert {row["corrupt"] for row in tagged if row["offset"] != 20} == {None}


def test_given_no_broker_when_read_then_the_error_says_where_and_for_how_long(monkeypatch):
    monkeypatch.setattr(broker_link, "UNREACHABLE_MAX_S", 0.1)
    with ScriptedServer(lambda number, frame: None) as server:
        address = server.address

    with pytest.raises(
        BrokerUnreachableError, match=f"no broker answered at {re.escape(address)} for 0 s: "
    ):
        reader(address, subscribe="logs").partitions()


def test_given_a_broker_killed_and_restarted_in_mid_read_when_it_goes_on_then_nothing_is_lost(
    tmp_path,
):
    records = some_records(400, value_bytes=5_000)
    with BrokerProcess(tmp_path) as broker:
        topic = with_topic(broker.address, "logs", records)
        made = reader(broker.address, subscribe=topic)
        batches = made.read(made.partitions()[0])
        offsets = next(batches).column("offset").to_pylist()
        broker.kill()
        broker.start()

        assert len(offsets) < 400
        for batch in batches:
            offsets += batch.column("offset").to_pylist()

    assert offsets == list(range(400))
