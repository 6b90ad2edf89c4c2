"""SourceOptions: the words and rules of Spark's Kafka source, and one sentence where they end."""

from __future__ import annotations

import pickle

import pytest

from protocol.identifiers import TopicPartition
from tidelog.segments.errors import OptionError
from tidelog.spark.options import (
    BROKER_OPTIONS,
    EARLIEST,
    LATEST,
    SEGMENTS_OPTIONS,
    Limit,
    SourceOptions,
    parse_options,
)

A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)


def parsed(**raw: str) -> SourceOptions:
    return parse_options(raw, SEGMENTS_OPTIONS)


def test_given_no_options_when_parsed_then_defaults_are_kafkas():
    options = parsed()

    assert options == SourceOptions()
    assert options.batch_limits() == (Limit("offset", EARLIEST), Limit("offset", LATEST))
    assert options.stream_start() == Limit("offset", LATEST)
    assert all(map(options.selects, (A0, A1, B0)))


def test_given_names_in_any_case_when_parsed_then_each_is_known():
    options = parsed(
        PATH="/d", failondataloss="FALSE", SplitBytes="7", CHECKCRC="false", oncorrupt="Tag",
        isolation="read_committed", includeheaders="true", minpartitions="3",
        maxoffsetspertrigger="9", startingOffsetsByTimestampStrategy="latest",
    )  # fmt: skip

    assert options == SourceOptions(
        path="/d", fail_on_data_loss=False, split_bytes=7, check_crc=False, on_corrupt="tag",
        isolation="read_committed", include_headers=True, min_partitions=3,
        max_offsets_per_trigger=9, later_strategy="latest",
    )  # fmt: skip
    assert pickle.loads(pickle.dumps(options)) == options


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        ({"subscribe": " a , c"}, [A0, A1]),
        ({"subscribePattern": "[ab]"}, [A0, A1, B0]),
        ({"subscribePattern": "."}, [A0, A1, B0]),
        ({"subscribePattern": "ab?c"}, []),
        ({"assign": '{"a":[1],"b":[0]}'}, [A1, B0]),
    ],
)
def test_given_a_choice_of_topics_when_asked_then_only_these_are_selected(raw, expected):
    assert [each for each in (A0, A1, B0) if parsed(**raw).selects(each)] == expected


def test_given_several_limits_when_parsed_then_the_one_by_time_wins_as_in_spark():
    by_offset = {"startingOffsets": '{"a":{"0":23,"1":-2}}'}
    by_times = {"startingOffsetsByTimestamp": '{"a":{"0":5}}'}
    by_time = {"startingTimestamp": "1000"}

    assert parsed(**by_offset).starting == Limit("offset", None, {A0: 23, A1: EARLIEST})
    assert parsed(**by_offset, **by_times).starting == Limit("timestamp", None, {A0: 5})
    assert parsed(**by_offset, **by_times, **by_time).starting == Limit("timestamp", 1000)
    assert parsed(endingOffsets="latest").ending == Limit("offset", LATEST)


@pytest.mark.parametrize(
    ("raw", "sentence"),
    [
        ({"subscribes": "a"}, "there is no option 'subscribes'; there are path, subscribe, "),
        ({"broker": "here:1"}, "there is no option 'broker'"),
        ({"subscribe": "a", "assign": "{}"}, "subscribe and assign exclude each other"),
        ({"subscribe": ","}, "option subscribe must be topics with commas between them, not ','"),
        ({"subscribePattern": "("}, "option subscribePattern must be a regular expression"),
        ({"assign": "[0]"}, "option assign must be JSON such as"),
        ({"assign": '{"a":[]}'}, "option assign must be JSON such as"),
        ({"startingOffsets": "soon"}, "option startingOffsets must be earliest, latest, or JSON"),
        ({"startingOffsets": '{"a":{"0":-3}}'}, "or -2 .earliest."),
        ({"endingTimestamp": "-5"}, "option endingTimestamp must be milliseconds"),
        ({"startingOffsetsByTimestamp": '{"a":1}'}, "ByTimestamp must be JSON such as"),
        ({"startingOffsetsByTimestamp": '{"a":{"0":-1}}'}, "must be milliseconds since 1970"),
        ({"failOnDataLoss": "yes"}, "option failOnDataLoss must be true or false, not 'yes'"),
        ({"maxOffsetsPerTrigger": "0"}, "must be a whole number above 0, not '0'"),
        ({"minPartitions": "١"}, "must be a whole number above 0"),
        ({"onCorrupt": "warn"}, "option onCorrupt must be fail, skip or tag, not 'warn'"),
        ({"isolation": "x"}, "must be read_uncommitted or read_committed, not 'x'"),
    ],
)
def test_given_a_wrong_option_when_parsed_then_a_sentence_says_what_is_allowed(raw, sentence):
    with pytest.raises(OptionError, match=sentence):
        parsed(**raw)


def test_given_limits_that_make_no_sense_when_asked_for_then_a_sentence_says_so():
    with pytest.raises(OptionError, match="cannot begin at the latest"):
        parsed(startingOffsets='{"a":{"0":-1}}').batch_limits()
    with pytest.raises(OptionError, match="cannot end at the earliest"):
        parsed(endingOffsets="earliest").batch_limits()
    with pytest.raises(OptionError, match="a stream has no end"):
        parsed(endingOffsets="latest").stream_start()


def test_given_the_other_sources_options_when_parsed_then_they_are_its_own():
    assert parse_options({"broker": "here:1"}, BROKER_OPTIONS).broker == "here:1"
    with pytest.raises(OptionError, match="there is no option 'path'"):
        parse_options({"path": "/d"}, BROKER_OPTIONS)
