"""Repartition: a topic to one with another number of partitions, against a plain model."""

import itertools

import pytest

from tests.support.spark_logs import some_records, write_partition
from tidelog.client import Client
from tidelog.client.partitioner import murmur2
from tidelog.segments.errors import DataLossError
from tidelog.spark.jobs import repartition as repartition_module
from tidelog.spark.jobs.job import Job, JobError
from tidelog.spark.jobs.repartition import RepartitionOptions, run
from tidelog.spark.jobs.transfer_notes import Round

SOURCES = 3
numbers = itertools.count()


def record_of(each):
    return each.key, each.value, each.headers


def written(root, start, end):
    """Append to the source; its three partitions have records of the same times."""
    records = some_records(end - start, start=start)
    for partition in range(SOURCES):
        write_partition(root, "src", partition, records)


def topic_of(client, topic):
    return {
        info.partition: list(client.messages(topic, [info.partition]))
        for info in client.topics(topic)[0].partitions
    }


def model(count, partitions, rounds):
    """What each target partition must have: by time, then source partition, round by round."""
    found = {number: [] for number in range(partitions)}
    for start, end in itertools.pairwise([0, *rounds, count]):
        for offset, source in itertools.product(range(start, end), range(SOURCES)):
            record = some_records(1, start=offset)[0]
            if record.key is None:
                number = (offset // 100 + source) % partitions
            else:
                number = (murmur2(record.key) & 0x7FFFFFFF) % partitions
            found[number].append((record.timestamp, *record[2:]))
    return found


def comparable(found):
    return {
        number: [(each.timestamp_ms, each.key, each.value, each.headers) for each in messages]
        for number, messages in found.items()
    }


def test_given_a_directory_when_repartitioned_then_each_record_is_where_its_key_goes(
    spark, broker, tmp_path
):
    written(tmp_path, 0, 250)
    options = RepartitionOptions(
        topic="src",
        broker=broker.address,
        target=f"parted-{next(numbers)}",
        partitions=5,
        path=str(tmp_path),
    )

    first = run(options, Job("repartition", lambda: spark))
    again = run(options, Job("repartition", lambda: spark))
    written(tmp_path, 250, 300)
    later = run(options, Job("repartition", lambda: spark))

    appended = [sum(each.appended for each in done.copied) for done in (first, again, later)]
    assert appended == [750, 0, 150]
    with Client(broker.address) as client:
        assert comparable(topic_of(client, options.target)) == model(300, 5, [250])


def test_given_a_topic_of_the_broker_when_repartitioned_then_keys_keep_their_order(spark, broker):
    source, target = f"parted-{next(numbers)}", f"parted-{next(numbers)}"
    with Client(broker.address) as client:
        client.create_topic(source, 2)
        with client.producer() as producer:
            for number in range(200):
                producer.produce(source, b"%d" % number, key=b"key %d" % (number % 7))
            producer.flush()
        options = RepartitionOptions(
            topic=source, broker=broker.address, target=target, partitions=3
        )

        run(options, Job("repartition", lambda: spark))

        found = topic_of(client, target)
    for number, messages in found.items():
        assert {(murmur2(each.key) & 0x7FFFFFFF) % 3 for each in messages} <= {number}
        for key in {each.key for each in messages}:
            values = [int(each.value) for each in messages if each.key == key]
            assert values == sorted(values)
    assert sorted(int(each.value) for rows in found.values() for each in rows) == list(range(200))


@pytest.mark.parametrize("ends", [(0, 200), (150, 260)])
def test_given_a_source_that_lost_records_since_when_filled_then_it_is_said(tmp_path, ends):
    first, *_ = write_partition(tmp_path, "src", 0, some_records(250))
    first.unlink()
    options = RepartitionOptions(
        topic="src", broker="127.0.0.1:1", target="t", partitions=2, path=str(tmp_path)
    )
    round_ = Round(number=0, source="s", target="t", ranges={0: ends}, bases={0: 0, 1: 0})

    with pytest.raises(DataLossError, match=rf"offsets {ends[0]} to .* of src-0 are not all there"):
        repartition_module._fill(options, round_, 1)


def test_given_another_count_or_the_same_topic_when_asked_then_it_is_refused(broker):
    with Client(broker.address) as client:
        client.create_topic(topic := f"parted-{next(numbers)}", 2)
    options = {"topic": topic, "broker": broker.address, "partitions": 3}

    with pytest.raises(JobError, match="cannot be copied to itself"):
        run(RepartitionOptions(target=topic, **options), Job("repartition", lambda: None))
    with pytest.raises(JobError, match="has 2 partitions, not 3"):
        run(RepartitionOptions(target=topic, path="/", **options), Job("repartition", lambda: None))
