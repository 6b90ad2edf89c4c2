"""config.example.toml and docs/configuration.md are what the config structs say."""

import re
from pathlib import Path

from broker import config_keys
from broker.config import Config
from broker.config_example import documentation, example_text, main, with_reference
from broker.config_sources import Source, load
from broker.storage.log_config import LogConfig

ROOT = Path(__file__).parents[2]


def test_given_the_structs_when_the_example_is_made_then_the_file_is_that():
    assert (ROOT / "config.example.toml").read_text() == example_text()


def test_given_the_structs_when_the_reference_is_made_then_the_document_has_it():
    document = (ROOT / "docs/configuration.md").read_text()

    assert document == with_reference(document)
    assert "| `native_port` | `9091` |" in document


def test_given_the_example_when_loaded_then_it_sets_every_key_to_its_default():
    loaded = load(ROOT / "config.example.toml")

    assert loaded.config == Config()
    assert {origin.source for origin in loaded.origins.values()} == {Source.FILE}


def test_given_every_key_when_asked_then_it_is_documented_in_a_sentence():
    for path in [*config_keys.all_keys(), *config_keys.tables()]:
        text = documentation(path)

        assert text.endswith("."), path
        assert len(text) > 15, path


def test_given_a_tree_when_updated_then_both_files_are_written(tmp_path):
    (tmp_path / "docs").mkdir()
    reference = tmp_path / "docs/configuration.md"
    reference.write_text((ROOT / "docs/configuration.md").read_text().replace("9091", "1"))

    code = main(["--update", str(tmp_path)])

    assert code == 0
    assert (tmp_path / "config.example.toml").read_text() == example_text()
    assert "| `native_port` | `9091` |" in reference.read_text()


def test_given_every_key_when_looked_for_in_the_broker_then_something_reads_it():
    """A key that does nothing is a promise that is not kept."""
    of_logs = set(LogConfig.__struct_fields__)  # read as a LogConfig
    sources = [
        path.read_text() for path in (ROOT / "broker").rglob("*.py") if "config" not in path.name
    ]

    unread = [
        key.path
        for key in config_keys.all_keys().values()
        if not (key.table == "topics" and key.name in of_logs)
        and not any(re.search(rf"\.{key.name}\b", source) for source in sources)
    ]

    assert unread == []
