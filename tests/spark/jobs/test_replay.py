"""Replay: a lake's topic goes back to a topic of a running broker, each record once."""

import itertools

import pytest

from tests.support.command_line import call
from tests.support.replays import expected, fill_lake, topic_of
from tidelog.client import Client
from tidelog.lake.errors import LakeError
from tidelog.spark.jobs import replay as replay_module
from tidelog.spark.jobs.job import Job, JobError
from tidelog.spark.jobs.replay import ReplayOptions, run

numbers = itertools.count()


@pytest.fixture
def options(broker, tmp_path):
    return ReplayOptions(
        lake=str(tmp_path / "lake"),
        topic="web-logs",
        broker=broker.address,
        target=f"replayed-{next(numbers)}",
    )


def replayed(spark, options):
    return run(options, Job("replay", lambda: spark))


def test_given_a_lake_when_replayed_then_all_is_there_and_later_only_what_is_new(
    spark, options, tmp_path
):
    fill_lake(tmp_path / "lake", [0, 2], 0, 60)

    first = replayed(spark, options)
    again = replayed(spark, options)
    fill_lake(tmp_path / "lake", [0, 2], 60, 90)
    later = replayed(spark, options)

    assert [(each.partition, each.appended) for each in first.copied] == [(0, 60), (2, 60)]
    assert again.copied == ()
    assert [(each.base_offset, each.appended) for each in later.copied] == [(60, 30), (60, 30)]
    assert topic_of(options) == {0: expected(0, 90), 1: [], 2: expected(2, 90)}
    with Client(options.broker) as client:
        client.delete_topic(options.target)
    with pytest.raises(JobError, match=r"ends at offset 0, and had 90 when it was filled"):
        replayed(spark, options)


def test_given_files_that_are_merged_since_a_round_began_when_repeated_then_its_part_is_replayed(
    options, tmp_path, monkeypatch
):
    monkeypatch.setattr(replay_module, "CHECKED_RECORDS", 0)  # whole files are passed by at once
    fill_lake(tmp_path / "lake", [0], 0, 40)
    fill_lake(tmp_path / "lake", [0], 40, 80)
    fill_lake(tmp_path / "lake", [0], 80, 120)
    with Client(options.broker) as client:
        client.create_topic(options.target, 1, {"retention.ms": "-1"})
    part = replay_module._Stretch(0, 15, 105, 0)  # its ends lie in files now

    tries = [replay_module._replay(options, part) for _ in range(2)]

    assert [(each.appended, each.end_offset) for each in tries] == [(90, 90), (0, 90)]
    values = [message[2] for message in expected(0, 120)[15:105]]
    assert [message[2] for message in topic_of(options)[0]] == values


def test_given_a_foreign_record_when_replayed_then_it_is_said_and_nothing_is_written(
    spark, options, tmp_path
):
    fill_lake(tmp_path / "lake", [0], 0, 20)
    replayed(spark, options)
    fill_lake(tmp_path / "lake", [0], 20, 40)

    class Interrupted(Job):
        """It dies when its round is written down; then somebody else writes."""

        @property
        def session(self):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(options, Interrupted("replay", lambda: spark))
    with Client(options.broker) as client, client.producer() as producer:
        producer.produce(options.target, b"foreign", partition=0).result()

    with pytest.raises(Exception, match="somebody else writes to it"):
        replayed(spark, options)
    assert len(topic_of(options)[0]) == 21


def test_given_wrong_names_when_replayed_then_they_are_told(broker, options, tmp_path):
    with pytest.raises(LakeError, match=r"lake has no topic 'web-logs'"):
        run(options, Job("replay", lambda: None))
    fill_lake(tmp_path / "lake", [0, 1], 0, 5)
    with Client(broker.address) as client:
        client.create_topic(options.target, 1)

    with pytest.raises(JobError, match="has 1 partitions, and 2 are needed"):
        run(options, Job("replay", lambda: None))


def test_given_a_dry_run_when_asked_then_nothing_is_made(options, tmp_path):
    fill_lake(tmp_path / "lake", [0], 0, 5)

    done = call(
        "spark", "replay", options.lake, "--topic", "web-logs", "--target", options.target,
        "--broker", options.broker, "--dry-run", "--json",
    )  # fmt: skip

    assert (done.code, done.json["planned"]) == (0, {"0": [0, 5]})
    with Client(options.broker) as client:
        assert client.topics(options.target)[0].error == 3
