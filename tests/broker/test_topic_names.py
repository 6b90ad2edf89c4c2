"""TopicNames: which names would be mistaken for others, whatever comes and goes."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from broker.topic_names import TopicNames, unified

NAMES = st.text("a._", min_size=1, max_size=3)


@given(st.lists(st.tuples(st.booleans(), NAMES), max_size=20), NAMES)
def test_given_names_that_come_and_go_when_one_is_asked_for_then_only_the_others_count(
    changes: list[tuple[bool, str]], asked: str
):
    names, there = TopicNames(), set[str]()

    for comes, name in changes:
        (names.add if comes else names.discard)(name)
        (there.add if comes else there.discard)(name)

    others = {name for name in there if unified(name) == unified(asked) and name != asked}
    found = names.mistakable(asked)
    assert (found in others) if others else (found is None)


def test_given_an_internal_topic_that_could_not_be_made_when_given_up_then_its_name_stays_taken():
    names = TopicNames()

    names.add("__consumer_offsets")
    names.discard("__consumer_offsets")

    assert names.mistakable("__consumer.offsets") == "__consumer_offsets"
    assert names.mistakable("__consumer_offsets") is None
