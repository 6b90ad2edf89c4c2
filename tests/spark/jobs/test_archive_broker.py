"""`tidelog spark archive` of a broker that runs: over its protocol, and from its files."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pyarrow.dataset as ds
import pytest

from tests.support.running_broker import BrokerProcess
from tidelog.client import Client
from tidelog.lake.reader import open_topic
from tidelog.segments.errors import DataLossError
from tidelog.segments.location import locate
from tidelog.spark.jobs.archive import ArchiveOptions, run
from tidelog.spark.jobs.archive_source import BrokerSource
from tidelog.spark.jobs.job import Job


@pytest.fixture
def job(spark):
    return Job("archive", lambda: spark)


def produce(client: Client, topic: str, numbers: range) -> None:
    with client.producer() as producer:
        for number in numbers:
            producer.produce(
                topic, b"%d" % number, partition=number % 2, headers=[("n", b"%d" % number)]
            )


def listed(lake, topic: str) -> list[tuple[int, bytes, list[dict[str, object]]]]:
    dataset = ds.dataset(lake / topic / "data", format="parquet", partitioning="hive")
    rows = dataset.to_table(columns=["partition", "offset", "value", "headers"]).to_pylist()
    rows.sort(key=lambda row: (row["partition"], row["offset"]))
    return [(row["partition"], row["value"], row["headers"]) for row in rows]


def expected(numbers: range) -> list[tuple[int, bytes, list[dict[str, object]]]]:
    return [
        (number % 2, b"%d" % number, [{"key": "n", "value": b"%d" % number}])
        for number in sorted(numbers, key=lambda number: (number % 2, number))
    ]


def test_given_a_running_broker_when_archived_twice_then_each_record_is_there_once(
    broker, job, tmp_path
):
    options = ArchiveOptions(
        lake=str(tmp_path), broker=broker.address, topics=("archived",), task_bytes=3_000
    )
    with Client(broker.address) as client:
        client.create_topic("archived", partitions=2)
        produce(client, "archived", range(400))
        first = run(options, job)
        produce(client, "archived", range(400, 500))

        second = run(options, job)

    assert (first.records, second.records) == (400, 100)
    assert max(row.files for row in first.partitions) > 1
    assert listed(tmp_path, "archived") == expected(range(500))


def test_given_a_broker_that_is_restarted_when_looked_at_again_then_it_is_waited_for(tmp_path):
    with BrokerProcess(tmp_path) as broker:
        with Client(broker.address) as client:
            client.create_topic("archived", partitions=2)
            produce(client, "archived", range(10))
        source = BrokerSource(broker.address, ["archived"])
        before = source.bounds()
        broker.kill()

        with ThreadPoolExecutor(1) as pool:
            again = pool.submit(source.bounds)
            broker.start()

            assert again.result() == before


def test_given_the_files_of_a_running_broker_when_archived_then_they_give_the_same(
    broker, job, tmp_path
):
    with Client(broker.address) as client:
        client.create_topic("archived-files", partitions=2)
        produce(client, "archived-files", range(100))
    directory = str(broker.data_directory)

    run(ArchiveOptions(lake=str(tmp_path), path=directory, topics=("archived-files",)), job)
    rest = run(
        ArchiveOptions(lake=str(tmp_path), broker=broker.address, topics=("archived-files",)), job
    )

    there = listed(tmp_path, "archived-files")
    assert there == expected(range(100))
    assert rest.records <= 100  # what the files' high watermark had not covered yet


def test_given_records_deleted_in_the_broker_when_archived_then_an_error_or_a_recorded_gap(
    broker, job, tmp_path
):
    lake = str(tmp_path)
    with Client(broker.address) as client:
        client.create_topic("archived-late")
        with client.producer() as producer:
            for number in range(10):
                producer.produce("archived-late", b"%d" % number)
        run(ArchiveOptions(lake=lake, broker=broker.address, topics=("archived-late",)), job)
        with client.producer() as producer:
            for number in range(10, 30):
                producer.produce("archived-late", b"%d" % number)
        client.delete_records("archived-late", {0: 25})

    options = ArchiveOptions(lake=lake, broker=broker.address, topics=("archived-late",))
    with pytest.raises(DataLossError, match="offsets 10 to 24"):
        run(options, job)
    result = run(
        ArchiveOptions(
            lake=lake, broker=broker.address, topics=("archived-late",), fail_on_data_loss=False
        ),
        job,
    )

    assert (result.records, result.lost_offsets) == (5, 15)
    log = open_topic(locate(lake), "archived-late")
    log.refresh()
    assert [(gap.start_offset, gap.end_offset) for gap in log.state.gaps] == [(10, 25)]
