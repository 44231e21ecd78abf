"""Clients that are further back than the rings: each is served alone, and joins the others where they are."""

import pytest
from support.defaults import batch_limits
from support.group.builders import UUID, Source, Tx, World, batch_idents, drain

from canal_group.merge import events as ev
from canal_group.merge import instructions as do
from canal_group.merge.calls.consumers import Release
from canal_group.merge.errors import PositionPurged, RetryableError, RolledBack, UsageError
from canal_group.merge.order.ddl.rule import DdlRule
from canal_group.merge.replay.replay import JOIN_WITHIN_US
from canal_group.merge.replay.replaying_group import APART_US, CONSUMER_GONE_US, SLOW_US
from canal_group.merge.values.ddl_mark import DdlMark
from canal_group.merge.values.header import Flag
from canal_group.merge.values.lane import LIVE, lane_of
from canal_group.merge.values.member import Policy
from canal_group.merge.values.retention.kept_position import RINGS

COUNT = 8
#: how long a replay has rings while another one waits, shorter than a lease
TURN_US = 4_000_000


def shop(*clients, replays_max=1, count=COUNT, reported=4, **settings):
    """Return a world of two shards, of which the first transactions have come in, and where clients begin."""
    sources = [Source(*[Tx(100 * n + shard) for n in range(1, count + 1)], server=shard) for shard in (0, 1)]
    world = World.of(*sources, replays_max=replays_max, **settings)
    begin = [world.subscribe(client) for client in clients]
    for shard in (0, 1):
        world.report(shard, reported, 100 * reported + 50)
    return world, begin[0]


def state_of(world, client):
    clients = world.group.describe(world.now_us)["clients"]
    replay = next(each for each in clients if each["client_id"] == client)["replay"]
    return None if replay is None else replay["state"]


def rewound(world, begin, *clients):
    for client in clients:
        world.subscribe(client, start=begin, move=True)


def test_a_rewound_client_reads_alone_and_joins_without_gap_or_repeat():
    """1. Two have read all; 2. one is rewound: the shards are not opened again for the other; 3. that reads
    on meanwhile; 4. the rewound one reads all of it once, and then what is new together with the other.
    """
    world, begin = shop("app", "slow")
    first = drain(world, "app")
    assert drain(world, "slow") == first
    generation = world.group.generation
    rewound(world, begin, "slow")
    assert not world.opening
    assert {lane_of(asked.generation) for asked in world.replay_opening.values()} == {LIVE + 1}
    assert state_of(world, "slow") == "running"
    world.report_all()
    rest = drain(world, "app")
    assert len(first + rest) == 2 * COUNT
    world.replay()
    again = drain(world, "slow", rows_max=3)
    assert again == first + rest
    assert world.group.generation == generation
    assert state_of(world, "slow") is None
    assert world.asked(do.CloseLane) == [do.CloseLane(LIVE + 1)]
    assert not world.replay_rings


def test_what_the_live_stream_keeps_meanwhile_is_delivered_once():
    """1. One replays the first half; 2. the live stream brings more, which the other acknowledges; 3. the
    one joins in the middle of the log, and reads the second half there.
    """
    world, begin = shop("app", "slow")
    first = drain(world, "app")
    assert drain(world, "slow") == first
    rewound(world, begin, "slow")
    world.replay()
    batch = world.get("slow", 2 * 4)
    assert batch_idents(batch) == first
    world.report_all()
    rest = drain(world, "app")
    world.ack(batch.batch_id, "slow")
    assert state_of(world, "slow") is None
    assert drain(world, "slow") == rest
    assert world.group._stream.log.base == world.group._stream.log.tip


def test_a_client_with_batches_gets_nothing_new_until_it_has_joined():
    world, begin = shop("app", "slow")
    first = drain(world, "app")
    drain(world, "slow")
    rewound(world, begin, "slow")
    world.replay()
    batches = [world.get("slow", 4), world.get("slow", 4)]
    world.report_all()
    world.ack(batches[0].batch_id, "slow")
    assert state_of(world, "slow") == "running"
    more = world.get("slow", 4)
    world.ack(batches[1].batch_id, "slow")
    assert state_of(world, "slow") == "joining"
    assert world.get("slow") is None
    world.ack(more.batch_id, "slow")
    assert state_of(world, "slow") is None
    assert len(first + batch_idents(more) + drain(world, "slow")) == 2 * COUNT


