"""One client cannot hurt another: what is purged, or too far away, is its own error."""

from dataclasses import replace

import pytest
from builders import Source, Tx, World, places

from merge import events as ev
from merge.errors import CorruptEvent, PositionPurged, RolledBack, SubscriptionDropped, UsageError
from merge.group import PURGED_WAIT_US
from merge.gtid import parse_gtid_set
from merge.position import GroupPosition, Position
from merge.span import Span

TRANSACTIONS = 8
#: the oldest transaction that the source still has
OLDEST = 2


#: whether a shard says where it is open before its source was asked
OPENED_FIRST = [False]


@pytest.fixture(autouse=True, params=[False, True], ids=["refused", "opened first"])
def _opened_first(request):
    OPENED_FIRST[0] = request.param


def numbers(batch):
    return batch.headers["gtid_number"].tolist()


def committing(**settings):
    """A shard of eight transactions, and two clients, of which `app` has acknowledged four."""
    world = World.of(Source(*[Tx(10 * n) for n in range(1, TRANSACTIONS + 1)]), **settings)
    world.subscribe("app")
    world.subscribe("other")
    world.report(0, 4, 45)
    world.ack(world.get("app").batch_id, "app")
    return world


def open_what_is_left(world):
    """Answer every opening as a source does that has purged what is before its third transaction."""
    for shard, asked in list(world.opening.items()):
        if asked.position is not None and world.sources[shard].index_after(asked.position) < OLDEST:
            if OPENED_FIRST[0]:
                world.tell(ev.ShardOpened(shard, asked.generation, asked.position, world.now_us))
            world.tell(ev.ShardFailed(shard, asked.generation, PositionPurged("It is gone."), world.now_us))
        else:
            world.open(shard)


