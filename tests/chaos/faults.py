"""The faults of a schedule: what each does to the world, and how it is undone."""

from __future__ import annotations

import contextlib
import signal
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field

from chaos.cluster import Server
from chaos.consumers import CLIENT, RANGES
from chaos.ensemble import Member
from chaos.journal import now_us
from chaos.operations import Operations
from chaos.process import Program, Slow, Victim
from chaos.proxy import Proxy
from chaos.schedule import Fault, Happening
from chaos.sources import Source
from chaos.world import World

#: operations that may run concurrently
_OPERATIONS_MAX = 8
#: polling interval, seconds
_POLL_S = 0.05


@dataclass(slots=True)
class Done:
    """A fault as it happened."""

    happening: Happening
    #: its target; empty: there was none
    whom: str = ""
    begun_us: int = 0
    #: when it was undone, or the killed process could restart
    ended_us: int = 0
    #: undoes it
    mend: Callable[[], None] = field(default=lambda: None)
    #: the processes that must not be restarted meanwhile
    away: object = None
    #: the source that it happens to; no other operation runs on that source meanwhile
    source: Source | None = None

    @property
    def over_us(self) -> int:
        """The time from which recovery is counted."""
        return self.begun_us if self.happening.fault.sudden else self.ended_us


class Faults:
    """Injects the faults of a schedule, each at its time, and undoes them.

    Args:
        world: the world to inject them into.
        say: takes a line about each.
    """

    def __init__(self, world: World, say: Callable[[str], None]) -> None:
        self._world = world
        self._say = say
        self.operations = Operations(world)
        self.done: list[Done] = []
        self._lasting: list[Done] = []
        #: operations that are being ended
        self._ending: dict[Future[None], Done] = {}

    def play(self, schedule: tuple[Happening, ...], seconds: float) -> None:
        """Inject the faults for `seconds`; at the end undo all, even after an error."""
        begin_s = time.monotonic()
        left = list(schedule)
        with ThreadPoolExecutor(_OPERATIONS_MAX) as self._pool:
            self._play(left, begin_s, seconds)

    def _play(self, left: list[Happening], begin_s: float, seconds: float) -> None:
        try:
            while (now_s := time.monotonic() - begin_s) < seconds:
                while left and left[0].at_s <= now_s:
                    self._begin(left.pop(0), now_s)
                self._mend(lambda one, now_s=now_s: one.happening.at_s + one.happening.lasting_s <= now_s)
                self._tend()
                time.sleep(_POLL_S)
            # Operations take time, and the processes that they wait for may end meanwhile.
            self._mend(lambda _: True)
            while self._ending:
                self._tend()
                time.sleep(_POLL_S)
        finally:
            self._mend(lambda _: True)

    def _tend(self) -> None:
        """Restart the processes that may come back, and collect operations that have ended."""
        self._world.check_writers()
        self._world.tend({one.away for one in self._lasting})
        for ended in [future for future in self._ending if future.done()]:
            self._ending.pop(ended)
            ended.result()

    def _begin(self, happening: Happening, now_s: float) -> None:
        done = Done(happening)
        # A process that is just ending by itself does not count as a target.
        with contextlib.suppress(ProcessLookupError):
            done.whom = self._act(done)
        self._say(
            f"{now_s:6.1f} s  {happening.fault}: {done.whom or 'no target'}, for {happening.lasting_s} s"
        )
        done.begun_us = now_us()
        self.done.append(done)
        self._lasting.append(done)

    def _mend(self, due: Callable[[Done], bool]) -> None:
        """Undo the faults that are due, each of them even if one fails."""
        with contextlib.ExitStack() as stack:
            for one in filter(due, tuple(self._lasting)):
                self._lasting.remove(one)
                if one.happening.fault.is_operation and one.whom:
                    self._ending[self._pool.submit(self._mend_one, one)] = one
                else:
                    stack.callback(self._mend_one, one)

    @staticmethod
    def _mend_one(one: Done) -> None:
        one.mend()
        one.ended_us = now_us()

    def _act(self, done: Done) -> str:
        """Inject a fault; return its target."""
        fault = done.happening.fault
        if not self._is_possible(fault):
            return ""
        if fault.whom in {"source", "mariadb"}:
            done.source = self._source(done.happening)
            if done.source is None:
                return ""
        if fault.is_operation:
            return self._operate(done)
        if fault.whom in {"source", "coordination"}:
            return self._part(done, *self._ways(done))
        name, pid, back = self._process(done)
        if pid is None:
            done.away = None
            return ""
        return self._hit(done, name, Victim(pid), back)

    def _is_possible(self, fault: Fault) -> bool:
        """Return whether the seed has the archive, and the disk of it, that a fault needs."""
        archive = self._world.archive
        if archive is None:
            return not fault.of_archive
        return fault is not Fault.FILL_ARCHIVE or archive.is_small

    # ---- targets ---------------------------------------------------------------------------------------

    def _process(self, done: Done) -> tuple[str, int | None, Callable[[], object] | None]:
        """Return the target: its name, its pid if it runs, and what restarts it if nothing else does."""
        happening = done.happening
        match happening.fault.whom:
            case "consumer" | "offset ranges" | "copy":
                consumer = self._consumer(happening)
                done.away = consumer
                return consumer.log.stem, consumer.pid, None
            case "zookeeper":
                member = self._member(happening)
                return f"zookeeper {member.number}", member.pid, member.restart
            case "mariadb":
                assert done.source is not None
                server = done.source.server
                return (
                    f"{server.engine} {server.server_id}",
                    server.pid if server.running else None,
                    server.restart,
                )
            case "dump server":
                assert self._world.archive is not None
                pids = self._world.archive.writers
                chosen = pids[happening.whom % len(pids)] if pids else None
                return f"one of {len(pids)} dump servers", chosen, None
            case "server":
                one = self._server(happening)
                done.away = one
                return f"server {one.number}", one.program.pid, None
            case part:
                one = self._server(happening)
                actor, pid = self._actor(happening, one, part)
                return f"{actor} of server {one.number}", pid, None

    def _source(self, happening: Happening) -> Source | None:
        """Return a source that no other operation uses; None: every source is in use."""
        busy = {id(one.source) for one in (*self._lasting, *self._ending.values())}
        # A newcomer's writer is the last one.
        sources = self._world.sources[: len(self._world.writers)]
        first = happening.whom % len(sources)
        free = [one for one in (*sources[first:], *sources[:first]) if id(one) not in busy]
        if happening.fault is Fault.FAILOVER_SOURCE:
            free = [one for one in free if one.paired]
        if happening.fault is Fault.LOSE_SOURCE:
            free = [one for one in free if not one.paired]
        return next(iter(free), None)

    def _ways(self, done: Done) -> tuple[str, list[Proxy]]:
        if done.source is not None:
            return f"the connection to source {done.source.index}", [done.source.proxy]
        server = self._server(done.happening)
        return f"server {server.number}'s connection to ZooKeeper", self._world.coordination_proxies[
            server.number
        ]

    def _server(self, happening: Happening) -> Server:
        active = self._world.active_server() if happening.active else None
        return active or self._world.servers[happening.whom % len(self._world.servers)]

    def _consumer(self, happening: Happening) -> Program:
        consumers = self._world.consumers.programs
        if happening.fault.whom == "offset ranges":
            return consumers[RANGES][0]
        if happening.fault.whom == "copy":
            return consumers[self._world.copy(happening.whom)][0]
        active = self._world.active_consumer() if happening.active else None
        return active or consumers[CLIENT][happening.whom % len(consumers[CLIENT])]

    def _member(self, happening: Happening) -> Member:
        members = self._world.ensemble.members
        leader = next((member for member in members if member.leads), None) if happening.active else None
        return leader or members[happening.whom % len(members)]

    def _actor(self, happening: Happening, server: Server, part: str) -> tuple[str, int | None]:
        pid = server.program.pid
        actors = self._world.ray.actors(pid) if pid is not None else {}
        of_kind = sorted(name for name in actors if name.partition("/")[0] == part)
        if not of_kind:
            return part, None
        name = of_kind[happening.whom % len(of_kind)]
        return name, actors[name]

    # ---- operations ------------------------------------------------------------------------------------

    def _operate(self, done: Done) -> str:
        """Begin an operation on its own thread, which ends it when it is due."""
        begun = self._pool.submit(self.operations.begin, done.happening, done.source)

        def mend() -> None:
            begun.result()()

        done.mend = mend
        whom = done.source.name if done.source is not None else done.happening.fault.whom
        return f"{whom} by {done.happening.step_s:+.1f} s" if done.happening.step_s else whom

    def _hit(self, done: Done, name: str, victim: Victim, back: Callable[[], object] | None) -> str:
        verb = done.happening.fault.verb
        slow = Slow(victim)

        def mend() -> None:
            if verb == "slow":
                slow.end()
            elif verb == "pause":
                victim.send(signal.SIGCONT)
            elif back is not None:
                back()
            victim.let_go()

        if verb in {"pause", "slow"}:
            # The process may end while it is paused, and is then restarted.
            done.away = None
        done.mend = mend
        if verb == "slow":
            slow.start()
        else:
            victim.send({"kill": signal.SIGKILL, "end": signal.SIGTERM, "pause": signal.SIGSTOP}[verb])
        return f"{name} (pid {victim.pid})"

    @staticmethod
    def _part(done: Done, name: str, ways: list[Proxy]) -> str:
        def mend() -> None:
            for way in ways:
                way.mend()

        done.mend = mend
        for way in ways:
            if done.happening.fault.verb == "cut":
                way.cut()
            else:
                way.freeze()
        return name
