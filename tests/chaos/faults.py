"""The faults: what each of a schedule does to the world, and how it is mended."""

from __future__ import annotations

import contextlib
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from chaos.cluster import Server
from chaos.ensemble import Member
from chaos.journal import now_us
from chaos.process import Program, Victim
from chaos.proxy import Proxy
from chaos.schedule import Happening
from chaos.world import World

#: pause between two looks at the clock, seconds
_POLL_S = 0.05


@dataclass(slots=True)
class Done:
    """A fault as it happened."""

    happening: Happening
    #: whom it hit; empty: nobody was there
    whom: str = ""
    begun_us: int = 0
    #: when it was mended, or who was killed could come back
    ended_us: int = 0
    #: what mends it
    mend: Callable[[], None] = field(default=lambda: None)
    #: who is not to be started again meanwhile
    away: object = None

    @property
    def over_us(self) -> int:
        """From when on recovery is counted."""
        return self.begun_us if self.happening.fault.sudden else self.ended_us


class Faults:
    """Makes the faults of a schedule happen, each at its time, and mends them.

    Args:
        world: to whom.
        say: takes a line about each.
    """

    def __init__(self, world: World, say: Callable[[str], None]) -> None:
        self._world = world
        self._say = say
        self.done: list[Done] = []
        self._lasting: list[Done] = []

    def play(self, schedule: tuple[Happening, ...], seconds: float) -> None:
        """Let so many seconds pass with the faults in them; at the end mend all, whatever happened."""
        begin_s = time.monotonic()
        left = list(schedule)
        try:
            while (now_s := time.monotonic() - begin_s) < seconds:
                while left and left[0].at_s <= now_s:
                    self._begin(left.pop(0), now_s)
                self._mend(lambda one, now_s=now_s: one.happening.at_s + one.happening.lasting_s <= now_s)
                self._world.check_writers()
                self._world.tend({one.away for one in self._lasting})
                time.sleep(_POLL_S)
        finally:
            self._mend(lambda _: True)

    def _begin(self, happening: Happening, now_s: float) -> None:
        done = Done(happening)
        # Whoever is just ending by itself is nobody.
        with contextlib.suppress(ProcessLookupError):
            done.whom = self._act(done)
        self._say(
            f"{now_s:6.1f} s  {happening.fault}: {done.whom or 'nobody is there'}"
            f", for {happening.lasting_s} s"
        )
        done.begun_us = now_us()
        self.done.append(done)
        self._lasting.append(done)

    def _mend(self, due: Callable[[Done], bool]) -> None:
        """Mend what is due: each, also when one cannot be."""
        with contextlib.ExitStack() as stack:
            for one in filter(due, tuple(self._lasting)):
                self._lasting.remove(one)
                stack.callback(self._mend_one, one)

    @staticmethod
    def _mend_one(one: Done) -> None:
        one.mend()
        one.ended_us = now_us()

    def _act(self, done: Done) -> str:
        """Do it; return whom it hit."""
        whom = done.happening.fault.whom
        if whom in {"source", "coordination"}:
            return self._part(done, *self._ways(done.happening))
        name, pid, back = self._process(done)
        if pid is None:
            done.away = None
            return ""
        return self._hit(done, name, Victim(pid), back)

    # ---- whom ------------------------------------------------------------------------------------------

    def _process(self, done: Done) -> tuple[str, int | None, Callable[[], object] | None]:
        """Return who is hit: its name, its pid if it runs, and what brings it back if nobody else does."""
        happening = done.happening
        match happening.fault.whom:
            case "consumer":
                consumer = self._consumer(happening)
                done.away = consumer
                return consumer.log.stem, consumer.pid, None
            case "zookeeper":
                member = self._member(happening)
                return f"zookeeper {member.number}", member.pid, member.restart
            case "mariadb":
                source = self._world.sources[happening.whom % len(self._world.sources)]
                return f"mariadb {source.server_id}", source.pid if source.running else None, source.restart
            case "server":
                server = self._server(happening)
                done.away = server
                return f"server {server.number}", server.program.pid, None
            case part:
                server = self._server(happening)
                actor, pid = self._actor(happening, server, part)
                return f"{actor} of server {server.number}", pid, None

    def _ways(self, happening: Happening) -> tuple[str, list[Proxy]]:
        if happening.fault.whom == "source":
            shard = happening.whom % len(self._world.sources)
            return f"the way to source {shard}", [self._world.source_proxies[shard]]
        server = self._server(happening)
        return f"server {server.number}'s way to ZooKeeper", self._world.coordination_proxies[server.number]

    def _server(self, happening: Happening) -> Server:
        active = self._world.active_server() if happening.active else None
        return active or self._world.servers[happening.whom % len(self._world.servers)]

    def _consumer(self, happening: Happening) -> Program:
        active = self._world.active_consumer() if happening.active else None
        return active or self._world.consumers[happening.whom % len(self._world.consumers)]

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

    # ---- what ------------------------------------------------------------------------------------------

    def _hit(self, done: Done, name: str, victim: Victim, back: Callable[[], object] | None) -> str:
        verb = done.happening.fault.verb

        def mend() -> None:
            if verb == "pause":
                victim.send(signal.SIGCONT)
            elif back is not None:
                back()
            victim.let_go()

        if verb == "pause":
            # It may end while it sleeps, and is then started again.
            done.away = None
        done.mend = mend
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
