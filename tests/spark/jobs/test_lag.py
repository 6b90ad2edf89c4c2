"""Lag: of groups of a running broker, and of those in its files."""

import datetime
import itertools

import msgspec
import pyarrow.parquet as pq
import pytest
from kafka import KafkaConsumer, KafkaProducer, OffsetAndMetadata, TopicPartition

from protocol.record import Record
from protocol.stored.group_records import (
    OffsetCommitValue,
    encode_group_key,
    encode_offset_commit,
    encode_offset_key,
)
from tests.support.command_line import call
from tests.support.spark_logs import EPOCH_MS, some_records, write_checkpoint, write_partition
from tidelog.segments.errors import OptionError, SegmentError
from tidelog.spark.jobs.job import Job, JobError
from tidelog.spark.jobs.lag import LagOptions, run

NOW_MS = EPOCH_MS + 100_000
numbers = itertools.count()


def looked(spark=None, **options):
    """Run the job; return its result."""

    def session():
        assert spark is not None, "this needs no Spark"
        return spark

    return run(LagOptions(**options), Job("lag", session), clock=lambda: NOW_MS / 1000)


def figures(result):
    return [
        (lag.group, lag.topic, lag.partition, lag.committed, lag.end, lag.lag, lag.lost)
        for lag in result.lags
    ]


# --- of a running broker ------------------------------------------------------------------------


@pytest.fixture
def followed(broker):
    """A topic with 10 records in partition 0 and none in 1, a group that has read 4; names."""
    topic, group = f"lag-{next(numbers)}", f"group-{next(numbers)}"
    with KafkaProducer(bootstrap_servers=broker.kafka_address) as producer:
        for number in range(10):
            producer.send(topic, b"%d" % number, partition=0)
        producer.flush()
    consumer = KafkaConsumer(
        bootstrap_servers=broker.kafka_address, group_id=group, enable_auto_commit=False
    )
    consumer.commit({TopicPartition(topic, 0): OffsetAndMetadata(4, "", -1)})
    consumer.close()
    return topic, group


def test_given_a_broker_when_asked_then_its_groups_are_told_without_spark(broker, followed):
    topic, group = followed

    found = looked(broker=broker.kafka_address, groups=(group,))

    assert figures(found) == [(group, topic, 0, 4, 10, 6, 0)]


def test_given_a_broker_when_nobody_is_named_then_all_groups_are_told(broker, followed):
    topic, group = followed

    done = call("spark", "lag", "--broker", broker.kafka_address, "--topic", topic, "--json")

    (lag,) = done.json["lags"]
    assert (lag["group"], lag["lag"], lag["committed_at"]) == (group, 6, None)


@pytest.mark.parametrize(("allowed", "code"), [(6, 0), (5, 1)])
def test_given_a_limit_when_a_group_is_further_behind_then_the_exit_code_says_so(
    broker, followed, allowed, code
):
    _, group = followed

    done = call(
        *("spark", "lag", "--broker", broker.kafka_address, "--group", group),
        *("--max-lag", str(allowed)),
    )

    assert done.code == code
    assert done.errors.startswith("tidelog: 1 group, at most 6 behind")


@pytest.mark.parametrize("option", ["--group", "--topic"])
def test_given_a_name_that_nobody_has_when_asked_then_an_error_and_not_that_all_is_well(
    broker, followed, option
):
    done = call(
        *("spark", "lag", "--broker", broker.kafka_address, option, "typo", "--max-lag", "100"),
    )

    assert (done.code, done.errors) == (
        1,
        f"tidelog: no committed offsets of the {option.removeprefix('--')} typo are there\n",
    )


def test_given_nobody_at_the_address_when_asked_then_unreachable(unused_tcp_port):
    done = call("spark", "lag", "--broker", f"127.0.0.1:{unused_tcp_port}")

    assert (done.code, done.errors) == (
        3,
        f"tidelog: cannot reach the broker: 127.0.0.1:{unused_tcp_port}: Connection refused\n",
    )


# --- of the files -------------------------------------------------------------------------------


def committed(offset, group, topic, partition, value, at_s):
    """A record of `__consumer_offsets`: the commit of `value`, or its deletion with None."""
    at_ms = EPOCH_MS + at_s * 1000
    text = None
    if value is not None:
        text = encode_offset_commit(OffsetCommitValue(value, commit_timestamp=at_ms))
    return Record(offset, at_ms, encode_offset_key(group, topic, partition), text)


