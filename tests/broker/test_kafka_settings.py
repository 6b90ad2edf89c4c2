"""docs/kafka-settings.md is what the broker answers, and every setting is described there."""

from __future__ import annotations

import re
from pathlib import Path

from broker.config import Config
from broker.config_sources import value_at
from broker.kafka_api.broker_settings import BROKER_KEYS
from broker.kafka_settings import KAFKA_SETTINGS, ConfigType
from broker.kafka_settings_reference import main, with_reference
from broker.storage.log_config import LogConfig
from broker.topic_settings import SETTINGS, parse_value

ROOT = Path(__file__).parents[2]
DOCUMENT = ROOT / "docs/kafka-settings.md"

TYPES = {bool: ConfigType.BOOLEAN, float: ConfigType.DOUBLE}


def test_given_the_settings_when_the_reference_is_made_then_the_document_has_it():
    document = DOCUMENT.read_text()

    assert document == with_reference(document)
    assert "| `retention.ms` | long | `604800000` | `topics.retention_ms` |" in document


def test_given_a_tree_when_updated_then_the_file_is_written(tmp_path: Path):
    (tmp_path / "docs").mkdir()
    copy = tmp_path / "docs/kafka-settings.md"
    copy.write_text(DOCUMENT.read_text().replace("604800000", "1"))

    assert main(["--update", str(tmp_path)]) == 0
    assert copy.read_text() == DOCUMENT.read_text()


def test_given_every_setting_when_described_then_in_a_sentence_and_of_the_type_of_its_field():
    for name, setting in KAFKA_SETTINGS.items():
        assert setting.documentation.endswith("."), name
        field = SETTINGS[name].field
        if field is None:
            continue
        value = getattr(LogConfig(), field)
        if isinstance(value, bool | float):
            assert setting.type == TYPES[type(value)], name
        elif isinstance(value, int):
            assert setting.type in (ConfigType.INT, ConfigType.LONG), name
        else:
            assert setting.type in (ConfigType.STRING, ConfigType.LIST), name


def test_given_a_setting_without_effect_when_it_has_a_default_then_that_is_a_legal_value():
    for name, setting in KAFKA_SETTINGS.items():
        if setting.default is not None:
            assert not setting.has_effect, name
            parse_value(name, setting.default)


def test_given_a_setting_with_an_effect_when_the_code_is_searched_then_something_reads_it():
    about_settings = {"log_config.py", "config_topics.py", "topic_settings.py", "kafka_settings.py"}
    read: set[str] = set()
    for path in (ROOT / "broker").rglob("*.py"):
        if path.name not in about_settings:
            read |= set(re.findall(r"config\.(\w+)", path.read_text()))

    assert "roll_ms" in read  # what segment_ms is read by
    assert set(LogConfig.__struct_fields__) - {"segment_ms"} <= read


def test_given_every_name_of_a_broker_when_looked_up_then_it_is_a_key_of_ours():
    names = [key.name for key in BROKER_KEYS]

    assert len(set(names)) == len(names)
    for key in BROKER_KEYS:
        assert value_at(Config(), key.path) is not None, key
