"""Config sources: where a Config comes from, and where each of its values came from.

Later sources win: defaults, the TOML file, the environment (`TIDELOG__TABLE__KEY`), `--set
table.key=value`. All mistakes are collected and reported at once, each with the key's path, the
line or name it stands at, the value, and how to mend it.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import msgspec

from broker import config_keys
from broker.config import Config, contradictions
from broker.config_keys import Key
from protocol.errors import ConfigError

ENVIRONMENT_PREFIX: Final = "TIDELOG__"
FILE_BYTES_MAX: Final = 1024 * 1024


class Source(enum.StrEnum):
    """The kinds of places a value comes from, weakest first."""

    DEFAULT = "default"
    FILE = "file"
    ENVIRONMENT = "environment"
    COMMAND_LINE = "command line"


class Origin(msgspec.Struct, frozen=True):
    """Where a value came from."""

    source: Source
    where: str = ""
    """`tidelog.toml:12`, `TIDELOG__LOG__LEVEL`, `--set log.level`; empty for a default."""

    def __str__(self) -> str:
        return self.where or str(self.source)


class Problem(msgspec.Struct, frozen=True):
    """One mistake in a configuration."""

    path: str
    where: str
    text: str

    def __str__(self) -> str:
        return (
            f"{self.where}: {self.path}: {self.text}" if self.where else f"{self.path}: {self.text}"
        )


class InvalidConfigurationError(ConfigError):
    """A configuration with mistakes; `problems` has them all, `path` is the first one's."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(problems)
        super().__init__(self.problems[0].path, self.problems[0].text)
        self.args = (self.problems,)  # so that the error pickles

    def __str__(self) -> str:
        return "\n".join(str(problem) for problem in self.problems)


class LoadedConfig(msgspec.Struct, frozen=True):
    """A Config and the origin of each of its values, by key path."""

    config: Config
    origins: Mapping[str, Origin]


class _Gathered(msgspec.Struct):
    """Values of all sources so far, and what was wrong."""

    values: dict[str, Any] = {}
    origins: dict[str, Origin] = {}
    problems: list[Problem] = []

    def add(self, path: str, raw: Any, origin: Origin, read: Callable[[Key, Any], Any]) -> None:
        key = config_keys.all_keys().get(path)
        if key is None:
            self.problems.append(Problem(path, origin.where, _unknown(path)))
            return
        try:
            self.values[path] = read(key, raw)
            self.origins[path] = origin
        except ValueError as error:
            text = str(error)
            shown = text if repr(raw) in text else f"{_shown(raw)} is not possible: it {text}"
            self.problems.append(Problem(path, origin.where, shown))


def load(
    file: Path | None = None,
    *,
    environment: Mapping[str, str] | None = None,
    settings: Iterable[str] = (),
) -> LoadedConfig:
    """Return the configuration from all sources.

    Args:
        file: The TOML file, if there is one.
        environment: The process's environment; others than `TIDELOG__...` are left alone.
        settings: `table.key=value` texts of the command line, the last one of a key wins.

    Raises:
        InvalidConfigurationError: anything wrong in any source.
    """
    gathered = _Gathered()
    if file is not None:
        _add_file(gathered, file)
    for name, text in sorted((environment or {}).items()):
        if name.startswith(ENVIRONMENT_PREFIX):
            path = name[len(ENVIRONMENT_PREFIX) :].lower().replace("__", ".")
            origin = Origin(Source.ENVIRONMENT, name)
            gathered.add(path, text, origin, config_keys.value_of_text)
    for setting in settings:
        path, equals, text = setting.partition("=")
        path = path.strip()
        origin = Origin(Source.COMMAND_LINE, f"--set {path}")
        if not equals:
            gathered.problems.append(Problem(path, origin.where, "write --set table.key=value"))
        else:
            gathered.add(path, text, origin, config_keys.value_of_text)
    if gathered.problems:
        raise InvalidConfigurationError(gathered.problems)
    return _assembled(gathered)


