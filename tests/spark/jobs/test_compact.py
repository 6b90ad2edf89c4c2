"""Compact: a topic of a broker, beside the original, and a broker on what came of it."""

import pytest

from tests.support.command_line import call
from tests.support.running_broker import BrokerProcess
from tests.support.spark_logs import some_records, write_partition
from tidelog.client import Client
from tidelog.segments.errors import DamagedError
from tidelog.spark.jobs.compact import CompactOptions, run
from tidelog.spark.jobs.job import Job, JobError

NOW_S = 1_790_000_000.0


def compacted(spark, source, output, **options):
    options = CompactOptions(
        **{"path": str(source), "output": str(output), "topics": ("keys",)} | options
    )
    return run(options, Job("compact", lambda: spark), clock=lambda: NOW_S)


def last_of_keys(records):
    return sorted({each.key: each for each in records if each.key is not None}.values())


def files_of(directory):
    return {path: path.read_bytes() for path in directory.rglob("*") if path.is_file()}


def test_given_a_topic_when_compacted_then_a_broker_serves_the_last_of_each_key(spark, tmp_path):
    """The broker is stopped and started again: its recovery must not take gaps for damage."""
    kept = {}
    with _broker(tmp_path / "first") as broker:
        _fill(broker.address)
        assert broker.stop() == 0
    source = broker.data_directory
    before = files_of(source)

    result = compacted(spark, source, tmp_path / "second" / "data")

    assert files_of(source) == before
    with _broker(tmp_path / "second") as broker, Client(broker.address) as client:
        for partition in (0, 1):
            found = list(client.messages("keys", [partition]))
            kept[partition] = {each.key: (each.offset, each.value) for each in found}
            assert len(found) == len(kept[partition])
        ends = [client.offsets("keys", each)[0] for each in (0, 1)]
    for partition, numbers in ((0, range(0, 300, 2)), (1, range(1, 300, 2))):
        model = {}
        for offset, number in enumerate(numbers):
            model[b"key %d" % (number % 20)] = (offset, b"value %d" % number)
        assert kept[partition] == model
    assert ends == [150, 150]
    assert [each.records_kept for each in result.partitions] == [10, 10]
    assert call("verify", str(tmp_path / "second" / "data")).code == 0


def _broker(directory):
    directory.mkdir(exist_ok=True)
    return BrokerProcess(directory)


def _fill(address):
    with Client(address) as client:
        client.create_topic("keys", 2, {"segment.bytes": "4096"})
        with client.producer() as producer:
            for number in range(300):
                key, value = b"key %d" % (number % 20), b"value %d" % number
                producer.produce("keys", value, key=key, partition=number % 2)
            producer.flush()


def test_given_an_output_that_has_it_when_run_again_then_it_says_so(spark, tmp_path):
    write_partition(tmp_path / "data", "keys", 0, some_records(30))
    compacted(spark, tmp_path / "data", tmp_path / "out")

    with pytest.raises(JobError, match=r"keys-0 is there already: name an output without it"):
        compacted(spark, tmp_path / "data", tmp_path / "out")


@pytest.mark.parametrize("is_dry_run", [False, True])
def test_given_a_file_as_output_when_compacted_then_it_says_so_before_it_works(
    spark, tmp_path, is_dry_run
):
    write_partition(tmp_path / "data", "keys", 0, some_records(30))
    (tmp_path / "out").write_text("not a directory")

    with pytest.raises(JobError, match="out is a file: name a directory"):
        run(
            CompactOptions(
                path=str(tmp_path / "data"), output=str(tmp_path / "out"), topics=("keys",)
            ),
            Job("compact", lambda: spark, is_dry_run=is_dry_run),
        )


def test_given_a_second_topic_when_compacted_into_the_same_then_checkpoints_have_both(
    spark, tmp_path
):
    for topic, count in (("keys", 30), ("more", 70)):
        write_partition(tmp_path / "data", topic, 3, some_records(count))
        compacted(spark, tmp_path / "data", tmp_path / "out", topics=(topic,))

    checkpoint = (tmp_path / "out" / "recovery-point-offset-checkpoint").read_text()
    assert checkpoint.split("\n") == ["0", "2", "keys 3 30", "more 3 70", ""]


def test_given_damage_when_compacted_then_no_partition_is_left_behind(spark, tmp_path):
    (path,) = write_partition(tmp_path / "data", "keys", 0, some_records(30))
    data = bytearray(path.read_bytes())
    data[100] ^= 1
    path.write_bytes(data)

    with pytest.raises(Exception, match=DamagedError.__name__):
        compacted(spark, tmp_path / "data", tmp_path / "out")

    assert list((tmp_path / "out").iterdir()) == []


def test_given_a_dry_run_when_asked_then_nothing_is_made(tmp_path):
    write_partition(tmp_path / "data", "keys", 0, some_records(30))
    out = tmp_path / "out"

    done = call(
        "spark", "compact", str(tmp_path / "data"), "--topic", "keys", "--output", str(out),
        "--dry-run", "--json",
    )  # fmt: skip

    assert (done.code, done.json["planned"]) == (0, ["keys-0"])
    assert not out.exists()
    wrong = call("spark", "compact", str(tmp_path / "data"), "--topic", "no", "--output", str(out))
    assert (wrong.code, "has no topic 'no'" in wrong.errors) == (1, True)
