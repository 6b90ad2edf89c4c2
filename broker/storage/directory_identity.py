"""DirectoryIdentity: whose data directory this is, by its `meta.properties`."""

from __future__ import annotations

import uuid
from pathlib import Path

from broker.storage.disk import Disk, replace_file
from protocol.errors import DataDirectoryError, StoredFormatError
from protocol.stored import meta_properties
from protocol.stored.file_names import META_PROPERTIES
from protocol.stored.kafka_uuid import encode_uuid
from protocol.stored.meta_properties import MetaProperties


def claim_directory(
    disk: Disk, directory: Path, *, node_id: int, cluster_id: str | None
) -> MetaProperties:
    """Return what `meta.properties` says; write one, or our version into Kafka's, where needed.

    Durable on return: before anything else of ours is written into the directory.

    Args:
        cluster_id: None takes the directory's, or a new one.

    Raises:
        DataDirectoryError: another node's or cluster's, of a newer format, or not readable.
        OSError: the disk refused.
    """
    path = directory / META_PROPERTIES
    try:
        properties = meta_properties.decode(disk.read_file(path))
    except FileNotFoundError:
        properties = meta_properties.new(
            cluster_id=cluster_id or encode_uuid(uuid.uuid4()),
            node_id=node_id,
            directory_id=uuid.uuid4(),
        )
        replace_file(disk, path, meta_properties.encode(properties))
        return properties
    except StoredFormatError as error:
        raise DataDirectoryError(
            f"{path} is not readable ({error}): restore it, or remove it to have a new one made"
        ) from error
    if properties.node_id not in {None, node_id}:
        raise DataDirectoryError(
            f"{directory} belongs to node {properties.node_id}, this is node {node_id}: set "
            "daemon.node_id, or name another directory"
        )
    if cluster_id is not None and properties.cluster_id not in {None, cluster_id}:
        raise DataDirectoryError(
            f"{directory} belongs to cluster {properties.cluster_id}, this is {cluster_id}: name "
            "another directory"
        )
    if properties.data_format_version is None:
        properties = properties.adopted()
        replace_file(disk, path, meta_properties.encode(properties))
    return properties