def test_a_client_that_does_not_acknowledge_is_rolled_back_to_join():
    world, begin = shop("app", "slow")
    drain(world, "app")
    drain(world, "slow")
    rewound(world, begin, "slow")
    world.replay()
    first = world.get("slow", 8)
    world.report_all()
    outstanding = world.get("slow", 2)
    world.ack(first.batch_id, "slow")
    world.tick(JOIN_WITHIN_US)
    assert state_of(world, "slow") == "joining"
    world.tick(1)
    assert state_of(world, "slow") is None
    with pytest.raises(RolledBack):
        world.get("slow")
    assert drain(world, "slow")[:2] == batch_idents(outstanding)


def test_a_client_that_the_log_has_left_again_reads_on_alone():
    """1. One is about to join, with a batch; 2. a ring is full: what was kept for it is freed; 3. it reads on
    alone, and how long that may take is said by what it has read since.
    """
    world, _ = shop("app", "slow")
    drain(world, "app")
    begin = world.ack(world.get("slow", 2).batch_id, "slow")
    first = drain(world, "slow")
    rewound(world, begin, "slow")
    world.replay()
    batches = [world.get("slow", 6), world.get("slow", 4)]
    world.tick(SLOW_US)
    world.ack(batches[0].batch_id, "slow")
    assert state_of(world, "slow") == "joining"
    world.report_all()
    rest = drain(world, "app")
    fill(world)
    assert state_of(world, "slow") == "running"
    world.tick(1)
    (client,) = [each for each in world.group.describe(world.now_us)["clients"] if each["replay"]]
    assert client["replay"]["left_s"] is None, "it has read nothing since"
    world.ack(batches[1].batch_id, "slow")
    assert batch_idents(batches[0]) + batch_idents(batches[1]) + drain(world, "slow") == first + rest


def test_a_look_that_is_replayed_frees_what_it_has_read():
    world, begin = shop("app")
    drain(world, "app")
    world.subscribe("look", look=True, start=begin, move=True)
    world.replay()
    batch = world.get("look", 4, 0)
    world.get("look", 2, batch.batch_id)
    assert {ring.freed for ring in world.replay_rings.values()} == {2}


def test_a_look_that_is_replayed_drops_no_client_that_is_away():
    world, begin = shop("app", lease_us=1, drop_after_us=1)
    drain(world, "app")
    world.subscribe("look", look=True, start=begin, move=True)
    assert state_of(world, "look") == "running"
    world.tick(1)
    world.tell_alive("look")
    world.tick(1)
    clients = {each["client_id"]: each["phase"] for each in world.group.describe(world.now_us)["clients"]}
    assert clients["app"] == "reading"


def test_a_log_that_begins_inside_a_transaction_is_opened_again():
    """1. A client acknowledges a part of a huge transaction, and is rewound; 2. nobody else reads the log,
    and no client could join it there; 3. it begins before the transaction, and the client joins.
    """
    world = World.of(Source(Tx(10), Tx(20, (6, 6)), Tx(30)), replays_max=1)
    begin = world.subscribe("app")
    world.report_all()
    for _ in range(2):
        world.ack(world.get("app", 6).batch_id, "app")
    assert world.group._stream.base.inside
    rewound(world, begin, "app")
    world.tick(1)
    assert world.opening[0].position.offset == Source(Tx(10)).ends[0].offset
    world.open_all()
    world.report_all()
    world.replay()
    assert len(drain(world, "app", 6)) == 4
    assert state_of(world, "app") is None


