"""Cursors, epochs and claims that are none of ours: somebody planted them where the server reads them."""

from __future__ import annotations

import zlib
from pathlib import Path

import pytest

from actors.coordination.consumer_nodes import parsed
from actors.coordination.local import LocalCoordinator
from actors.meta.file import FileCursorStore
from actors.meta.zookeeper import UNPACKED_BYTES_MAX, ZooKeeperCursorStore
from canal_group.zookeeper.tree import Tree
from merge.errors import ConfigError

TREE = Tree("shop")
#: Python reads no JSON that is nested so deep, and says so by an error of its own
NESTED = b"[" * 100_000


class Planted:
    """The nodes of one client id, with a cursor of somebody's choice."""

    def __init__(self, cursor: bytes) -> None:
        self._data = {f"{TREE.client('1001')}/filter": b"", f"{TREE.client('1001')}/cursor": cursor}

    def read(self, path: str) -> bytes | None:
        return self._data.get(path)

    def children(self, path: str) -> list[str]:
        assert path == TREE.destination
        return ["1001", "epoch"]

    def write(self, *_: object) -> None:
        raise AssertionError("nothing is written")

    def require_epoch(self, _: int) -> None:
        raise AssertionError("nothing is asked")


@pytest.mark.parametrize(
    "planted",
    [
        b"",
        b"{",
        b"5",
        NESTED,
        b"zlib\n",
        b"zlib\n" + zlib.compress(NESTED),
        b"zlib\n" + zlib.compress(b"{" * 100)[:-9],
        b"zlib\n" + zlib.compress(bytes(1_000)),
    ],
    ids=lambda planted: planted[:8],
)
def test_a_cursor_that_is_none_is_refused(planted: bytes):
    with pytest.raises(ConfigError, match="1001 does not hold a subscription of canal-group"):
        ZooKeeperCursorStore(Planted(planted), TREE).load()


def test_a_cursor_that_becomes_more_than_any_is_not_unpacked():
    """A node holds 1 MB, which would be a gigabyte."""
    bomb = b"zlib\n" + zlib.compress(bytes(UNPACKED_BYTES_MAX + 1), 1)
    assert len(bomb) < 1_000_000
    with pytest.raises(ConfigError, match="unpacks to more than 67,108,864 bytes"):
        ZooKeeperCursorStore(Planted(bomb), TREE).load()


@pytest.mark.parametrize(
    "planted", [b"5", b"{", NESTED, b'{"epoch": 1, "subscriptions": {"1": []}}'], ids=len
)
def test_a_file_of_cursors_that_is_none_is_refused(planted: bytes, tmp_path: Path):
    store = FileCursorStore("shop", tmp_path)
    store.file.write_bytes(planted)
    with pytest.raises(ConfigError, match="does not hold cursors"):
        store.load()


@pytest.mark.parametrize("planted", [b"5", b"{", NESTED, b'{"server": 1, "consumers": {"1": []}}'], ids=len)
def test_a_file_of_epochs_that_is_none_is_refused(planted: bytes, tmp_path: Path):
    (tmp_path / "shop.epochs.json").write_bytes(planted)
    coordinator = LocalCoordinator("shop", tmp_path)
    with pytest.raises(ConfigError, match="does not hold epochs"):
        coordinator.campaign()
    coordinator.close()


@pytest.mark.parametrize("planted", [b"", b"5", b"{", b"\xff", NESTED], ids=len)
def test_what_a_consumers_node_says_may_be_anything(planted: bytes):
    assert parsed(planted) == {}
