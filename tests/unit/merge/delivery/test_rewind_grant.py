"""A reader that may not disturb others: what would roll them back is refused, and everything else goes."""

from dataclasses import replace

import pytest
from support.group.builders import Source, Tx, World

from canal_group.actors.admission.access import READER, Grant
from canal_group.actors.gateway.operator_requests import OperatorRequests
from canal_group.actors.gateway.requests import Requests
from canal_group.merge import events as ev
from canal_group.merge.calls.batch import Batch
from canal_group.merge.calls.body import call_of
from canal_group.merge.calls.consumers import GetRange, Release, Subscribe, SubscribeAt
from canal_group.merge.calls.resume import Resume
from canal_group.merge.errors import (
    AccessDenied,
    ConfigError,
    PositionRefused,
    RetryableError,
    RolledBack,
    UsageError,
)
from canal_group.merge.group import PURGED_WAIT_US
from canal_group.merge.instructions import ReleaseConsumer
from canal_group.merge.values.offset_range import OffsetRange
from canal_group.merge.values.position import GroupPosition

SECOND = 1_000_000


def release(world, client):
    call = world.call()
    world.tell(ev.Asked(call, Release(client, world.epochs[client]), world.now_us))
    world.result(call)


def two_readers():
    """`app` has its second row outstanding, `spark` has acknowledged all three; return where they began."""
    world = World.of(Source(Tx(10), Tx(20), Tx(30)), lease_us=100 * SECOND, drop_after_us=30 * SECOND)
    begin = world.subscribe("app")
    world.subscribe("spark")
    world.report(0)
    world.ack(world.get("app", 1).batch_id, "app")
    world.ack(world.offset_range(OffsetRange(begin), "spark").batch_id, "spark")
    return world, begin, world.get("app", 1)


def test_a_range_before_the_rings_is_refused_if_it_rolls_others_back():
    """The attack: one reader takes back what another one was given, as often as it likes."""
    world, begin, held = two_readers()
    with pytest.raises(
        AccessDenied, match="read again for client spark, and another client would be rolled"
    ) as told:
        world.result(world.request_range(OffsetRange(begin), "spark", may_disturb=False))
    assert "rewind: true" in told.value.hint
    assert not world.opening
    world.ack(held.batch_id, "app")


def test_with_the_grant_it_is_read_again_and_the_other_is_rolled_back():
    world, begin, held = two_readers()
    world.request_range(OffsetRange(begin), "spark")
    assert world.opening
    world.open_all()
    world.report(0)
    with pytest.raises(RolledBack):
        world.ack(held.batch_id, "app")


def test_an_only_client_may_rewind():
    world, begin, _ = two_readers()
    release(world, "app")
    call = world.request_range(OffsetRange(begin), "spark", may_disturb=False)
    assert world.opening
    world.open_all()
    world.report(0)
    assert len(world.result(call).headers) == 3


def test_what_the_rings_hold_is_read_in_any_order_without_the_grant():
    world, _, held = two_readers()
    second = GroupPosition({"s0": world.sources[0].ends[1]}, 2)
    assert (
        len(world.result(world.request_range(OffsetRange(second), "spark", may_disturb=False)).headers) == 1
    )
    world.ack(held.batch_id, "app")


def test_it_asks_for_a_range_twice_and_is_answered_twice():
    world = World.of(Source(Tx(10), Tx(20)))
    begin = world.subscribe("app")
    world.subscribe("spark")
    world.report(0)
    first = world.result(world.request_range(OffsetRange(begin), "spark", may_disturb=False))
    again = world.result(world.request_range(OffsetRange(begin), "spark", may_disturb=False))
    assert first.batch_id == again.batch_id


def test_during_a_rewind_no_client_rewinds_further():
    world, begin, _ = two_readers()
    world.lose(0)
    opening = list(world.opening)
    with pytest.raises(AccessDenied):
        world.result(world.request_range(OffsetRange(begin), "spark", may_disturb=False))
    assert list(world.opening) == opening


def test_a_dropped_client_continues_with_the_others():
    world, _, _ = two_readers()
    release(world, "app")
    world.tick(30 * SECOND + 1)
    world.save()
    refused = world.request_subscribe("app", resume=Resume.CURSOR, may_disturb=False)
    with pytest.raises(AccessDenied, match="another client would be rolled back"):
        world.result(refused)
    assert not world.leasing
    call = world.request_subscribe("app", resume=Resume.NOW, may_disturb=False)
    world.lease()
    assert not world.opening
    world.save()
    assert world.result(call)
    release(world, "app")
    world.tick(30 * SECOND + 1)
    world.save()
    release(world, "spark")
    world.request_subscribe("app", resume=Resume.CURSOR, may_disturb=False)
    world.lease()
    assert world.opening, "it is alone"


def test_a_new_client_waits_for_the_end_of_anothers_huge_transaction():
    world = World.of(Source(Tx(10, (2, 2, 2)), Tx(20)))
    world.subscribe("one")
    world.report_all()
    world.ack(world.get("one", rows_max=4).batch_id, "one")
    with pytest.raises(RetryableError, match="cannot begin inside the large transaction that another client"):
        world.result(world.request_subscribe("two", may_disturb=False))
    assert not world.leasing
    world.ack(world.get("one").batch_id, "one")
    call = world.request_subscribe("two", may_disturb=False)
    world.lease()
    world.save()
    assert world.result(call)
    assert world.group.generation == 1, "nothing was read again"


