"""How long readers wait before they connect to a source again that is away."""

from __future__ import annotations

import socket

from support.defaults import address_of, chunk_limits, source_reader

from canal_group.merge.errors import SourceUnavailable

ATTEMPTS = 4


class Waits:
    """A listener that notes how long its reader waits, and stops it after some attempts."""

    def __init__(self, address):
        self.reader = source_reader(address, lambda *_: None, chunk_limits(), self)
        self.reader._stopped.wait = lambda *_: None
        self.waits_s = []

    def disconnected(self, error, retry_after_s):
        assert isinstance(error, SourceUnavailable)
        self.waits_s.append(retry_after_s)
        if len(self.waits_s) == ATTEMPTS:
            self.reader.stop()


def test_pauses_grow_and_readers_do_not_connect_together():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = address_of("s1", "127.0.0.1", taken.getsockname()[1], password="secret", server_id=9)
    both = [Waits(address) for _ in range(2)]
    for each in both:
        each.reader.run(None)
        for limit_s, wait_s in zip((0.1, 0.2, 0.4, 0.8), each.waits_s, strict=True):
            assert limit_s / 2 <= wait_s <= limit_s
    assert not set(both[0].waits_s) & set(both[1].waits_s)