@pytest.fixture
def data(tmp_path):
    """50 records, one a second, of which 5 are deleted; three groups, one of which went."""
    write_partition(tmp_path, "logs", 0, some_records(50))
    write_partition(
        tmp_path,
        "__consumer_offsets",
        3,
        [
            committed(0, "slow", "logs", 0, 2, 10),
            committed(1, "fast", "logs", 0, 20, 20),
            committed(2, "fast", "logs", 0, 30, 30),
            Record(3, EPOCH_MS + 30_000, encode_group_key("fast"), b"not for us"),
            committed(4, "gone", "logs", 0, 7, 31),
            committed(5, "fast", "logs", 0, 49, 49),
            committed(6, "gone", "logs", 0, None, 51),
            committed(7, "other", "deleted-topic", 0, 5, 52),
        ],
    )
    write_checkpoint(tmp_path, "log-start-offset-checkpoint", {("logs", 0): 5})
    return tmp_path


def test_given_files_when_read_then_the_last_commits_count(spark, data):
    found = looked(spark, path=str(data))

    assert figures(found) == [
        ("fast", "logs", 0, 49, 50, 1, 0),
        ("other", "deleted-topic", 0, 5, None, None, None),
        ("slow", "logs", 0, 2, 50, 48, 3),
    ]
    assert found.behind_max == 48
    assert found.sentence() == ("3 groups, at most 48 behind; 3 offsets went before they were read")
    fast = found.lags[0]
    assert fast.committed_at == datetime.datetime.fromtimestamp(EPOCH_MS // 1000 + 49, datetime.UTC)


def test_given_an_interval_when_read_then_the_past_is_told_with_the_ends_of_then(spark, data):
    found = looked(spark, path=str(data), groups=("fast", "gone"), every_ms=20_000)

    past = [
        (lag.group, round(lag.time.timestamp() * 1000) - EPOCH_MS, lag.committed, lag.end)
        for lag in found.lags
    ]
    assert past == [
        ("fast", 20_000, 20, 21),
        ("fast", 40_000, 30, 41),
        ("fast", 60_000, 49, 50),
        ("fast", 80_000, 49, 50),
        ("fast", 100_000, 49, 50),
        ("gone", 40_000, 7, 41),
    ]


def test_given_a_time_when_the_past_is_read_then_it_begins_there(spark, data):
    found = looked(
        spark, path=str(data), groups=("slow",), every_ms=20_000, since_ms=EPOCH_MS + 50_000
    )

    assert [round(lag.time.timestamp() * 1000) - EPOCH_MS for lag in found.lags] == [
        60_000, 80_000, 100_000,
    ]  # fmt: skip


def test_given_a_file_to_write_when_read_then_it_holds_the_same_and_replaces_the_old(
    spark, data, tmp_path
):
    path = tmp_path / "lag.parquet"
    path.write_bytes(b"old")

    found = looked(spark, path=str(data), parquet=str(path))

    assert pq.read_table(path).to_pylist() == [msgspec.structs.asdict(lag) for lag in found.lags]
    assert [each.name for each in tmp_path.glob("*.partial")] == []


def test_given_a_past_without_end_when_asked_for_then_refused_with_what_to_do(spark, data):
    with pytest.raises(OptionError, match="at most 100,000 can be: take a longer interval"):
        looked(spark, path=str(data), every_ms=1)


def test_given_no_such_directory_when_read_then_the_sentence_names_it(spark, tmp_path):
    done = call("spark", "lag", str(tmp_path / "nowhere"))

    assert (done.code, done.errors) == (1, f"tidelog: {tmp_path}/nowhere is not there\n")


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({}, "name a data directory or a broker, and not both"),
        ({"path": "x", "broker": "y"}, "name a data directory or a broker, and not both"),
        ({"broker": "y", "every_ms": 5}, "for the past name a directory"),
        ({"path": "x", "since_ms": 5}, "needs an interval"),
    ],
)
def test_given_options_that_do_not_go_together_when_made_then_refused(options, sentence):
    with pytest.raises(OptionError, match=sentence):
        LagOptions(**options)


def test_given_an_address_that_is_none_when_asked_then_refused():
    with pytest.raises(JobError, match="the port must be a number"):
        looked(broker="localhost:x")


def test_given_an_interval_that_is_none_when_given_then_the_usage_is_explained():
    done = call("spark", "lag", "x", "--every", "10 minutes")

    assert done.code == 2
    assert "write a number and s, m, h or d" in done.errors


def test_given_a_path_without_offsets_when_read_then_an_error(spark, tmp_path):
    write_partition(tmp_path, "logs", 0, some_records(5))

    with pytest.raises(SegmentError, match="__consumer_offsets"):
        looked(spark, path=str(tmp_path))
