"""`tidelog verify`, on partitions that Kafka or a broker has written, and on damaged ones."""

import re
import shutil
from pathlib import Path

import pytest

from tests.support.command_line import call
from tests.support.running_broker import BrokerProcess
from tidelog.client import Client

DATA = Path(__file__).parents[2] / "data/kafka-4.3"


@pytest.fixture
def partition(tmp_path):
    """A partition that Kafka has written; without indexes, so these are warned of."""
    return Path(shutil.copytree(DATA / "compacted-txn-0", tmp_path / "compacted-txn-0"))


@pytest.fixture
def data_directory(tmp_path):
    """The directory of a broker that has served a little and was stopped."""
    with BrokerProcess(tmp_path, "http.enabled=false") as broker:
        with Client(broker.address) as client:
            client.create_topic("logs", 2)
            with client.producer() as producer:
                for number in range(1000):
                    producer.produce("logs", b"line %d" % number, partition=number % 2)
        assert broker.stop() == 0
        yield broker.data_directory


def log_of(directory):
    return directory / "logs-0/00000000000000000000.log"


def test_given_a_stopped_broker_when_verified_then_it_is_clean(data_directory):
    outcome = call("verify", str(data_directory), "--records")

    assert (outcome.code, outcome.errors) == (0, "")
    assert outcome.text.startswith(f"{data_directory}: ")
    assert " 1,000 records" in outcome.text
    assert outcome.text.endswith(": clean\n")


def test_given_all_and_json_when_verified_then_every_file_is_named(data_directory):
    text = call("verify", str(data_directory), "--all")
    as_json = call("verify", str(data_directory), "--json")

    logs = [one for one in as_json.json_lines if one["kind"] == "log"]
    assert (text.code, as_json.code) == (0, 0)
    assert [one["record_count"] for one in logs] == [500, 500]
    assert [one["last_offset"] for one in logs] == [499, 499]
    assert all(f"{one['path']}: " in text.text for one in as_json.json_lines)


def test_given_damage_when_verified_then_place_and_code_tell(data_directory):
    damaged = log_of(data_directory)
    data = bytearray(damaged.read_bytes())
    data[80] ^= 1
    damaged.write_bytes(data)

    text = call("verify", str(data_directory))
    as_json = call("verify", str(data_directory), "--json")

    (bad,) = [one for one in as_json.json_lines if one["problems"]]
    assert (text.code, as_json.code) == (1, 1)
    assert bad["path"] == str(damaged)
    assert bad["problems"][0]["severity"] == "error"
    assert bad["problems"][0]["position"] == 0
    assert f"{damaged}: error at byte 0 (offset 0): " in text.text
    assert f"tidelog verify {data_directory} --repair" in text.errors
    assert re.search(r": \d errors?\n$", text.text)


def test_given_a_torn_tail_when_verified_then_it_is_a_warning_and_a_finding(data_directory):
    with log_of(data_directory).open("ab") as log:
        log.write(b"\x00" * 20)

    outcome = call("verify", str(data_directory))

    assert outcome.code == 1
    assert "warning" in outcome.text
    assert "torn tail" in outcome.text


def test_given_kafkas_partition_when_verified_then_its_records_are_counted(partition):
    outcome = call("verify", str(partition), "--records", "--json")

    files = outcome.json_lines
    problems = [problem for one in files for problem in one["problems"]]
    assert sum(one["record_count"] for one in files) > 50
    assert all("index is missing" in problem["text"] for problem in problems)


def test_given_several_directories_when_one_cannot_be_read_then_the_others_are(
    data_directory, tmp_path
):
    outcome = call("verify", str(tmp_path / "missing"), str(data_directory))

    assert outcome.code == 2
    assert outcome.errors == f"tidelog: {tmp_path / 'missing'} is no directory\n"
    assert outcome.text.endswith(": clean\n")


def test_given_a_running_broker_when_verified_then_it_is_refused(broker):
    outcome = call("verify", str(broker.data_directory))

    assert outcome.code == 2
    assert "in use by a running broker" in outcome.errors
    assert outcome.output == b""


def test_given_a_bar_when_verified_then_it_is_on_standard_error(data_directory):
    outcome = call("verify", str(data_directory), "--progress")

    assert outcome.code == 0
    assert outcome.text.endswith(": clean\n")
    assert outcome.errors.startswith("data ")
    assert "KiB" in outcome.errors
