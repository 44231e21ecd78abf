"""Reading ahead from a whole instance: in order and with nothing lost, through rollbacks and crashes."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable

from integration.shared_servers import SharedShop
from integration.shop import CLIENT, DEADLINE_S, Reading, in_background, kill

import canal_group

#: takes one batch with others read ahead, acknowledges it and the next, tells, and hangs
_CONSUMER_THAT_HANGS = f"""
import sys, threading, canal_group
consumer = canal_group.connect(sys.argv[1], destination=sys.argv[2], client_id={CLIENT!r})
rows = 0
for batch, changes in consumer.prefetch(lambda batch: batch.envelope(), batch_size=10, depth=3):
    consumer.ack(batch.batch_id)
    rows += changes.num_rows
    if rows >= 30:
        print(rows, len(consumer.outstanding()), flush=True)
        threading.Event().wait()
"""


def prefetch(reading: Reading, rows: int, at: Callable[[int], bool] = lambda _: False) -> None:
    """Take and acknowledge batches, read ahead, until so many different rows were seen.

    Args:
        reading: takes note of them.
        rows: how many.
        at: called with the number of each batch before it is acknowledged; True: it was rolled back.
    """
    consumer = reading.consumer
    prefetch = consumer.prefetch(lambda batch: batch.envelope(), batch_size=20, depth=3, timeout=DEADLINE_S)
    for number, (batch, changes) in enumerate(prefetch):
        reading.take(changes)
        if at(number):
            reading.rolled_back()
            continue
        try:
            consumer.ack(batch.batch_id)
        except canal_group.RetryableError:
            continue  # Nobody knows: what follows tells.
        except (canal_group.RolledBack, canal_group.AckOutOfOrder, canal_group.UnknownBatch):
            reading.rolled_back()
        if len(reading.ids) >= rows:
            return
    raise AssertionError(f"{len(reading.ids)} of {rows} rows came")


def test_batches_read_ahead_come_in_order_also_after_a_rollback(served: SharedShop):
    with served.connect() as consumer:
        served.write_everywhere(100)
        reading = Reading(consumer)
        prefetch(reading, served.rows, lambda number: number == 2 and consumer.rollback() > 0)
        assert consumer.outstanding() == []
    reading.check(served)
    assert reading.rollbacks == 1


def test_a_gateway_killed_during_prefetch_causes_only_a_short_delay(served: SharedShop):
    """1. rows flow; 2. the gateway's process is killed with batches on their way; 3. the rest comes, once."""
    with served.connect() as consumer:
        writing = in_background(lambda: served.write_everywhere(150))
        reading, gateway = Reading(consumer), consumer.status()["gateway"]["pid"]
        prefetch(reading, 300, lambda number: number == 3 and bool(kill(gateway)))
        writing.join()
        assert consumer.status()["gateway"]["pid"] != gateway
    reading.check(served)


def test_a_shard_killed_during_prefetch_delivers_its_rows_again(served: SharedShop):
    with served.connect() as consumer:
        served.write_everywhere(150)
        reading, shard = Reading(consumer), consumer.status()["shards"][0]["pid"]
        prefetch(reading, served.rows, lambda number: number == 3 and bool(kill(shard)))
        assert consumer.status()["shards"][0]["pid"] != shard
    reading.check(served)


def test_what_a_killed_consumer_had_read_ahead_is_the_next_ones(served: SharedShop):
    """1. a consumer acknowledges some, with more read ahead; 2. it is killed; 3. the next gets the rest."""
    served.connect().close()
    served.write(0, 100)
    process = subprocess.Popen(
        [sys.executable, "-c", _CONSUMER_THAT_HANGS, served.instance.uri, served.destination],
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        acked, outstanding = (int(word) for word in process.stdout.readline().split())
    finally:
        process.kill()
        process.wait()
        process.stdout.close()
    assert outstanding > 0, "more was read ahead"
    with served.connect() as consumer:
        reading = Reading(consumer)
        prefetch(reading, 100 - acked)
    assert sorted(reading.ids.values()) == served.written["s0"][acked:]
