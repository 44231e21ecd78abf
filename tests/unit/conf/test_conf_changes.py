"""What of an instance may differ while it runs."""

import pytest

from canal_group.conf.changes import added_shard, shard_changes
from canal_group.conf.load import build_instance
from canal_group.merge.errors import ConfigError


def instance(*names, **values):
    shards = [{"name": name, "host": name, "user": "canal"} for name in names]
    return build_instance({"preset": "memory", "destination": "shop", "shards": shards, **values})


def test_shards_are_appended_and_taken_out():
    changes = shard_changes(instance("a", "b", "c"), instance("a", "c", "d", "e"))
    assert [shard.name for shard in changes.added] == ["d", "e"]
    assert changes.removed == ("b",)


def test_nothing_follows_from_the_same_settings():
    changes = shard_changes(instance("a", "b"), instance("a", "b"))
    assert (changes.added, changes.removed) == ((), ())


def test_a_shard_added_by_command_is_the_one_added_to_the_file():
    """A command says where it begins; the file need not, and it has begun by then."""
    added = added_shard(instance("a"), {"name": "b", "host": "b", "user": "canal", "start": "earliest"})
    running = instance("a").model_copy(update={"shards": (*instance("a").shards, added)})
    changes = shard_changes(running, instance("a", "b"))
    assert (changes.added, changes.removed) == ((), ())


def test_a_removed_shard_stays_removed_with_and_without_the_file():
    for names in (("a",), ("a", "b")):
        changes = shard_changes(instance("a", "b"), instance(*names), without=["b"])
        assert (changes.added, changes.removed) == ((), ())


@pytest.mark.parametrize("names", [("b", "a"), ("c", "a", "b"), ("a", "c", "b")])
def test_a_file_that_rearranges_is_refused(names):
    with pytest.raises(ConfigError, match="rearranged"):
        shard_changes(instance("a", "b"), instance(*names))


def test_what_takes_a_restart_is_named():
    with pytest.raises(ConfigError, match="start of shop changed, which takes a restart"):
        shard_changes(instance("a"), instance("a", start="earliest"))
    moved = build_instance(
        {"preset": "memory", "destination": "shop", "shards": [{"name": "a", "host": "x", "user": "canal"}]}
    )
    with pytest.raises(ConfigError, match="The definition of shard a changed"):
        shard_changes(instance("a"), moved)


def test_an_added_shard_has_to_hold_beside_the_others():
    assert added_shard(instance("a"), {"name": "b", "host": "b", "user": "canal"}).name == "b"
    with pytest.raises(ConfigError, match="host"):
        added_shard(instance("a"), {"name": "b", "host": "a", "user": "canal"})
    with pytest.raises(ConfigError, match="user"):
        added_shard(instance("a"), {"name": "b", "host": "b"})
    with pytest.raises(ConfigError, match="NO_SUCH"):
        added_shard(
            instance("a", shard_add={"variables": ["NO_SUCH"], "hosts": ["b"]}),
            {"name": "b", "host": "b", "user": "c", "password_env": "NO_SUCH"},
        )
