"""What an operator does with snapshots while they go on, or when they are over."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Final, Protocol

from canal_group.merge.errors import CanalGroupError, UsageError
from canal_group.operator import Operator, calls
from canal_group.programs.demo.tables import TABLES, DemoTable, schema_name
from chaos.journal import now_us
from chaos.schedule import COPY, SHARDS, Happening

#: a snapshot that stays paused, or that is not begun again, never ends
_WITHIN_S: Final = 60.0


class Operate(Protocol):
    """Asks the active server until one has done it."""

    def __call__(self, ask: Callable[[Operator], bool], within_s: float) -> bool:
        """Return whether one has, in time."""


class Steering:
    """Steers the snapshots of client ids.

    Args:
        operate: see there.
        log: file that gets a line for each attempt.
    """

    def __init__(self, operate: Operate, log: Path) -> None:
        self._operate, self._log = operate, log
        #: from when to when a call was made, microseconds since 1970
        self.calls: list[tuple[int, int]] = []
        #: client ids whose snapshot was stopped, at least for a moment
        self.stopped: set[str] = set()

    def begin(self, client_id: str, happening: Happening) -> tuple[Callable[[], None], bool]:
        """Steer; return a function that ends it, and whether something was done now.

        Planned offset ranges outlast a pause only.
        """
        number = happening.whom // 2
        what = (self._pause, self._stop, self._read_again)[number % 3 if client_id == COPY else 0]
        return what(client_id, number // 3)

    def _pause(self, client_id: str, _: int) -> tuple[Callable[[], None], bool]:
        done = self._ask(calls.PauseSnapshot(client_id))

        def resume() -> None:
            self._ask(calls.ResumeSnapshot(client_id))

        return resume, done

    def _stop(self, client_id: str, _: int) -> tuple[Callable[[], None], bool]:
        self.stopped.add(client_id)
        done = self._ask(calls.StopSnapshot(client_id))

        def begin_again() -> None:
            for shard, table in product(range(SHARDS), TABLES):
                self._ask(calls.AddToSnapshot(client_id, _name(shard, table)))

        return begin_again, done

    def _read_again(self, client_id: str, number: int) -> tuple[Callable[[], None], bool]:
        """Have a table read again, or a part of it if it was read to its end."""
        shard, table = number % SHARDS, TABLES[number // SHARDS % len(TABLES)]
        key = table.inserted[0]
        part = f"{key} % 3 = 0" if number % 3 else None
        done = any(
            self._ask(calls.ReadAgain(client_id, _name(shard, table), where))
            for where in dict.fromkeys((part, None))
        )
        return lambda: None, done

    def _ask(self, call: calls.Steering) -> bool:
        """Make a call; return whether it was not refused."""
        begin_us, refused = now_us(), False

        def ask(operator: Operator) -> bool:
            nonlocal refused
            try:
                answer: object = operator.ask(call)
            except CanalGroupError as error:
                refused, answer = isinstance(error, UsageError), error
            with self._log.open("a") as log:
                log.write(f"{now_us()} {call}: {type(answer).__name__} {answer}\n")
            return refused or not isinstance(answer, CanalGroupError)

        done = self._operate(ask, _WITHIN_S)
        self.calls.append((begin_us, now_us()))
        return done and not refused


def _name(shard: int, table: DemoTable) -> str:
    return f"{schema_name(shard)}.{table.source(shard)}"