def let_time_pass(world, *clients):
    """A second and more, in which the consumers of `clients` are heard of, and openings are tried again."""
    for _ in range(4):
        for client in clients:
            world.tell(ev.ConsumerTouched(world.call(), client, world.epochs[client], world.now_us))
        world.tick(PURGED_WAIT_US // 2)
        while world.saving:
            world.save()
        open_what_is_left(world)


def restarted():
    """The server is another one; the source has purged what `other` has not acknowledged."""
    world = committing()
    world.epoch += 1
    world.restart()
    world.start()
    open_what_is_left(world)
    return world


def subscribe(world, client, resume=None):
    """Subscribe without waiting for shards to open."""
    call = world.request_subscribe(client, "h2", resume)
    if world.leasing:
        world.lease()
    while world.saving:
        world.save()
    return call


def phase(world, client):
    return next(each["phase"] for each in world.group.describe(0)["clients"] if each["client_id"] == client)


def test_a_client_whose_position_was_purged_is_set_aside_and_the_others_go_on():
    """1. The shard cannot be opened for `other`. 2. After a while it is named, and nothing is kept for it.
    3. `app` goes on. 4. `other` is told why with its next get, and only it.
    """
    world = restarted()
    subscribe(world, "app")
    assert world.opening, "it had its time to come back"
    let_time_pass(world, "app")
    assert not world.opening
    state = next(each for each in world.group.describe(0)["clients"] if each["client_id"] == "other")
    assert (state["phase"], "It is gone." in state["error"]) == ("purged", True)
    world.report_all()
    batch = world.get("app")
    assert numbers(batch) == [5, 6, 7, 8]
    world.ack(batch.batch_id, "app")
    assert world.rings[0].freed == TRANSACTIONS, "no ring is held for it"
    subscribe(world, "other")
    with pytest.raises(PositionPurged, match="Client other cannot go on at its cursor"):
        world.get("other")
    with pytest.raises(PositionPurged):
        world.get("other")
    assert world.get("app") is None


def test_a_client_that_was_set_aside_may_go_on_where_the_others_are():
    world = restarted()
    subscribe(world, "app")
    let_time_pass(world, "app")
    call = subscribe(world, "other", ev.Resume.NOW)
    open_what_is_left(world)
    while world.saving:
        world.save()
    assert call in world.answers
    world.report_all()
    assert numbers(world.get("other")) == [5, 6, 7, 8]


def test_a_client_that_was_set_aside_may_try_again_at_its_cursor():
    """An operator has put the binlog files back."""
    world = restarted()
    subscribe(world, "app")
    let_time_pass(world, "app")
    call = subscribe(world, "other", ev.Resume.CURSOR)
    world.open_all()
    while world.saving:
        world.save()
    assert call in world.answers
    world.report_all()
    assert numbers(world.get("other")) == list(range(1, TRANSACTIONS + 1))
    assert numbers(world.get("app")) == [5, 6, 7, 8]


def test_as_long_as_nobody_else_is_hurt_a_purged_client_keeps_its_place():
    world = World.of(Source(*[Tx(10 * n) for n in range(1, TRANSACTIONS + 1)]))
    world.subscribe("only")
    world.epoch += 1
    world.restart()
    world.start()
    subscribe(world, "only")
    let_time_pass(world, "only")
    assert phase(world, "only") in ("waiting", "reading")
    assert list(world.opening) == [0]
    call = world.request_get("only")
    world.tell(ev.GetTimedOut(call, "only"))
    with pytest.raises(PositionPurged):
        world.result(call)


def test_a_newcomer_begins_where_the_settings_say_if_all_before_it_are_purged():
    world = restarted()
    asked = world.opening[0].position
    for client in ("app", "other"):
        world.stored[client] = world.stored["other"]
    world.epoch += 1
    world.restart()
    world.start()
    assert world.opening[0].position == asked
    open_what_is_left(world)
    subscribe(world, "new")
    let_time_pass(world, "new")
    assert not world.opening
    assert [phase(world, client) for client in ("app", "other", "new")] == ["purged", "purged", "reading"]


def test_who_unsubscribes_instead_lets_the_others_go_on():
    world = restarted()
    subscribe(world, "app")
    subscribe(world, "other")
    call = world.call()
    world.tell(ev.UnsubscribeRequested(call, "other", world.epochs["other"], world.now_us))
    assert world.answers[call] is None
    world.tick(1)
    open_what_is_left(world)
    world.report_all()
    assert numbers(world.get("app")) == [5, 6, 7, 8]


def test_who_was_set_aside_and_stays_away_is_dropped_for_good():
    world = committing(lease_us=1_000_000, drop_after_us=3_000_000)
    world.epoch += 1
    world.restart()
    world.start()
    open_what_is_left(world)
    subscribe(world, "app")
    let_time_pass(world, "app")
    assert phase(world, "other") == "purged"
    for _ in range(4):
        let_time_pass(world, "app")
    assert (phase(world, "other"), world.stored["other"].dropped) == ("dropped", True)
    with pytest.raises(SubscriptionDropped):
        world.result(world.request_subscribe("other"))


def test_a_span_that_was_purged_is_its_readers_error_alone():
    """1. A query is restarted with an old checkpoint. 2. It hears that this is purged; `app` goes on."""
    world = committing()
    world.ack(world.get("other").batch_id, "other")
    begin = GroupPosition({"s0": world.sources[0].start})
    call = world.request_span(Span(begin), "other")
    open_what_is_left(world)
    with pytest.raises(PositionPurged):
        world.result(call)
    open_what_is_left(world)
    assert not world.opening
    world.report_all()
    assert numbers(world.get("app")) == [5, 6, 7, 8]
    assert phase(world, "other") == "reading"


def test_a_purged_client_that_seeks_what_is_purged_as_well_is_purged_again():
    world = restarted()
    subscribe(world, "app")
    let_time_pass(world, "app")
    subscribe(world, "other")
    first = GroupPosition({"s0": world.sources[0].ends[0]}, 1)
    call = world.request_span(Span(first), "other")
    open_what_is_left(world)
    with pytest.raises(PositionPurged):
        world.result(call)
    open_what_is_left(world)
    assert (phase(world, "other"), phase(world, "app"), world.opening) == ("purged", "reading", {})


def test_a_position_that_only_gtids_can_find_is_of_the_client_that_is_furthest_back():
    """1. Two servers committed in other orders: the shard is opened after what both clients have.
    2. That is purged. The one with the smaller key is set aside.
    """
    source = Source(Tx(10), Tx(20), Tx(30))
    uuid = source.names[-1]
    world = World.of(source, start=False)
    one = Position("bin.000001", 500, parse_gtid_set(f"{uuid}:1-2"), key_us=20, server="a")
    two = Position("bin.000002", 600, parse_gtid_set(f"{uuid}:1:3"), key_us=30, server="b")
    world.start(
        ev.ConsumerState("one", "", GroupPosition({"s0": one}, 2), "h", 1),
        ev.ConsumerState("two", "", GroupPosition({"s0": two}, 2), "h", 1),
    )
    asked = world.opening[0]
    assert (str(asked.position.gtid_set), asked.position.server) == (f"{uuid}:1", "*")
    gone = PositionPurged("It is gone.")
    world.tell(ev.ShardFailed(0, asked.generation, gone, world.now_us))
    world.tick(PURGED_WAIT_US)
    assert [phase(world, client) for client in ("one", "two")] == ["purged", "waiting"]
    assert world.opening[0].position == two


def test_a_reader_that_would_have_the_sources_read_again_for_too_long_is_refused_alone():
    hour_us = 3_600_000_000
    world = World.of(Source(*[Tx(hour_us * n) for n in range(1, 5)]), apart_max_us=2 * hour_us)
    begin = world.subscribe("app")
    world.subscribe("spark")
    world.report_all()
    first = world.span(Span(begin, rows_max=1), "spark")
    world.ack(first.batch_id, "spark")
    second = world.span(Span(first.end, rows_max=1), "spark")
    world.ack(second.batch_id, "spark")
    world.ack(world.get("app").batch_id, "app")
    with pytest.raises(UsageError, match="asks for what shard s0 committed 10800 s before what client app"):
        world.span(Span(first.end), "spark")
    assert not world.opening
    world.request_span(Span(second.end), "spark")
    assert not world.opening, "this far it may go, in memory"


@pytest.mark.parametrize("apart_max_us", [0, 1])
def test_a_position_without_a_commit_time_is_taken_at_its_word(apart_max_us):
    world = World.of(Source(Tx(10**10), Tx(2 * 10**10)), apart_max_us=apart_max_us)
    begin = world.subscribe("app")
    world.subscribe("spark")
    world.report_all()
    for client in ("app", "spark"):
        world.ack(world.get(client).batch_id, client)
    world.request_span(Span(begin), "spark")
    assert world.opening


def test_a_get_that_waits_beside_a_span_keeps_its_turn_and_a_span_from_elsewhere_does_not():
    """1. A span waits. 2. A later call asks for one that begins elsewhere. 3. The first is refused, and
    not answered with rows that do not follow its start.
    """
    world = World.of(Source(Tx(10), Tx(20), Tx(30), Tx(40)))
    begin = world.subscribe()
    world.report(0, 1, 15)
    first = world.span(Span(begin))
    world.ack(first.batch_id)
    waiting = world.request_span(Span(first.end, rows_max=1))
    third = GroupPosition({"s0": world.sources[0].ends[2]}, 3)
    other = world.request_span(Span(third, rows_max=1))
    with pytest.raises(RolledBack, match="another position"):
        world.result(waiting)
    world.report_all()
    assert [place[2] for place in places(world.result(other))] == [4]


def test_a_source_that_has_the_position_again_in_time_hurts_nobody():
    """An address led to another server for a moment."""
    world = restarted()
    subscribe(world, "app")
    world.tick(PURGED_WAIT_US // 2)
    if OPENED_FIRST[0]:
        world.opening.clear()
        world.rings[0].generation = world.group.generation
        world.report(0, 0, promise_us=1)
    else:
        world.open_all()
    world.tick(PURGED_WAIT_US)
    world.report_all()
    subscribe(world, "other")
    assert (phase(world, "app"), phase(world, "other")) == ("reading", "reading")
    assert world.status(0)["state"] == "open"


def test_who_has_acknowledged_nothing_and_sought_what_is_purged_hears_it():
    """It began where the log did; what it asks for then is its own wish, and no beginning anywhere else."""
    world = committing()
    world.ack(world.get("other").batch_id, "other")
    world.subscribe("new")
    begin = GroupPosition({"s0": world.sources[0].start})
    call = world.request_span(Span(begin), "new")
    open_what_is_left(world)
    with pytest.raises(PositionPurged):
        world.result(call)
    open_what_is_left(world)
    world.report_all()
    assert [numbers(world.get(client)) for client in ("app", "new")] == [[5, 6, 7, 8]] * 2


def test_a_purged_client_may_go_on_from_a_position_that_the_log_holds():
    world = restarted()
    subscribe(world, "app")
    let_time_pass(world, "app")
    subscribe(world, "other")
    world.report_all()
    ahead = GroupPosition({"s0": world.sources[0].ends[4]}, 5)
    call = world.request_span(Span(ahead), "other")
    open_what_is_left(world)
    world.report_all()
    assert numbers(world.result(call)) == [6, 7, 8]
    assert phase(world, "other") == "reading"


def test_where_a_purged_shard_was_to_begin_and_no_cursor_stands_its_settings_say():
    """An operator adds a shard at a position that its source does not have any more."""
    world = World.of(Source(Tx(10)))
    world.subscribe("app")
    source = Source(*[Tx(10 * n) for n in range(1, TRANSACTIONS + 1)], server=1)
    world.add(source, source.ends[0])
    asked = world.opening.pop(1)
    assert asked.position == source.ends[0]
    world.tell(ev.ShardOpened(1, 1, asked.position, world.now_us))
    world.tell(ev.ShardFailed(1, 1, PositionPurged("It is gone."), world.now_us))
    world.tick(PURGED_WAIT_US)
    assert world.opening[1].position is None


@pytest.mark.parametrize("first", [0, 10])
def test_what_was_brought_once_was_not_purged(first):
    """A shard that stops later, with whatever error, has begun where it was asked to."""
    world = committing()
    world.epoch += 1
    world.restart()
    world.start()
    world.open(0)
    world.subscribe("app")
    run = world.sources[0].run(0, 1, first)
    world.tell(ev.ShardReported(0, 1, run, None, world.now_us))
    world.tell(ev.ShardFailed(0, 1, PositionPurged("It is gone."), world.now_us))
    world.tick(2 * PURGED_WAIT_US)
    assert (world.group.generation, world.opening) == (1, {})


def test_a_client_that_has_no_cursor_yet_needs_no_position_that_others_share():
    source = Source(Tx(10), Tx(20), Tx(30))
    uuid = source.names[-1]
    world = World.of(source, start=False)
    world.start(
        ev.ConsumerState("new", "", None, "h", 1),
        *(
            ev.ConsumerState(
                name,
                "",
                GroupPosition({"s0": Position("bin.000009", 500, gtids, key_us=key, server=name)}),
                "h",
                1,
            )
            for name, gtids, key in (
                ("one", parse_gtid_set(f"{uuid}:1-2"), 20),
                ("two", parse_gtid_set(f"{uuid}:1:3"), 30),
            )
        ),
    )
    world.tell(ev.ShardFailed(0, 1, PositionPurged("It is gone."), world.now_us))
    world.tick(PURGED_WAIT_US)
    assert [phase(world, client) for client in ("new", "one", "two")] == ["waiting", "purged", "waiting"]


HOUR_US = 3_600_000_000


def far_apart():
    """A reader that is hours of commit time behind `app`, and no position of it is in the log."""
    world = World.of(Source(*[Tx(HOUR_US * n) for n in range(1, 9)]), apart_max_us=2 * HOUR_US)
    begin = world.subscribe("app")
    world.subscribe("spark")
    world.report_all()
    first = world.span(Span(begin, rows_max=1), "spark")
    world.ack(first.batch_id, "spark")
    world.ack(world.span(Span(first.end), "spark").batch_id, "spark")
    world.ack(world.get("app").batch_id, "app")
    return world, first


def test_a_client_without_a_consumer_is_not_hurt_by_one_that_goes_far_back():
    world, first = far_apart()
    world.tell(ev.ReleaseRequested(world.call(), "app", world.epochs["app"], world.now_us))
    world.request_span(Span(first.end), "spark")
    assert world.opening


def test_a_client_that_is_alone_may_go_back_as_far_as_it_likes():
    world, first = far_apart()
    world.tell(ev.UnsubscribeRequested(world.call(), "app", world.epochs["app"], world.now_us))
    world.request_span(Span(first.end), "spark")
    assert world.opening


@pytest.mark.parametrize(
    ("resume", "apart_h", "refused"),
    [(ev.Resume.CURSOR, 5, True), (ev.Resume.CURSOR, 6, False), (ev.Resume.NOW, 5, False)],
)
def test_a_dropped_client_that_is_too_far_behind_can_only_go_on_where_the_others_are(
    resume, apart_h, refused
):
    world = World.of(
        Source(*[Tx(HOUR_US * n) for n in range(1, 9)]),
        apart_max_us=apart_h * HOUR_US,
        drop_after_us=1,
        lease_us=HOUR_US,
    )
    for client in ("app", "old"):
        world.subscribe(client)
        world.report(0, 1)
        world.ack(world.get(client, 1).batch_id, client)
    world.tell(ev.ReleaseRequested(world.call(), "old", world.epochs["old"], world.now_us))
    world.tick(2)
    world.save()
    world.report_all()
    world.ack(world.get("app").batch_id, "app")
    call = world.request_subscribe("old", resume=resume)
    if refused:
        with pytest.raises(UsageError, match="committed 21600 s before what client app"):
            world.result(call)
        assert not world.leasing
    else:
        assert world.leasing


def test_a_span_that_waits_is_refused_where_a_get_that_came_before_it_takes_its_rows():
    world = World.of(Source(Tx(10), Tx(20), Tx(30)))
    span = Span(world.subscribe(), GroupPosition({"s0": world.sources[0].ends[2]}, 3))
    first, spanning, second = world.request_get(rows_max=1), world.request_span(span), world.request_get()
    world.report(0, promise_us=99)
    assert numbers(world.result(first)) == [1]
    with pytest.raises(RolledBack, match="not positioned where"):
        world.result(spanning)
    assert numbers(world.result(second)) == [2, 3]


def test_a_span_that_is_asked_for_twice_before_it_is_there_is_one_batch():
    world = World.of(Source(Tx(10), Tx(20)))
    begin = world.subscribe()
    calls = [world.request_span(Span(begin)) for _ in range(2)]
    world.report_all()
    first, second = (world.result(call) for call in calls)
    assert first is second


def test_a_purged_client_may_unsubscribe():
    world = restarted()
    world.forgets = False
    subscribe(world, "app")
    let_time_pass(world, "app")
    subscribe(world, "other")
    world.tell(ev.UnsubscribeRequested(world.call(), "other", world.epochs["other"], world.now_us))
    state = next(each for each in world.group.describe(0)["clients"] if each["client_id"] == "other")
    assert (state["phase"], state["error"]) == ("leaving", None)


def test_a_shard_that_cannot_join_where_it_was_to_rolls_nobody_back():
    world = World.of(Source(Tx(10)))
    world.subscribe("app")
    source = Source(Tx(10), Tx(20), server=1)
    world.add(source, source.ends[0])
    world.tell(ev.ShardFailed(1, 1, PositionPurged("It is gone."), world.now_us))
    world.tick(2 * PURGED_WAIT_US)
    assert (world.group.generation, world.status(1)["error"]) == (1, "It is gone.")


def test_a_client_without_a_consumer_hides_none_that_has_one():
    world = World.of(Source(*[Tx(HOUR_US * n) for n in range(1, 9)]), apart_max_us=2 * HOUR_US)
    begin = world.subscribe("gone")
    for client in ("spark", "app"):
        world.subscribe(client)
    world.report_all()
    for client in ("gone", "spark", "app"):
        world.ack(world.get(client).batch_id, client)
    world.tell(ev.ReleaseRequested(world.call(), "gone", world.epochs["gone"], world.now_us))
    first = replace(world.sources[0].ends[0], commit_us=HOUR_US)
    with pytest.raises(UsageError, match="what client app has read"):
        world.span(Span(replace(begin, shards={"s0": first})), "spark")


def test_a_shard_that_only_a_purged_client_knew_begins_where_its_settings_say():
    world = World.of(Source(Tx(10)), Source(Tx(10), server=1), start=False)
    first, purged = world.sources[0].start, Position("bin.000001", 104, server="x")
    world.start(
        ev.ConsumerState("one", "", GroupPosition({"s0": first, "s1": purged}, 1), "h", 1),
        ev.ConsumerState("two", "", GroupPosition({"s0": first}, 1), "h", 1),
    )
    assert world.opening[1].position == purged
    world.tell(ev.ShardFailed(1, 1, PositionPurged("It is gone."), world.now_us))
    world.tick(PURGED_WAIT_US)
    assert [phase(world, client) for client in ("one", "two")] == ["purged", "waiting"]
    assert (world.opening[0].position, world.opening[1].position) == (first, None)


def test_while_a_position_is_purged_only_who_needs_it_hears_so():
    world = restarted()
    for client in ("app", "other"):
        subscribe(world, client)
    assert world.get("app") is None
    with pytest.raises(PositionPurged):
        world.get("other")


def test_a_reader_from_whose_position_rows_came_goes_on_there_after_it_went():
    world = committing()
    world.ack(world.get("other").batch_id, "other")
    cursor = world.stored["app"].cursor
    begin = GroupPosition({"s0": world.sources[0].start})
    world.request_span(Span(begin), "app")
    world.open_all()
    world.report_all()
    assert numbers(world.span(Span(begin), "app")) == list(range(1, TRANSACTIONS + 1))
    world.tell(ev.ReleaseRequested(world.call(), "app", world.epochs["app"], world.now_us))
    assert world.subscribe("app").shards["s0"].offset < cursor.shards["s0"].offset


def test_a_span_behind_what_was_lost_is_given_though_its_reader_has_not_acknowledged():
    """A query keeps its place itself: what it asks for next follows what it had."""
    world = World.of(Source(*[Tx(10 * n) for n in range(1, 5)]))
    begin = world.subscribe()
    world.report_all()
    first = world.span(Span(begin, rows_max=2))
    world.lose(0)
    call = world.request_span(Span(first.end))
    assert world.group.generation == 2, "the shards are being opened at the cursor already"
    while world.opening:
        world.open_all()
    world.report_all()
    assert numbers(world.result(call)) == [3, 4]


def test_a_position_that_is_refused_for_another_reason_by_now_is_not_purged():
    world = restarted()
    subscribe(world, "app")
    error = CorruptEvent("bad")
    world.tell(ev.ShardFailed(0, world.group.generation, error, world.now_us))
    world.tick(2 * PURGED_WAIT_US)
    assert "purged" not in {phase(world, client) for client in ("app", "other")}
    assert world.status(0)["error"] == "bad"


def test_how_long_a_position_is_purged_counts_from_when_that_was_heard():
    world = committing()
    world.now_us = 100 * PURGED_WAIT_US
    world.epoch += 1
    world.restart()
    world.start()
    open_what_is_left(world)
    world.tick(PURGED_WAIT_US - 1)
    assert phase(world, "other") != "purged"
    world.tick(1)
    assert phase(world, "other") == "purged"


def test_who_has_acknowledged_something_is_never_begun_anew():
    """It would miss what lies between, and nobody would hear of it."""
    world = committing()
    world.ack(world.get("other", 1).batch_id, "other")
    world.lose(0)
    open_what_is_left(world)
    world.tick(PURGED_WAIT_US)
    assert (phase(world, "other"), phase(world, "app")) == ("purged", "waiting")


def test_a_position_that_all_need_hides_none_that_only_one_needs():
    sources = [Source(*[Tx(10 * n) for n in range(1, 4)], server=server) for server in range(2)]
    world = World.of(*sources, start=False)
    shared, old, new = sources[0].ends[0], sources[1].ends[0], sources[1].ends[1]
    world.start(
        ev.ConsumerState("app", "", GroupPosition({"s0": shared, "s1": new}, 3), "h", 1),
        ev.ConsumerState("other", "", GroupPosition({"s0": shared, "s1": old}, 2), "h", 1),
    )
    for shard in (0, 1):
        world.tell(ev.ShardFailed(shard, 1, PositionPurged("It is gone."), world.now_us))
    world.tick(PURGED_WAIT_US)
    assert [phase(world, client) for client in ("app", "other")] == ["waiting", "purged"]
    assert [world.opening[shard].position for shard in (0, 1)] == [shared, new]


def test_who_may_not_go_back_hears_that_and_not_how_far_it_would_be():
    world, first = far_apart()
    with pytest.raises(RolledBack):
        world.span(Span(first.end), "spark", may_rewind=False)


def test_who_subscribed_long_ago_and_acknowledged_nothing_is_told_what_it_misses():
    """1. A client reads a batch and acknowledges nothing. 2. The ring is lost, and what it is owed is purged.
    3. It does not go on behind that in silence.
    """
    world = committing()
    assert world.get("other") is not None
    world.lose(0)
    open_what_is_left(world)
    let_time_pass(world, "app", "other")
    assert (phase(world, "other"), phase(world, "app")) == ("purged", "reading")
    with pytest.raises(PositionPurged):
        world.get("other")


def test_a_position_that_only_gtids_find_and_nobody_needs_any_more_is_given_up():
    """1. The shard is opened after what two clients have that read from two servers; both unsubscribe.
    2. It is purged there: whoever comes begins where the settings say.
    """
    source = Source(Tx(10), Tx(20), Tx(30))
    uuid = source.names[-1]
    world = World.of(source, start=False)
    world.start(
        *(
            ev.ConsumerState(client, "", GroupPosition({"s0": Position(*place, server=client)}, 2), "h", 1)
            for client, place in (
                ("a", ("bin.000001", 500, parse_gtid_set(f"{uuid}:1-2"))),
                ("b", ("bin.000002", 600, parse_gtid_set(f"{uuid}:1:3"))),
            )
        )
    )
    for client in ("a", "b"):
        world.tell(ev.UnsubscribeRequested(world.call(), client, 1, world.now_us))
    world.request_subscribe("new")
    world.lease()
    asked = world.opening[0]
    assert asked.position.server == "*"
    world.tell(ev.ShardFailed(0, asked.generation, PositionPurged("It is gone."), world.now_us))
    world.tick(PURGED_WAIT_US)
    assert world.opening[0].position is None
