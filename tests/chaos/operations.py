"""Operations on sources, shards and clocks while the stream runs, and how to end them.

Each takes some time, on its own thread, while other faults happen. No other operation runs on its source
meanwhile.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Callable
from functools import partial
from typing import Final

from canal_group.merge.errors import CanalGroupError
from canal_group.merge.values.position import GroupPosition, file_order
from canal_group.operator import Operator, Policy, calls
from chaos.clocks import S_US
from chaos.consumers import CLIENT, RANGES
from chaos.journal import now_us
from chaos.lateness import SETTLE_US, Window
from chaos.process import Victim
from chaos.schedule import Fault, Happening
from chaos.sources import Source
from chaos.steering import Steering
from chaos.world import DESTINATION, World

#: how long consumers, replicas and servers may take to reach the state that an operation needs, seconds
TIMEOUT_S: Final = 30.0
#: how long a newcomer may take to be a member, seconds
JOIN_S: Final = 90.0
_POLL_S: Final = 0.1
#: a dump server that is above its high mark writes for half a second; a page of a file may have room
_STOPS_US: Final = 2 * S_US

#: ends an operation
Back = Callable[[], None]


class Operations:
    """Operates on a world.

    Args:
        world: to operate on.
    """

    def __init__(self, world: World) -> None:
        self._world = world
        #: the lateness that they justify
        self.windows: list[Window] = []
        #: how often each was completed
        self.done: dict[str, int] = {}
        #: from when to when the disk of the archive took nothing, microseconds since 1970
        self.full: list[tuple[int, int]] = []
        #: sources whose rows under numbers that were given again were left out in silence
        self.left_out: list[str] = []
        self.steering = Steering(self._operate, world.folder / "steering.log")

    def begin(self, happening: Happening, source: Source | None) -> Back:
        """Run an operation, which may take long; return the function that ends it.

        Args:
            happening: the operation.
            source: the source to operate on, if it is one.
        """
        of_world = {
            Fault.STEP_ACTORS: self._step_actors,
            Fault.JOIN_SHARD: self._join,
            Fault.STOP_CONSUMERS: self._stop,
            Fault.FILL_ARCHIVE: self._fill,
            Fault.STEER_COPY: self._steer,
        }
        if happening.fault in of_world:
            return of_world[happening.fault](happening)
        assert source is not None
        return {
            Fault.FAILOVER_SOURCE: self._fail_over,
            Fault.PURGE_SOURCE: self._purge_idle if happening.whom % 2 else self._purge,
            Fault.BUSY_SOURCE: self._be_busy,
            Fault.STEP_SOURCE: partial(self._step, happening=happening),
            Fault.SKIP_SOURCE: self._skip,
            Fault.LOSE_SOURCE: self._lose_end,
            Fault.FORGET_SOURCE: partial(self._forget, happening=happening),
        }[happening.fault](source)

    # ---- sources ---------------------------------------------------------------------------------------

    def _fail_over(self, source: Source) -> Back:
        """Fail over to the replica at the shard's address; the old server comes back as replica."""
        with self._world.writers[source.index].gate:
            back = source.fail_over(TIMEOUT_S)
        self._count("failovers")
        return back

    def _purge(self, source: Source) -> Back:
        """Begin a new binlog file, and purge the others once no client needs them."""
        server, file = source.server.server_id, source.rotate()

        def purge() -> None:
            if self._await(lambda: self._all_in(source, server, file)):
                self._purged(source, file)

        return purge

    def _purge_idle(self, source: Source) -> Back:
        """Purge, while the writer is paused, all files that were read, including the one that positions name.

        The connection breaks, so the reader must continue without that file.
        """
        writer = self._world.writers[source.index]
        writer.gate.acquire()
        if self._await(lambda: self._world.acknowledged(source, writer.record)):
            self._purged(source, source.rotate())
            source.proxy.drop()
        return writer.gate.release

    def _be_busy(self, source: Source) -> Back:
        """Let only a table be busy that nobody keeps, and purge what is before it once no client needs it.

        No row brings the clients there, and the connection breaks, so the reader must continue without the
        purged files.
        """
        writer = self._world.writers[source.index]
        writer.busy.set()
        server, file = source.server.server_id, source.rotate()

        def back() -> None:
            try:
                if self._await(lambda: self._all_in(source, server, file)):
                    self._purged(source, file)
                    source.proxy.drop()
                    self._count("busy_purges")
            finally:
                writer.busy.clear()

        return back

    def _purged(self, source: Source, file: str, what: str = "purges") -> None:
        if source.paired:
            source.await_replica(TIMEOUT_S)
        source.purge(file)
        self._count(what)

    def _all_in(self, source: Source, server: int, file: str) -> bool:
        """Return whether all clients are positioned in a server's file, or in a later one."""
        return all(_is_in(position, source, server, file) for position in self._world.positions())

    def _lose_end(self, source: Source) -> Back:
        """Let a source lose the end of its binlog after all clients have it, and give its numbers again.

        The source is asked whether its new rows are followed. The audit finds them if they are delivered, as
        nobody wrote them, so a shard that streams meanwhile leaves them out. Then it has its end again.
        """
        writer = self._world.writers[source.index]
        writer.gate.acquire()
        if not self._await(lambda: self._world.acknowledged(source, writer.record)) or not source.lose_end():
            return writer.gate.release
        self._count("lost_ends")

        def back() -> None:
            def follows() -> bool:
                return source.is_followed() and self._is(source, "streaming")

            try:
                # A server that is away meanwhile does neither.
                self._await(lambda: self._is(source, "stopped") or follows())
                if follows():
                    self.left_out.append(f"{source.name} was streamed after its binlog had lost its end.")
                source.regain_end()
            finally:
                writer.gate.release()

        return back

    def _is(self, source: Source, state: str) -> bool:
        """Return whether the active server says now that a shard is in a state."""

        def told(operator: Operator) -> bool:
            return any(
                each["shard"] == source.name and each["state"] == state
                for each in operator.status()["shards"]
            )

        return self._operate(told, within_s=0.0)

    # ---- archives --------------------------------------------------------------------------------------

    def _forget(self, source: Source, happening: Happening) -> Back:
        """Purge all files but the last, whoever needs them, once the archive has them.

        Meanwhile the dump server is killed, or the shard, or the consumers of a client id are stopped.
        """
        assert self._world.archive is not None
        down = (happening.whom // len(self._world.sources)) % 4
        up = self._stop(happening) if down == 1 else _nothing
        try:
            archive, identity, file = self._world.archive, source.identity, source.rotate()

            def has_all() -> bool:
                begin = archive.has_all_before(identity, file)
                oldest = str(source.server.execute("SHOW BINARY LOGS")[0][0])
                # What was before the archive is needed until clients have passed it.
                return bool(begin) and (
                    begin == oldest or self._all_in(source, source.server.server_id, begin)
                )

            if self._await(has_all):
                if down == 2 and (pid := archive.writer(identity)) is not None:
                    os.kill(pid, signal.SIGKILL)
                if down == 3:
                    self._kill_shard(source)
                self._purged(source, file, "forgets")
        except BaseException:
            up()
            raise
        return up

    def _kill_shard(self, source: Source) -> None:
        server = self._world.active_server()
        if server is not None and server.program.pid is not None:
            pid = self._world.ray.actors(server.program.pid).get(f"shard/{source.name}")
            if pid is not None:
                os.kill(pid, signal.SIGKILL)

    def _fill(self, happening: Happening) -> Back:
        """Let the disk of the archive be too full, or have no room at all."""
        assert self._world.archive is not None
        disk = self._world.archive
        disk.fill(whole=bool(happening.whom % 2))
        self._count("disk_fulls")
        begin_us = now_us() + _STOPS_US

        def back() -> None:
            self.full.append((begin_us, now_us()))
            disk.clear()

        return back

    # ---- consumers -------------------------------------------------------------------------------------

    def _stop(self, happening: Happening) -> Back:
        """Pause or kill all consumers of a client id; the others go on, so it may be replayed afterwards."""
        client_id = (CLIENT, RANGES)[happening.whom % 2]
        consumers = self._world.consumers
        programs = list(consumers.programs[client_id])
        victims = []
        consumers.stopped.update(programs)
        for program in programs:
            with contextlib.suppress(ProcessLookupError):
                if program.pid is not None:
                    victims.append(Victim(program.pid))
        kill = happening.whom // 2 % 2
        for victim in victims:
            victim.send(signal.SIGKILL if kill else signal.SIGSTOP)

        def back() -> None:
            self._count("replays", int(client_id in self._world.replayed()))
            consumers.stopped.difference_update(programs)
            for victim in victims:
                victim.send(signal.SIGCONT)
                victim.let_go()

        return back

    def _steer(self, happening: Happening) -> Back:
        back, done = self.steering.begin(self._world.copy(happening.whom), happening)
        self._count("steers", int(done))
        return back

    # ---- clocks ----------------------------------------------------------------------------------------

    def _step(self, source: Source, happening: Happening) -> Back:
        clock, begin_us = source.server.clock, now_us()
        step_us = int(happening.step_s * S_US)
        clock.set(step_us)
        self._count("clock_steps")

        def back() -> None:
            clock.set(0)
            end_us = now_us() + abs(step_us) + SETTLE_US
            self._justify(source, begin_us, end_us, "its clock stepped", clock=True)

        return back

    def _step_actors(self, happening: Happening) -> Back:
        clock = self._world.clocks[happening.whom % len(self._world.clocks)]
        clock.set(int(happening.step_s * S_US))
        self._count("clock_steps")
        return lambda: clock.set(0)

    # ---- shards ----------------------------------------------------------------------------------------

    def _skip(self, source: Source) -> Back:
        """Cut a source off, and let the others continue without it."""
        begin_us = now_us()
        source.proxy.cut()
        skipped = self._operate(
            lambda operator: bool(operator.ask(calls.GivePolicy(source.name, Policy.SKIP)))
        )
        self._count("skips", int(skipped))

        def back() -> None:
            source.proxy.mend()
            # A server that was elected since knows of no skip, so a resume does nothing there.
            self._operate(lambda operator: bool(operator.ask(calls.GivePolicy(source.name, Policy.RESUME))))
            self._justify(source, begin_us, now_us() + SETTLE_US, "it was skipped")

        return back

    def _join(self, _: Happening) -> Back:
        begin_us = now_us()
        source = self._world.join_shard()

        def joined() -> None:
            joins = self._operate(lambda operator: operator.joined(source.name, _POLL_S), within_s=JOIN_S)
            self._count("joins", int(joins))
            self._justify(source, begin_us, now_us() + SETTLE_US, "it joined")

        return joined

    # ---- inside ----------------------------------------------------------------------------------------

    def _operate(self, ask: Callable[[Operator], bool], within_s: float = TIMEOUT_S) -> bool:
        """Ask the active server until one has done it; return whether that was in time."""

        def done() -> bool:
            server = self._world.active_server()
            if server is None:
                return False
            operator = Operator(f"grpc://{server.address}", DESTINATION)
            try:
                return ask(operator)
            except CanalGroupError:
                return False
            finally:
                operator.close()

        return self._await(done, within_s)

    @staticmethod
    def _await(condition: Callable[[], bool], within_s: float = TIMEOUT_S) -> bool:
        deadline_s = time.monotonic() + within_s
        while not condition():
            if time.monotonic() > deadline_s:
                return False
            time.sleep(_POLL_S)
        return True

    def _justify(self, source: Source, begin_us: int, end_us: int, why: str, *, clock: bool = False) -> None:
        self.windows.append(Window(source.name, begin_us, end_us, why, clock))

    def _count(self, what: str, by: int = 1) -> None:
        self.done[what] = self.done.get(what, 0) + by


def _nothing() -> None:
    """End an operation that has nothing to end."""


def _is_in(position: GroupPosition | None, source: Source, server: int, file: str) -> bool:
    at = position.shards.get(source.name) if position is not None else None
    if at is None or (source.paired and at.server != str(server)):
        return False
    return file_order(at.file) >= file_order(file)
