"""Fake shards: a process that answers the polls of a group for any number of shards, with headers of no rows.

The connections, the reports and the headers are real ones. A fake shard has either a rate, at which its
transactions commit now, or a backlog, of which it reports a quarter of a ring at once, as long as its ring
has room. The first line of stdout says where the shards listen; the process runs until its stdin ends.
"""

from __future__ import annotations

import asyncio
import os
import pickle
import sys
import time
from typing import Final

import numpy as np

from canal_group.actors.shard.report import NOTHING, ShardReport
from canal_group.actors.store.ring import MANY_PARTS
from canal_group.actors.transport.rpc_server import RpcServer
from canal_group.actors.transport.rpc_wire import RpcAddress
from canal_group.conf.stream_settings import StoreSettings
from canal_group.merge.values.header import HEADER, WHOLE, HeaderRun

#: bytes of a transaction's row in memory, and of the transaction in the binlog
_ROW_BYTES, _BINLOG_BYTES = 200, 300
_FILE, _SERVER = "mysql-bin.000001", "3e11fa47-71ca-11e1-9e33-c80aa9429562"
#: of a backlog: when it begins, before now, and the distance of a shard's commits, microseconds
_AGO_US, _APART_US = 3_600_000_000, 1_000
_RING: Final = StoreSettings().size


class _FakeShard:
    """Answers polls.

    Args:
        index: of the shard.
        rate: transactions a second that commit now; 0: it has a backlog.
    """

    def __init__(self, index: int, rate: float) -> None:
        self._rate = rate
        self._apart_us = 1e6 / rate if rate else _APART_US
        # Shards do not commit at the same moments.
        offset_us = index % 97 * self._apart_us / 97
        self._first_us = time.time_ns() // 1000 - (0 if rate else _AGO_US) + offset_us
        self._term = (0, 0)
        #: sequences: of the next header, and of the last one that the ring has dropped
        self._next, self._done = 0, NOTHING
        self._freed = asyncio.Event()

    async def poll(
        self, epoch: int, generation: int, items_max: int, wait_s: float, done: int, _skips: None
    ) -> ShardReport:
        """Return new headers; wait for the first, or for room."""
        if self._term != (epoch, generation):
            self._term, self._next, self._done = (epoch, generation), 0, NOTHING
        self._free(done)
        until_s = time.monotonic() + wait_s
        while not (count := min(self._due(), items_max)) and (left_s := until_s - time.monotonic()) > 0:
            await self._wait(left_s)
        return ShardReport(
            self._run(count) if count else None,
            None,
            None,
            _SERVER,
            full=not self._room(),
            source_us=time.time_ns() // 1000,
        )

    async def free(self, epoch: int, generation: int, sequence: int) -> None:
        """Drop headers."""
        if self._term == (epoch, generation):
            self._free(sequence)

    def _free(self, sequence: int) -> None:
        if sequence > self._done:
            self._done = sequence
            self._freed.set()

    def _room(self) -> int:
        return _RING - (self._next - 1 - self._done)

    def _due(self) -> int:
        room = self._room()
        if not self._rate:
            return _RING // MANY_PARTS if room >= _RING // MANY_PARTS else 0
        committed = int((time.time_ns() // 1000 - self._first_us) / self._apart_us) + 1
        return max(0, min(committed - self._next, room))

    async def _wait(self, left_s: float) -> None:
        if self._rate and self._room():
            due_s = (self._first_us + self._next * self._apart_us - time.time_ns() // 1000) / 1e6
            await asyncio.sleep(min(max(due_s, 0.0), left_s))
            return
        self._freed.clear()
        try:
            async with asyncio.timeout(left_s):
                await self._freed.wait()
        except TimeoutError:
            return

    def _run(self, count: int) -> HeaderRun:
        numbers = np.arange(self._next, self._next + count)
        self._next += count
        headers = np.zeros(count, dtype=HEADER)
        headers["sequence"] = numbers
        headers["flags"] = WHOLE
        headers["rows"] = headers["row_end"] = 1
        headers["bytes"] = _ROW_BYTES
        headers["commit_us"] = self._first_us + numbers * self._apart_us
        headers["begin_offset"] = 4 + numbers * _BINLOG_BYTES
        headers["end_offset"] = headers["begin_offset"] + _BINLOG_BYTES
        headers["gtid_source"], headers["gtid_number"] = 1, numbers + 1
        return HeaderRun(headers, (_FILE, _SERVER))


async def _serve(shards: int, rate: float) -> None:
    addresses: list[RpcAddress] = []
    servers = []
    for index in range(shards):
        shard = _FakeShard(index, rate)
        servers.append(RpcServer({"poll": shard.poll, "free": shard.free}))
        addresses.append(await servers[-1].open())
    print(pickle.dumps(addresses).hex(), flush=True)
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)


if __name__ == "__main__":
    asyncio.run(_serve(int(sys.argv[1]), float(sys.argv[2])))
    os._exit(0)  # connections that are open are not waited for
