"""Whatever is refused leaves everything as it was, under the same random events as `test_group`."""

import pickle

from hypothesis import settings
from support.group.builders import World
from support.group.group_machine import GroupMachine

from canal_group.merge import events as ev
from canal_group.merge import instructions as do

REQUESTS = (ev.Asked, ev.ShardAdded)


def frozen(group):
    """Everything that a group holds, as bytes; but for when consumers were heard of, and notices."""
    subscribers = group._subscribers._by_id.values()
    kept = [(each, each.lease.seen_us, each.delivery._notice) for each in subscribers]
    for subscriber, _, _ in kept:
        subscriber.lease.seen_us, subscriber.delivery._notice = 0, None
    held = pickle.dumps(group)
    for subscriber, seen_us, notice in kept:
        subscriber.lease.seen_us, subscriber.delivery._notice = seen_us, notice
    return held


class CarefulWorld(World):
    """A world that looks at the whole group around every request."""

    def tell(self, event):
        if not isinstance(event, REQUESTS):
            return super().tell(event)
        before = frozen(self.group)
        instructions = super().tell(event)
        if len(instructions) == 1 and isinstance(instructions[0], do.Refuse):
            assert frozen(self.group) == before, f"{event} was refused, and changed something"
        return instructions


class Refusals(GroupMachine):
    world_of = CarefulWorld


TestRefusals = Refusals.TestCase
TestRefusals.settings = settings(max_examples=30, stateful_step_count=40, deadline=None)
