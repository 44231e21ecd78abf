"""Rows that move from shard to shard: the writer of one deletes an order, and that of the next inserts it."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from random import Random
from typing import Final

from canal_group.programs.demo.tables import ORDERS, STATES
from canal_group.programs.demo.written import Change
from playground.load.workload import NOW_US, Statement, Transaction

#: orders that begin on each shard; their ids are above those of the writers' own orders
ORDERS_EACH: Final = 3
FIRST_ID: Final = 10**9
#: probability that a transaction moves an order, if there is one
_OFTEN: Final = 0.2
_COLUMNS: Final = ("id", "customer", "token", "amount", "placed_at", "state", "written_us")


@dataclass(frozen=True, slots=True)
class Move(Transaction):
    """A transaction by which an order leaves a shard, or arrives there."""

    order_id: int = 0
    leaves: bool = False


class Moves:
    """Orders that are on their way, or on a shard; each shard's methods are called by its writer's thread.

    Args:
        shards: how many take part.
        seed: of what is in the orders.
    """

    def __init__(self, shards: int, seed: int) -> None:
        ids = [
            range(FIRST_ID + shard, FIRST_ID + shard + ORDERS_EACH * shards, shards)
            for shard in range(shards)
        ]
        self._arriving = [deque(each) for each in ids]
        self._there: list[deque[int]] = [deque() for _ in range(shards)]
        self._chances = [Random(f"canal-group chaos moves {seed} {shard}") for shard in range(shards)]

    def next(self, shard: int) -> Move | None:
        """Return a transaction that moves an order to a shard or from it; None: none does now."""
        if shard >= len(self._there) or self._chances[shard].random() > _OFTEN:
            return None
        if self._arriving[shard]:
            return self._arrives(shard, self._arriving[shard].popleft())
        if self._there[shard]:
            return _leaves(shard, self._there[shard].popleft())
        return None

    def committed(self, shard: int, move: Move) -> None:
        """Note that a move was committed on a shard."""
        if move.leaves:
            self._arriving[(shard + 1) % len(self._arriving)].append(move.order_id)
        else:
            self._there[shard].append(move.order_id)

    def _arrives(self, shard: int, order_id: int) -> Move:
        chance = self._chances[shard]
        state, amount = chance.choice(STATES), chance.randint(1, 10**6)
        values = (
            order_id,
            f"moves to {shard}",
            chance.getrandbits(64),
            amount,
            "2024-02-29 12:00:00",
            state,
            NOW_US,
        )
        marks = ", ".join(["%s"] * len(values))
        sql = f"INSERT INTO {ORDERS.source(shard)} ({', '.join(_COLUMNS)}) VALUES ({marks})"
        return Move((Statement(sql, values, Change(ORDERS.name, "INSERT", 1)),), order_id=order_id)


def _leaves(shard: int, order_id: int) -> Move:
    sql = f"DELETE FROM {ORDERS.source(shard)} WHERE id = %s"
    return Move(
        (Statement(sql, (order_id,), Change(ORDERS.name, "DELETE", 1)),), order_id=order_id, leaves=True
    )