def test_a_client_joins_after_the_transaction_in_which_the_log_began():
    """1. A client acknowledges a part of a huge transaction, and another is rewound; 2. the one goes on;
    3. rows are kept for the other from the end of the transaction on, and it joins there.
    """
    world = World.of(Source(Tx(10), Tx(20, (6, 6)), Tx(30), Tx(40)), replays_max=1)
    begin, _ = [world.subscribe(client) for client in ("app", "slow")]
    world.report_all()
    drain(world, "slow")
    for _ in range(2):
        world.ack(world.get("app", 6).batch_id, "app")
    rewound(world, begin, "slow")
    assert world.group._stream.base.inside
    drain(world, "app", 6)
    world.replay()
    drain(world, "slow", 6)
    assert state_of(world, "slow") is None


def test_half_of_a_ring_is_kept_for_a_replay():
    world, begin = shop("app", "slow", limits=batch_limits(ring_headers_max=2 * 4 - 1))
    drain(world, "app")
    drain(world, "slow")
    rewound(world, begin, "slow")
    world.report_all()
    drain(world, "app")
    assert {ring.freed for ring in world.rings} == {4}
    world.tick(1)
    assert {ring.freed for ring in world.rings} == {8}


def states(world, *clients):
    return [state_of(world, client) for client in clients]


