"""Errors: one sentence, and an exit code to act on."""

import errno

import pytest

from protocol.errors import BatchCorruptError, BrokerError
from tidelog.cli.errors import CommandError, ExitCode, explained
from tidelog.client import ConnectionLostError, UnexpectedOffsetError


@pytest.mark.parametrize(
    ("error", "sentence", "code"),
    [
        (CommandError("no"), "no", 1),
        (CommandError("no", ExitCode.UNREACHABLE), "no", 3),
        (
            ConnectionLostError("localhost:1: [Errno 111] Connection refused"),
            "cannot reach the broker: localhost:1: Connection refused",
            3,
        ),
        (
            BrokerError(1, "logs-7"),
            "logs-7: the offset is outside the partition's log (OFFSET_OUT_OF_RANGE)",
            1,
        ),
        (
            BrokerError(2, "logs-7 at offset 5: the bytes are damaged"),
            (
                "logs-7 at offset 5: the bytes are damaged (CORRUPT_MESSAGE); `tidelog health` "
                "names the offsets, and consume --from goes on behind them"
            ),
            1,
        ),
        (
            BrokerError(56, "logs-7"),
            (
                "logs-7: the broker cannot read or write its disk (KAFKA_STORAGE_ERROR); "
                "`tidelog health` says why"
            ),
            1,
        ),
        (BrokerError(40, "x.y is unknown"), "x.y is unknown (INVALID_CONFIG)", 1),
        (
            BrokerError(1234, "t-0"),
            "t-0: an error this version does not know (UNKNOWN_ERROR_CODE_1234)",
            1,
        ),
        (
            UnexpectedOffsetError(5, 7),
            "the log ends at 7, not at the expected 5 (OUT_OF_ORDER_SEQUENCE_NUMBER)",
            1,
        ),
        (BatchCorruptError(5, "bad crc"), "corrupt message at byte 5: bad crc", 1),
        (FileNotFoundError(errno.ENOENT, "No such file", "x.log"), "x.log: No such file", 1),
        (OSError("no more room"), "no more room", 1),
        (BrokenPipeError(), "", 0),
        (KeyboardInterrupt(), "", 130),
    ],
)
def test_given_an_error_when_explained_then_it_is_one_sentence_and_a_code(error, sentence, code):
    found = explained(error)

    assert found == (sentence, code)
    assert "\n" not in found[0]


def test_given_a_bug_when_explained_then_it_is_not_hidden():
    assert explained(ZeroDivisionError()) is None
