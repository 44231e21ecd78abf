"""What tests of the examples share: tables to mirror, and the lines that the documentation gives."""

from __future__ import annotations

import re
import runpy
import shlex
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from integration.shop import Shop

from actors.launch import Instance

ROOT = Path(__file__).parents[2]
CLIENT = "pipeline"


@contextmanager
def serving(shop: Shop, *clients: str, **settings: Any) -> Iterator[Instance]:
    """Run an instance that keeps the rows of these clients from its first row on."""
    with shop.serve(**settings) as instance:
        for client in clients:
            with shop.connect(instance, client_id=client) as first:
                shop.write_everywhere(1)
                assert first.get_without_ack() is not None
        yield instance


def change(shop: Shop) -> None:
    """Write to all shards: inserts, updates, changes of keys, deletes."""
    shop.write_everywhere(8, rows=3)
    for index, server in enumerate(shop.servers):
        server.execute(
            f"UPDATE shop_{index}.orders SET note = CONCAT(note, '!') ORDER BY id DESC LIMIT 5",
            f"UPDATE shop_{index}.orders SET id = id + {1_000_000 * (index + 1)} WHERE id < 1000000 LIMIT 1",
            f"DELETE FROM shop_{index}.orders ORDER BY id LIMIT 4",
        )


def tables(shop: Shop, columns: str = "id, note, price", table: str = "orders") -> list[tuple[Any, ...]]:
    """Return the rows that the shards hold, sorted."""
    return sorted(
        row
        for index, server in enumerate(shop.servers)
        for row in server.execute(f"SELECT {columns} FROM shop_{index}.{table}")
    )


def example(name: str, *arguments: object) -> dict[str, Any]:
    """Run an example in this process, on the tests' Spark; return what it defines."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", [name, *map(str, arguments)])
        return runpy.run_path(str(ROOT / "examples" / name), run_name="__main__")


def definitions(name: str) -> dict[str, Any]:
    """Return what an example defines, without running it."""
    return runpy.run_path(str(ROOT / "examples" / name))


def line_of(marker: str, changed: Mapping[str, str]) -> list[str]:
    """Return a command of docs/spark.md, with other words in the place of some of its own.

    Args:
        marker: of the comment above it.
        changed: from words to words; each is one of the command's.
    """
    text = (ROOT / "docs" / "spark.md").read_text()
    (block,) = re.findall(rf"<!-- a test runs this: {marker} -->\n```sh\n(.*?)```", text, re.DOTALL)
    words = shlex.split(block.replace("\\\n", " "))
    assert changed.keys() <= set(words), "the documented command has other words"
    return [changed.get(word, word) for word in words]
