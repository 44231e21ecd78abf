"""The demo's tables: split over the shards at their sources, one each in the merged stream."""

from __future__ import annotations

from dataclasses import dataclass

#: the cut tables of all shards, as `filter.white` wants them
WHITE = r"shop_\d+\..+"
#: what an ORDER may be
STATES = ("new", "paid", "packed", "sent", "lost")


@dataclass(frozen=True, slots=True)
class DemoTable:
    """A logical table."""

    #: as the merged stream calls it
    name: str
    #: CREATE TABLE's list; the primary key's columns stand first
    columns: str
    #: columns that an INSERT names, in the table's order
    inserted: tuple[str, ...]
    #: how many columns the primary key has
    key_columns: int

    def source(self, shard: int) -> str:
        """Return the table's name on a shard, without its schema."""
        return f"{self.name}_{shard}"

    def create(self, shard: int) -> str:
        """Return the statement that makes the table on a shard."""
        return f"CREATE TABLE {self.source(shard)} ({self.columns})"


ORDERS = DemoTable(
    "orders",
    """
    id BIGINT UNSIGNED NOT NULL PRIMARY KEY,
    customer VARCHAR(80) NOT NULL,
    token BIGINT UNSIGNED NOT NULL,
    amount DECIMAL(14,4) NOT NULL,
    placed_at DATETIME(6) NOT NULL,
    state ENUM('new','paid','packed','sent','lost') NOT NULL,
    weight DOUBLE NULL,
    detail JSON NULL,
    note TEXT NULL,
    written_us BIGINT NOT NULL
    """,
    (
        "id",
        "customer",
        "token",
        "amount",
        "placed_at",
        "state",
        "weight",
        "detail",
        "note",
        "written_us",
    ),
    key_columns=1,
)
ITEMS = DemoTable(
    "items",
    """
    order_id BIGINT UNSIGNED NOT NULL,
    line SMALLINT UNSIGNED NOT NULL,
    product VARCHAR(60) NOT NULL,
    quantity INT NOT NULL,
    price DECIMAL(10,2) NULL,
    written_us BIGINT NOT NULL,
    PRIMARY KEY (order_id, line)
    """,
    ("order_id", "line", "product", "quantity", "price", "written_us"),
    key_columns=2,
)
TABLES = (ORDERS, ITEMS)

#: the column that every shard's orders get while the demo runs, and what older rows get in it
ADDED_COLUMN, ADDED_VALUE = "channel", "shop"


def added(shard: int) -> str:
    """Return the statement that adds the column on a shard."""
    return (
        f"ALTER TABLE {ORDERS.source(shard)} "
        f"ADD COLUMN {ADDED_COLUMN} VARCHAR(20) NOT NULL DEFAULT '{ADDED_VALUE}'"
    )


def schema_name(shard: int) -> str:
    """Return the schema that holds a shard's tables."""
    return f"shop_{shard}"


def routes() -> list[dict[str, str]]:
    """Return `filter.routes`: the cut tables become the logical ones."""
    return [{"match": rf"shop_\d+\.{table.name}_\d+", "to": f"shop.{table.name}"} for table in TABLES]
