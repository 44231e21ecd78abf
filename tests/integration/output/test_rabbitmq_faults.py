"""Relays to RabbitMQ under faults: nothing is lost and queues keep their order; repeats may happen."""

from __future__ import annotations

import uuid
from pathlib import Path

import pytest
from integration.output.faults import check_all, play_faults, without_repeats
from integration.output.published import Published, Queue
from integration.output.relay_values import PARTITIONS, partitioned_values
from integration.shared_servers import SharedShop
from support.soak import first_quick, patient

from benchmarks._rabbit_broker import RabbitBroker
from canal_group.actors.coordination.embedded import EmbeddedZooKeeper


@pytest.fixture(scope="module")
def topic(one_rabbit: RabbitBroker) -> str:
    """The name of queues that a broker still has when it was killed: RabbitMQ can lose one that is new."""
    one_rabbit.start()
    name = f"faults-{uuid.uuid4().hex[:8]}"
    for partition in range(PARTITIONS):
        Queue(one_rabbit, f"{name}.{partition}")
    one_rabbit.terminate()
    return name


@pytest.mark.timeout(patient(600))
@pytest.mark.parametrize("seed", first_quick(0, range(100, 130)))
def test_readers_of_rabbitmq_see_each_change(
    served: SharedShop,
    topic: str,
    rabbit: RabbitBroker,
    one_zookeeper: EmbeddedZooKeeper,
    tmp_path: Path,
    seed: int,
):
    queues = [Queue(rabbit, f"{topic}.{partition}") for partition in range(PARTITIONS)]
    for queue in queues:
        queue.purge()
    output = {**rabbit.output, "partition_keys": True, "silence_s": 5.0}

    def taken() -> list[Published]:
        return [each for queue in queues for each in without_repeats(queue.take())]

    values = partitioned_values(served, output, topic)
    writer = play_faults(tmp_path, values, seed, served, rabbit, one_zookeeper, lambda: len(taken()))
    check_all(taken(), writer, served)
