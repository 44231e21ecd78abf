"""The README's query, on a real Spark over real shards."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from integration.shop import Shop
from integration.spark_sink import ROOT, options, serving

pytestmark = pytest.mark.timeout(180)


def test_the_readmes_query_writes_parquet(
    spark: Any, shop: Shop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (snippet,) = re.findall(
        r"<!-- a test runs this on Spark -->\n```python\n(.*?)```",
        (ROOT / "README.md").read_text(),
        re.DOTALL,
    )
    assert len([line for line in snippet.splitlines() if line]) <= 10
    with serving(shop) as instance:
        chosen = options(shop, instance)
        for name, value in (
            ("gateway", "grpc://127.0.0.1:11113"),
            ("destination", "shop"),
            ("client", "revenue"),
        ):
            snippet = snippet.replace(f'"{value}"', repr(chosen[name]))
        for folder in ("orders", "checkpoint"):
            snippet = snippet.replace(f'"{folder}"', repr(str(tmp_path / folder)))
        exec(snippet, {})
    assert spark.read.parquet(str(tmp_path / "orders")).count() == shop.rows
