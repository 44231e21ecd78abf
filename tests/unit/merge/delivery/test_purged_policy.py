"""A source has purged what a client id's cursor needs, and the policy lets it go on."""

import json
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.group.builders import Source, Tx, World
from support.group.purges import TRANSACTIONS, committing, numbers, phase, subscribe

from canal_group.merge import events as ev
from canal_group.merge.calls.consumers import Touch
from canal_group.merge.delivery.continuation import MOVES_MAX
from canal_group.merge.errors import PositionPurged, PositionRefused, RetryableError
from canal_group.merge.group import PURGED_WAIT_US
from canal_group.merge.values.loss import Purged
from canal_group.merge.values.position import GroupPosition

FOUND_US = 1_700_000_000_000_000


def position_after(source, count):
    return source.ends[count - 1] if count else source.start


def purged(source, oldest, *, kind=PositionPurged, **details):
    """The refusal by a source that has purged its first `oldest` transactions."""
    told = {"earliest": position_after(source, oldest), "latest": source.ends[-1]}
    texts = {name: json.dumps(position.to_dict()) for name, position in told.items()}
    return kind("It is gone.", **texts, found_us=FOUND_US, **details)


def open_or_refuse(world, oldest, shard_purged=0, **refusal):
    """Answer every opening; `shard_purged` has purged its first `oldest` transactions."""
    for shard, asked in list(world.opening.items()):
        source = world.sources[shard]
        lost = asked.position is not None and source.index_after(asked.position) < oldest
        if lost and shard == shard_purged:
            world.tell(
                ev.ShardFailed(shard, asked.generation, purged(source, oldest, **refusal), world.now_us)
            )
        else:
            world.open(shard)


