"""Topic settings: Kafka's names and texts for the fields of LogConfig, parsed and checked.

A setting is known by Kafka's dotted name (`retention.ms`); the underscored form of the TOML file is
accepted everywhere too. Ranges are those of Apache Kafka's `LogConfig`, narrower where a legal
value could not work. Settings that Kafka knows and that mean nothing on one broker without replicas
are accepted, checked and kept, so that any Kafka tool can create and describe topics.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, NamedTuple, TypeAlias

import msgspec

from broker.storage.log_config import CleanupPolicy, FlushPolicy, LogConfig, MessageTimestampType
from protocol.errors import InvalidConfigError
from protocol.limits import (
    INT32_MAX,
    INT64_MAX,
    SEGMENT_BYTES_MAX,
    SETTING_BYTES_MAX,
    TOPIC_SETTINGS_MAX,
)

ChangedTexts: TypeAlias = Mapping[str, str | None]
"""By name; None takes a setting out, so that the default holds again."""
SettingChanges: TypeAlias = ChangedTexts | Callable[[Mapping[str, str]], ChangedTexts]
"""Changed texts; or what makes them of the settings as they are."""

_REPLICA: Final = re.compile(r"[0-9]+:[0-9]+")

COMPRESSION_TYPES: Final = ("producer", "uncompressed", "gzip", "snappy", "lz4", "zstd")


class _BadValueError(Exception):
    """A text that is no value of its setting; the argument completes "must be ..."."""


class Setting(NamedTuple):
    """One known setting: its name, its field (None: without effect here), text -> value."""

    name: str
    field: str | None
    parse: Callable[[str], Any]


def _integer(low: int, high: int) -> Callable[[str], int]:
    def parse(text: str) -> int:
        stripped = text.strip()
        digits = stripped[1:] if stripped[:1] in ("-", "+") else stripped
        # int() would also take "1_000", full-width digits and texts of any length
        if not (digits.isascii() and digits.isdigit() and len(digits) <= 19):
            raise _BadValueError(f"a whole number from {low} to {high}")
        value = int(stripped)
        if not low <= value <= high:
            raise _BadValueError(f"from {low} to {high}")
        return value

    return parse


def _fraction(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0.0 <= value <= 1.0:  # also refuses nan
        raise _BadValueError("a number from 0 to 1")
    return value


def _boolean(text: str) -> bool:
    word = text.strip().lower()
    if word not in ("true", "false"):
        raise _BadValueError("true or false")
    return word == "true"


def _only_false(text: str) -> bool:
    if _boolean(text):
        raise _BadValueError("false: this broker has no remote storage")
    return False


def _any_text(text: str) -> str:
    return text


def _word(words: Iterable[str]) -> Callable[[str], str]:
    known = tuple(words)

    def parse(text: str) -> str:
        word = text.strip()
        if word not in known:
            raise _BadValueError(f"one of {', '.join(known)}")
        return word

    return parse


def _flush_policy(text: str) -> FlushPolicy:
    return FlushPolicy(_word(policy.value for policy in FlushPolicy)(text.lower()))


def _timestamp_type(text: str) -> MessageTimestampType:
    return MessageTimestampType(_word(kind.value for kind in MessageTimestampType)(text))


def _cleanup_policy(text: str) -> CleanupPolicy:
    words = dict.fromkeys(word.strip() for word in text.lower().split(",")) if text.strip() else {}
    if words.keys() - {"delete", "compact"}:
        raise _BadValueError("delete, compact, both with a comma between them, or empty")
    return CleanupPolicy(",".join(words))


def _gzip_level(text: str) -> int:
    level = _integer(-1, 9)(text)
    if level == 0:
        raise _BadValueError("from 1 to 9, or -1 for gzip's own default")
    return level


def _throttled_replicas(text: str) -> str:
    replicas = [each.strip() for each in text.split(",") if each.strip()]
    if replicas != ["*"] and not all(map(_REPLICA.fullmatch, replicas)):
        raise _BadValueError("PARTITION:BROKER pairs with commas between them, or *")
    return ",".join(replicas)


_LONG_0: Final = _integer(0, INT64_MAX)
_LONG_1: Final = _integer(1, INT64_MAX)
_LONG_MINUS_1: Final = _integer(-1, INT64_MAX)
_LOCAL_RETENTION: Final = _integer(-2, INT64_MAX)

SETTINGS: Final[dict[str, Setting]] = {
    setting.name: setting
    for setting in (
        Setting("cleanup.policy", "cleanup_policy", _cleanup_policy),
        Setting("compression.type", "compression_type", _word(COMPRESSION_TYPES)),
        Setting("delete.retention.ms", "delete_retention_ms", _LONG_0),
        Setting("file.delete.delay.ms", "file_delete_delay_ms", _LONG_0),
        Setting("flush.messages", "flush_messages", _LONG_1),
        Setting("flush.ms", "flush_ms", _LONG_0),
        Setting("flush.policy", "flush_policy", _flush_policy),
        Setting("index.interval.bytes", "index_interval_bytes", _integer(0, INT32_MAX)),
        Setting("max.compaction.lag.ms", "max_compaction_lag_ms", _LONG_1),
        Setting("max.message.bytes", "max_message_bytes", _integer(0, INT32_MAX)),
        Setting("message.timestamp.after.max.ms", "message_timestamp_after_max_ms", _LONG_0),
        Setting("message.timestamp.before.max.ms", "message_timestamp_before_max_ms", _LONG_0),
        Setting("message.timestamp.type", "message_timestamp_type", _timestamp_type),
        Setting("min.cleanable.dirty.ratio", "min_cleanable_dirty_ratio", _fraction),
        Setting("min.compaction.lag.ms", "min_compaction_lag_ms", _LONG_0),
        Setting("retention.bytes", "retention_bytes", _LONG_MINUS_1),
        Setting("retention.ms", "retention_ms", _LONG_MINUS_1),
        Setting("segment.bytes", "segment_bytes", _integer(14, SEGMENT_BYTES_MAX)),
        # An index without room for one entry would roll a segment at every append.
        Setting("segment.index.bytes", "segment_index_bytes", _integer(12, INT32_MAX)),
        Setting("segment.jitter.ms", "segment_jitter_ms", _LONG_0),
        Setting("segment.ms", "segment_ms", _LONG_1),
        Setting("validate.records", "validate_records", _boolean),
        # Known to Kafka, without effect on one broker:
        Setting("compression.gzip.level", None, _gzip_level),
        Setting("compression.lz4.level", None, _integer(1, 17)),
        Setting("compression.zstd.level", None, _integer(-131072, 22)),
        Setting("follower.replication.throttled.replicas", None, _throttled_replicas),
        Setting("leader.replication.throttled.replicas", None, _throttled_replicas),
        Setting("internal.segment.bytes", None, _integer(14, SEGMENT_BYTES_MAX)),
        Setting("local.retention.bytes", None, _LOCAL_RETENTION),
        Setting("local.retention.ms", None, _LOCAL_RETENTION),
        Setting("message.downconversion.enable", None, _boolean),
        Setting("message.format.version", None, _any_text),
        Setting("message.timestamp.difference.max.ms", None, _LONG_0),
        Setting("min.insync.replicas", None, _integer(1, INT32_MAX)),
        Setting("preallocate", None, _boolean),
        Setting("remote.log.copy.disable", None, _boolean),
        Setting("remote.log.delete.on.disable", None, _boolean),
        Setting("remote.storage.enable", None, _only_false),
        Setting("unclean.leader.election.enable", None, _boolean),
    )
}
"""Every setting a topic may have, by Kafka's dotted name."""

