"""What tests of the examples share: running one, and the lines that the documentation gives."""

from __future__ import annotations

import re
import runpy
import shlex
import sys
from collections.abc import Mapping
from typing import Any

import pytest
from integration.shop import Shop
from integration.spark_sink import ROOT


def tables(shop: Shop, columns: str = "id, note, price", table: str = "orders") -> list[tuple[Any, ...]]:
    """Return the rows that the shards hold, sorted."""
    return sorted(
        row
        for index, server in enumerate(shop.servers)
        for row in server.execute(f"SELECT {columns} FROM shop_{index}.{table}")
    )


def example(name: str, *arguments: object) -> dict[str, Any]:
    """Run an example in this process, on the tests' Spark; return its globals."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", [name, *map(str, arguments)])
        return runpy.run_path(str(ROOT / "examples" / name), run_name="__main__")


def definitions(name: str) -> dict[str, Any]:
    """Return the globals of an example, without running it."""
    return runpy.run_path(str(ROOT / "examples" / name))


def line_of(marker: str, changed: Mapping[str, str]) -> list[str]:
    """Return a command of docs/spark.md, with other words instead of some of its own.

    Args:
        marker: of the comment above it.
        changed: from words to words; each is one of the command's.
    """
    text = (ROOT / "docs" / "spark.md").read_text()
    (block,) = re.findall(rf"<!-- a test runs this: {marker} -->\n```sh\n(.*?)```", text, re.DOTALL)
    words = shlex.split(block.replace("\\\n", " "))
    assert changed.keys() <= set(words), "the documented command has other words"
    return [changed.get(word, word) for word in words]
