"""Options that several commands have."""

from __future__ import annotations

from typing import Annotated, Final, TypeAlias

import typer

DEFAULT_BROKER: Final = "localhost:9091"


def _checked_address(text: str) -> str:
    from tidelog.client.address import Address

    try:
        return str(Address.parse(text))
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None


def checked_topic(text: str) -> str:
    """Refuse what is no topic's name; for the callback of an argument or option."""
    from protocol.stored.file_names import check_topic_name

    return check_topic_name(text)


BrokerOption: TypeAlias = Annotated[
    str,
    typer.Option(
        "--broker",
        metavar="HOST:PORT",
        envvar="TIDELOG_BROKER",
        help="The broker to ask.",
        callback=_checked_address,
    ),
]

JsonOption: TypeAlias = Annotated[
    bool, typer.Option("--json", help="Write the result as JSON, for scripts.")
]

TopicArgument: TypeAlias = Annotated[
    str,
    typer.Argument(
        metavar="TOPIC", help="The topic's name.", show_default=False, callback=checked_topic
    ),
]

TopicsOption: TypeAlias = Annotated[
    list[str] | None,
    typer.Option("--topic", metavar="TOPIC", help="Only this topic; may be given again."),
]