NAME_BY_FIELD: Final[dict[str, str]] = {
    setting.field: setting.name for setting in SETTINGS.values() if setting.field is not None
}
assert set(NAME_BY_FIELD) == set(LogConfig.__struct_fields__), (
    "a field of LogConfig has no setting, or a setting no field"
)


def canonical_name(name: str) -> str:
    """Return Kafka's dotted name for `name`, dotted or underscored.

    Raises:
        InvalidConfigError: no such setting.
    """
    dotted = name.strip().replace("_", ".")
    if dotted not in SETTINGS:
        import difflib  # here, because a start does without

        close = difflib.get_close_matches(dotted.lower()[:100], SETTINGS, n=1)
        hint = f": did you mean {close[0]}?" if close else ""
        raise InvalidConfigError(f"there is no topic setting called {name[:100]!r}{hint}")
    return dotted


def parse_value(name: str, text: str) -> Any:
    """Return the value that `text` stands for; `name` is a canonical name.

    Raises:
        InvalidConfigError: `text` is no value of that setting; the error says what would be.
    """
    if len(text) > SETTING_BYTES_MAX or len(text.encode()) > SETTING_BYTES_MAX:
        raise InvalidConfigError(f"{name} must have at most {SETTING_BYTES_MAX} bytes")
    try:
        return SETTINGS[name].parse(text)
    except _BadValueError as error:
        raise InvalidConfigError(f"{name} must be {error}, not {text[:100]!r}") from None


