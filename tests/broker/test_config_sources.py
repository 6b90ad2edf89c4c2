"""Where the configuration comes from, and what is said of mistakes in it."""

import pickle
import tomllib

import pytest

from broker import config_keys, topic_settings
from broker.config import Config, TopicsConfig
from broker.config_sources import InvalidConfigurationError, Source, load, value_at
from broker.storage.log_config import FlushPolicy, LogConfig
from protocol.errors import ConfigError, InvalidConfigError


def written(tmp_path, text):
    file = tmp_path / "tidelog.toml"
    file.write_text(text)
    return file


def problems_of(**sources):
    with pytest.raises(InvalidConfigurationError) as caught:
        load(**sources)
    return [str(problem) for problem in caught.value.problems]


def test_given_no_source_when_loaded_then_everything_is_a_default():
    loaded = load()

    assert loaded.config == Config()
    assert {origin.source for origin in loaded.origins.values()} == {Source.DEFAULT}
    assert loaded.origins.keys() == config_keys.all_keys().keys()


def test_given_all_sources_when_loaded_then_the_later_wins_and_origins_are_known(tmp_path):
    file = written(tmp_path, '[log]\nlevel = "debug"\n[http]\nport = 1\n[listeners]\nhost = "a"\n')
    environment = {"TIDELOG__HTTP__PORT": "2", "TIDELOG__LISTENERS__HOST": "b", "PATH": "/x"}

    loaded = load(file, environment=environment, settings=["listeners.host=c"])

    assert (loaded.config.log.level, loaded.config.http.port) == ("debug", 2)
    assert loaded.config.listeners.host == "c"
    origins = {path: str(loaded.origins[path]) for path in ("log.level", "http.port", "log.format")}
    assert origins == {
        "log.level": f"{file}:2",
        "http.port": "TIDELOG__HTTP__PORT",
        "log.format": "default",
    }
    assert str(loaded.origins["listeners.host"]) == "--set listeners.host"


def test_given_quantities_in_words_when_loaded_then_they_are_numbers(tmp_path):
    file = written(
        tmp_path,
        '[topics]\nsegment_bytes = "64MiB"\nretention_ms = "3d"\nretention_bytes = -1\n'
        'flush_policy = "os"\nmin_cleanable_dirty_ratio = 1\n',
    )

    topics = load(file, settings=["limits.idle_timeout_ms=1m30s"]).config.topics

    assert (topics.segment_bytes, topics.retention_ms) == (64 * 2**20, 3 * 86_400_000)
    assert topics.flush_policy is FlushPolicy.OS
    assert topics.log_config() == LogConfig(
        segment_bytes=64 * 2**20,
        retention_ms=3 * 86_400_000,
        flush_policy=FlushPolicy.OS,
        min_cleanable_dirty_ratio=1.0,
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [("a", ("a",)), ("a, b", ("a", "b")), ('["a,b", "c"]', ("a,b", "c"))],
)
def test_given_a_list_as_text_when_set_then_it_is_split(text, expected):
    config = load(settings=[f"storage.data_dirs={text}"]).config

    assert config.storage.data_dirs == expected


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("level = 'loud'", '3: log.level: "loud" is not possible: it must be one of "debug"'),
        ("level = 3", "3: log.level: 3 is not possible: it must be one of"),
        ("levl = 'info'", "3: log.levl: there is no such key; did you mean log.level?"),
        ("colour = true", "3: log.colour: there is no such key; [log] has level, format"),
        ("port = 1", "3: log.port: there is no such key; did you mean http.port?"),
        ("[lgo]\nlevel = 'info'", "4: lgo.level: there is no such key; did you mean log.level?"),
        ("[x]\nxyz = 1", "4: x.xyz: there is no table [x]; the tables are daemon,"),
        ("[http]\nport = 70_000", "4: http.port: 70000 is not possible: it must be a number from"),
        ("[http]\nport = '80'", '4: http.port: "80" is not possible: it must be a number'),
        ("[http]\nenabled = 1", "4: http.enabled: 1 is not possible: it must be true or false"),
        ("[http]\nport = true", "4: http.port: true is not possible"),
        ("[limits]\nidle_timeout_ms = 5.5", "must be a duration of at least 100ms; for example:"),
        ("[limits]\nidle_timeout_ms = 'soon'", "'soon' is no duration; write milliseconds, or"),
        ("[topics]\nretention.ms = 5", "4: topics.retention.ms: there is no such key; did you"),
        ("[topics]\nsegment_bytes = '1G'", "4: topics.segment_bytes: '1G' is no size; write"),
        ("[topics]\nsegment_bytes = '3GiB'", "must be a size from 14 to"),
        ("[storage]\ndata_dirs = ['a', 1]", "it must be a list of strings; for example: data_"),
        ("[storage]\ndata_dirs = []", "4: storage.data_dirs: []: name at least one directory"),
        ("[http]\nport = 9091", "4: http.port: 9091: port 9091 is listeners.native_port already"),
        ("[topics]\nmin_cleanable_dirty_ratio = nan", "must be a number from 0"),
    ],
)
def test_given_a_mistake_in_the_file_when_loaded_then_place_value_and_cure_are_named(
    tmp_path, line, said
):
    file = written(tmp_path, f"# a comment\n[log]\n{line}\n")

    problems = problems_of(file=file)

    assert len(problems) == 1
    assert said in problems[0]
    assert problems[0].startswith(f"{file}:")


