"""Kafka settings reference: the tables of docs/kafka-settings.md, made from the code.

    python -m broker.kafka_settings_reference --update DIR   brings a source tree's file up to date

A test compares the file with what this module makes, so it cannot fall behind the code.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

from broker.config_topics import TopicsConfig
from broker.kafka_api.broker_settings import BROKER_KEYS, FIXED
from broker.kafka_settings import BUILT_IN, KAFKA_SETTINGS, KafkaSetting
from broker.topic_settings import SETTINGS, value_text

REFERENCE_FILE: Final = "docs/kafka-settings.md"
BEGIN: Final = "<!-- begin: made by python -m broker.kafka_settings_reference -->"
END: Final = "<!-- end -->"
FORGOTTEN: Final = "none"
"""The default of a setting that Kafka does not know any more."""


def reference_text() -> str:
    """Return the tables."""
    honoured = [each for each in KAFKA_SETTINGS.values() if each.has_effect]
    kept = [each for each in KAFKA_SETTINGS.values() if not each.has_effect]
    lines = ["### Settings with an effect", ""]
    lines += ["| setting | type | default | key of ours | meaning |", "|---|---|---|---|---|"]
    lines += [_row(each, f"`topics.{SETTINGS[each.name].field}`") for each in honoured]
    lines += ["", "### Settings that are kept, without an effect", ""]
    lines += ["| setting | type | default | meaning |", "|---|---|---|---|"]
    lines += [_row(each) for each in kept]
    lines += ["", "### The broker's settings", ""]
    lines += ["| name in Kafka | is, here |", "|---|---|"]
    named = [(key.name, f"`{key.path}`") for key in BROKER_KEYS]
    named += [(name, f"always {value}: {text}") for name, _, value, text in FIXED]
    named.append(("advertised.listeners", "what clients are told to connect to"))
    named += [
        (each.broker_name, _default_of(each))
        for each in KAFKA_SETTINGS.values()
        if each.broker_name
    ]
    lines += [f"| `{name}` | {text} |" for name, text in sorted(named)]
    return "\n".join(lines) + "\n"


def with_reference(document: str) -> str:
    """Return a document with the tables, as they are now, between their marks."""
    before, _, rest = document.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n\n{reference_text()}\n{END}{after}"


def _row(setting: KafkaSetting, *columns: str) -> str:
    field = SETTINGS[setting.name].field
    default = setting.default if field is None else value_text(getattr(BUILT_IN, field))
    shown = FORGOTTEN if default is None else f"`{default}`" if default else "empty"
    cells = (f"`{setting.name}`", setting.type.name.lower(), shown, *columns, setting.documentation)
    return f"| {' | '.join(cells)} |"


def _default_of(setting: KafkaSetting) -> str:
    field = SETTINGS[setting.name].field
    if field is None:
        return f"always {setting.default}: without an effect"
    assert field in TopicsConfig.__struct_fields__
    return f"`topics.{field}`"


def main(arguments: list[str]) -> int:
    """Write the tables to standard output, or into the file of the tree named after --update."""
    if arguments[:1] == ["--update"]:
        reference = Path(*arguments[1:2]) / REFERENCE_FILE
        reference.write_text(with_reference(reference.read_text()))
    else:
        sys.stdout.write(reference_text())
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
