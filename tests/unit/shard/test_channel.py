"""The channel to a shard's actor: its RPC address is asked for once while it is not answered."""

import asyncio

from canal_group.actors.shard.channel import RayShard
from canal_group.actors.transport.rpc_wire import RpcAddress


class Actor:
    """A handle of an actor that answers as the test says."""

    def __init__(self):
        self.answers = []

    @property
    def rpc_address(self):
        return self

    def options(self, **_):
        return self

    def remote(self):
        self.answers.append(asyncio.get_running_loop().create_future())
        return self.answers[-1]


def test_followers_of_two_lanes_get_the_address_that_they_asked_for():
    """Another one asks again as soon as that is answered, before the first ones go on."""

    async def ask():
        actor = Actor()
        channel, address = RayShard("s0", actor), RpcAddress("127.0.0.1", 1, b"")
        waiting = [asyncio.ensure_future(channel._address()) for _ in range(2)]
        await asyncio.sleep(0.01)
        (answer,) = actor.answers
        answer.set_result(address)
        while not channel._asked.done():  # noqa: ASYNC110 - an event would let the others go first
            await asyncio.sleep(0)
        again = asyncio.ensure_future(channel._address())
        assert await asyncio.gather(*waiting) == [address, address]
        assert len(actor.answers) == 2
        actor.answers[1].set_result(address)
        assert await again == address

    asyncio.run(ask())
