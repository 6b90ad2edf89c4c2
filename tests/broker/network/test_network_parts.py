"""Buffer pool, quota, response queue, listening sockets."""

from __future__ import annotations

import resource
import socket

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.network.buffer_pool import BufferPool
from broker.network.listening import address_text, bind_all
from broker.network.quota import RequestQuota
from protocol.errors import ConfigError


@given(st.lists(st.integers(1, 5_000_000), max_size=30))
def test_given_any_sizes_when_taken_and_given_back_then_the_bound_holds(sizes: list[int]) -> None:
    pool = BufferPool(bytes_out_max=8_000_000, kept_bytes_max=1_000_000)
    out = []

    for size in sizes:
        buffer = pool.take(size)
        if buffer is None:
            assert pool.bytes_out + size > 8_000_000 / 2  # power-of-two rounding doubles at most
            pool.give_back(out.pop())
        else:
            assert len(buffer) >= size
            out.append(buffer)
            assert pool.bytes_out <= max(8_000_000, len(buffer))
    for buffer in out:
        pool.give_back(buffer)

    assert pool.bytes_out == 0


def test_given_nothing_out_when_a_frame_over_the_bound_comes_then_it_still_gets_a_buffer() -> None:
    pool = BufferPool(bytes_out_max=1000)

    buffer = pool.take(100_000)

    assert buffer is not None
    assert pool.take(1) is None


def test_given_a_buffer_given_back_when_taken_again_then_it_is_the_same_memory() -> None:
    pool = BufferPool(bytes_out_max=1_000_000)

    first = pool.take(40_000)
    assert first is not None
    pool.give_back(first)

    assert pool.take(50_000) is first


def test_given_a_large_frame_when_a_buffer_is_made_then_its_pages_are_not_touched() -> None:
    """Zeroing 64 MB would hold the event loop up for tens of milliseconds."""
    pool = BufferPool(bytes_out_max=100_000_000)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt

    buffer = pool.take(64_000_000)

    faults = resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before
    assert buffer is not None
    assert faults < len(buffer) / resource.getpagesize() / 10
    view = memoryview(buffer)
    view[-3:] = b"end"
    assert bytes(view[-4:]) == b"\0end"


def test_given_a_waiter_that_gave_up_when_a_buffer_comes_back_then_it_is_not_called() -> None:
    pool = BufferPool(bytes_out_max=1000)
    called: list[str] = []
    buffer = pool.take(1000)
    assert buffer is not None

    def gave_up() -> None:
        called.append("gave up")

    pool.when_free(gave_up)
    pool.when_free(lambda: called.append("next"))
    pool.forget(gave_up)
    pool.give_back(buffer)

    assert called == ["next"]


def test_given_a_rate_when_requests_come_faster_then_the_wait_grows_and_time_heals_it() -> None:
    quota = RequestQuota(100.0)

    assert quota.take(100, now_s=10.0) == 0.0  # a second's worth of burst
    assert quota.take(50, now_s=10.0) == pytest.approx(0.5)
    assert quota.take(1, now_s=12.0) == 0.0


def test_given_localhost_and_port_0_when_bound_then_both_families_share_one_port() -> None:
    sockets = bind_all("localhost", 0, "listeners.native_port")
    ports = {opened.getsockname()[1] for opened in sockets}
    texts = [address_text(opened) for opened in sockets]
    for opened in sockets:
        opened.close()

    assert len(ports) == 1
    assert texts[0] == f"127.0.0.1:{ports.pop()}"


def test_given_a_port_in_use_when_bound_then_the_error_names_setting_and_port() -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]

        with pytest.raises(ConfigError, match=rf"listeners.native_port: .*127.0.0.1 port {port}"):
            bind_all("127.0.0.1", port, "listeners.native_port")


@pytest.mark.parametrize("host", ["no-such-host.invalid", "a" * 64, "a..b"])
def test_given_a_name_that_does_not_resolve_when_bound_then_a_config_error_says_so(
    host: str,
) -> None:
    with pytest.raises(ConfigError, match="does not resolve"):
        bind_all(host, 0, "listeners.host")
