"""RangeReader: a topic that goes while it is read, between one question and the next."""

from __future__ import annotations

import pytest

from protocol.errors import BrokerError, ErrorCode
from protocol.identifiers import TopicPartition
from tidelog.segments.read_options import ReadOptions
from tidelog.spark.offset_ranges import OffsetRange
from tidelog.spark.range_reader import RangeReader

WANTED = OffsetRange(TopicPartition("logs", 0), 5, 10)


class Told:
    """A link to a broker that answers each question, by its name, as it is told to."""

    address = "here:1"

    def __init__(self, **answers: object) -> None:
        self._answers = answers

    def ask(self, question):
        return question(self)

    def __getattr__(self, name: str):
        def answer(*arguments: object, **named: object) -> object:
            given = self._answers[name]
            if isinstance(given, ErrorCode):
                raise BrokerError(given)
            return given

        return answer


@pytest.mark.parametrize("isolation", ["read_uncommitted", "read_committed"])
@pytest.mark.parametrize(
    "first", [ErrorCode.OFFSET_OUT_OF_RANGE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
)
def test_given_a_topic_that_is_deleted_while_it_is_read_then_that_is_loss(first, isolation):
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    lost: list[str] = []
    link = Told(transactions=unknown, fetch_batches=first, offsets=unknown)

    options = ReadOptions(columns=("offset",), isolation=isolation)
    rows = list(RangeReader(link, WANTED, options, lost.append).batches())

    assert (rows, lost) == ([], ["offsets 5 to 9 of logs-0 are there no more"])


def test_given_an_error_that_is_none_of_loss_when_read_then_it_is_raised():
    link = Told(fetch_batches=ErrorCode.INVALID_REQUEST)

    with pytest.raises(BrokerError, match="INVALID_REQUEST"):
        list(RangeReader(link, WANTED, ReadOptions(), lambda what: None).batches())
