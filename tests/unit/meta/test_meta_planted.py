"""Cursors, epochs and claims that are none of ours: somebody planted them where the server reads them."""

from __future__ import annotations

import asyncio
import json
import zlib
from pathlib import Path

import pytest
from unit.meta.nodes import Nodes

from canal_group.actors.coordination.consumer_nodes import parsed
from canal_group.actors.coordination.local import LocalCoordinator
from canal_group.actors.group.stored.cursors import CURSORS, StoredCursors
from canal_group.actors.meta.file import FileStore
from canal_group.actors.meta.zookeeper import UNPACKED_BYTES_MAX, ZooKeeperStore
from canal_group.actors.ports import EpochStore, Key, Subscription
from canal_group.actors.process.host import OsHost
from canal_group.merge.errors import ConfigError
from canal_group.zookeeper.tree import Tree

TREE = Tree("shop")
#: Python reads no JSON that is nested so deep, and says so by an error of its own
NESTED = b"[" * 100_000


def nodes_of(cursor: bytes) -> Nodes:
    """Return the nodes of one client id, with a cursor of somebody's choice."""
    nodes = Nodes(epoch=1)
    nodes.data = {f"{TREE.client('1001')}/filter": b"", f"{TREE.client('1001')}/cursor": cursor}
    return nodes


def load(store: EpochStore) -> list[Subscription]:
    return asyncio.run(StoredCursors(store, 1, OsHost()).load())


def set_aside(store: EpochStore) -> ConfigError:
    """Return why the one client id that is stored is set aside."""
    (found,) = load(store)
    assert (found.client_id, found.cursor, found.dropped) == ("1001", None, True)
    assert found.unreadable is not None
    return found.unreadable


@pytest.mark.parametrize(
    "planted",
    [
        b"",
        b"{",
        b"5",
        NESTED,
        b"\xff",
        b'{"@type":"com.alibaba.otter.canal.protocol.position.LogPosition"}',
        b"zlib\n",
        b"zlib\n" + zlib.compress(NESTED),
        b"zlib\n" + zlib.compress(b"{" * 100)[:-9],
        b"zlib\n" + zlib.compress(bytes(1_000)),
    ],
    ids=lambda planted: planted[:8],
)
def test_a_malformed_cursor_sets_its_client_aside(planted: bytes):
    error = set_aside(ZooKeeperStore(nodes_of(planted), TREE))
    assert "shop/1001 does not hold cursors of canal-group" in error.message
    assert error.hint.startswith("If canal uses this destination too, choose another one")
    assert "begins where the instance's settings say" in error.hint


NUMBERS = ("offset", "commit_us", "key_us", "page_rows", "rows_into_transaction", "created_s", "origin_id")


@pytest.mark.parametrize("field", [*NUMBERS, "sequence", "retired_key_us"])
def test_a_cursor_with_a_number_beyond_its_bounds_sets_its_client_aside(field: str):
    """Earlier versions stored what a reader had invented."""
    shard = {"file": "bin.000001", "offset": 4}
    cursor = {"sequence": 0, "shards": {"s0": shard}}
    assert load(ZooKeeperStore(nodes_of(json.dumps(cursor).encode()), TREE))[0].unreadable is None
    (shard if field in NUMBERS else cursor)[field] = 2**63
    error = set_aside(ZooKeeperStore(nodes_of(json.dumps(cursor).encode()), TREE))
    assert f"{field}: a number of 64 bits is not a whole number from 0 to" in error.message


def test_a_cursor_that_becomes_more_than_any_is_not_unpacked():
    """A node holds 1 MB, which would be a gigabyte."""
    bomb = b"zlib\n" + zlib.compress(bytes(UNPACKED_BYTES_MAX + 1), 1)
    assert len(bomb) < 1_000_000
    error = set_aside(ZooKeeperStore(nodes_of(bomb), TREE))
    assert "unpacks to more than 67,108,864 bytes" in error.message


@pytest.mark.parametrize(
    "planted",
    [
        "5",
        "{",
        "[]",
        "null",
        "[" * 100_000,
        "{}",
        '{"filter": null}',
        '{"filter": "", "cursor": {}}',
        '{"filter": "", "cursor": null}',
        '{"filter": "", "cursor": "{}"}',
        '{"filter": "", "losses": [], "cursor": "{}"}',
        '{"filter": "", "losses": "5"}',
        '{"filter": "", "losses": "{"}',
        '{"filter": "", "quiet_since": "5"}',
        '{"filter": ""} {}',
    ],
    ids=lambda planted: planted[:40],
)
def test_a_malformed_subscription_sets_its_client_aside(planted: str, tmp_path: Path):
    store = FileStore("shop", tmp_path)
    store.put(Key(CURSORS, "1001"), planted + "\n", 1)
    assert "shop@cursors@1001.json does not hold cursors" in set_aside(store).message


@pytest.mark.parametrize("planted", [b"5", b"{", NESTED, b'{"server": 1, "consumers": {"1": []}}'], ids=len)
def test_a_malformed_file_of_epochs_is_refused(planted: bytes, tmp_path: Path):
    (tmp_path / "shop.epochs.json").write_bytes(planted)
    coordinator = LocalCoordinator("shop", tmp_path)
    with pytest.raises(ConfigError, match="does not hold epochs"):
        coordinator.campaign()
    coordinator.close()


@pytest.mark.parametrize("planted", [b"", b"5", b"{", b"\xff", NESTED], ids=len)
def test_what_a_consumers_node_says_may_be_anything(planted: bytes):
    assert parsed(planted) == {}