def wait(world, oldest, *, rounds=4, **refusal):
    for _ in range(rounds):
        world.tick(PURGED_WAIT_US // 2)
        while world.saving:
            world.save()
        open_or_refuse(world, oldest, **refusal)


def restart(world, oldest, *clients, **refusal):
    """Elect the next server. Consumers of `clients` subscribe."""
    world.epoch += 1
    world.restart()
    world.start()
    open_or_refuse(world, oldest, **refusal)
    for client in clients:
        subscribe(world, client)


def losses(world, client):
    return next(each["losses"] for each in world.group.describe(0)["clients"] if each["client_id"] == client)


@pytest.mark.parametrize(("policy", "first"), [("earliest", 3), ("latest", TRANSACTIONS + 1)])
def test_only_the_old_client_loses_something(policy, first):
    """`app` has acknowledged four transactions, `other` none; the source has purged two."""
    world = committing(purged=Purged(policy))
    restart(world, 2, "app", "other")
    wait(world, 2)
    assert (phase(world, "app"), phase(world, "other")) == ("reading", "reading")
    world.report_all()
    assert numbers(world.get("app")) == [5, 6, 7, 8]
    expected = list(range(first, TRANSACTIONS + 1))
    batch = world.get("other")
    assert (numbers(batch) if batch else []) == expected
    (loss,) = losses(world, "other")
    source = world.sources[0]
    assert (loss["shard"], loss["number"], loss["found_us"]) == ("s0", 1, FOUND_US)
    assert (loss["after"]["offset"], loss["until"]["offset"]) == (
        source.start.offset,
        position_after(source, first - 1).offset,
    )
    assert losses(world, "app") == []


def test_with_fail_a_source_that_says_what_it_has_changes_nothing():
    world = committing(purged=Purged.FAIL)
    restart(world, 2, "app", "other")
    wait(world, 2)
    assert (phase(world, "app"), phase(world, "other")) == ("reading", "purged")
    assert losses(world, "other") == []


def test_a_lone_client_moves_as_well():
    world = World.of(Source(*[Tx(10 * n) for n in range(1, 9)]), purged=Purged.EARLIEST)
    world.subscribe("only")
    restart(world, 3, "only")
    wait(world, 3)
    world.report_all()
    assert numbers(world.get("only")) == [4, 5, 6, 7, 8]


@pytest.mark.parametrize(
    "refusal",
    [{"kind": PositionRefused}, {"xid": "'a','',1"}],
    ids=["reset", "inside a prepared transaction"],
)
@pytest.mark.parametrize("policy", list(Purged))
def test_a_refusal_other_than_a_purge_is_never_moved_over(policy, refusal):
    world = committing(purged=policy)
    restart(world, 2, "app", "other", **refusal)
    wait(world, 2, **refusal)
    assert (phase(world, "app"), phase(world, "other")) == ("reading", "purged")
    assert losses(world, "other") == []


def test_the_moved_cursor_and_the_loss_are_one_write():
    world = committing(purged=Purged.EARLIEST)
    restart(world, 2, "app", "other")
    wait(world, 2)
    until = world.sources[0].ends[1]
    saves = [save for save in world.done if type(save).__name__ == "SaveCursor" and save.client_id == "other"]
    moved = [save for save in saves if save.cursor.shards["s0"].offset >= until.offset]
    assert moved
    assert all((save.cursor.shards["s0"].offset >= until.offset) == bool(save.losses) for save in saves)
    assert world.stored["other"].losses == moved[-1].losses


@pytest.mark.parametrize("arrived", [True, False])
def test_a_lost_answer_of_the_store_loses_and_repeats_nothing(arrived):
    """1. The store took the write, or not; its answer was lost. 2. It is written again: one loss."""
    world = committing(purged=Purged.EARLIEST)
    restart(world, 2)
    for _ in range(3):
        world.tick(PURGED_WAIT_US // 2)
        open_or_refuse(world, 2)
    (save,) = [save for save in world.saving if save.client_id == "other"]
    if arrived:
        world.stored["other"] = save
    world.saving.remove(save)
    world.tell(ev.CursorNotSaved(save.number, "other", RetryableError("No answer.")))
    wait(world, 2)
    assert len(world.stored["other"].losses) == 1
    subscribe(world, "other")
    world.report_all()
    assert numbers(world.get("other")) == [3, 4, 5, 6, 7, 8]


@pytest.mark.parametrize("arrived", [True, False])
def test_the_next_server_does_not_count_a_loss_twice(arrived):
    """A server is elected between the write and its answer."""
    world = committing(purged=Purged.EARLIEST)
    restart(world, 2)
    for _ in range(3):
        world.tick(PURGED_WAIT_US // 2)
        open_or_refuse(world, 2)
    (save,) = [save for save in world.saving if save.client_id == "other"]
    if arrived:
        world.stored["other"] = save
    restart(world, 2, "other")
    wait(world, 2)
    (loss,) = losses(world, "other")
    assert loss["number"] == 1
    world.report_all()
    assert numbers(world.get("other")) == [3, 4, 5, 6, 7, 8]


def test_only_the_purged_shard_moves():
    one, two = (Source(*[Tx(10 * n + s) for n in range(1, 5)]) for s in (0, 5))
    world = World.of(one, two, purged=Purged.LATEST)
    world.subscribe("only")
    restart(world, 2, "only")
    wait(world, 2)
    cursor = world.stored["only"].cursor
    assert (cursor.shards["s0"].offset, cursor.shards["s1"].offset) == (one.ends[-1].offset, two.start.offset)
    assert [loss.shard for loss in world.stored["only"].losses] == ["s0"]


def test_a_source_that_purges_again_and_again_is_an_error_in_the_end():
    """Each time that a shard opens, its source has purged one transaction more: one loss, few moves."""
    world = World.of(Source(*[Tx(10 * n) for n in range(1, 13)]), purged=Purged.EARLIEST)
    world.subscribe("only")
    restart(world, 1, "only")
    for oldest in range(1, 12):
        wait(world, oldest, rounds=3)
        for shard, asked in list(world.opening.items()):
            assert world.sources[shard].index_after(asked.position) < oldest
        if not world.opening:
            world.lose(0)
    subscribe(world, "only")
    (loss,) = losses(world, "only")
    assert loss["until"]["offset"] == world.sources[0].ends[MOVES_MAX - 1].offset
    call = world.request_get("only")
    world.tell(ev.GetTimedOut(call, "only"))
    with pytest.raises(PositionPurged):
        world.result(call)


def test_a_client_with_an_ack_may_lose_rows_again():
    world = World.of(Source(*[Tx(10 * n) for n in range(1, 13)]), purged=Purged.EARLIEST)
    world.subscribe("only")
    restart(world, 2, "only")
    wait(world, 2)
    world.report(0, 2, 45)
    world.ack(world.get("only").batch_id, "only")
    restart(world, 8, "only")
    wait(world, 8)
    assert [loss["number"] for loss in losses(world, "only")] == [1, 2]


def test_a_purge_after_all_that_was_read_is_noticed():
    """1. Everything that was read is acknowledged. 2. The source has purged what follows."""
    world = World.of(Source(*[Tx(10 * n) for n in range(1, 9)]), purged=Purged.EARLIEST)
    world.subscribe("only")
    world.report(0, 3, 35)
    batch = world.get("only")
    failure = purged(world.sources[0], 5)
    world.tell(ev.ShardFailed(0, world.group.generation, failure, world.now_us))
    world.tick(1)
    assert not world.opening, "what is in the ring is delivered first"
    world.ack(batch.batch_id, "only")
    wait(world, 5)
    world.report_all()
    assert numbers(world.get("only")) == [6, 7, 8]
    (loss,) = losses(world, "only")
    assert (loss["after"]["offset"], loss["until"]["offset"]) == (
        world.sources[0].ends[2].offset,
        world.sources[0].ends[4].offset,
    )


def test_keys_do_not_fall_below_what_went_out():
    world = World.of(Source(*[Tx(10 * n) for n in range(1, 9)]), purged=Purged.EARLIEST)
    world.subscribe("only")
    world.report(0, 3, 35)
    world.ack(world.get("only").batch_id, "only")
    source = world.sources[0]
    source.ends[4] = replace(source.ends[4], key_us=0, commit_us=0)
    restart(world, 5, "only")
    wait(world, 5)
    assert world.stored["only"].cursor.shards["s0"].key_us >= 30


@settings(deadline=None, max_examples=100)
@given(
    acked=st.lists(st.integers(0, 8), min_size=2, max_size=4),
    oldest=st.integers(0, 8),
    policy=st.sampled_from(["earliest", "latest"]),
    again=st.booleans(),
)
def test_each_client_gets_or_is_told_of_every_transaction(acked, oldest, policy, again):
    """What a client has acknowledged, what it lost and what it gets are all transactions, each once."""
    source = Source(*[Tx(10 * n) for n in range(1, 9)])
    world = World.of(source, purged=Purged(policy))
    clients = [f"c{index}" for index in range(len(acked))]
    for client in clients:
        world.subscribe(client)
    for client, count in zip(clients, acked, strict=True):
        cursor = GroupPosition({"s0": position_after(source, count)}, count)
        world.stored[client] = replace(world.stored[client], cursor=cursor)
    restart(world, oldest)
    wait(world, oldest, rounds=4 * len(clients))
    if again:
        restart(world, oldest)
        wait(world, oldest)
    for client in clients:
        subscribe(world, client)
    wait(world, oldest)
    world.report_all()
    for client, count in zip(clients, acked, strict=True):
        batch = world.get(client)
        got = numbers(batch) if batch else []
        lost = losses(world, client)
        assert len(lost) == (count < oldest)
        begin = source.index_after(position_after(source, count))
        if lost:
            begin = 8 if policy == "latest" else oldest
        assert got == list(range(begin + 1, 9))


def test_a_write_that_is_under_way_is_awaited():
    """It would take the cursor back."""
    world = committing(purged=Purged.EARLIEST)
    restart(world, 2)
    world.request_subscribe("other", "h2", None)
    world.lease()
    (save,) = world.saving
    for _ in range(4):
        world.tick(PURGED_WAIT_US // 2)
        open_or_refuse(world, 2)
    assert (world.saving, losses(world, "other")) == ([save], [])
    world.save()
    wait(world, 2)
    assert [loss["number"] for loss in losses(world, "other")] == [1]
    assert world.stored["other"].losses


def test_a_client_that_continues_between_may_move_any_number_of_times():
    """Again and again it gets one transaction, and loses the next one."""
    times = MOVES_MAX + 2
    world = World.of(Source(*[Tx(10 * n) for n in range(1, 2 * times + 2)]), purged=Purged.EARLIEST)
    world.subscribe("only")
    for number in range(times):
        world.report(0, 1, 10 * (2 * number + 1) + 5)
        batch = world.get("only")
        assert numbers(batch) == [2 * number + 1]
        world.ack(batch.batch_id, "only")
        refusal = purged(world.sources[0], 2 * number + 2)
        world.tell(ev.ShardFailed(0, world.group.generation, refusal, world.now_us))
        for _ in range(4):
            world.tell(ev.Asked(world.call(), Touch("only", world.epochs["only"]), world.now_us))
            wait(world, 2 * number + 2, rounds=1)
    assert [loss["number"] for loss in losses(world, "only")] == list(range(1, times + 1))


def test_what_is_purged_bit_by_bit_over_restarts_is_one_loss():
    one, two = (Source(*[Tx(10 * n + s) for n in range(1, 13)]) for s in (0, 5))
    world = World.of(one, two, purged=Purged.EARLIEST)
    world.subscribe("only")
    for oldest in range(1, 10):
        restart(world, oldest)
        wait(world, oldest)
    assert len(losses(world, "only")) == 1
    assert all(loss.shard == "s0" for loss in world.stored["only"].losses)
