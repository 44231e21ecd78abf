"""Offset ranges under reports, promises, restarts and losses: the same two positions, the same rows."""

from contextlib import suppress
from itertools import chain

import hypothesis.strategies as st
from hypothesis import given
from support.defaults import batch_limits, group_settings
from support.group.builders import Source, Tx, World, all_idents, batch_idents

from canal_group.merge.calls.batch import Batch
from canal_group.merge.errors import CanalGroupError
from canal_group.merge.values.header import Flag
from canal_group.merge.values.offset_range import OffsetRange

transactions = st.builds(
    Tx,
    commit_us=st.integers(1, 12),
    rows=st.sampled_from([(1,), (1,), (0,), (5,), (2, 2), (1, 1, 1), (0, 3)]),
    order_id=st.integers(0, 12),
)


class Play:
    """A world, one reader of offset ranges, and what the reader's checkpoint holds."""

    def __init__(self, data, shards, ids_within_us=None):
        self.draw = data.draw
        names = tuple(f"s{index}" for index in range(len(shards)))
        limits = batch_limits(outstanding_max=99, empty_headers_max=2)
        sources = [Source(*shard, server=index) for index, shard in enumerate(shards)]
        self.world = World(sources, group_settings("shop", names, limits=limits, ids_within_us=ids_within_us))
        self.world.start()
        self.world.open_all()
        self.begin = self.world.subscribe()
        #: the offset ranges of the checkpoint, in order
        self.offset_ranges: list[Batch] = []

    @property
    def end(self):
        return self.offset_ranges[-1].end if self.offset_ranges else self.begin

    def news(self):
        """Let shards report something, and promise more than is true."""
        world = self.world
        if world.opening:
            world.open_all()
        for shard, source in enumerate(world.sources):
            low_watermark_us = self.draw(st.none() | st.integers(1, 14)) if self.draw(st.booleans()) else None
            world.report(shard, self.draw(st.integers(0, 3)), low_watermark_us)
            if self.draw(st.booleans()) and world.rings[shard].at == len(source.headers):
                world.report(shard, 0, source.latest_low_watermark(len(source.headers)))

    def all_news(self):
        if self.world.opening:
            self.world.open_all()
        self.world.report_all()

    def trouble(self):
        """Let a shard or the whole server be lost, or the driver be started again, or nothing happen."""
        world = self.world
        match self.draw(st.sampled_from(["none", "none", "shard", "server", "driver"])):
            case "shard" if not world.opening:
                world.lose(self.draw(st.sampled_from(range(len(world.sources)))))
            case "server":
                world.epoch += 1
                world.restart()
                world.start()
                world.subscribe()
            case "driver":
                world.subscribe()

    def next(self):
        offset_range = OffsetRange(self.end, rows_max=self.draw(st.integers(1, 6)))
        found = self.world.offset_range(offset_range)
        if found is None:
            return
        if self.offset_ranges and self.draw(st.booleans()):
            # Whatever is said: the checkpoint is the truth.
            with suppress(CanalGroupError):
                self.world.ack(self.offset_ranges[-1].batch_id)
        self.offset_ranges.append(found)

    def again(self, first):
        """Read the checkpoint's offset ranges again from the one at `first` on."""
        for offset_range in self.offset_ranges[first:]:
            asked = OffsetRange(offset_range.start, offset_range.end)
            call = self.world.request_range(asked)
            for _ in range(3):
                if call not in self.world.answers:
                    self.news()
            if call not in self.world.answers:
                self.all_news()
            found = self.world.result(call)
            check_equal(offset_range, found)


def check_equal(one, other):
    """What has rows is the same; of a huge transaction's empty fragments the rings may forget some."""
    assert [ident for ident in batch_idents(one) if _rows(ident)] == [
        ident for ident in batch_idents(other) if _rows(ident)
    ]
    one_headers, other_headers = (batch.headers[batch.headers["rows"] > 0] for batch in (one, other))
    for field in ("key_us", "order_key", "flags", "shard", "commit_us"):
        assert one_headers[field].tolist() == other_headers[field].tolist()
    assert (one.start.to_json(), one.end.to_json()) == (other.start.to_json(), other.end.to_json())


@given(
    data=st.data(),
    shards=st.lists(st.lists(transactions, max_size=7), min_size=1, max_size=3),
    ids_within_us=st.none() | st.integers(1, 6),
)
def test_the_same_range_is_repeated_after_any_events(data, shards, ids_within_us):
    play = Play(data, shards, ids_within_us)
    for _ in range(data.draw(st.integers(1, 12))):
        play.news()
        play.trouble()
        play.next()
        if play.offset_ranges and data.draw(st.booleans()):
            play.again(data.draw(st.integers(0, len(play.offset_ranges) - 1)))
    play.all_news()
    while True:
        before = len(play.offset_ranges)
        play.all_news()
        play.next()
        if len(play.offset_ranges) == before:
            break
    play.again(0)
    check_whole(play, by_id=ids_within_us is not None)


def _rows(ident):
    *_, begin, end = ident
    return end > begin


def check_whole(play, *, by_id):
    """Everything that has rows came once, each shard's in its order, whole, and keys never decrease: those of
    ids within an offset range.
    """
    keys = [
        offset_range.headers["order_key" if by_id else "key_us"].tolist()
        for offset_range in play.offset_ranges
    ]
    for together in keys if by_id else [list(chain.from_iterable(keys))]:
        assert together == sorted(together)
    for shard, expected in enumerate(all_idents(play.world.sources)):
        seen = [
            ident
            for offset_range in play.offset_ranges
            for ident in batch_idents(offset_range)
            if ident[0] == shard
        ]
        assert seen == expected[: len(seen)]
        assert all(rows == 0 for rows in play.world.sources[shard].headers["rows"][len(seen) :])
    for offset_range in play.offset_ranges:
        assert offset_range.ack == offset_range.end
        assert not len(offset_range.headers) or offset_range.headers["flags"][-1] & Flag.END