def value_text(value: object) -> str:
    """Return a value as Kafka writes it: `true`, `604800000`, `compact,delete`, `0.5`."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def checked_settings(settings: Mapping[str, str]) -> dict[str, str]:
    """Return `settings` by canonical names, with canonical texts, ready to be stored.

    Raises:
        InvalidConfigError: an unknown name, a name given twice, a bad value, or values that
            contradict each other, whatever the defaults are.
    """
    if len(settings) > TOPIC_SETTINGS_MAX:
        raise InvalidConfigError(f"{len(settings)} settings are more than {TOPIC_SETTINGS_MAX}")
    checked: dict[str, str] = {}
    for given, text in settings.items():
        name = canonical_name(given)
        if name in checked:
            raise InvalidConfigError(f"{name} is given twice")
        checked[name] = value_text(parse_value(name, text))
    return checked


def altered_settings(settings: Mapping[str, str], changes: SettingChanges) -> dict[str, str]:
    """Return a topic's settings after `changes`, by canonical names.

    Raises:
        InvalidConfigError: as `checked_settings`; of the settings before, too, if they are bad.
    """
    named: dict[str, str | None] = {}
    for given, text in (changes(settings) if callable(changes) else changes).items():
        name = canonical_name(given)
        if name in named:
            raise InvalidConfigError(f"{name} is given twice")
        named[name] = text
    return checked_settings(
        {name: text for name, text in ({**settings, **named}).items() if text is not None}
    )


def log_config(settings: Mapping[str, str], defaults: LogConfig) -> LogConfig:
    """Return `defaults` with `settings` (by any name) on top.

    Raises:
        InvalidConfigError: as `checked_settings`, or the result contradicts itself.
    """
    checked = checked_settings(settings)
    # Deprecated in Kafka: one bound that stood for both; the newer two win over it.
    both = checked.get("message.timestamp.difference.max.ms")
    if both is not None:
        checked.setdefault("message.timestamp.after.max.ms", both)
        checked.setdefault("message.timestamp.before.max.ms", both)
    # How Kafka's own tests get segments below its lower bound; it wins.
    segment_bytes = checked.get("internal.segment.bytes")
    if segment_bytes is not None:
        checked["segment.bytes"] = segment_bytes
    changes: dict[str, Any] = {}
    for name, text in checked.items():
        field = SETTINGS[name].field
        if field is not None:
            changes[field] = parse_value(name, text)
    config = msgspec.structs.replace(defaults, **changes)
    check_config(config)
    return config


def check_config(config: LogConfig) -> None:
    """Check the rules that hold between settings.

    Raises:
        InvalidConfigError: two settings contradict each other.
    """
    if config.min_compaction_lag_ms > config.max_compaction_lag_ms:
        raise InvalidConfigError(
            f"min.compaction.lag.ms ({config.min_compaction_lag_ms}) must not be above "
            f"max.compaction.lag.ms ({config.max_compaction_lag_ms})"
        )


def describe(config: LogConfig) -> dict[str, str]:
    """Return every setting that has a field, by canonical name, as Kafka writes it."""
    return {name: value_text(getattr(config, field)) for field, name in NAME_BY_FIELD.items()}
