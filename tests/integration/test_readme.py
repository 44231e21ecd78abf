"""The README's consumer does what the README says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from integration.shop import Shop

import canal_group

README = Path(__file__).parents[2] / "README.md"


class Enough(Exception):  # noqa: N818  no error: the snippet reads for ever, and has read enough
    pass


def test_the_readmes_consumer_reads_and_acknowledges(
    shop: Shop, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    (snippet,) = re.findall(r"<!-- a test runs this -->\n```python\n(.*?)```", README.read_text(), re.DOTALL)
    assert len(snippet.strip().splitlines()) <= 10
    with shop.serve() as instance:
        shop.connect(instance, client_id="mirror").close()
        shop.write(0, 1, rows=3)
        snippet = snippet.replace("grpc://127.0.0.1:11113", instance.uri).replace(
            '"shop"', repr(shop.destination)
        )
        acknowledge = canal_group.Consumer.ack

        def ack_once(self: canal_group.Consumer, batch_id: int) -> None:
            acknowledge(self, batch_id)
            raise Enough

        monkeypatch.setattr(canal_group.Consumer, "ack", ack_once)
        with pytest.raises(Enough):
            exec(snippet, {})
        monkeypatch.undo()
        with shop.connect(instance, client_id="mirror") as consumer:
            assert consumer.cursor.sequence == 3
    assert capsys.readouterr().out.split()[1:] == ["3", "3"]