def test_what_changes_while_the_lease_is_asked_for_counts():
    """1. A newcomer asks before a huge transaction goes out, and has its lease after that. 2. One that was
    kept when it asked is dropped before it has its lease.
    """
    world = World.of(Source(Tx(10, (2, 2, 2)), Tx(20)))
    world.subscribe("one")
    world.report_all()
    call = world.request_subscribe("two", may_disturb=False)
    world.ack(world.get("one", rows_max=4).batch_id, "one")
    world.lease()
    with pytest.raises(RetryableError, match="cannot begin inside"):
        world.result(call)
    assert world.group.generation == 1, "nothing is read again"
    assert [each.client_id for each in world.asked(ReleaseConsumer)] == ["two"]
    assert world.request_subscribe("two", may_disturb=False), "it may ask again"

    world, _, _ = two_readers()
    release(world, "app")
    call = world.request_subscribe("app", may_disturb=False)
    world.tick(30 * SECOND + 1)
    world.save()
    world.lease()
    with pytest.raises(AccessDenied, match="another client would be rolled back"):
        world.result(call)
    assert not world.opening


# ---- positions that a reader makes up


def forged(what):
    """An offset range's start in which a reader says more than where it stands."""

    def position(begin):
        at, elsewhere = begin.shards["s0"], replace(begin, sequence=begin.sequence + 1)
        return {
            "a shard that is not there": begin.with_shard("evil", at),
            "a shard left": replace(begin, retired=("s0",)),
            "a shard left, elsewhere": replace(elsewhere, retired=("s0",)),
            "a shard joined": replace(elsewhere, joined={"s0": at, "evil": at}),
        }[what]

    return position


@pytest.mark.parametrize("may_disturb", [True, False])
@pytest.mark.parametrize(
    "what",
    ["a shard that is not there", "a shard left", "a shard left, elsewhere", "a shard joined"],
)
def test_a_reader_cannot_change_the_groups_members(what, may_disturb):
    """The attack: a shard that a range's start calls left was left for everybody with the next rewind, and
    one that it made up held everybody as one that the settings lack.
    """
    world = World.of(Source(Tx(10), Tx(20)))
    begin = world.subscribe("app")
    world.subscribe("spark")
    world.report_all()
    start = forged(what)(begin)
    for offset_range in (OffsetRange(start), OffsetRange(begin, until=start)):
        call = world.request_range(offset_range, "spark", may_disturb=may_disturb)
        if "not there" in what:
            with pytest.raises(UsageError, match="evil: no such shard"):
                world.result(call)
        elif call in world.answers and isinstance(world.answers[call], Batch):
            world.ack(world.answers[call].batch_id, "spark")
    world.lose(0)
    world.open_all()
    world.report_all()
    assert world.get("app").headers["commit_us"].tolist() == [10, 20]
    described = world.group.describe(0)
    assert [each["role"] for each in described["shards"]] == ["member"]
    assert not world.group.gone


def test_a_range_waits_for_a_decision_on_a_shard_missing_in_the_settings():
    """Its offset range waits, as everybody does, until an operator has decided what becomes of the shard."""
    world = World.of(Source(Tx(10)), Source(Tx(20), server=1))
    begin = world.subscribe("spark")
    world.settings = replace(world.settings, shards=("s0",))
    world.sources.pop()
    world.restart()
    world.start()
    world.subscribe("spark")
    call = world.request_range(OffsetRange(begin), "spark")
    assert call not in world.answers
    world.tell(ev.GetTimedOut(call, "spark"))
    with pytest.raises(ConfigError, match="hold shard s1, which the settings do not have"):
        world.result(call)


def test_a_refused_position_concerns_only_the_client_that_made_it_up():
    """`spark` stands inside an event, as it says. The shard cannot be opened there, and `app` goes on."""
    source = Source(Tx(10), Tx(20), Tx(30))
    world = World.of(source)
    begin = world.subscribe("app")
    world.subscribe("spark")
    world.report_all()
    inside = replace(source.ends[0], offset=source.ends[0].offset + 1)
    world.request_range(OffsetRange(GroupPosition({"s0": inside}, 1)), "spark", may_disturb=False)
    world.ack(world.get("app").batch_id, "app")
    assert begin.shards["s0"] != inside
    world.lose(0)
    asked = world.opening.pop(0)
    assert asked.position == inside, "it is the oldest of the cursors"
    refusal = PositionRefused("Nothing begins there.")
    world.tell(ev.ShardFailed(0, asked.generation, refusal, world.now_us))
    world.tick(PURGED_WAIT_US)
    at = world.opening[0].position
    assert (at.file, at.offset) == (source.ends[2].file, source.ends[2].offset)
    world.open_all()
    assert world.get("app") is None
    with pytest.raises(PositionRefused, match="Client spark cannot go on at its cursor"):
        world.get("spark")


class Group:
    """Notes what it is asked."""

    def __init__(self):
        self.asked = []

    def ask(self, call):
        self.asked.append((type(call), call.may_disturb))
        raise RetryableError("enough")

    def status(self):
        return {"active": True, "clients": []}


@pytest.mark.parametrize(
    ("grant", "may"),
    [
        (Grant("reader"), False),
        (Grant("spark", rewind=True), True),
        (Grant("ops", operate=True), True),
        (READER, True),
    ],
)
def test_a_grant_decides_and_the_request_does_not(grant, may):
    group = Group()
    operator = OperatorRequests("shop", group, None, dict)
    requests = Requests("shop", 10.0, group, operator, None, snapshot=False)
    wanted = {"start": GroupPosition({}, 0).to_json(), "rows_max": 1, "bytes_max": 1}
    body = {"client_id": "a", "epoch": 1, "holder": "h", "offset_range": wanted}
    body |= {"start": wanted["start"], "timeout_s": 0, "may_rewind": True, "may_disturb": True}
    for kind in (Subscribe, GetRange):
        with pytest.raises(RetryableError):
            requests.answer(call_of(kind, body), may_disturb=grant.may_disturb)
    assert group.asked == [(SubscribeAt, may), (GetRange, may)]
