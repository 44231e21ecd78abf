"""What a server makes of instance files that change, with instances that only note what they hear."""

from pathlib import Path

import pytest

from canal_group.actors.driver.server import Server
from canal_group.conf.folder import FolderContent
from canal_group.conf.load import build_instance
from canal_group.merge.errors import CanalGroupError, ConfigError, ServerUnavailable, UsageError

FILE = Path("shop.yaml")


def said(*names):
    """Return the settings of a file that names these shards."""
    shards = [{"name": name, "host": name, "user": "canal"} for name in names]
    return build_instance({"preset": "memory", "destination": "shop", "shards": shards})


class Instance:
    """A running instance, as far as a server changes it."""

    def __init__(self) -> None:
        self.adopted: list[list[str]] = []
        self.refused: list[str] = []
        self.error: CanalGroupError | None = None

    def file_refused(self, error):
        self.refused.append(error)

    def adopt(self, settings):
        if self.error is not None:
            raise self.error
        self.adopted.append([shard.name for shard in settings.shards])
        return ["shard b joins"]


class World:
    """A server that runs one file's instance."""

    def __init__(self, caplog: pytest.LogCaptureFixture) -> None:
        self._caplog = caplog
        self.server = Server()
        self.instance = Instance()
        self.server._instances[FILE], self.server._served[FILE] = self.instance, said("a")

    @property
    def told(self) -> list[tuple[str, str]]:
        """What was logged, each with the destination that it is about."""
        return [(record.destination, record.getMessage()) for record in self._caplog.records]

    def follow(self, *names):
        return self.server.follow(FolderContent({FILE: said(*names)}))


@pytest.fixture
def world(caplog):
    caplog.set_level("INFO", "canal_group.actors.driver.server")
    return World(caplog)


def test_shards_that_a_file_gains_join_once(world):
    for _ in range(2):
        assert not world.follow("a", "b"), "nothing is started or stopped"
    assert (world.instance.adopted, world.told) == ([["a", "b"]], [("shop", "shard b joins")])
    assert world.server.running == {FILE: said("a", "b")}


def test_a_server_that_stands_by_follows_when_it_is_active(world):
    world.instance.error = ServerUnavailable("standing by")
    world.follow("a", "b")
    assert world.told == []
    world.instance.error = None
    world.follow("a", "b")
    assert world.instance.adopted == [["a", "b"]]


def test_what_is_refused_is_said_once_and_what_runs_goes_on(world):
    world.instance.error = UsageError("The name b belongs to a shard that left.")
    for _ in range(2):
        world.follow("a", "b")
    ((destination, message),) = world.told
    assert destination == "shop"
    assert "belongs to a shard that left" in message
    assert "still served" in message
    assert world.server.running == {FILE: said("a")}


def test_an_instance_hears_of_a_refused_and_a_mended_file(world):
    """Each time while it is refused, for its group may have restarted; once when it is mended."""
    broken = FolderContent(errors={FILE: ConfigError("shop.yaml: no.")})
    for _ in range(2):
        world.server.follow(broken)
    for _ in range(2):
        world.follow("a")
    assert world.instance.refused == ["shop.yaml: no.", "shop.yaml: no.", ""]
    assert [message for _, message in world.told] == [
        "shop.yaml: no. It is still served with its earlier settings.",
        "shop.yaml is right again",
    ]


def test_values_missing_in_the_file_stay_as_a_command_set_them(world):
    """A shard added by command is not taken out again because the file does not have it."""
    world.follow("a")
    assert world.instance.adopted == []


def test_a_given_file_that_cannot_be_served_beside_another_is_refused(world):
    """Before anything of it is started."""
    with pytest.raises(ConfigError, match=r"other.yaml: `destination` should be unique, but shop.yaml has"):
        world.server.start(Path("other.yaml"), said("a"))
    assert list(world.server.running) == [FILE]


def test_a_refused_file_admits_no_client_at_the_address_of_others():
    """Its clients would be admitted at a listener whose certificate, or bounds, it does not agree to."""
    shop, items = said("a"), said("b")
    items = items.model_copy(
        update={
            "destination": "items",
            "gateway": items.gateway.model_copy(update={"calls_max": shop.gateway.calls_max + 1}),
        }
    )
    server = Server()
    server.expect(FolderContent({FILE: shop, FILE.with_name("z.yaml"): items}))
    assert [each.destination for each in server._gateways._absent(shop)] == ["shop"]
