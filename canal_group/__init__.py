"""The public interface of canal-group: what a consumer imports.

import canal_group

with canal_group.connect("grpc://127.0.0.1:11113", destination="shop", client_id="mirror") as consumer:
    for batch in consumer:
        apply(batch.envelope())
        consumer.ack(batch.batch_id)
"""

from canal_group.client.batch import Batch
from canal_group.client.client import connect
from canal_group.client.consumer import Consumer
from merge.errors import (
    AccessDenied,
    AckOutOfOrder,
    CanalGroupError,
    ConfigError,
    ConsumerActive,
    CoordinatorUnavailable,
    CorruptEvent,
    DataError,
    FencedError,
    NotSubscribed,
    PositionPurged,
    PositionRefused,
    RetryableError,
    RolledBack,
    SchemaGrown,
    SchemaMismatch,
    ServerUnavailable,
    ShardUnavailable,
    SourceUnavailable,
    SourceUnfit,
    SubscriptionDropped,
    UnknownBatch,
    UnsupportedEvent,
    UsageError,
)
from merge.values.position import GroupPosition, Position
from merge.values.skips.skip_mark import SkipMark

__all__ = [
    "AccessDenied",
    "AckOutOfOrder",
    "Batch",
    "CanalGroupError",
    "ConfigError",
    "Consumer",
    "ConsumerActive",
    "CoordinatorUnavailable",
    "CorruptEvent",
    "DataError",
    "FencedError",
    "GroupPosition",
    "NotSubscribed",
    "Position",
    "PositionPurged",
    "PositionRefused",
    "RetryableError",
    "RolledBack",
    "SchemaGrown",
    "SchemaMismatch",
    "ServerUnavailable",
    "ShardUnavailable",
    "SkipMark",
    "SourceUnavailable",
    "SourceUnfit",
    "SubscriptionDropped",
    "UnknownBatch",
    "UnsupportedEvent",
    "UsageError",
    "connect",
]
