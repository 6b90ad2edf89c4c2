"""The doors of a broker: the Kafka protocol is served a moment after the native one."""

from __future__ import annotations

import asyncio

import pytest

from broker import listeners
from broker.composition import Broker
from broker.config_sources import InvalidConfigurationError, load
from protocol.kafka import codec
from protocol.kafka.api_versions import ApiVersionsRequest
from protocol.kafka.apis import APIS, ApiKey

API = APIS[ApiKey.API_VERSIONS]


def configuration(directory, *settings):
    ports = [f"{key}=0" for key in ("listeners.native_port", "listeners.kafka_port", "http.port")]
    return load(settings=[*ports, f"storage.data_dirs={directory / 'data'}", *settings])


async def api_versions(address: str, version: int = 0):
    host, _, port = address.rpartition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(codec.encode_request(API, version, 7, "me", ApiVersionsRequest()))
    size = int.from_bytes(await reader.readexactly(4), "big")
    frame = await reader.readexactly(size)
    writer.close()
    return codec.decode_response(API, 0, memoryview(frame))


async def test_given_a_broker_when_started_then_kafka_clients_are_answered(tmp_path) -> None:
    async with Broker(configuration(tmp_path)) as broker:
        correlation_id, answer = await api_versions(broker.addresses["kafka"][0])

    assert correlation_id == 7
    assert answer.error_code == 0
    assert {each.api_key for each in answer.api_keys} == set(APIS)


async def test_given_an_unknown_version_when_asked_for_the_table_then_it_comes_with_error_35(
    tmp_path,
) -> None:
    """Trap 3: in version 0, for the client cannot read another one (KIP-511)."""
    async with Broker(configuration(tmp_path)) as broker:
        _, answer = await api_versions(broker.addresses["kafka"][0], version=99)

    assert answer.error_code == 35
    assert {each.api_key for each in answer.api_keys} == set(APIS)


async def test_given_a_protocol_that_cannot_be_loaded_when_started_then_the_other_is_served(
    tmp_path, monkeypatch
) -> None:
    def broken(name: str) -> None:
        raise ImportError("a file is missing")

    monkeypatch.setattr(listeners, "import_with_breaks", broken)
    async with Broker(configuration(tmp_path)) as broker:
        assert broker._listeners is not None
        await broker._listeners.loaded()
        problems = broker._listeners.problems()

    assert problems == ["kafka: cannot be served: a file is missing"]


async def test_given_a_stop_at_once_when_kafka_is_still_loaded_then_the_port_is_free(
    tmp_path,
) -> None:
    broker = Broker(configuration(tmp_path))
    await broker.start()
    address = broker.addresses["kafka"][0]
    await broker.stop()

    with pytest.raises(OSError):
        await api_versions(address)


async def test_given_kafka_switched_off_when_started_then_no_port(tmp_path) -> None:
    async with Broker(configuration(tmp_path, "listeners.kafka_enabled=false")) as broker:
        assert broker.addresses["kafka"] == []


@pytest.mark.parametrize("advertised", ["0.0.0.0:1", "host:port"])
def test_given_no_address_to_advertise_when_configured_then_it_is_refused(
    tmp_path, advertised
) -> None:
    with pytest.raises(InvalidConfigurationError, match="kafka_advertised"):
        configuration(tmp_path, f"listeners.kafka_advertised={advertised}")