def _assembled(gathered: _Gathered) -> LoadedConfig:
    by_table: dict[str, dict[str, Any]] = {table: {} for table in config_keys.tables()}
    for path, value in gathered.values.items():
        table, name = path.split(".")
        by_table[table][name] = value
    defaults = Config()
    config = Config(
        **{table: type(getattr(defaults, table))(**values) for table, values in by_table.items()}
    )
    origins = {path: Origin(Source.DEFAULT) for path in config_keys.all_keys()} | gathered.origins
    problems = [
        Problem(path, origins[path].where, f"{_shown(value_at(config, path))}: {problem}")
        for path, problem in contradictions(config)
    ]
    if problems:
        raise InvalidConfigurationError(problems)
    return LoadedConfig(config, origins)


def value_at(config: Config, path: str) -> Any:
    """Return the value of the key at `path`, such as `log.level`."""
    table, name = path.split(".")
    return getattr(getattr(config, table), name)


def _add_file(gathered: _Gathered, file: Path) -> None:
    import tomllib  # here, because a start without a file does without these two

    from broker.toml_lines import lines_of

    try:
        with file.open("rb") as stream:
            text = stream.read(FILE_BYTES_MAX + 1).decode()
        if len(text) > FILE_BYTES_MAX:
            raise ValueError(f"is over {FILE_BYTES_MAX} bytes")
        document = tomllib.loads(text)
    except OSError as error:
        problem = f"cannot be read: {error.strerror}"
        gathered.problems.append(Problem(str(file), "", problem))
        return
    except ValueError as error:  # TOMLDecodeError and UnicodeDecodeError are ValueErrors
        gathered.problems.append(Problem(str(file), "", f"is not TOML: {error}"))
        return
    lines = lines_of(text)
    for path, raw in _flattened(document):
        line = _line(lines, path)
        origin = Origin(Source.FILE, f"{file}:{line}" if line else str(file))
        gathered.add(path, raw, origin, config_keys.value_of_toml)


def _flattened(table: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield (path, value) of each leaf. A known key ends a path even if its value is a table."""
    for name, value in table.items():
        path = f"{prefix}{name}"
        is_table = isinstance(value, dict) and path not in config_keys.all_keys()
        if is_table and (value or path in config_keys.tables()):
            yield from _flattened(value, f"{path}.")
        else:
            yield path, value


def _line(lines: Mapping[str, int], path: str) -> int | None:
    """Return the line of the key at `path`, else that of the table it stands in."""
    while path:
        if path in lines:
            return lines[path]
        path = path.rpartition(".")[0]
    return None


def _unknown(path: str) -> str:
    """Return what to say of an unknown key: the key that was meant, or those of its table."""
    known = config_keys.all_keys()
    table, _, name = path.partition(".")
    meant = _meant(path, table, name)
    if meant is not None:
        return f"there is no such key; did you mean {meant}?"
    if table in config_keys.tables():
        listed = ", ".join(key.name for key in known.values() if key.table == table)
        return f"there is no such key; [{table}] has {listed}"
    return f"there is no table [{table}]; the tables are {', '.join(config_keys.tables())}"


def _meant(path: str, table: str, name: str) -> str | None:
    """Return the known key nearest to an unknown one: dotted, in another table, or mistyped."""
    import difflib  # here, because only a mistake needs it

    known = config_keys.all_keys()
    underscored = f"{table}.{name.replace('.', '_')}"
    if underscored in known:
        return underscored
    name = name or table  # `native_port`, without its table
    paths_by_name: dict[str, str] = {}
    for key in known.values():
        paths_by_name.setdefault(key.name, key.path)
    if name in paths_by_name:
        return paths_by_name[name]
    of_path = difflib.get_close_matches(path, known, n=1, cutoff=0.75)
    of_name = difflib.get_close_matches(name, paths_by_name, n=1, cutoff=0.75)
    return next(iter([*of_path, *(paths_by_name[one] for one in of_name)]), None)


def _shown(raw: Any) -> str:
    """Return a value for a message; long ones shortened."""
    if isinstance(raw, tuple):
        raw = list(raw)
    text = f'"{raw}"' if isinstance(raw, str) else str(raw)
    if isinstance(raw, bool):
        text = text.lower()
    return text if len(text) <= 100 else f"{text[:100]}..."