def test_an_idle_client_gives_its_turn_to_one_that_waits():
    """1. One is replayed and does not acknowledge; 2. another one has waited for a turn: it is replayed, and
    the first waits; 3. it has caught up, and the first goes on.
    """
    world, begin = shop("app", "idle", "b", reported=COUNT, replay_turn_us=TURN_US)
    first = drain(world, "app")
    drain(world, "idle")
    drain(world, "b")
    rewound(world, begin, "idle")
    world.replay()
    assert world.get("idle") is not None
    rewound(world, begin, "b")
    with pytest.raises(RetryableError, match="Client b waits for a replay"):
        world.get("b")
    for _ in range(2):
        world.tick(TURN_US // 2 - 1)
        assert states(world, "idle", "b") == ["running", "waiting"]
    world.tick(2)
    assert states(world, "idle", "b") == ["waiting", "running"]
    with pytest.raises(RolledBack):
        world.get("idle")
    world.replay()
    assert drain(world, "b") == first
    assert states(world, "idle", "b") == ["running", None]
    world.replay()
    assert drain(world, "idle") == first


def test_the_client_that_reads_more_keeps_its_turn():
    """Two are replayed: the one that acknowledges less gives way to the first that waits, and then the other
    one to the second.
    """
    world, begin = shop(
        "app", "fast", "slow", "b", "c", reported=COUNT, replays_max=2, replay_turn_us=TURN_US
    )
    for client in ("app", "fast", "slow", "b", "c"):
        drain(world, client)
    rewound(world, begin, "fast", "slow")
    world.replay()
    for client, rows in (("slow", 1), ("fast", 4)):
        world.ack(world.get(client, rows).batch_id, client)
    rewound(world, begin, "b", "c")
    world.tick(TURN_US)
    assert states(world, "fast", "slow", "b", "c") == ["running", "waiting", "running", "waiting"]
    world.tick(1)
    assert states(world, "fast", "slow", "b", "c") == ["waiting", "waiting", "running", "running"]
    world.tick(TURN_US - 2)
    assert states(world, "fast", "slow", "b", "c") == ["waiting", "waiting", "running", "running"]


def test_a_replay_keeps_its_rings_while_no_other_one_waits():
    world, begin = shop("app", "idle", "b", reported=COUNT, replay_turn_us=TURN_US)
    for client in ("app", "idle", "b"):
        drain(world, client)
    rewound(world, begin, "idle")
    world.replay()
    assert world.get("idle") is not None
    world.tick(2 * TURN_US)
    assert state_of(world, "idle") == "running"


def needed(world):
    """Return the oldest file that the archive of the first shard is told to keep, and for whom."""
    world.tick(1)
    oldest = world.archived[0][0].position.file
    return oldest, {each.owner for each in world.archived[0] if each.position.file == oldest}


def test_archives_keep_what_clients_of_replays_read():
    """Files have three transactions. 1. All clients read; 2. two are rewound, of which one waits for the
    other's replay: both need the first file; 3. they have joined, and nobody needs it.
    """
    world, begin = shop("app", "slow", "waits", replays_max=1)
    for client in ("app", "slow", "waits"):
        drain(world, client)
    first, second, third = world.sources[0].names[:3]
    assert needed(world) == (second, {RINGS, "app", "slow", "waits"})
    rewound(world, begin, "slow", "waits")
    assert [state_of(world, client) for client in ("slow", "waits")] == ["running", "waiting"]
    assert needed(world) == (first, {"slow", "waits"})
    world.report_all()
    drain(world, "app")
    world.replay()
    drain(world, "slow")
    assert needed(world) == (first, {"waits"})
    world.replay()
    drain(world, "waits")
    assert needed(world) == (third, {RINGS, "app", "slow", "waits"})


def test_what_is_needed_is_said_before_shards_are_opened():
    """After an election, archives know what clients need before anything is read, and removed, for them."""
    world, begin = shop("app", "slow")
    drain(world, "app")
    rewound(world, begin, "slow")
    world.restart()
    world.done.clear()
    world.start()
    kinds = [type(each) for each in world.done if isinstance(each, do.KeepArchived | do.OpenShard)]
    assert kinds == [do.KeepArchived] * 2 + [do.OpenShard] * 2
    assert {each.owner for each in world.archived[0]} == {"app", "slow"}


def fill(world):
    for shard in (0, 1):
        world.full(shard)


def test_a_full_ring_moves_its_slowest_client():
    """1. A ring is full of what one client has not read, and the other waits; 2. after a while the one is on
    its own; 3. the other goes on, and the one has missed nothing.
    """
    world, _ = shop("app", "slow")
    first = drain(world, "app")
    fill(world)
    for after_us in (2 * SLOW_US, SLOW_US // 4, SLOW_US // 4):
        assert state_of(world, "slow") is None
        world.tick(after_us)
    assert state_of(world, "slow") == "running"
    assert {shard for shard, ring in enumerate(world.rings) if ring.freed == 4} == {0, 1}
    world.report_all()
    rest = drain(world, "app")
    world.replay()
    assert drain(world, "slow") == first + rest


def test_a_full_ring_moves_all_of_its_slowest_clients():
    """Several that have stopped at the same position are taken out together."""
    world, _ = shop("app", "b", "c", replays_max=2)
    first = drain(world, "app")
    fill(world)
    for _ in range(5):
        world.tick(SLOW_US // 4)
    assert [state_of(world, client) for client in ("app", "b", "c")] == [None, "running", "running"]
    world.report_all()
    rest = drain(world, "app")
    world.replay()
    assert [drain(world, client) for client in "bc"] == [first + rest] * 2


@pytest.mark.parametrize("clients", [("app",), ("app", "other")])
def test_a_full_ring_that_no_client_waits_for_moves_no_client(clients):
    world, _ = shop(*clients)
    fill(world)
    for _ in range(10):
        world.tick(SLOW_US)
    assert not world.replay_opening


def test_more_clients_than_there_may_be_replays_wait_and_are_told():
    world, begin = shop("app", "b", "c", replays_max=1)
    first, *_ = [drain(world, client) for client in ("app", "b", "c")]
    rewound(world, begin, "b", "c")
    assert [state_of(world, client) for client in "bc"] == ["running", "waiting"]
    with pytest.raises(RetryableError, match=r"Client c waits for a replay.*1 other client"):
        world.get("c")
    world.report_all()
    rest = drain(world, "app")
    world.replay()
    assert drain(world, "b") == first + rest
    assert state_of(world, "c") == "running"
    world.replay()
    assert drain(world, "c") == first + rest
    assert world.group.describe(0)["replays"] == {"max": 1, "waiting": 0, "running": 0, "joining": 0}


def test_a_replay_without_a_consumer_gives_way():
    world, begin = shop("app", "b", "c", replays_max=1, lease_us=CONSUMER_GONE_US // 10)
    for client in ("app", "b", "c"):
        drain(world, client)
    rewound(world, begin, "b", "c")
    for _ in range(11):
        assert [state_of(world, client) for client in "bc"] == ["running", "waiting"]
        for client in ("app", "c"):
            world.tell_alive(client)
        world.tick(CONSUMER_GONE_US // 10)
    assert [state_of(world, client) for client in "bc"] == ["waiting", "running"]


def test_a_client_of_a_replay_that_is_away_is_dropped():
    world, begin = shop("app", "slow", lease_us=SLOW_US, drop_after_us=2 * SLOW_US)
    drain(world, "app")
    drain(world, "slow")
    rewound(world, begin, "slow")
    for _ in range(3):
        assert state_of(world, "slow") == "running"
        world.tell_alive("app")
        world.tick(SLOW_US)
    world.save()
    assert world.stored["slow"].dropped
    assert state_of(world, "slow") is None


def test_clients_of_replays_count():
    world, begin = shop("app", "slow", client_ids_max=2)
    drain(world, "app")
    drain(world, "slow")
    rewound(world, begin, "slow")
    with pytest.raises(UsageError):
        world.subscribe("another")


def test_a_lost_ring_of_a_replay_rolls_back_its_client_alone():
    world, begin = shop("app", "slow")
    first = drain(world, "app")
    drain(world, "slow")
    rewound(world, begin, "slow")
    world.replay()
    world.report_all()
    live = world.get("app")
    world.get("slow", 2)
    (lane, shard), ring = next(iter(world.replay_rings.items()))
    world.tell(ev.ShardLost(shard, ring.generation, "gone", world.now_us))
    assert not world.opening
    assert len(world.replay_opening) == 2
    with pytest.raises(RolledBack):
        world.get("slow")
    world.ack(live.batch_id, "app")
    world.replay()
    assert drain(world, "slow") == first + batch_idents(live)
    world.tell(ev.ShardLost(shard, ring.generation, "late", world.now_us))
    assert not world.opening, "what an ended replay reports is ignored"
    assert lane == LIVE + 1


def test_a_rewind_of_the_live_stream_leaves_replays_alone():
    world, begin = shop("app", "slow")
    drain(world, "app")
    drain(world, "slow")
    rewound(world, begin, "slow")
    world.replay()
    batch = world.get("slow", 2)
    world.lose(0)
    assert world.opening[0].position == world.stored["app"].cursor.shards["s0"]
    world.ack(batch.batch_id, "slow")
    assert state_of(world, "slow") == "running"


def test_a_new_server_opens_the_shards_for_those_that_are_near():
    sources = [Source(*[Tx(n * APART_US // 4) for n in range(1, 20)])]
    world = World.of(*sources, replays_max=1)
    for client in ("app", "near", "far"):
        world.subscribe(client)
    world.report_all()
    for client, rows in (("app", 9), ("near", 8), ("far", 2)):
        world.ack(world.get(client, rows).batch_id, client)
    world.epoch = 2
    world.restart()
    world.start()
    assert world.opening[0].position == world.stored["near"].cursor.shards["s0"]
    world.open_all()
    assert [state_of(world, client) for client in ("app", "near", "far")] == [None, None, "waiting"]
    world.subscribe("far", "h2")
    world.replay()
    world.report_all()
    assert len(drain(world, "far")) == 17


def test_no_client_is_replayed_because_a_look_is_further():
    world = World.of(Source(*[Tx(n * APART_US // 4) for n in range(1, 20)]), replays_max=1)
    world.subscribe("app")
    world.subscribe("look", look=True)
    world.report_all()
    world.ack(world.get("app", 2).batch_id, "app")
    batch = world.get("look", 9, 0)
    world.get("look", 1, batch.batch_id)
    world.lose(0)
    assert state_of(world, "app") is None
    assert world.opening[0].position == world.stored["app"].cursor.shards["s0"]


def test_a_replay_begins_anew_with_the_shards_that_there_are():
    world, begin = shop("app", "slow")
    drain(world, "app")
    drain(world, "slow")
    rewound(world, begin, "slow")
    world.replay()
    world.get("slow", 2)
    world.add(Source(*[Tx(5000 + n) for n in range(3)], server=2))
    world.open_all()
    while world.saving:
        world.save()
    assert state_of(world, "slow") == "running"
    assert {shard for _, shard in world.replay_opening} == {0, 1, 2}
    with pytest.raises(RolledBack):
        world.get("slow")
    world.report_all()
    drain(world, "app")
    world.replay()
    assert len(drain(world, "slow")) == 2 * COUNT + 3


def test_no_replay_begins_before_a_shard_has_joined():
    world, begin = shop("app", "slow")
    drain(world, "app")
    drain(world, "slow")
    world.add(Source(*[Tx(5000 + n) for n in range(3)], server=2))
    world.request_subscribe("slow", start=begin, move=True)
    world.lease()
    assert (state_of(world, "slow"), world.replay_opening) == ("waiting", {})
    world.open_all()
    assert state_of(world, "slow") == "running"
    assert {shard for _, shard in world.replay_opening} == {0, 1, 2}


def test_no_shard_leaves_before_a_replay_has_read_it():
    world, begin = shop("app", "slow")
    drain(world, "app")
    drain(world, "slow")
    rewound(world, begin, "slow")
    world.tell(ev.Asked(world.call(), Release("slow", world.epochs["slow"]), world.now_us))
    world.tick(CONSUMER_GONE_US + 1)
    assert state_of(world, "slow") == "waiting"
    world.subscribe("app", "h2")
    world.remove("s1", until_us=100 * COUNT + 60)
    world.report_all()
    world.report(1, 0, 100 * COUNT + 70)
    drain(world, "app")
    world.tick(1)
    assert not world.closed
    world.subscribe("slow", "h2")
    world.replay()
    assert len(drain(world, "slow")) == 2 * COUNT
    while world.saving:
        world.save()
    world.tick(1)
    while world.saving:
        world.save()
    assert world.closed == [1]


def test_a_policy_for_a_shard_holds_for_replays_too():
    world, begin = shop("app", "slow")
    drain(world, "app")
    drain(world, "slow")
    rewound(world, begin, "slow")
    world.policy("s1", Policy.SKIP)
    world.replay_opening = {key: asked for key, asked in world.replay_opening.items() if key[1] == 0}
    world.replay()
    assert {shard for shard, *_ in batch_idents(world.get("slow"))} == {0}


def test_a_purged_position_sets_the_client_of_a_replay_aside():
    world, begin = shop("app", "slow")
    drain(world, "app")
    drain(world, "slow")
    rewound(world, begin, "slow")
    asked = world.replay_opening.pop((LIVE + 1, 0))
    gone = PositionPurged("It is gone.", hint="")
    world.tell(ev.ShardFailed(0, asked.generation, gone, world.now_us))
    world.tick(1_000_000)
    world.tick(1)
    with pytest.raises(PositionPurged):
        world.get("slow")
    assert state_of(world, "slow") is None
    assert not world.replay_opening
    assert not world.opening


@pytest.mark.parametrize("rule", [DdlRule.FIRST, DdlRule.LAST])
def test_a_replay_has_the_statements_that_were_delivered(rule):
    mark = [DdlMark(7, "ALTER", "s.t", f"s.t{shard}", 1) for shard in (0, 1)]
    sources = [
        Source(Tx(100 + shard, ddl=True, mark=mark[shard]), *[Tx(200 + n) for n in range(4)], server=shard)
        for shard in (0, 1)
    ]
    world = World.of(*sources, replays_max=1, ddl=rule)
    begin, _ = [world.subscribe(client) for client in ("app", "slow")]
    world.report_all()
    batches = {client: world.get(client) for client in ("app", "slow")}
    for client, batch in batches.items():
        world.ack(batch.batch_id, client)
    withheld = (batches["app"].headers["flags"] & Flag.WITHHELD) != 0
    assert withheld.sum() == 1
    stored = world.decided
    rewound(world, begin, "slow")
    world.replay()
    again = world.get("slow")
    assert ((again.headers["flags"] & Flag.WITHHELD) != 0).tolist() == withheld.tolist()
    assert world.decided == stored


@pytest.mark.parametrize("decided", [False, True])
def test_a_replay_waits_at_a_statement_without_a_stored_decision(decided):
    mark = DdlMark(7, "ALTER", "s.t", "s.t0", 1)
    world = World.of(
        Source(*[Tx(10 * n) for n in range(1, 4)], Tx(90, ddl=True, mark=mark), Tx(95)),
        replays_max=1,
        ddl=DdlRule.FIRST,
    )
    begin, _ = [world.subscribe(client) for client in ("app", "slow")]
    world.report(0, 2, 20)
    for client in ("app", "slow"):
        drain(world, client)
    if decided:
        world.decides = False
        world.report_all()
    rewound(world, begin, "slow")
    world.replay()
    batch = world.get("slow")
    assert len(batch.headers) == 3
    world.ack(batch.batch_id, "slow")
    assert state_of(world, "slow") is None, "it is where the live stream is"
    if decided:
        world.decide()
    else:
        world.report_all()
    assert len(drain(world, "app")) == 3
    assert len(drain(world, "slow")) == 2


def test_a_trace_says_which_client_is_replayed():
    world, begin = shop("app", "slow")
    drain(world, "app")
    drain(world, "slow")
    rewound(world, begin, "slow")
    found = world.group.trace(f"{UUID}:2", {"s0": f"{UUID}:1-8"})
    states = {each["client_id"]: each["state"] for each in found["clients"]}
    assert (states["slow"], states["app"] != "replayed") == ("replayed", True)


def test_a_client_that_comes_while_shards_are_opened_has_no_replay():
    world, begin = shop("app", "slow")
    drain(world, "app")
    drain(world, "slow")
    world.lose(0)
    world.opening.clear()
    call = world.request_subscribe("slow", start=begin, move=True)
    world.lease()
    assert world.opening[0].position == begin.shards["s0"]
    world.open_all()
    world.save()
    assert world.result(call)
    world.report_all()
    assert len(drain(world, "slow")) == 2 * COUNT


def test_a_client_that_waits_may_be_moved():
    world, begin = shop("app", "b", "c", replays_max=1)
    for client in ("app", "b", "c"):
        drain(world, client)
    rewound(world, begin, "b", "c")
    batch_end = world.stored["app"].cursor
    world.subscribe("c", start=batch_end, move=True)
    assert state_of(world, "c") is None
    world.report_all()
    assert drain(world, "c") == drain(world, "app")


def test_a_reader_without_the_grant_may_go_back():
    world, begin = shop("app", "slow")
    drain(world, "app")
    drain(world, "slow")
    world.request_subscribe("slow", start=begin, move=True, may_disturb=False)
    world.lease()
    world.save()
    assert state_of(world, "slow") == "running"


def keys(batch):
    return [(int(header["shard"]), int(header["key_us"])) for header in batch.headers]


def test_a_replay_has_the_commit_times_of_transactions_that_were_late():
    """1. Live, two come after their shard said that it has none so early: they go out after what went out.
    2. A replay has them where they were committed: each shard's order is the same, that of both is not.
    3. Its client joins where the live log still has them, and does not get them again.
    """
    world = World.of(
        Source(Tx(100), Tx(150), Tx(160), Tx(400), server=0),
        Source(Tx(101), Tx(200), Tx(401), server=1),
        replays_max=1,
    )
    begin = world.subscribe("slow")
    world.subscribe("app")
    world.report(0, 1, 250)
    world.report(1, 2, 250)
    early = world.get("app")
    assert drain(world, "slow") == batch_idents(early)
    world.ack(early.batch_id, "app")
    rewound(world, begin, "slow")
    assert state_of(world, "slow") == "running"
    world.report_all()
    late = world.get("app")
    assert keys(early) == [(0, 100), (1, 101), (1, 200)]
    assert keys(late) == [(0, 250), (0, 250), (0, 400), (1, 401)]
    assert (late.headers["flags"] & Flag.LATE != 0).tolist() == [True, True, False, False]
    world.replay()
    again = [world.get("slow", 3), world.get("slow", 2)]
    assert [keys(batch) for batch in again] == [[(0, 100), (1, 101), (0, 150)], [(0, 160), (1, 200)]]
    for batch in again:
        assert not (batch.headers["flags"] & Flag.LATE).any()
        world.ack(batch.batch_id, "slow")
    assert state_of(world, "slow") is None
    assert drain(world, "slow") == batch_idents(late)[2:]
