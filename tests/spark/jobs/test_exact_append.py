"""A stream of records to a partition, each once, whatever happens to the tries before."""

import itertools

import pyarrow as pa
import pytest

from protocol.identifiers import TopicPartition
from tests.support.lakes import batch_of
from tests.support.running_broker import BrokerProcess
from tidelog.client import Client, ConnectionLostError
from tidelog.segments.encoding.encode import encode
from tidelog.spark.jobs.exact_append import ExactAppend
from tidelog.spark.jobs.job import JobError
from tidelog.spark.jobs.transfer_notes import Round, TransferNotes, make_topic

numbers = itertools.count()


@pytest.fixture
def client(broker):
    with Client(broker.address) as made:
        yield made


@pytest.fixture
def target(client):
    key = TopicPartition(f"exact-{next(numbers)}", 0)
    make_topic(client, key.topic, 1)
    return key


def stream(count, per_batch=7):
    for start in range(0, count, per_batch):
        yield batch_of(0, range(start, min(start + per_batch, count)))


def append(client, target, batches, base_offset=0):
    writer = ExactAppend(client, target, base_offset, sleep=lambda s: None)
    for rows in batches:
        writer.add(rows)
    writer.finish()
    return writer.appended


def stored(client, target):
    return [
        (each.offset, each.key, each.value, each.timestamp_ms, each.headers)
        for each in client.messages(target.topic, [0])
    ]


def expected(count, base_offset=0):
    rows = [row for batch in stream(count) for row in batch.to_pylist()]
    return [
        (
            base_offset + number,
            row["key"],
            row["value"],
            row["offset"] * 1_000,
            tuple((header["key"], header["value"]) for header in row["headers"]),
        )
        for number, row in enumerate(rows)
    ]


@pytest.mark.parametrize("first", [0, 3, 7, 20, 50])
def test_given_a_try_that_ended_early_when_repeated_then_the_rest_comes(client, target, first):
    append(client, target, (batch.slice(0, 50) for batch in stream(first)))

    assert append(client, target, stream(50, per_batch=6)) == 50 - first
    assert append(client, target, stream(50)) == 0
    assert stored(client, target) == expected(50)


def test_given_records_before_when_appended_then_they_follow_them(client, target):
    append(client, target, stream(10))

    append(client, target, stream(20), base_offset=10)

    assert stored(client, target) == expected(10) + expected(20, base_offset=10)


class LosesAnswers:
    """A client that loses every second answer to an append, after it was carried out."""

    def __init__(self, client):
        self._client, self._calls = client, 0

    def __getattr__(self, name):
        return getattr(self._client, name)

    def append_at(self, *arguments):
        answer = self._client.append_at(*arguments)
        self._calls += 1
        if self._calls % 2:
            raise ConnectionLostError("lost")
        return answer


def test_given_lost_answers_when_appended_then_nothing_is_there_twice(client, target):
    append(LosesAnswers(client), target, stream(60))

    assert stored(client, target) == expected(60)


def test_given_two_at_a_time_when_appended_then_each_record_is_there_once(client, target):
    one, other = (ExactAppend(client, target, 0) for _ in range(2))
    for first, second in zip(stream(42, 7), stream(42, 7), strict=True):
        one.add(first)
        other.add(second)
        one, other = other, one
    one.finish()
    other.finish()

    assert stored(client, target) == expected(42)
    assert one.appended + other.appended == 42


class CommitsLate:
    """A client of a broker that has what was appended committed at the third question."""

    def __init__(self, client):
        self._client, self._asked = client, 0

    def __getattr__(self, name):
        return getattr(self._client, name)

    def offsets(self, *target, time_ms):
        self._asked += 1
        return self._client.offsets(*target, time_ms=time_ms) if self._asked > 2 else [0]

    def fetch_batches(self, topic, partition, offset, *, max_bytes):
        found = self._client.fetch_batches(topic, partition, offset, max_bytes=max_bytes)
        return found if self._asked > 2 else found._replace(data=b"", next_offset=offset)


def test_given_another_try_whose_records_are_not_committed_yet_when_appended_then_it_waits(
    client, target
):
    late = ExactAppend(CommitsLate(client), target, 0, sleep=lambda s: None)
    append(client, target, stream(14))

    for rows in stream(28):
        late.add(rows)
    late.finish()

    assert late.appended == 14
    assert stored(client, target) == expected(28)


