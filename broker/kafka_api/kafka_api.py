"""KafkaApi: what the handlers of the Kafka protocol share, and the table of APIs."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import Executor
from typing import TYPE_CHECKING, Any, TypeAlias

from broker.clock import Clock, SystemClock
from broker.coordinator.group_coordinator import GroupCoordinator
from broker.kafka_api.api_versions import ApiVersionsHandler
from broker.kafka_api.call import Call
from broker.kafka_api.cluster import ClusterHandler
from broker.kafka_api.config_changes import ConfigChangesHandler
from broker.kafka_api.configs import ConfigsHandler
from broker.kafka_api.fetch import FetchHandler
from broker.kafka_api.group_admin import GroupAdminHandler
from broker.kafka_api.group_membership import GroupMembershipHandler
from broker.kafka_api.group_offsets import GroupOffsetsHandler
from broker.kafka_api.init_producer_id import InitProducerIdHandler
from broker.kafka_api.list_offsets import ListOffsetsHandler
from broker.kafka_api.log_dirs import LogDirsHandler
from broker.kafka_api.metadata import MetadataHandler
from broker.kafka_api.partitions import PartitionsHandler
from broker.kafka_api.produce import ProduceHandler
from broker.kafka_api.producers import ProducersHandler
from broker.kafka_api.session import KafkaSession
from broker.kafka_api.topics import TopicsHandler
from broker.metrics import Metrics, RequestMetrics
from broker.network.answers import Parts, PendingResponse
from broker.requests.step_runner import StepRunner
from protocol.kafka.apis import APIS, Api, ApiKey
from protocol.kafka.message import Struct

if TYPE_CHECKING:
    from broker.config import Config
    from broker.network.connection import Connection
    from broker.partition_manager import PartitionManager

HandlerAnswer: TypeAlias = Struct | PendingResponse | Parts | None
"""A message to be encoded; one later; one that is encoded already; or none (acks 0)."""
Handle: TypeAlias = Callable[[Any, Call], HandlerAnswer]


class KafkaApi:
    """The Kafka protocol's side of one broker; `session` is what a listener needs.

    Attributes:
        node_id: Of this broker, the only one that clients are told of.
        advertised: Host and port that clients are told.
    """

    def __init__(
        self,
        manager: PartitionManager,
        *,
        config: Config,
        loop: asyncio.AbstractEventLoop,
        clock: Clock,
        executor: Executor,
        metrics: Metrics,
        maps_slices: bool,
        cluster_id: str,
        advertised: tuple[str, int],
    ) -> None:
        """Args as `NativeApi`'s."""
        self.manager, self.config, self.loop, self.clock = manager, config, loop, clock
        self.limits, self.metrics, self.maps_slices = config.limits, metrics, maps_slices
        self.cluster_id, self.advertised = cluster_id, advertised
        self.node_id = config.daemon.node_id
        self.monotonic = time.monotonic if isinstance(clock, SystemClock) else clock.monotonic
        self.runner = StepRunner(loop, executor, self.monotonic)
        self.api_versions = ApiVersionsHandler(self)
        self.handlers: dict[int, tuple[Api, Handle, RequestMetrics]] = {}
        self.produce = ProduceHandler(self)
        self._serve({ApiKey.API_VERSIONS: self.api_versions.api_versions})
        self._serve_data()
        self._serve_metadata()
        self._serve_topic_changes()
        self._serve_admin()
        self._serve_groups(executor)

    def _serve_metadata(self) -> None:
        cluster = ClusterHandler(self)
        self._serve(
            {
                ApiKey.METADATA: MetadataHandler(self).metadata,
                ApiKey.DESCRIBE_CLUSTER: cluster.describe_cluster,
                ApiKey.DESCRIBE_TOPIC_PARTITIONS: cluster.describe_topic_partitions,
            }
        )

    def _serve_topic_changes(self) -> None:
        topics, partitions = TopicsHandler(self), PartitionsHandler(self)
        self._serve(
            {
                ApiKey.CREATE_TOPICS: topics.create_topics,
                ApiKey.DELETE_TOPICS: topics.delete_topics,
                ApiKey.CREATE_PARTITIONS: partitions.create_partitions,
                ApiKey.DELETE_RECORDS: partitions.delete_records,
            }
        )

    def _serve_admin(self) -> None:
        configs, changes = ConfigsHandler(self), ConfigChangesHandler(self)
        self._serve(
            {
                ApiKey.DESCRIBE_CONFIGS: configs.describe_configs,
                ApiKey.LIST_CONFIG_RESOURCES: configs.list_config_resources,
                ApiKey.ALTER_CONFIGS: changes.alter_configs,
                ApiKey.INCREMENTAL_ALTER_CONFIGS: changes.incremental_alter_configs,
                ApiKey.DESCRIBE_LOG_DIRS: LogDirsHandler(self).describe_log_dirs,
                ApiKey.DESCRIBE_PRODUCERS: ProducersHandler(self).describe_producers,
            }
        )

    def _serve_groups(self, executor: Executor) -> None:
        self.coordinator = GroupCoordinator(
            self.manager, self.config.groups, loop=self.loop, clock=self.clock, executor=executor
        )
        members, offsets = GroupMembershipHandler(self), GroupOffsetsHandler(self)
        groups = GroupAdminHandler(self)
        self._serve(
            {
                ApiKey.FIND_COORDINATOR: members.find_coordinator,
                ApiKey.JOIN_GROUP: members.join_group,
                ApiKey.SYNC_GROUP: members.sync_group,
                ApiKey.HEARTBEAT: members.heartbeat,
                ApiKey.LEAVE_GROUP: members.leave_group,
                ApiKey.OFFSET_COMMIT: offsets.offset_commit,
                ApiKey.OFFSET_FETCH: offsets.offset_fetch,
                ApiKey.OFFSET_DELETE: offsets.offset_delete,
                ApiKey.LIST_GROUPS: groups.list_groups,
                ApiKey.DESCRIBE_GROUPS: groups.describe_groups,
                ApiKey.DELETE_GROUPS: groups.delete_groups,
            }
        )

    def _serve_data(self) -> None:
        offsets = ListOffsetsHandler(self)
        self._serve(
            {
                ApiKey.PRODUCE: self.produce.produce,
                ApiKey.FETCH: FetchHandler(self).fetch,
                ApiKey.LIST_OFFSETS: offsets.list_offsets,
                ApiKey.OFFSET_FOR_LEADER_EPOCH: offsets.offset_for_leader_epoch,
                ApiKey.INIT_PRODUCER_ID: InitProducerIdHandler(self).init_producer_id,
            }
        )

    def _serve(self, handles: dict[ApiKey, Handle]) -> None:
        """Advertise and handle APIs."""
        for key, handle in handles.items():
            metrics = self.metrics.requests("kafka", key.name.lower())
            self.handlers[key] = APIS[key], handle, metrics

    def session(self, connection: Connection) -> KafkaSession:
        """Return the handler of a new connection's frames."""
        return KafkaSession(self)
