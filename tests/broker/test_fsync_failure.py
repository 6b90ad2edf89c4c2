"""A failed fsync, from the outside: error 56 to who waits, /readyz red, nothing marked clean."""

import errno
import os

import aiohttp
import pytest

from broker import composition, kernel_syncs
from broker.composition import Broker
from broker.health import State
from broker.storage.kernel_aio import KernelAio
from broker.storage.os_disk import OsDisk, OsFile
from protocol.error_codes import ErrorCode
from protocol.native.responses import decode_message_set_send, decode_produce_response
from tests.broker.test_composition import CLEAN_MARKER, configuration, request
from tests.support.raw_client import fetch_request, produce_request


class FailingDisk(OsDisk):
    """A disk whose syncs of `.log` files fail, once it is told to."""

    __slots__ = ("error",)

    def __init__(self):
        self.error = None

    def open(self, path, *, create=False, read_only=False):
        flags = os.O_CLOEXEC | (os.O_RDONLY if read_only else os.O_RDWR)
        descriptor = os.open(path, flags | (os.O_CREAT if create else 0), 0o600)
        return FailingFile(self, path, descriptor)


class FailingFile(OsFile):
    __slots__ = ("_disk",)

    def __init__(self, disk, path, descriptor):
        super().__init__(path, descriptor)
        self._disk = disk

    def sync(self):
        if self._disk.error is not None and str(self.path).endswith(".log"):
            raise self._disk.error
        super().sync()

    @property
    def sync_descriptor(self):
        return None


@pytest.mark.parametrize("number", [errno.EIO, errno.ENOSPC, errno.EDQUOT])
async def test_given_a_failed_sync_when_clients_wait_then_they_get_56_and_readyz_is_red(
    tmp_path, number, monkeypatch
):
    """ENOSPC too: thin storage says it at the sync, and what was written is lost all the same."""
    monkeypatch.setattr(composition, "FAILURE_ANSWERS_S", 0.2)
    disk = FailingDisk()
    broker = Broker(configuration(tmp_path), disk=disk)
    async with broker:
        await request(broker, produce_request("logs", b"kept"))
        disk.error = OSError(number, os.strerror(number))

        produced, polled = await request(
            broker,
            produce_request("logs", b"lost"),
            fetch_request("logs", 1, max_wait_ms=30_000),
            answers=2,
        )
        await broker.failed.wait()
        (later,) = await request(broker, produce_request("logs", b"never", acks=1))
        await loaded(broker)
        async with aiohttp.ClientSession() as session:
            url = f"http://{broker.addresses['http'][0]}/readyz"
            async with session.get(url) as answer:
                status, body = answer.status, await answer.json()
        await broker.answer_failure()

        assert decode_produce_response(produced).error == ErrorCode.KAFKA_STORAGE_ERROR
        assert decode_message_set_send(polled)[0] == ErrorCode.KAFKA_STORAGE_ERROR
        assert decode_produce_response(later).error == ErrorCode.KAFKA_STORAGE_ERROR
        assert broker.health.state is State.FAILED
        assert (status, body["status"]) == (503, "failed")
        assert os.strerror(number) in body["reason"]
        assert broker.metrics.flush.failures == 1
        with pytest.raises(OSError, match=os.strerror(number)):
            await broker.stop()

    assert not (tmp_path / "data" / CLEAN_MARKER).exists()
    async with Broker(configuration(tmp_path)) as again:
        (fetched,) = await request(again, fetch_request("logs"))
    error, data = decode_message_set_send(fetched)
    assert error == 0
    assert b"kept" in bytes(data)


async def test_given_a_sync_that_fails_in_the_kernel_when_clients_wait_then_they_get_56(
    tmp_path, monkeypatch
):
    class FailingAio(KernelAio):
        error = 0

        def ended(self):
            return [self.error or result for result in super().ended()]

    monkeypatch.setattr(kernel_syncs, "KernelAio", FailingAio)
    monkeypatch.setattr(composition, "FAILURE_ANSWERS_S", 0.2)
    broker = Broker(configuration(tmp_path))
    async with broker:
        await request(broker, produce_request("logs", b"kept"))
        FailingAio.error = errno.EIO

        (produced,) = await request(broker, produce_request("logs", b"lost"))
        await broker.failed.wait()

        assert decode_produce_response(produced).error == ErrorCode.KAFKA_STORAGE_ERROR
        with pytest.raises(OSError, match=os.strerror(errno.EIO)):
            await broker.stop()


async def loaded(broker):
    """Wait until HTTP is served: it is loaded beside the first requests."""
    task = broker._http.start_soon()
    if task is not None:
        await task
