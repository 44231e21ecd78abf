"""The public interface of canal-group: what a consumer imports.

import canal_group

with canal_group.connect("grpc://127.0.0.1:11113", destination="shop", client_id="mirror") as consumer:
    for batch in consumer:
        apply(batch.envelope())
        consumer.ack(batch.batch_id)

A name is imported when it is first used: every module of ours imports this one before itself.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from canal_group.client.batch import Batch
    from canal_group.client.client import connect
    from canal_group.client.consumer import Consumer
    from canal_group.merge.errors import (
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
    from canal_group.merge.values.marks.skip_mark import SkipMark
    from canal_group.merge.values.marks.snapshot_mark import SnapshotMark
    from canal_group.merge.values.position import GroupPosition, Position
else:
    #: where names are that are not errors
    _MODULES = {
        "Batch": "canal_group.client.batch",
        "Consumer": "canal_group.client.consumer",
        "GroupPosition": "canal_group.merge.values.position",
        "Position": "canal_group.merge.values.position",
        "SkipMark": "canal_group.merge.values.marks.skip_mark",
        "SnapshotMark": "canal_group.merge.values.marks.snapshot_mark",
        "connect": "canal_group.client.client",
    }

    def __getattr__(name: str) -> object:
        if name not in __all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = getattr(import_module(_MODULES.get(name, "canal_group.merge.errors")), name)
        globals()[name] = value
        return value

    def __dir__() -> list[str]:
        return __all__


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
    "SnapshotMark",
    "SourceUnavailable",
    "SourceUnfit",
    "SubscriptionDropped",
    "UnknownBatch",
    "UnsupportedEvent",
    "UsageError",
    "connect",
]
