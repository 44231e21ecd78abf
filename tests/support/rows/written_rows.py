"""Rows of the demo, as a consumer gets them."""

from __future__ import annotations

from canal_group.zookeeper.tree import Tree

SHARD, FILE, TREE, CLIENT = "shop-0", "mysql-bin.000001", Tree("chaos"), "1001"


def row(number: int, key: int | None) -> dict[str, object]:
    return {
        "seq": number,
        "shard": SHARD,
        "schema": "shop",
        "table": "orders",
        "op": "INSERT",
        "commit_us": number,
        "key_us": key if key is not None else number,
        "late": False,
        "gtid": f"0-1-{number}",
        "file": FILE,
        "pos": number * 100,
        "row": 0,
        "key": [("id", str(number))],
        "before": None,
        "after": [("id", str(number)), ("written_us", "1")],
        "sql": None,
    }
