"""The follower of a shard: opens it for the group, and passes on its reports until it is lost.

It also tells the shard's ring what to drop. While there are polls, this takes no extra call.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from canal_group.actors.group.stored.histories import StoredHistories
from canal_group.actors.group.stored.skips import StoredSkips
from canal_group.actors.ports import Host
from canal_group.actors.shard.ports import ShardChannel, ShardRpc
from canal_group.actors.shard.report import NOTHING, ShardReport
from canal_group.merge import events as ev
from canal_group.merge.back_off import BackOff
from canal_group.merge.errors import (
    CanalGroupError,
    DataError,
    FencedError,
    ServerUnavailable,
    ShardUnavailable,
)
from canal_group.merge.values.position import Position
from canal_group.merge.values.retention.kept_position import KeptPosition
from canal_group.merge.values.skips.skipped_event import SkippedEvent

_log = logging.getLogger(__name__)

#: headers requested of a shard at once
POLL_HEADERS_MAX = 65_536
#: how long a shard may keep a poll waiting, seconds
POLL_WAIT_S = 1.0
#: a report with rows of so many bytes, or of a full ring, shows a backlog. Then the interval between polls is
#: this, microseconds, whatever the pace: otherwise the ring would be full before the next one
BACKLOG_BYTES, BACKLOG_PACE_US = 1 << 20, 10_000
#: pause before a failed opening is retried, seconds: the first, and the longest
REOPEN_S, REOPEN_MAX_S = 0.2, 5.0
#: pause before a shard is opened that was lost a second time without having brought anything, seconds: the
#: first, and the longest. Each loss rolls back everybody
LOST_AGAIN_S, LOST_AGAIN_MAX_S = 0.4, 10.0
#: how long an acknowledged sequence waits for a poll that carries it to the ring, seconds
FREE_WITHIN_S = 0.05
#: how long a poll may be without an answer before that is logged, seconds
SILENT_S = 5.0


class Losses:
    """The losses of a shard in a row, between which it brought nothing."""

    def __init__(self) -> None:
        self._back_off = BackOff(LOST_AGAIN_MAX_S)
        self._again = False
        #: how long to wait before it is opened, seconds
        self.pause_s = 0.0

    def lost(self) -> None:
        """Note that the shard is lost."""
        self.pause_s = self._back_off.failed(LOST_AGAIN_S, 1.0) if self._again else 0.0
        self._again = True

    def went_on(self) -> None:
        """Note that it brought something."""
        self._back_off.reset()
        self.pause_s, self._again = 0.0, False


class Follower:
    """Follows one shard under one term.

    Args:
        shard: the shard's shard_index.
        name: its name.
        channel: the channel to it.
        term: (epoch, generation) of the group.
        tell: takes the events.
        histories: keeps the shard's schema history.
        skips: keeps what operators have left out.
        host: has the clock that the events carry.
        losses: those of the shard, also under earlier terms.
        pace_s: interval between two polls, seconds: a call costs as much as merging thousands of headers. The
            polls of all shards begin at multiples of it: the loop wakes up once for all of them.
        silent_s: how long a poll may be without an answer before that is logged, seconds; longer than
            `POLL_WAIT_S`.
    """

    def __init__(
        self,
        shard: int,
        name: str,
        channel: ShardChannel,
        term: tuple[int, int],
        tell: Callable[[ev.Event], None],
        histories: StoredHistories,
        skips: StoredSkips,
        host: Host,
        *,
        losses: Losses,
        pace_s: float,
        silent_s: float = SILENT_S,
    ) -> None:
        self._shard = shard
        self._silent_s = silent_s
        self._name = name
        self._channel = channel
        self._epoch, self._generation = term
        self._tell = tell
        self._histories = histories
        self._skips = skips
        #: what the shard was told of what is left out
        self._skips_told: tuple[SkippedEvent, ...] = ()
        #: from where on client ids read the shard, and what it was told of that
        self.needed: tuple[KeptPosition, ...] = ()
        self._needed_told: tuple[KeptPosition, ...] = ()
        self._now_us = host.now_us
        self._losses = losses
        self._pace_us = int(pace_s * 1e6)
        #: the last sequence that the ring may drop, and the last one that it was told to drop
        self._done = self._freed = NOTHING
        #: the RPC connection to the shard, once it is open
        self._rpc: ShardRpc | None = None
        #: when the shard answered last, and what it was reading then, as it said; 0 and empty: it has not
        self.answered_us, self.reading = 0, ""
        #: timer that is set while an answer is awaited
        self._silence: asyncio.TimerHandle
        #: timer that is set while the ring has to be told
        self._telling: asyncio.TimerHandle | None = None

    async def follow(self, position: Position | None, read_to: tuple[Position, ...]) -> None:
        """Open the shard at `position`, without a timeout, and pass on its reports until it is lost.

        Args:
            position: where to begin.
            read_to: up to where client ids have read, see `OpenShard`.

        Raises:
            FencedError: the shard serves a newer group, or another server was elected.
        """
        if self._losses.pause_s:
            await asyncio.sleep(self._losses.pause_s)
        opened = await self._open(position, read_to)
        self._tell(ev.ShardOpened(self._shard, self._generation, opened, self._now_us()))
        try:
            rpc = await self._channel.rpc()
            self._rpc = rpc
            try:
                await self._poll_on(rpc)
            finally:
                self._rpc = None
                rpc.close()
        except FencedError:
            raise
        except CanalGroupError as error:
            self._losses.lost()
            _log.warning("the shard is lost: %s", error, extra={"shard": self._name})
            self._tell(ev.ShardLost(self._shard, self._generation, str(error), self._now_us()))

    def free(self, sequence: int) -> None:
        """Let the ring drop everything up to and including `sequence`, soon."""
        self._done = sequence
        if self._telling is None:
            self._telling = asyncio.get_running_loop().call_later(FREE_WITHIN_S, self.flush)

    def flush(self) -> None:
        """Tell the ring now what to free, unless already told."""
        done = self._to_tell()
        if done != NOTHING and self._rpc is not None:
            self._rpc.free(self._epoch, self._generation, done)

    def _to_tell(self) -> int:
        """Return the sequence that the ring has to be told to drop, or NOTHING; it then counts as told."""
        if self._telling is not None:
            self._telling.cancel()
            self._telling = None
        if self._done == self._freed:
            return NOTHING
        self._freed = self._done
        return self._done

    def _new_skips(self) -> tuple[SkippedEvent, ...] | None:
        """Return the skipped events, if the shard has to be told; if that fails, it is opened again."""
        skips = self._skips.cached_of(self._name)
        if skips is None or skips == self._skips_told:
            return None
        self._skips_told = skips
        return skips

    def _newly_needed(self) -> tuple[KeptPosition, ...] | None:
        """Return from where on client ids read, if the shard has to be told."""
        if self.needed == self._needed_told:
            return None
        self._needed_told = self.needed
        return self.needed

    async def _open(self, position: Position | None, read_to: tuple[Position, ...]) -> Position:
        back_off, told = BackOff(REOPEN_MAX_S), ""
        while True:
            try:
                history = await self._histories.load(self._name)
                skips = self._skips_told = await self._skips.of(self._name)
                needed = self._needed_told = self.needed
                opened = await self._channel.open(
                    self._epoch, self._generation, position, history, skips, read_to, needed
                )
            except FencedError:
                raise
            except DataError as error:
                self._tell(ev.ShardFailed(self._shard, self._generation, error, self._now_us()))
            except CanalGroupError as error:
                self._tell(ev.ShardNotOpened(self._shard, self._generation, error))
                if str(error) != told:
                    told = str(error)
                    # That a source or a process does not answer yet is no news; that we cannot go on is.
                    awaited = isinstance(error, ShardUnavailable | ServerUnavailable)
                    level = logging.INFO if awaited else logging.ERROR
                    _log.log(level, "opening the shard: %s", error, extra={"shard": self._name})
            else:
                return opened
            await asyncio.sleep(back_off.failed(REOPEN_S, 1.0))

    async def _poll_on(self, rpc: ShardRpc) -> None:
        """Pass on the shard's reports until it is lost.

        Raises:
            CanalGroupError: the shard is lost, or its history cannot be stored.
        """
        wait_s = POLL_WAIT_S
        while True:
            asked_us = self._now_us()
            done, skips, needed = self._to_tell(), self._new_skips(), self._newly_needed()
            self._expect(self._silent_s)
            try:
                report = await rpc.poll(
                    self._epoch, self._generation, POLL_HEADERS_MAX, wait_s, done, skips, needed
                )
            finally:
                self._silence.cancel()
            self.answered_us, self.reading = self._now_us(), report.reading
            if report.history is not None:
                await self._histories.save(self._name, report.history)
            self._pass_on(report, asked_us)
            if report.run is not None:
                self._losses.went_on()
            # A shard that had headers already has some by the next poll, too: if none of them waits, their
            # answers come together. One that had none is told to wait for some.
            at_once = report.run is not None and self.answered_us - asked_us < self._pace_us // 2
            wait_s = 0.0 if at_once else POLL_WAIT_S
            pace_us = BACKLOG_PACE_US if _shows_backlog(report) else self._pace_us
            due_us = (asked_us // pace_us + 1) * pace_us
            await asyncio.sleep(max(0, due_us - self._now_us()) / 1e6)

    def _expect(self, delay_s: float, waited_s: float = 0.0) -> None:
        """Log it if the shard does not answer within some seconds, and again whenever that has doubled."""

        def silent() -> None:
            silent_s = waited_s + delay_s
            _log.warning(
                "has not answered for %.0f s; when it did last: %s",
                silent_s,
                self.reading or "nothing was read yet",
                extra={"shard": self._name},
            )
            self._expect(silent_s, silent_s)

        self._silence = asyncio.get_running_loop().call_later(delay_s, silent)

    def _pass_on(self, report: ShardReport, asked_us: int) -> None:
        if report.error is not None:
            self._tell(ev.ShardFailed(self._shard, self._generation, report.error, self._now_us()))
        news = report.run is not None or report.frontier_us is not None or report.tables is not None
        if news or report.full:
            self._tell(
                ev.ShardReported(
                    self._shard,
                    self._generation,
                    report.run,
                    report.frontier_us,
                    self._now_us(),
                    report.server,
                    report.full,
                    report.error is not None,
                    source_us=report.source_us,
                    asked_us=asked_us,
                    created=report.created,
                    tables=report.tables,
                )
            )


def _shows_backlog(report: ShardReport) -> bool:
    return report.full or (report.run is not None and int(report.run.headers["bytes"].sum()) >= BACKLOG_BYTES)
