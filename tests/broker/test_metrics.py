"""Counting on the hot path."""

from hypothesis import given
from hypothesis import strategies as st

from broker.metrics import LATENCY_BOUNDS_SECONDS, LatencyHistogram, Metrics
from broker.topic_labels import OTHER, TopicLabels


@given(seconds=st.lists(st.floats(0, 20, allow_nan=False), max_size=30))
def test_given_durations_when_observed_then_each_is_in_the_bucket_of_its_bound(seconds):
    histogram = LatencyHistogram()

    for one in seconds:
        histogram.observe(one)

    assert histogram.count == len(seconds) == sum(histogram.bucket_counts)
    for position, bound in enumerate(LATENCY_BOUNDS_SECONDS):
        at_or_below = sum(histogram.bucket_counts[: position + 1])
        assert at_or_below == sum(one <= bound for one in seconds)


def test_given_a_request_type_when_asked_for_twice_then_it_is_the_same_object():
    metrics = Metrics()

    first, second = metrics.requests("native", "fetch"), metrics.requests("native", "fetch")

    assert first is second
    assert [(api, name) for api, name, _ in metrics.request_types()] == [("native", "fetch")]


def test_given_more_topics_than_labels_when_counted_then_the_rest_is_summed():
    labels = TopicLabels(2)

    shown = labels.by_label({"a": (1, 10), "b": (2, 20), "c": (3, 30), "d": (4, 40)})

    assert shown == {"a": (1, 10), "b": (2, 20), OTHER: (7, 70)}
    assert labels.is_labelled("a")
    assert not labels.is_labelled("c")


def test_given_a_deleted_topic_when_counted_then_its_label_goes_and_is_free_for_a_new_one():
    labels = TopicLabels(2)
    labels.by_label({"a": (1,), "b": (2,), "c": (3,)})

    shown = labels.by_label({"b": (2,), "c": (3,), "new": (9,)})

    assert shown == {"b": (2,), "new": (9,), OTHER: (3,)}


COUNTS = st.dictionaries(st.sampled_from("abcdef_"), st.integers(0, 5), max_size=6)


@given(steps=st.lists(COUNTS, max_size=12))
def test_given_topics_that_come_go_and_grow_when_counted_then_the_sum_never_falls(steps):
    labels = TopicLabels(2)
    totals: dict[str, int] = {}
    shown_before = 0

    for step in steps:
        totals = {topic: totals.get(topic, 0) + more for topic, more in step.items()}
        shown = labels.by_label({topic: (total,) for topic, total in totals.items()})

        assert len(shown) <= 3
        assert shown.get(OTHER, (shown_before,))[0] >= shown_before
        shown_before = shown.get(OTHER, (shown_before,))[0]


def test_given_a_topic_named_like_the_sum_when_counted_then_it_is_part_of_the_sum():
    shown = TopicLabels(5).by_label({OTHER: (1,), "a": (2,)})

    assert shown == {OTHER: (1,), "a": (2,)}
