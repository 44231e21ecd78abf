"""The workload: what one shard's writer will do, as a function of the seed alone.

A workload is a list of transactions in order. Only `NOW_US` is left open: it stands where the writer puts the
time at which it sends the statement. Each statement changes exactly the rows it announces, because the
workload knows which rows exist; ids are unique over all shards (`n * shards + shard`).
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any, Final

from canal_group.programs.demo.tables import ADDED_COLUMN, ITEMS, ORDERS, STATES, DemoTable, added
from canal_group.programs.demo.written import Change


class _Now:
    """Stands for the time of sending, microseconds since 1970 UTC."""

    def __repr__(self) -> str:
        return "NOW_US"


NOW_US: Final = _Now()

#: rows of one INSERT of the large transaction
BIG_INSERT_ROWS: Final = 500
#: orders, and items, of one INSERT into tables that are to be full
FILL_INSERT_ROWS: Final = 250
_EPOCH = datetime(2024, 2, 28, 12)  # noqa: DTZ001 - DATETIME has no zone
_NAMES = ("Ada", "Grace", "Łukasz", "Zoë", "李雷", "O'Neill", "Ünal", "नेहा", "🦆 Donald", 'Back\\slash "Q"')
_PRODUCTS = ("tea", "chêne", "мёд", "寿司", "nut & bolt", "100% wool", "semi;colon", "tab\there")
_CHANNELS = ("web", "shop", "phone", "café")


@dataclass(frozen=True, slots=True)
class Statement:
    """SQL with `%s` for each argument, and what it changes."""

    sql: str
    arguments: tuple[Any, ...]
    change: Change


@dataclass(frozen=True, slots=True)
class Transaction:
    """Statements that are committed together."""

    statements: tuple[Statement, ...]
    #: whether it belongs to the slow beginning
    gentle: bool = False
    #: whether it may be left away when time is short
    small: bool = False

    @property
    def changes(self) -> tuple[Change, ...]:
        """What it changes, statement by statement."""
        return tuple(statement.change for statement in self.statements)


class Workload:
    """One shard's transactions; iterate it once, after `fill` if its tables are to be full.

    In the middle it adds a column, at two thirds it runs the large transaction.

    Args:
        shard: shard_index.
        shards: how many there are.
        seed: of the demo.
        transactions: small ones.
        gentle: how many of these belong to the slow beginning.
        big_rows: rows of the large transaction; 0: this shard has none.
    """

    def __init__(
        self, *, shard: int, shards: int, seed: int, transactions: int, gentle: int = 0, big_rows: int = 0
    ) -> None:
        self._shard, self._shards = shard, shards
        self._transactions, self._gentle, self._big_rows = transactions, gentle, big_rows
        self._random = random.Random(f"canal-group demo {seed} {shard}")
        #: ids that exist, and how many items those have that have some
        self._ids: list[int] = []
        self._items: dict[int, int] = {}
        self._made = 0
        self._has_added_column = False
        self._kinds: list[tuple[int, Callable[[], tuple[Statement, ...]]]] = [
            (35, self._one_order),
            (20, self._order_with_items),
            (20, self._update_one),
            (9, self._update_some),
            (5, self._renumber_items),
            (7, self._delete_with_items),
            (4, self._many_orders),
        ]

    def fill(self, rows: int) -> Iterator[Transaction]:
        """Yield transactions that insert so many rows, or some more, before all others."""
        while rows > 0:
            statements = [self._insert_orders(FILL_INSERT_ROWS)]
            items = []
            for order_id in self._ids[-FILL_INSERT_ROWS:]:
                self._items[order_id] = 1
                items.append(self._item(order_id, 1))
            statements.append(self._insert(ITEMS, items))
            rows -= 2 * FILL_INSERT_ROWS
            yield Transaction(tuple(statements))

    def __iter__(self) -> Iterator[Transaction]:
        alter_at, big_at = self._transactions // 2, self._transactions * 2 // 3
        for number in range(self._transactions):
            if number == alter_at:
                yield self._alter()
            if number == big_at and self._big_rows:
                yield self._big()
            yield Transaction(self._small(), gentle=number < self._gentle, small=True)

    # ---- transactions ----------------------------------------------------------------------------------

    def _small(self) -> tuple[Statement, ...]:
        weights, kinds = zip(*self._kinds, strict=True)
        return self._random.choices(kinds, weights)[0]() or self._one_order()

    def _alter(self) -> Transaction:
        self._has_added_column = True
        return Transaction((Statement(added(self._shard), (), Change(ORDERS.name, "ALTER", 1)),))

    def _big(self) -> Transaction:
        """Return the large transaction: orders in long INSERTs."""
        remaining, statements = self._big_rows, []
        while remaining:
            count = min(remaining, BIG_INSERT_ROWS)
            statements.append(self._insert_orders(count))
            remaining -= count
        return Transaction(tuple(statements))

    def _one_order(self) -> tuple[Statement, ...]:
        return (self._insert_orders(1),)

    def _many_orders(self) -> tuple[Statement, ...]:
        return (self._insert_orders(self._random.randint(5, 15)),)

    def _order_with_items(self) -> tuple[Statement, ...]:
        order = self._insert_orders(1)
        order_id, count = self._ids[-1], self._random.randint(2, 5)
        self._items[order_id] = count
        return order, self._insert(ITEMS, [self._item(order_id, line + 1) for line in range(count)])

    def _update_one(self) -> tuple[Statement, ...]:
        ids = self._some_ids(1)
        if not ids:
            return ()
        assigned = ["state = %s", "weight = %s", "note = %s", "written_us = %s"]
        arguments = [self._random.choice(STATES), self._weight(), self._note(), NOW_US]
        if self._has_added_column:
            assigned.append(f"{ADDED_COLUMN} = %s")
            arguments.append(self._random.choice(_CHANNELS))
        sql = f"UPDATE {ORDERS.source(self._shard)} SET {', '.join(assigned)} WHERE id = %s"
        return (Statement(sql, (*arguments, *ids), Change(ORDERS.name, "UPDATE", 1)),)

    def _update_some(self) -> tuple[Statement, ...]:
        ids = self._some_ids(self._random.randint(2, 8))
        if not ids:
            return ()
        sql = (
            f"UPDATE {ORDERS.source(self._shard)} SET amount = amount + %s, written_us = %s "
            f"WHERE id IN ({_marks(len(ids))})"
        )
        arguments = (Decimal(self._random.randint(-9999, 9999)).scaleb(-4), NOW_US, *ids)
        return (Statement(sql, arguments, Change(ORDERS.name, "UPDATE", len(ids))),)

    def _renumber_items(self) -> tuple[Statement, ...]:
        """Return an UPDATE that changes primary keys, and one of another table."""
        order_id = self._id_with_items()
        if order_id is None:
            return ()
        moved = (
            f"UPDATE {ITEMS.source(self._shard)} SET line = line + 50, written_us = %s "
            f"WHERE order_id = %s ORDER BY line DESC"
        )
        noted = f"UPDATE {ORDERS.source(self._shard)} SET written_us = %s WHERE id = %s"
        return (
            Statement(moved, (NOW_US, order_id), Change(ITEMS.name, "UPDATE", self._items[order_id])),
            Statement(noted, (NOW_US, order_id), Change(ORDERS.name, "UPDATE", 1)),
        )

    def _delete_with_items(self) -> tuple[Statement, ...]:
        ids = self._some_ids(1)
        if not ids:
            return ()
        order_id = ids[0]
        self._ids[self._ids.index(order_id)] = self._ids[-1]
        self._ids.pop()
        statements = []
        count = self._items.pop(order_id, 0)
        if count:
            sql = f"DELETE FROM {ITEMS.source(self._shard)} WHERE order_id = %s"
            statements.append(Statement(sql, (order_id,), Change(ITEMS.name, "DELETE", count)))
        sql = f"DELETE FROM {ORDERS.source(self._shard)} WHERE id = %s"
        return (*statements, Statement(sql, (order_id,), Change(ORDERS.name, "DELETE", 1)))

    # ---- rows ------------------------------------------------------------------------------------------

    def _insert_orders(self, count: int) -> Statement:
        return self._insert(ORDERS, [self._order() for _ in range(count)])

    def _insert(self, table: DemoTable, rows: list[tuple[Any, ...]]) -> Statement:
        columns = list(table.inserted)
        if table is ORDERS and self._has_added_column:
            columns.append(ADDED_COLUMN)
        values = ", ".join([f"({_marks(len(columns))})"] * len(rows))
        sql = f"INSERT INTO {table.source(self._shard)} ({', '.join(columns)}) VALUES {values}"
        arguments = tuple(value for row in rows for value in row)
        return Statement(sql, arguments, Change(table.name, "INSERT", len(rows)))

    def _order(self) -> tuple[Any, ...]:
        chance = self._random
        self._made += 1
        order_id = self._made * self._shards + self._shard
        self._ids.append(order_id)
        values = (
            order_id,
            f"{chance.choice(_NAMES)} {chance.randint(1, 9999)}",
            chance.getrandbits(64),
            Decimal(chance.randint(-(10**9), 10**10)).scaleb(-4),
            _EPOCH + timedelta(microseconds=chance.randrange(10**14)),
            chance.choice(STATES),
            self._weight(),
            self._detail(),
            self._note(),
            NOW_US,
        )
        return (*values, chance.choice(_CHANNELS)) if self._has_added_column else values

    def _item(self, order_id: int, line: int) -> tuple[Any, ...]:
        chance = self._random
        price = None if self._happens(10) else Decimal(chance.randint(1, 99_999)).scaleb(-2)
        return order_id, line, chance.choice(_PRODUCTS), chance.randint(-3, 1000), price, NOW_US

    def _weight(self) -> float | None:
        """Return none, a short number, or one with all its digits."""
        if self._happens(20):
            return None
        return round(self._random.uniform(0, 50), 3) if self._happens(75) else self._random.gauss(0, 1e4)

    def _detail(self) -> str | None:
        if self._happens(30):
            return None
        detail = {"gift": self._happens(50), "tags": self._random.sample(_PRODUCTS, 2)}
        return json.dumps(detail, ensure_ascii=False)

    def _note(self) -> str | None:
        chance = self._random
        return chance.choice((None, "", "urgent\nsecond line", "é" * chance.randint(1, 30)))

    def _happens(self, percent: int) -> bool:
        return self._random.randrange(100) < percent

    def _some_ids(self, count: int) -> list[int]:
        return sorted(set(self._random.choices(self._ids, k=count))) if self._ids else []

    def _id_with_items(self) -> int | None:
        return next((each for each in self._some_ids(8) if each in self._items), None)


def _marks(count: int) -> str:
    return ", ".join(["%s"] * count)
