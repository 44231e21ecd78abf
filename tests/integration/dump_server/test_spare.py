"""A process that waits becomes the dump server of a real source."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.deadline import await_true
from support.sources.dumped_source import Source, ids, only
from support.sources.marked import MARK, marked
from support.sources.recorder import await_rows, reading

from canal_group.binlog.server.dump_server.spare import SPARE


def test_a_reader_takes_the_process_that_waits(
    source: Source, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """1. A process waits, and the first reader takes it. 2. Another one waits, and is not needed."""
    source.create("a")
    monkeypatch.setenv(MARK, f"{tmp_path}/first")
    SPARE.prepare()
    monkeypatch.setenv(MARK, f"{tmp_path}/second")
    with reading(source.reader(0), select=only("a")) as first:
        await_true(lambda: len(source.dumps) == 1, "one dump")
        assert source.dump_server() in marked(f"{tmp_path}/first")
        SPARE.prepare()
        await_true(lambda: len(marked(f"{tmp_path}/second")) == 1, "it waits")
        with reading(source.reader(1), select=only("a")) as second:
            source.insert("a", range(10))
            for recorder in (first, second):
                await_rows(recorder, "a", 10)
                assert ids(recorder, "a") == list(range(10))
            await_true(lambda: not marked(f"{tmp_path}/second"), "it is not needed")
        await_true(lambda: len(source.dumps) == 1, "what was looked at has ended, and there is one dump")
