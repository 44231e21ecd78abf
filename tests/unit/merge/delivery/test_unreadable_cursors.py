"""A client id whose stored cursor cannot be read is set aside: it alone waits for somebody to decide."""

import pytest
from support.group.builders import Source, Tx, World

from canal_group.merge import events as ev
from canal_group.merge.calls.resume import Resume
from canal_group.merge.errors import ConfigError, UsageError
from canal_group.merge.values.position import GroupPosition

ERROR = ConfigError("FILE does not hold cursors.", hint="Restore it.")


@pytest.fixture(params=[0, 4], ids=["live", "archive"])
def world(request):
    """Return a world with a reader, and with a client id whose cursor cannot be read."""
    made = World.of(Source(Tx(10), Tx(20)), start=False, replays_max=request.param)
    cursor = GroupPosition({"s0": made.sources[0].start})
    made.start(
        ev.ConsumerState("damaged", "", None, "", 1, dropped=True, unreadable=ERROR),
        ev.ConsumerState("honest", "", cursor, "", 2),
    )
    made.open_all()
    made.report_all()
    return made


def test_the_others_are_served_and_nothing_is_written(world):
    world.subscribe("honest")
    assert len(world.get("honest").headers) == 2
    world.tick(10**9)
    assert "damaged" not in {each.client_id for each in world.saving} | world.stored.keys()
    (client,) = (each for each in world.group.describe(0)["clients"] if each["client_id"] == "damaged")
    assert (client["error"], client["dropped"]) == ("FILE does not hold cursors. Restore it.", True)


@pytest.mark.parametrize("how", [{}, {"resume": Resume.CURSOR}, {"start": True}])
def test_its_consumer_is_refused_with_a_remedy(world, how):
    if "start" in how:
        how = {"start": GroupPosition({"s0": world.sources[0].start})}
    refused = world.answers[world.request_subscribe("damaged", **how)]
    assert isinstance(refused, UsageError)
    assert refused.message == "Client damaged is set aside: FILE does not hold cursors."
    assert "Restore it. Or move it to a position (canal-group rewind)" in refused.hint


def test_its_consumer_may_continue_where_the_others_are(world):
    world.subscribe("damaged", resume=Resume.NOW)
    assert world.stored["damaged"].cursor.shards == {"s0": world.sources[0].start}
    assert world.group.describe(0)["clients"][0]["error"] is None


def test_an_operator_may_move_it(world):
    after = world.sources[0].ends[0]
    call = world.request_subscribe("damaged", start=GroupPosition({"s0": after}), move=True)
    world.lease()
    while world.saving:
        world.save()
    assert world.result(call)[1].shards == {"s0": after}
