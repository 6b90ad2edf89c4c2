"""`tidelog doctor`: says what Kafka clients are told to connect to, and tries it."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from tidelog.cli import output
from tidelog.cli.errors import CommandError, ExitCode
from tidelog.cli.options import JsonOption

if TYPE_CHECKING:
    from protocol.kafka.metadata import MetadataResponse

DEFAULT_PORT: Final = 9092
DEFAULT_KAFKA: Final = f"localhost:{DEFAULT_PORT}"
KEY: Final = "listeners.kafka_advertised"


def doctor(
    address: Annotated[
        str, typer.Argument(metavar="HOST:PORT", help="What clients have as bootstrap.servers.")
    ] = DEFAULT_KAFKA,
    *,
    timeout: Annotated[
        float, typer.Option(metavar="SECONDS", min=0.1, help="How long each try may take.")
    ] = 5.0,
    as_json: JsonOption = False,
) -> None:
    """Say what Kafka clients are told to connect to, and try it from here.

    A Kafka client asks the address it was configured with who the brokers are, and from then on
    connects to the addresses it was told. Where those are wrong from where the client stands, it
    fails after a first success. Run this on the client's machine. Exit code 0: clients there can
    work; 1: they cannot.

    Examples:
      tidelog doctor
      tidelog doctor kafka.example.com:9092
    """
    from tidelog.client.address import Address
    from tidelog.kafka_probe import KafkaProbe

    try:
        asked = Address.parse(address, DEFAULT_PORT)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None
    try:
        with KafkaProbe(asked.host, asked.port, timeout) as probe:
            apis, metadata, peer = probe.api_count(), probe.metadata(), probe.peer
    except OSError as error:
        raise CommandError(f"{asked}: {_reason(error)}", ExitCode.UNREACHABLE) from error
    brokers = [_tried(broker, metadata, timeout) for broker in metadata.brokers]
    is_well = bool(brokers) and not any(broker["problem"] for broker in brokers)
    if as_json:
        output.write_json({"cluster_id": metadata.cluster_id, "apis": apis, "brokers": brokers})
    else:
        output.write_line(f"{asked} answers ({peer}): {apis} APIs, cluster {metadata.cluster_id}")
        for broker in brokers:
            output.write_line(
                f"clients are told: broker {broker['node_id']} at {broker['address']}"
            )
            output.write_line(f"  {broker['problem'] or _reached(broker)}")
    if not brokers:
        output.say("no broker was named: clients have nowhere to go")
    if not is_well:
        if not as_json:
            output.say(f"set {KEY} to an address that clients can reach, and restart the broker")
        raise typer.Exit(ExitCode.FAILED)


def _tried(broker: Any, metadata: MetadataResponse, timeout_s: float) -> dict[str, Any]:
    """Return what came of connecting to a broker where clients are told that it is."""
    from tidelog.kafka_probe import KafkaProbe

    problem = None
    try:
        with KafkaProbe(broker.host, broker.port, timeout_s) as probe:
            found = probe.metadata().cluster_id
            if found != metadata.cluster_id:
                problem = f"another broker answers there, of cluster {found}"
    except OSError as error:
        problem = f"cannot be reached from here: {_reason(error)}"
    is_here = broker.host in ("localhost", "::1") or broker.host.startswith("127.")
    host = f"[{broker.host}]" if ":" in broker.host else broker.host
    address = f"{host}:{broker.port}"
    return {
        "node_id": broker.node_id, "address": address, "problem": problem,
        "only_this_machine": is_here,
    }  # fmt: skip


def _reached(broker: dict[str, Any]) -> str:
    if broker["only_this_machine"]:
        return "can be reached from here, but means this machine: clients elsewhere cannot reach it"
    return "can be reached from here"


def _reason(error: OSError) -> str:
    if isinstance(error, socket.gaierror):
        return "the name is not known"
    if isinstance(error, TimeoutError):
        return "no answer in time"
    return str(error.strerror or error)
