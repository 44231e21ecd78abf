"""What a running server makes of its instance file when that changes."""

import os

import pytest

from canal_group.instance_file import ShardsOfFile
from merge.errors import ConfigError, ServerUnavailable

TEXT = "preset: memory\ndestination: shop\nshards: [{name: a, host: a, user: c}]\n"


@pytest.fixture
def world(tmp_path):
    return World(tmp_path / "shop.yaml")


class World:
    """A file, who follows it, and what was said and adopted."""

    def __init__(self, file):
        self.file, self.said, self.adopted, self.error, self.stamp = file, [], [], None, 0
        self.write(TEXT)
        self.shards = ShardsOfFile(file, self.said.append)

    def write(self, text):
        self.file.write_text(text)
        self.stamp += 1_000_000_000
        os.utime(self.file, ns=(self.stamp, self.stamp))

    def follow(self):
        self.shards.follow(self.adopt)

    def adopt(self, settings):
        if self.error is not None:
            raise self.error
        self.adopted.append([shard.name for shard in settings.shards])
        return ["shard b joins"]


def test_a_changed_file_is_adopted_once(world):
    world.follow()
    assert world.adopted == []
    world.write(TEXT.replace("}]", "}, {name: b, host: b, user: c}]"))
    world.follow()
    world.follow()
    assert (world.adopted, world.said) == ([["a", "b"]], ["shard b joins"])


def test_what_cannot_be_is_said_once(world):
    world.write("shards: nothing")
    world.follow()
    world.follow()
    assert len(world.said) == 1
    assert "nothing follows from it" in world.said[0]
    world.write(TEXT)
    world.error = ConfigError("rearranged")
    world.follow()
    assert "rearranged" in world.said[1]


def test_what_can_be_retried_is(world):
    world.write(TEXT + "# a comment\n")
    world.error = ServerUnavailable("away")
    world.follow()
    world.error = None
    world.follow()
    assert world.adopted == [["a"]]


def test_a_file_that_is_gone_changes_nothing(world):
    world.file.unlink()
    world.follow()
    assert (world.adopted, world.said) == ([], [])
