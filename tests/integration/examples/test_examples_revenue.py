"""examples/revenue.py: sums of known minutes; and what plot.py says of a query that did nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from integration.shop import Shop
from integration.spark_examples import example
from integration.spark_sink import CLIENT
from support.soak import patient

pytestmark = pytest.mark.timeout(patient(120))


def at(shop: Shop, shard: int, minute: str, *statements: str) -> None:
    """Commit statements on a shard, each a transaction, in some minute of 1 March 2026, UTC."""
    connection = shop.servers[shard].connect(f"shop_{shard}")
    try:
        with connection.cursor() as cursor:
            cursor.execute(f"SET time_zone = '+00:00', timestamp = UNIX_TIMESTAMP('2026-03-01 {minute}:30')")
            for statement in statements:
                cursor.execute(statement)
                cursor.execute("COMMIT")
    finally:
        connection.close()


@pytest.mark.soak
def test_revenue_by_minute_is_what_each_minute_sold_on_all_shards(
    spark: Any, shop: Shop, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """1. Sales, an update and a delete in known minutes. 2. Restarted, an open minute is continued.
    3. Behind the watermark a minute stays as it was, and that is said.
    """
    with shop.serve() as instance:
        shop.connect(instance, client_id=CLIENT).close()

        def minutes() -> list[str]:
            example(
                *("revenue.py", "--gateway", instance.uri, "--destination", shop.destination),
                *("--client", CLIENT, "--table", "shop.orders", "--sum", "price"),
                *("--checkpoint", tmp_path / "checkpoint", "--once"),
            )
            return capsys.readouterr().out.splitlines()

        for shard in (0, 1):
            insert = f"INSERT INTO orders VALUES ({shard}, 'a', 10.25), ({shard + 2}, 'b', 5)"
            at(shop, shard, "12:00", insert)
        update = "UPDATE orders SET price = 12.25 WHERE id = 0"
        at(shop, 0, "12:01", update, "DELETE FROM orders WHERE id = 2")
        at(shop, 1, "12:30", "INSERT INTO orders VALUES (5, 'c', 4)")
        assert last(minutes()) == {
            "2026-03-01 12:00": "30.50  from 2 shards",
            "2026-03-01 12:01": "-3.00  from 1 shards",
            "2026-03-01 12:30": "4.00  from 1 shards",
        }
        at(shop, 0, "12:02", "INSERT INTO orders VALUES (9, 'd', 100)")
        at(shop, 0, "12:30", "INSERT INTO orders VALUES (7, 'e', 1)")
        *sums, late = minutes()
        assert last(sums) == {"2026-03-01 12:30": "5.00  from 2 shards"}
        assert late.endswith(": rows came too late to count")


def last(lines: list[str]) -> dict[str, str]:
    """Return the sum of each minute as it was printed last: it comes again whenever it changes."""
    return dict(line.split("  ", 1) for line in lines)


def test_no_progress_gives_no_picture(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "nothing.jsonl").touch()
    with pytest.raises(SystemExit):
        example("plot.py", tmp_path / "nothing.jsonl", tmp_path / "nothing.png")
    assert "has no micro-batch with rows" in capsys.readouterr().err
