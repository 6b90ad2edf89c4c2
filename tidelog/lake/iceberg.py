"""Iceberg: a table of Apache Iceberg over the files of a lake's topic.

No record is copied: the table names the same files. Its snapshots carry the sequence of the lake's
last commit that they stand for; so a commit that is repeated changes nothing, and those that were
missed are made up for in one snapshot.
"""

from __future__ import annotations

from typing import Final

from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.exceptions import (
    CommitFailedException,
    NamespaceAlreadyExistsError,
    NoSuchTableError,
    TableAlreadyExistsError,
)
from pyiceberg.io.pyarrow import parquet_file_to_data_file
from pyiceberg.table import Table, TableProperties

from tidelog.lake.errors import LakeError
from tidelog.lake.log import TopicLog
from tidelog.lake.net_change import NetChange, net_change
from tidelog.lake.parquet_files import SCHEMA
from tidelog.lake.store import LocalStore, open_store
from tidelog.segments.location import Location

__all__ = ["NAMESPACE", "SEQUENCE_PROPERTY", "lake_catalog", "update_iceberg"]

NAMESPACE: Final = "tidelog"
SEQUENCE_PROPERTY: Final = "tidelog.sequence"
# Else pyiceberg answers a writer that was overtaken by doing the same change again on top of the
# other's, which is the same files for a second time.
NO_RETRIES: Final = {TableProperties.COMMIT_NUM_RETRIES: "0"}
TRIES_MAX: Final = 10


def lake_catalog(lake: Location, name: str | None = None) -> Catalog:
    """Return the catalog of that name in pyiceberg's configuration, or that of a lake.

    Raises:
        LakeError: a lake that is not on this machine has no catalog of its own.
    """
    if name is not None:
        return load_catalog(name)
    store = open_store(lake)
    if not isinstance(store, LocalStore):
        raise LakeError(f"{lake} has no place for a catalog: name one of pyiceberg's configuration")
    directory = store.root / "_iceberg"
    directory.mkdir(parents=True, exist_ok=True)
    return load_catalog(
        NAMESPACE,
        type="sql",
        uri=f"sqlite:///{directory / 'catalog.db'}",
        warehouse=directory.as_uri(),
    )


def update_iceberg(log: TopicLog, lake: Location, catalog_name: str | None = None) -> int:
    """Bring the table `tidelog.<topic>` up to the lake's last commit; return its sequence, or -1.

    Args:
        lake: Where the log's lake is.
        catalog_name: See `lake_catalog`.

    Raises:
        LakeError: others change the table all the time.
    """
    catalog = lake_catalog(lake, catalog_name)
    for _ in range(TRIES_MAX):
        table = _opened(catalog, log.topic)
        done = _sequence(table)
        change = net_change(log.entries(done + 1))
        if change is None:
            return done
        try:
            _commit(table, change, log)
        except CommitFailedException:  # another writer was faster: see what is left to do
            continue
        return change.sequence
    raise LakeError(f"the Iceberg table of {log.topic} was changed by others all the time")


def _opened(catalog: Catalog, topic: str) -> Table:
    name = (NAMESPACE, topic)
    try:
        return catalog.load_table(name)
    except NoSuchTableError:
        pass
    try:
        catalog.create_namespace(NAMESPACE)
    except NamespaceAlreadyExistsError:
        pass
    try:
        return catalog.create_table(name, SCHEMA, properties=NO_RETRIES)
    except TableAlreadyExistsError:
        return catalog.load_table(name)


def _sequence(table: Table) -> int:
    snapshot = table.current_snapshot()
    while snapshot is not None:
        summary = snapshot.summary
        if summary is not None and SEQUENCE_PROPERTY in summary.additional_properties:
            return int(summary.additional_properties[SEQUENCE_PROPERTY])
        # Somebody else's snapshot, such as a rewrite of manifests.
        parent = snapshot.parent_snapshot_id
        snapshot = None if parent is None else table.snapshot_by_id(parent)
    return -1


def _commit(table: Table, change: NetChange, log: TopicLog) -> None:
    properties = {SEQUENCE_PROPERTY: str(change.sequence)}
    removed = {log.store.url(path) for path in change.removed}
    added = [log.store.url(file.path) for file in change.added]
    with table.transaction() as transaction:
        if table.name_mapping() is None or not removed:
            transaction.add_files(added, properties, check_duplicate_files=False)
            return
        with transaction.update_snapshot(snapshot_properties=properties).overwrite() as files:
            for task in table.scan().plan_files():
                if task.file.file_path in removed:
                    files.delete_data_file(task.file)
            for uri in added:
                files.append_data_file(
                    parquet_file_to_data_file(table.io, transaction.table_metadata, uri)
                )
