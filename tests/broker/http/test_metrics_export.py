"""What Prometheus sees."""

import asyncio

from prometheus_client.parser import text_string_to_metric_families

from broker.health import Health, State
from broker.http.metrics_export import SAMPLES_PER_SLICE, Exporter
from broker.metrics import Metrics, PartitionSample
from broker.storage.disk_guard import DirectorySample
from protocol.error_codes import ErrorCode


def sample(topic, partition, *, bytes_in=0):
    return PartitionSample(
        topic=topic,
        partition=partition,
        log_start_offset=1,
        high_watermark=7,
        log_end_offset=9,
        durable_offset=8,
        size_bytes=100,
        segment_count=2,
        bytes_in=bytes_in,
        messages_in=3,
        bytes_out=4,
        messages_out=5,
    )


def exporter_of(metrics, *, health=None, topics_max=10, partitions_max=10_000):
    return Exporter(
        metrics,
        health or Health(),
        version="1.2.3",
        topics_max=topics_max,
        partitions_max=partitions_max,
    )


async def scraped(exporter):
    """Return {(name, labels): value} of one scrape, read by Prometheus's own parser."""
    text = (await exporter.text()).decode()
    return {
        (one.name, *sorted(one.labels.items())): one.value
        for family in text_string_to_metric_families(text)
        for one in family.samples
    }


async def test_given_counts_when_scraped_then_they_have_names_labels_and_units():
    metrics = Metrics()
    produce = metrics.requests("native", "produce")
    produce.count += 3
    produce.errors[ErrorCode.MESSAGE_TOO_LARGE] += 1
    produce.latency.observe(0.002, 3)
    metrics.connections_open = lambda: 4
    metrics.connection_closed("idle")
    metrics.flush.failures += 1
    metrics.partition_samples = lambda: [sample("a", 0, bytes_in=10), sample("a", 1, bytes_in=5)]

    values = await scraped(exporter_of(metrics))

    request = (("api", "native"), ("type", "produce"))
    assert values[("tidelog_requests_total", *request)] == 3
    error = ("api", "native"), ("error", "MESSAGE_TOO_LARGE"), ("type", "produce")
    assert values[("tidelog_request_errors_total", *error)] == 1
    assert values[("tidelog_request_duration_seconds_count", *request)] == 3
    bucket = ("api", "native"), ("le", "0.0025"), ("type", "produce")
    assert values[("tidelog_request_duration_seconds_bucket", *bucket)] == 3
    assert values[("tidelog_connections_open",)] == 4
    assert values[("tidelog_connections_closed_total", ("reason", "idle"))] == 1
    assert values[("tidelog_fsync_failures_total",)] == 1
    assert values[("tidelog_topic_bytes_in_total", ("topic", "a"))] == 15
    assert values[("tidelog_log_size_bytes",)] == 200
    partition = ("partition", "1"), ("topic", "a")
    assert values[("tidelog_partition_high_watermark", *partition)] == 7
    assert values[("tidelog_partition_durable_offset", *partition)] == 8
    assert values[("tidelog_partition_segments", *partition)] == 2
    assert any(key[0] == "process_resident_memory_bytes" for key in values)


async def test_given_too_many_topics_when_scraped_then_further_ones_are_summed():
    metrics = Metrics()
    metrics.partition_samples = lambda: [sample(f"t{n}", 0, bytes_in=n) for n in range(5)]

    values = await scraped(exporter_of(metrics, topics_max=2))

    by_topic = {k[1][1]: v for k, v in values.items() if k[0] == "tidelog_topic_bytes_in_total"}
    assert by_topic == {"t0": 0, "t1": 1, "_other": 9}
    shown = {k[2][1] for k in values if k[0] == "tidelog_partition_size_bytes"}
    assert shown == {"t0", "t1"}
    assert values[("tidelog_topics",)] == 5


async def test_given_a_deleted_topic_when_scraped_then_its_labels_are_gone():
    metrics = Metrics()
    exporter = exporter_of(metrics)
    metrics.partition_samples = lambda: [sample("a", 0), sample("b", 0)]
    await exporter.text()

    metrics.partition_samples = lambda: [sample("b", 0)]
    text = await exporter.text()

    assert b'topic="b"' in text
    assert b'topic="a"' not in text


async def test_given_many_partitions_when_scraped_then_the_loop_turns_in_between():
    metrics = Metrics()
    partitions = 3 * SAMPLES_PER_SLICE + 1
    metrics.partition_samples = lambda: (sample("a", n) for n in range(partitions))
    turns = 0

    async def count_turns():
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    counting = asyncio.create_task(count_turns())
    values = await scraped(exporter_of(metrics))
    counting.cancel()

    shown = [key for key in values if key[0] == "tidelog_partition_log_end_offset"]
    assert len(shown) == partitions
    assert turns > 20


async def test_given_many_partitions_when_scraped_then_each_family_has_one_heading():
    metrics = Metrics()
    metrics.partition_samples = lambda: [sample("a", n) for n in range(2 * SAMPLES_PER_SLICE)]

    text = (await exporter_of(metrics).text()).decode()

    headings = [line for line in text.splitlines() if line.startswith("# TYPE")]
    assert len(headings) == len(set(headings))


async def test_given_a_bound_on_partitions_when_scraped_then_the_rest_has_no_gauges():
    metrics = Metrics()
    metrics.partition_samples = lambda: [sample("a", n) for n in range(8)]

    values = await scraped(exporter_of(metrics, partitions_max=3))

    shown = [key for key in values if key[0] == "tidelog_partition_log_end_offset"]
    assert len(shown) == 3
    assert values[("tidelog_partitions",)] == 8


async def test_given_health_when_scraped_then_readiness_is_a_number():
    health = Health()
    exporter = exporter_of(Metrics(), health=health)
    before = await scraped(exporter)

    health.enter(State.READY)
    health.watch(lambda: ["/data1 is missing"])
    after = await scraped(exporter)

    assert (before[("tidelog_ready",)], after[("tidelog_ready",)]) == (0, 1)
    assert after[("tidelog_degraded",)] == 1


async def test_given_data_directories_when_scraped_then_each_has_its_disk_told():
    metrics = Metrics()
    metrics.storage.directories = lambda: [
        DirectorySample("/a", 900, 1_000, 100, is_paused=False, refused_appends=0),
        DirectorySample("/b", 90, 1_000, 100, is_paused=True, refused_appends=7),
    ]

    values = await scraped(exporter_of(metrics))

    for name, a, b in (
        ("tidelog_directory_free_bytes", 900, 90),
        ("tidelog_directory_size_bytes", 1_000, 1_000),
        ("tidelog_directory_reserve_bytes", 100, 100),
        ("tidelog_directory_paused", 0, 1),
        ("tidelog_directory_refused_appends_total", 0, 7),
    ):
        assert tuple(values[(name, ("directory", path))] for path in ("/a", "/b")) == (a, b), name


async def test_given_every_metric_when_scraped_then_its_name_is_ours_and_has_a_unit():
    text = (await exporter_of(Metrics()).text()).decode()
    names = {family.name for family in text_string_to_metric_families(text)}

    foreign = {name for name in names if not name.startswith(("tidelog_", "process_"))}

    assert foreign == set()
    units = ("_seconds", "_bytes")
    assert {name for name in names if "duration" in name or "lag" in name} <= {
        name for name in names if name.endswith(units)
    }
