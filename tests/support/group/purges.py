"""A world whose source has purged transactions that some of its clients have not read."""

from support.group.builders import Source, Tx, World

from canal_group.merge import events as ev
from canal_group.merge.calls.consumers import Touch
from canal_group.merge.errors import PositionPurged
from canal_group.merge.group import PURGED_WAIT_US

TRANSACTIONS = 8
#: the oldest transaction that the source still has
OLDEST = 2
#: whether a shard reports its position before its source was asked
OPENED_FIRST = [False]


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
    """Answer every opening like a source that has purged everything before its third transaction."""
    for shard, asked in list(world.opening.items()):
        if asked.position is not None and world.sources[shard].index_after(asked.position) < OLDEST:
            if OPENED_FIRST[0]:
                world.tell(ev.ShardOpened(shard, asked.generation, asked.position, world.now_us))
            world.tell(ev.ShardFailed(shard, asked.generation, PositionPurged("It is gone."), world.now_us))
        else:
            world.open(shard)


def let_time_pass(world, *clients):
    """Advance more than a second, in which the consumers of `clients` are active and openings are retried."""
    for _ in range(4):
        for client in clients:
            world.tell(ev.Asked(world.call(), Touch(client, world.epochs[client]), world.now_us))
        world.tick(PURGED_WAIT_US // 2)
        while world.saving:
            world.save()
        open_what_is_left(world)


def restarted():
    """Start another server; the source has purged transactions that `other` has not acknowledged."""
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
