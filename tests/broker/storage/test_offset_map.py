"""OffsetMap: bounded memory, exact answers."""

from hypothesis import given
from hypothesis import strategies as st

from broker.storage.offset_map import SLOT_BYTES, OffsetMap


@given(
    puts=st.lists(st.tuples(st.binary(max_size=3), st.integers(0, 2**62))),
    slots=st.integers(1, 40),
)
def test_given_any_puts_when_asked_then_it_answers_as_a_dict_until_it_is_full(puts, slots):
    offsets = OffsetMap(slots * SLOT_BYTES, keys_expected=1000)
    model: dict[bytes, int] = {}

    for key, offset in puts:
        has_room = key in model or len(model) < offsets.keys_max
        assert offsets.put(key, offset) is has_room
        if has_room:
            model[key] = offset

    assert offsets.keys == len(model) <= offsets.keys_max
    for key, _ in puts:
        assert offsets.get(key) == model.get(key, -1)


def test_given_a_bound_when_filled_then_no_more_memory_is_taken():
    offsets = OffsetMap(2400, keys_expected=10**9)

    while offsets.put(b"%d" % offsets.keys, offsets.keys):
        pass

    assert offsets.size_bytes <= 2400
    assert offsets.keys == offsets.keys_max >= 85  # of 97 slots, a prime
    assert all(offsets.get(b"%d" % number) == number for number in range(offsets.keys))
    assert offsets.get(b"another") == -1


def test_given_few_keys_expected_when_made_then_it_is_small():
    assert OffsetMap(128 << 20, keys_expected=10).size_bytes < 1000
    assert OffsetMap(128 << 20, keys_expected=10).keys_max >= 10


def test_given_hardly_any_room_when_filled_then_one_key_fits_all_the_same():
    """Else a log with such a bound would never get clean."""
    offsets = OffsetMap(1, keys_expected=100)

    assert offsets.put(b"a", 1)
    assert offsets.put(b"a", 2)
    assert offsets.get(b"a") == 2
