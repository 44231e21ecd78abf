"""A reader of a group's batches in its own process: the calls of a gateway for one consumer, and no rows.

It subscribes, and gets, confirms and acknowledges batches, two at a time as a consumer that prefetches does.
It prints a line when the measurement begins, after a warm-up, and one with the result when it ends.
"""

from __future__ import annotations

import asyncio
import json
import os
import pickle
import sys
import time
from collections import deque
from typing import Any

import numpy as np

from benchmarks._pipeline import OUTSTANDING
from canal_group.actors.transport.rpc_client import RpcClient
from canal_group.merge.calls.batch import Batch
from canal_group.merge.calls.consumers import Ack, Confirm, Get, SubscribeAt
from canal_group.merge.errors import RetryableError

_CLIENT_ID = "1001"
_ROWS_MAX = 131_072
_WAIT_S = 3.0
#: how long is read before the measurement begins, seconds
_WARM_UP_S = 1.0
#: how long a subscription may take, and the pause between two attempts, seconds
_SUBSCRIBED_WITHIN_S, _AGAIN_S = 30.0, 0.1


class _Reader:
    def __init__(self, rpc: RpcClient, epoch: int) -> None:
        self._rpc, self._epoch = rpc, epoch
        self._seen_id = 0
        #: of each batch: from commit to the group's answer, microseconds, of its transactions
        self.delays_us: list[Any] = []

    async def read(self, until_s: float) -> None:
        """Read batches until then, `time.monotonic`."""
        outstanding: deque[asyncio.Future[Any]] = deque()
        while time.monotonic() < until_s:
            batch: Batch | None = await self._rpc.ask(
                "answer", Get(_CLIENT_ID, self._epoch, _ROWS_MAX, _WAIT_S, self._seen_id)
            )
            if batch is None:
                continue
            self.delays_us.append(time.time_ns() // 1000 - batch.headers["commit_us"])
            self._seen_id = batch.batch_id
            await self._rpc.ask("answer", Confirm(_CLIENT_ID, self._epoch, batch.batch_id))
            outstanding.append(self._rpc.ask("answer", Ack(_CLIENT_ID, self._epoch, batch.batch_id)))
            if len(outstanding) == OUTSTANDING:
                await outstanding.popleft()
        for answer in outstanding:
            await answer


async def _subscribed(rpc: RpcClient) -> int:
    until_s = time.monotonic() + _SUBSCRIBED_WITHIN_S
    while True:
        try:
            epoch: int = (await rpc.ask("answer", SubscribeAt(_CLIENT_ID, "bench", "")))[0]
        except RetryableError:
            if time.monotonic() > until_s:
                raise
            await asyncio.sleep(_AGAIN_S)
        else:
            return epoch


async def _main(address: str, seconds: float) -> None:
    rpc = await RpcClient.open(pickle.loads(bytes.fromhex(address)), "The group")
    reader = _Reader(rpc, await _subscribed(rpc))
    await reader.read(time.monotonic() + _WARM_UP_S)
    reader.delays_us.clear()
    began_s, cpu_s = time.monotonic(), time.process_time()
    print("begins", flush=True)
    await reader.read(began_s + seconds)
    took_s = time.monotonic() - began_s
    delays_us = np.concatenate(reader.delays_us)
    p50, p99 = np.percentile(delays_us / 1e3, [50, 99])
    result = {
        "took_s": took_s,
        "transactions": len(delays_us),
        "batches": len(reader.delays_us),
        "reader_cpu_s": time.process_time() - cpu_s,
        "p50_ms": round(float(p50), 1),
        "p99_ms": round(float(p99), 1),
    }
    print(json.dumps(result), flush=True)


if __name__ == "__main__":
    asyncio.run(_main(sys.argv[1], float(sys.argv[2])))
    os._exit(0)
