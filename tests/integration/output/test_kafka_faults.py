"""Relays to Kafka under faults: nothing is lost, partitions keep their order, each change is read once."""

from __future__ import annotations

import uuid
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, NewTopic
from integration.output.faults import check_all, play_faults
from integration.output.published import in_kafka
from integration.output.relay_values import PARTITIONS, partitioned_values
from integration.shared_servers import SharedShop
from support.soak import first_quick, patient

from benchmarks._kafka_broker import KafkaBroker
from canal_group.actors.coordination.embedded import EmbeddedZooKeeper


@pytest.mark.timeout(patient(600))
@pytest.mark.parametrize("seed", first_quick(0, range(30)))
def test_readers_of_kafka_see_each_change_once(
    served: SharedShop, kafka: KafkaBroker, one_zookeeper: EmbeddedZooKeeper, tmp_path: Path, seed: int
):
    topic = f"faults-{uuid.uuid4().hex[:8]}"
    admin = AdminClient(kafka.client)
    admin.create_topics([NewTopic(topic, PARTITIONS, 1)])[topic].result()
    output = {**kafka.output, "silence_s": 5.0, "transaction_timeout_s": 10.0}
    values = partitioned_values(served, output, topic)
    writer = play_faults(
        tmp_path, values, seed, served, kafka, one_zookeeper, lambda: len(in_kafka(kafka, topic))
    )
    found = in_kafka(kafka, topic)
    check_all(found, writer, served)
    numbers = [int(each.headers["seq"]) for each in found]
    assert len(set(numbers)) == len(numbers), "a number of the merged stream is there twice"
    for partition in range(PARTITIONS):
        of_partition = [int(each.headers["seq"]) for each in found if each.partition == partition]
        assert of_partition == sorted(of_partition)
