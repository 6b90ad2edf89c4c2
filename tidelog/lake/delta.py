"""Delta: a table of Delta Lake over the files of a lake's topic, in the topic's own directory.

No record is copied: the table names the same files. Its every version carries the sequence of the
lake's commit that it stands for, as a transaction of the application `tidelog`; so a commit that
is repeated changes nothing, and one that was missed is made up for.
"""

from __future__ import annotations

import json
from typing import Final

from deltalake import CommitProperties, DeltaTable, Schema, Transaction
from deltalake.exceptions import CommitFailedError, TableNotFoundError
from deltalake.transaction import AddAction, RemoveAction, create_table_with_add_actions

from tidelog.lake.entry import DataFile, Entry
from tidelog.lake.errors import LakeError
from tidelog.lake.log import TopicLog
from tidelog.lake.parquet_files import SCHEMA
from tidelog.lake.store import LocalStore

__all__ = ["APPLICATION", "update_delta"]

APPLICATION: Final = "tidelog"
TRIES_MAX: Final = 10


def update_delta(log: TopicLog, *, storage_options: dict[str, str] | None = None) -> int:
    """Bring the table up to the lake's last commit; return that commit's sequence, or -1.

    Args:
        storage_options: Of deltalake, for a lake in an object store: its credentials.

    Raises:
        LakeError: others change the table all the time.
    """
    uri = str(log.store.root) if isinstance(log.store, LocalStore) else log.store.url("")
    for _ in range(TRIES_MAX):
        table = _opened(uri, storage_options)
        done = -1 if table is None else _sequence(table)
        try:
            for entry in log.entries(done + 1):
                _commit(uri, table, entry, storage_options)
                done = entry.sequence
                table = _opened(uri, storage_options)
        except CommitFailedError:  # another writer was faster: see what is left to do
            continue
        return done
    raise LakeError(f"{uri}: the Delta table was changed by others {TRIES_MAX} times in a row")


def _opened(uri: str, storage_options: dict[str, str] | None) -> DeltaTable | None:
    try:
        return DeltaTable(uri, storage_options=storage_options)
    except TableNotFoundError:
        return None


def _sequence(table: DeltaTable) -> int:
    version = table.transaction_version(APPLICATION)
    return -1 if version is None else int(version)


def _commit(
    uri: str, table: DeltaTable | None, entry: Entry, storage_options: dict[str, str] | None
) -> None:
    change = entry.change
    is_new = not change.remove  # of a compaction no reader of changes is to be told
    added = [_add_action(file, entry.committed_ms, is_new) for file in change.add]
    properties = CommitProperties(
        app_transactions=[Transaction(APPLICATION, entry.sequence)], max_commit_retries=0
    )
    if table is None:
        create_table_with_add_actions(
            uri, Schema.from_arrow(SCHEMA), added, name=entry.topic,
            storage_options=storage_options, commit_properties=properties,
        )  # fmt: skip
        return
    removed = [RemoveAction(path, is_new, entry.committed_ms) for path in change.remove]
    table.create_write_transaction(
        [*added, *removed], "append", table.schema(), commit_properties=properties
    )


def _add_action(file: DataFile, written_ms: int, is_new: bool) -> AddAction:
    bound = {"partition": file.partition}
    stats = {
        "numRecords": file.rows, "minValues": bound, "maxValues": bound,
        "nullCount": {"partition": 0},
    }  # fmt: skip
    return AddAction(file.path, file.size_bytes, {}, written_ms, is_new, json.dumps(stats))
