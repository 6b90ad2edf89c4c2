"""The tally: what was delivered where, what failed, and how much of that is said."""

from concurrent.futures import Future

from tidelog.cli.tally import FAILURES_SHOWN, Tally
from tidelog.client import Delivery


def make_tally():
    said = []
    return Tally(said.append, str), said


def delivered(partition, offset):
    future = Future()
    future.set_result(Delivery("t", partition, offset, 0))
    return future


def test_given_deliveries_in_any_order_when_summed_up_then_the_ends_of_each_partition_stand():
    tally, _ = make_tally()

    for number, (partition, offset) in enumerate([(1, 7), (0, 3), (1, 5), (1, 6)], 1):
        tally.watch(number, 10, delivered(partition, offset))

    assert tally.summary("t", 1.23456) == {
        "topic": "t",
        "delivered": 4,
        "failed": 0,
        "bytes": 40,
        "seconds": 1.235,
        "partitions": [
            {"partition": 0, "first_offset": 3, "last_offset": 3},
            {"partition": 1, "first_offset": 5, "last_offset": 7},
        ],
    }


def test_given_acks_0_when_summed_up_then_no_offsets_are_made_up():
    tally, _ = make_tally()

    tally.watch(1, 10, delivered(0, -1))

    assert (tally.delivered, tally.offsets) == (1, {})


def test_given_a_failure_when_it_happens_then_the_line_is_named():
    tally, said = make_tally()
    future = Future()

    tally.watch(17, 10, future)
    assert tally.pending == 1
    future.set_exception(OSError("no more room"))

    assert said == ["line 17: no more room"]
    assert (tally.pending, tally.failed, tally.delivered) == (0, 1, 0)


def test_given_many_failures_when_they_happen_then_only_the_first_are_told():
    tally, said = make_tally()

    for number in range(1, 1000):
        tally.fail(number, OSError("no"))

    assert tally.failed == 999
    assert len(said) == FAILURES_SHOWN + 1
    assert said[-1] == "further failures are only counted"
