"""CRC-32 and CRC-32C: the fast functions are what crcmod and the catalogue say."""

from __future__ import annotations

import crc32c
import crcmod.predefined
import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocol import checksum

DEFINED = {
    "crc-32": crcmod.predefined.mkPredefinedCrcFun("crc-32"),
    "crc-32c": crcmod.predefined.mkPredefinedCrcFun("crc-32c"),
}
FAST = {"crc-32": checksum.crc32, "crc-32c": checksum.crc32c}
CHECKS = {"crc-32": checksum.CRC32_CHECK, "crc-32c": checksum.CRC32C_CHECK}


@pytest.mark.parametrize("name", DEFINED)
def test_given_the_check_input_when_summed_then_it_is_the_published_value(name: str) -> None:
    data = b"123456789"

    sums = FAST[name](data), DEFINED[name](data)

    assert sums == (CHECKS[name], CHECKS[name])


def test_given_the_bytes_of_rfc_3720_when_summed_then_they_match_its_appendix() -> None:
    zeros, ones, growing = bytes(32), b"\xff" * 32, bytes(range(32))

    sums = [checksum.crc32c(data) for data in (zeros, ones, growing)]

    assert sums == [0x8A9136AA, 0x62A8AB43, 0x46DD794E]


@pytest.mark.parametrize("name", DEFINED)
@given(data=st.binary(max_size=600), cut=st.integers(0, 600))
def test_given_any_bytes_when_summed_in_pieces_then_crcmod_agrees(
    name: str, data: bytes, cut: int
) -> None:
    writable = memoryview(bytearray(data))

    in_pieces = FAST[name](writable[cut:], FAST[name](writable[:cut]))

    assert in_pieces == FAST[name](data) == DEFINED[name](data)


def test_given_sound_libraries_when_self_tested_then_nothing_is_raised() -> None:
    result = checksum.self_test()

    assert result is None


@pytest.mark.parametrize("name", ["crc32", "crc32c"])
@pytest.mark.parametrize("breaks_at_bytes", [0, 9, 255, 4099])
def test_given_a_wrong_library_when_self_tested_then_it_is_refused(
    name: str, breaks_at_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    sound = getattr(checksum, name)

    def broken(data: bytes, value: int = 0) -> int:
        return int(sound(data, value)) ^ (len(data) == breaks_at_bytes)

    monkeypatch.setattr(checksum, name, broken)

    with pytest.raises(RuntimeError, match="crc-32"):
        checksum.self_test()


def test_given_a_package_of_another_layout_when_loaded_then_its_own_function_is_taken(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class FindsNothing:
        @staticmethod
        def find_spec(*_: object) -> None:
            return None

    monkeypatch.setattr(checksum, "PathFinder", FindsNothing)

    loaded = checksum._load_crc32c()

    assert loaded is crc32c.crc32c
    assert loaded(b"123456789") == checksum.CRC32C_CHECK
