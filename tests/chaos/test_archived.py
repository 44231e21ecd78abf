"""Tests of the audit of an archive: what was delivered is in it, and it is like its sources."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from support.binlog.archived import RECORDED, SERVER, written

from canal_group.binlog.archive.archive import Archive
from canal_group.binlog.archive.disk import Disk
from chaos.archived import contents, not_archived, too_early, transactions_of, unlike
from chaos.commits import Commit, Commits

#: a MariaDB, and a MySQL
RECORDINGS = ["shop-0", "shop-1"]


def binlogs(recording: str) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in sorted((RECORDED / recording).glob("mysql-bin.*"))}


def delivered(gtids: list[str]) -> pa.Table:
    return pa.table({"shard": ["s0"] * len(gtids), "gtid": gtids, "row": [0] * len(gtids)})


@pytest.fixture(params=RECORDINGS)
def archive(request: pytest.FixtureRequest, tmp_path: Path) -> Archive:
    written(tmp_path / "archive", binlogs(request.param))
    return Archive(Disk(), tmp_path / "archive")


def test_a_delivered_transaction_has_to_be_there_as_a_whole(archive: Archive) -> None:
    """The last transaction, or its end, is missing."""
    gtids = [gtid for _, _, binlog in contents(archive) for gtid in transactions_of(binlog)]
    assert len(gtids) > 10
    assert not list(not_archived(archive, [delivered(gtids)]))
    (missing,) = not_archived(archive, [delivered([*gtids, f"{gtids[-1]}0"])])
    assert missing.startswith(f"s0 {gtids[-1]}0 was delivered")
    *_, (_, _, last) = contents(archive)
    whole, cut = (list(transactions_of(data)) for data in (last, last[:-400]))
    assert cut in (whole[:-1], whole[:-2]), "the end of the last one is cut"


def test_a_file_has_to_be_the_beginning_of_the_sources(archive: Archive, tmp_path: Path) -> None:
    own = tmp_path / "own"
    own.mkdir()
    for _, name, binlog in contents(archive):
        (own / name).write_bytes(binlog + b"more")
    assert not list(unlike(archive, {SERVER: own}))
    data = bytearray(binlog)
    data[-1] ^= 1
    (own / name).write_bytes(data)
    (wrong,) = unlike(archive, {SERVER: own})
    assert f"{name} is not the source's from byte {len(binlog) - 1:,} on" in wrong
    (own / name).unlink()
    assert not list(unlike(archive, {SERVER: own})), "the source has purged it"


def test_nothing_may_be_delivered_while_the_disk_takes_nothing() -> None:
    """Three transactions are committed: before the disk is full, then, and after it."""
    record = Commits("s0", "0-1-", 1)
    for number, begun_us in enumerate((5, 15, 25), 1):
        record.commit((), Commit(f"0-1-{number}", 101, begun_us, begun_us + 1))
    rows = delivered(["0-1-1", "0-1-2"])
    assert not list(too_early([(12, delivered(["0-1-1"])), (21, rows)], [record], [(10, 20)]))
    (early,) = too_early([(18, rows), (30, delivered(["0-1-3"]))], [record], [(10, 20)])
    assert early.startswith("s0 0-1-2 was delivered")
