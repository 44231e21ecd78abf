"""Messages: processor time of a relay's thread for each message, by step, without a server or broker.

The rows are those of `queue`. The last step hands flat messages with four headers to librdkafka, which has no
broker: as the Kafka output does, and one by one, as `confluent_kafka.Producer.produce` does with values and
headers that were made before.
"""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import confluent_kafka
import numpy as np
import pyarrow as pa

from benchmarks._load import SCHEMA, SHARDS, TABLE
from canal_group.conf.relay.relay_settings import RouteSettings
from canal_group.merge.rows.assemble import BatchRows, ShardRows, ShardTable
from canal_group.merge.rows.envelope import envelope
from canal_group.merge.values.chunk import MYSQL_TYPE, Op, TableName, rows_schema
from canal_group.merge.values.header import HEADER, WHOLE
from canal_group.programs.output.formats import format_of
from canal_group.programs.output.kafka.batch_producer import BatchProducer
from canal_group.programs.output.kafka.columns import columns_of
from canal_group.programs.output.messages import Messages
from canal_group.programs.output.routing.router import Router
from canal_group.shapes.maps import tidied

_ROWS, _SEEDS = 20_000, 100
#: 2024-02-28, microseconds since 1970
_BEGIN_US = 1_709_078_400_000_000
#: the least of so many rounds counts
_ROUNDS = 5
_NOWHERE = {"bootstrap.servers": "127.0.0.1:1", "log_level": 0, "queue.buffering.max.messages": 1_000_000}


def measure(size: float) -> dict[str, Any]:
    """Return microseconds of a thread for each message, of each step."""
    batch = _batch(max(_SEEDS, int(_ROWS * size) // SHARDS))
    rows = tidied(envelope(batch, definitions=True))
    router = Router(RouteSettings(topic="bench"))
    routed, routes = router.addressed(rows)
    flat = format_of("flat").make(routed, routes)
    steps: dict[str, Callable[[], Any]] = {
        "envelope (the gateway's)": lambda: envelope(batch, definitions=True),
        "routes": lambda: router.addressed(rows),
        "flat": lambda: format_of("flat").make(routed, routes),
        "debezium": lambda: format_of("debezium").make(routed, routes),
    }
    spent_s = {name: [_spent_s(call) for _ in range(_ROUNDS)] for name, call in steps.items()}
    spent_s["librdkafka, a batch"] = [_at_once(flat) for _ in range(_ROUNDS)]
    spent_s["librdkafka, one by one"] = [_one_by_one(flat) for _ in range(_ROUNDS)]
    prices = {name: round(min(each) / len(rows) * 1e6, 3) for name, each in spent_s.items()}
    return {"message_bytes": round(flat.value.nbytes / len(rows)), "thread_us": prices}


def _spent_s(call: Callable[[], Any]) -> float:
    began_s = time.thread_time()
    call()
    return time.thread_time() - began_s


def _at_once(messages: Messages) -> float:
    def make(plugin: str) -> Any:
        return confluent_kafka.Producer({**_NOWHERE, "plugin.library.paths": plugin})

    batches = BatchProducer(confluent_kafka.cimpl.__file__, make)
    spent_s = _spent_s(lambda: batches.produce(0, *columns_of(messages)))
    batches.producer.purge()
    return spent_s


def _one_by_one(messages: Messages) -> float:
    producer = confluent_kafka.Producer(_NOWHERE)
    names = list(messages.headers)
    columns = (messages.headers[name].to_pylist() for name in names)
    headers = [list(zip(names, texts, strict=True)) for texts in zip(*columns, strict=True)]
    values = messages.value.to_pylist()

    def produce() -> None:
        for value, of_message in zip(values, headers, strict=True):
            producer.produce("bench", value, None, 0, headers=of_message)

    spent_s = _spent_s(produce)
    producer.purge()
    return spent_s


def _moments(micros: list[int]) -> Any:
    return pa.array([_BEGIN_US + each for each in micros], pa.int64()).cast(pa.timestamp("us"))


def _batch(rows: int) -> BatchRows:
    """Return inserted rows of each shard, of the columns that `queue` has."""
    chance = random.Random(1)
    columns = {
        ("id", "bigint unsigned"): pa.array(range(10**6, 10**6 + rows), pa.uint64()),
        ("customer", "varchar(80)"): [f"customer {chance.randint(1, 10**6)}" for _ in range(_SEEDS)],
        ("token", "bigint unsigned"): pa.array([chance.getrandbits(64) for _ in range(_SEEDS)], pa.uint64()),
        ("amount", "decimal(14,4)"): [Decimal(chance.randint(0, 10**10)).scaleb(-4) for _ in range(_SEEDS)],
        ("placed_at", "datetime(6)"): _moments([chance.randrange(10**12) for _ in range(_SEEDS)]),
        ("state", "varchar(6)"): [chance.choice(("new", "paid", "packed", "sent")) for _ in range(_SEEDS)],
        ("weight", "double"): [None if seed % 5 == 0 else chance.uniform(0, 50) for seed in range(_SEEDS)],
        ("quantity", "int"): pa.array([chance.randint(-5, 10**6) for _ in range(_SEEDS)], pa.int32()),
        ("active", "tinyint"): pa.array([seed % 2 for seed in range(_SEEDS)], pa.int8()),
        ("changed_at", "timestamp"): _moments([0] * _SEEDS),
        ("note", "text"): [
            None if seed % 3 == 0 else "lorem ipsum é " * chance.randint(1, 4) for seed in range(_SEEDS)
        ],
    }
    repeated = pa.array(np.arange(rows) % _SEEDS)
    arrays = [
        values.take(pa.array(np.arange(rows) % len(values)))
        if isinstance(values, pa.Array)
        else pa.array(values).take(repeated)
        for values in columns.values()
    ]
    fields = [
        pa.field(name, array.type, metadata={MYSQL_TYPE: kind})
        for (name, kind), array in zip(columns, arrays, strict=True)
    ]
    images = pa.StructArray.from_arrays(arrays, fields=fields)
    schema = rows_schema(fields, json.dumps(["id"]).encode())
    table = pa.Table.from_arrays(
        [
            pa.array(np.zeros(rows, np.int64)),
            pa.array(np.arange(rows)).cast(schema.field(1).type),
            pa.array(np.full(rows, Op.INSERT, np.uint8)),
            pa.nulls(rows, images.type),
            images,
        ],
        schema=schema.set(0, pa.field("_sequence", pa.int64())),
    )
    headers = np.zeros(SHARDS, HEADER)
    headers["flags"], headers["row_end"], headers["shard"] = WHOLE, rows, np.arange(SHARDS)
    shard = ShardRows((ShardTable(TableName(SCHEMA, TABLE), table),))
    names = tuple(f"s{index}" for index in range(SHARDS))
    return BatchRows(headers, (shard,) * SHARDS, names, ("mysql-bin.000001",), 0)