def test_given_a_key_without_its_table_when_set_then_the_table_is_named():
    problems = problems_of(settings=["native_port=9191"])

    assert problems == [
        "--set native_port: native_port: there is no such key; did you mean listeners.native_port?"
    ]


def test_given_many_mistakes_when_loaded_then_all_are_told_at_once(tmp_path):
    file = written(tmp_path, "[log]\nlevel = 1\nformt = 2\n[topic]\nauto_create = true\n")

    problems = problems_of(
        file=file,
        environment={"TIDELOG__LOG__LEVEL": "x", "TIDELOG__NOPE": "1"},
        settings=["http.port=x", "http.enabled=maybe", "nonsense", "storage.data_dirs=[1"],
    )

    assert len(problems) == 9
    assert "did you mean topics.auto_create?" in problems[2]


@pytest.mark.parametrize(
    ("content", "said"),
    [(b"[log\n", "is not TOML: "), (b"\xff", "is not TOML: "), (b"#" * 2_000_000, "is over")],
)
def test_given_a_file_that_is_no_toml_when_loaded_then_it_is_named(tmp_path, content, said):
    file = tmp_path / "bad.toml"
    file.write_bytes(content)

    problems = problems_of(file=file)

    assert len(problems) == 1
    assert problems[0].startswith(str(file))
    assert said in problems[0]


def test_given_no_such_file_when_loaded_then_it_is_named(tmp_path):
    problems = problems_of(file=tmp_path / "none.toml")

    assert problems == [f"{tmp_path / 'none.toml'}: cannot be read: No such file or directory"]


def test_given_values_that_contradict_when_loaded_then_the_one_to_change_is_named():
    problems = problems_of(
        settings=["topics.max_message_bytes=200MiB", "daemon.allow_missing_dirs=x"]
    )

    assert (
        "--set daemon.allow_missing_dirs: daemon.allow_missing_dirs: ['x']: 'x' is not in"
        in problems[0]
    )
    assert "must not be above limits.frame_bytes_max" in problems[1]


@pytest.mark.parametrize("table", ["listeners", "http"])
def test_given_an_empty_host_when_loaded_then_it_does_not_open_the_broker_to_everybody(table):
    problems = problems_of(environment={f"TIDELOG__{table.upper()}__HOST": ""})

    assert len(problems) == 1
    assert 'say "*" for every interface' in problems[0]


def test_given_the_error_when_pickled_then_its_problems_stay():
    with pytest.raises(ConfigError) as caught:
        load(settings=["a.b=1"])

    again = pickle.loads(pickle.dumps(caught.value))

    assert str(again) == str(caught.value)
    assert again.problems == caught.value.problems


def test_given_log_config_when_compared_then_topics_table_has_its_fields_and_defaults():
    """The [topics] table is LogConfig's fields, one for one, under Kafka's names."""
    names = set(LogConfig.__struct_fields__)

    own = set(TopicsConfig.__struct_fields__) - names

    assert own == {"auto_create", "default_partitions"}
    assert TopicsConfig().log_config() == LogConfig()


BOUNDED = [
    name
    for name in LogConfig.__struct_fields__
    if config_keys.all_keys()[f"topics.{name}"].at_least is not None
]


@pytest.mark.parametrize("name", BOUNDED)
def test_given_a_topic_key_when_at_its_bounds_then_file_and_client_agree(name):
    """What the file takes as a default, a client may set on a topic, and the other way round."""
    key = config_keys.all_keys()[f"topics.{name}"]
    low, high = key.at_least, key.at_most
    candidates = [low, high] if key.type is float else [low - 1, low, high, high + 1]

    for value in candidates:
        assert in_file(key, value) == by_client(name, str(value)), value


def in_file(key, value):
    try:
        config_keys.value_of_toml(key, value)
    except ValueError:
        return False
    return True


def by_client(name, text):
    try:
        topic_settings.parse_value(topic_settings.canonical_name(name), text)
    except InvalidConfigError:
        return False
    return True


def test_given_every_key_when_its_default_is_written_as_toml_then_it_reads_back():
    for key in config_keys.all_keys().values():
        default = value_at(Config(), key.path)

        text = config_keys.toml_text(key, default)

        assert config_keys.value_of_toml(key, tomllib.loads(f"v = {text}")["v"]) == default