@pytest.mark.parametrize(("ours", "count"), [(0, 50), (10, 50), (0, 1), (10, 11)])
def test_given_foreign_records_when_appended_then_it_is_said(client, target, ours, count):
    append(client, target, stream(ours))
    foreign = pa.RecordBatch.from_pydict({"value": [b"not ours"]})
    (batch,) = encode(foreign, base_offset=ours)
    client.append_at(*target, ours, bytes(batch.data))

    with pytest.raises(JobError, match=rf"{target} has other records at offsets \d+ to {ours}"):
        append(client, target, stream(count))

    assert len(stored(client, target)) == ours + 1


def test_given_a_foreign_record_that_comes_meanwhile_when_appended_then_it_is_said(client, target):
    writer = ExactAppend(client, target, 0)
    batches = stream(50)
    writer.add(next(batches))
    (batch,) = encode(pa.RecordBatch.from_pydict({"value": [b"not ours"]}), base_offset=7)
    client.append_at(*target, 7, bytes(batch.data))

    with pytest.raises(JobError, match="somebody else writes to it"):
        writer.add(next(batches))


def test_given_a_target_that_was_deleted_when_gone_on_with_then_it_is_said(client, target):
    with pytest.raises(JobError, match=r"ends at offset 0, but had 5 when this began"):
        ExactAppend(client, target, 5)


def test_given_a_target_that_is_deleted_meanwhile_when_appended_then_it_is_said(client, target):
    writer, batches = ExactAppend(client, target, 0), stream(21)
    writer.add(next(batches))
    client.delete_topic(target.topic)
    make_topic(client, target.topic, 1)

    with pytest.raises(JobError, match="ends at offset 0 now, and had 7: records were lost"):
        writer.add(next(batches))


def test_given_a_topic_with_its_own_time_when_appended_then_it_is_said(client):
    topic = f"exact-{next(numbers)}"
    client.create_topic(topic, 1, {"message.timestamp.type": "LogAppendTime"})

    with pytest.raises(JobError, match=r"set its message\.timestamp\.type to CreateTime"):
        append(client, TopicPartition(topic, 0), stream(5))


def test_given_notes_of_two_when_written_at_a_time_then_one_gets_it_in(client):
    name = f"notes-{next(numbers)}"
    round_ = Round(number=0, source="a", target="b", ranges={0: (1, 5), 7: (0, 0)}, bases={0: 3})
    one, other = TransferNotes(client, name), TransferNotes(client, name)
    assert one.last() is None
    assert other.last() is None

    assert one.write(round_)
    assert not other.write(round_)

    assert other.last() == round_
    assert TransferNotes(client, name + "x").last() is None


def test_given_a_broker_that_dies_when_it_is_back_then_the_writer_goes_on(tmp_path):
    with BrokerProcess(tmp_path) as broker, Client(broker.address) as client:
        make_topic(client, "exact", 1)
        target = TopicPartition("exact", 0)
        writer = ExactAppend(client, target, 0)
        for number, rows in enumerate(stream(28)):
            if number % 2:
                broker.kill()
                broker.start()
            writer.add(rows)
        writer.finish()

        assert stored(client, target) == expected(28)


def test_given_a_topic_of_small_messages_when_appended_then_batches_are_small_enough(client):
    target = TopicPartition(f"exact-{next(numbers)}", 0)
    client.create_topic(target.topic, 1, {"max.message.bytes": "400"})

    first = append(client, target, stream(100, per_batch=60))
    again = append(client, target, stream(300, per_batch=90))

    assert (first, again) == (100, 200)
    assert stored(client, target) == expected(300)


def test_given_segments_smaller_than_a_request_when_appended_then_batch_by_batch(client):
    target = TopicPartition(f"exact-{next(numbers)}", 0)
    client.create_topic(target.topic, 1, {"segment.bytes": str(1 << 20)})
    rows = pa.RecordBatch.from_pydict(
        {
            "key": pa.array([None] * 30, pa.binary()),
            "value": [b"%d" % number + bytes(50_000) for number in range(30)],
            "timestamp": pa.array([0] * 30, pa.timestamp("us", tz="UTC")),
            "headers": batch_of(0, [0] * 30)["headers"],
        }
    )

    assert append(client, target, [rows]) == 30

    assert [each.value for each in client.messages(target.topic)] == rows["value"].to_pylist()
