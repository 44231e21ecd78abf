"""Crashes at any operation, of the process or the machine: nothing that was durable is lost."""

from __future__ import annotations

import contextlib
from pathlib import Path
from random import Random

import pytest
from support.binlog.archived import KEYS, SERVER, boundaries, content, dump, recorded
from support.binlog.faulty_disk import Crash, FaultyDisk
from support.soak import first_quick

from canal_group.binlog.archive.archive import Archive
from canal_group.binlog.archive.forms.key import NO_KEYS
from canal_group.binlog.archive.manifest import State
from canal_group.binlog.archive.operating.verification import verify
from canal_group.binlog.archive.upkeep import Upkeep
from canal_group.binlog.archive.writer import ArchiveWriter
from canal_group.merge.errors import CorruptEvent, RetryableError
from canal_group.merge.values.position import file_order

FOLDER = Path("/archive")
FILES = {shard: recorded(shard) for shard in ("shop-0", "shop-1", "shop-3")}
WHOLE = {shard: {name: boundaries(data) for name, data in files.items()} for shard, files in FILES.items()}
#: events that are taken between two looks at the schedule
EVENTS_MAX = 40


class Run:
    """One schedule of crashes over the archiving of one server."""

    def __init__(self, seed, *, flips=False):
        self.random = Random(seed)
        self.shard = self.random.choice(list(FILES))
        self.files = FILES[self.shard]
        self.disk = FaultyDisk(self.random)
        self.keys = self.random.choice([NO_KEYS, KEYS])
        self.flips = flips
        #: after which no crash may cut; what was said
        self.durable = None
        self.said = []

    def archive(self):
        return Archive(self.disk, FOLDER, self.keys)

    def run(self):
        for _ in range(self.random.randint(1, 6)):
            self.disk.crash_in = self.random.choice([None, self.random.randint(0, 60)])
            try:
                done = self.write()
                power = True
            except Crash:
                done, power = False, self.random.random() < 0.7
            except RetryableError:
                done, power = False, False
            self.disk.crash(power=power)
            self.disk.capacity = 1 << 40
            if self.flips:
                self.flip()
            if done and self.random.random() < 0.5:
                break
        self.disk.failing_syncs = 0
        assert self.write(), "without faults it comes to the end"

    def write(self):
        """Write until the schedule ends it; return whether all is written."""
        writer = ArchiveWriter(
            self.archive(), SERVER, sync_s=self.random.choice([0, 2, 100]), say=self.said.append
        )
        self.check(writer)
        if self.disk.crash_in is not None and self.random.random() < 0.2:
            self.disk.capacity = self.disk.used() + self.random.randint(0, 60_000)
        if self.disk.crash_in is not None and self.random.random() < 0.1:
            self.disk.failing_syncs = 1
        events = dump(self.files, writer.position)
        at, now_s = 0, 0.0
        while at < len(events):
            count = self.random.randint(1, EVENTS_MAX)
            writer.append(b"".join(events[at : at + count]), now_s)
            self.durable = writer.durable or self.durable
            at, now_s = at + count, now_s + 1
            if writer.upkeep is not None and self.random.random() < 0.5:
                self.packed(writer)
        while self.packed(writer):
            pass
        writer.sync()
        self.durable = writer.durable
        if self.random.random() < 0.5:
            writer.close()
        return True

    def packed(self, writer):
        try:
            return writer.upkeep.pack(1)
        except CorruptEvent:
            assert self.flips, "only a flipped bit makes a file another one"
            return False

    def check(self, writer):
        """Compare what there is with the source, and with what was durable."""
        position = writer.position
        if position is None:
            assert self.durable is None or self.flips
            return
        assert position == writer.durable, "what is recovered is durable"
        assert position.offset in WHOLE[self.shard][position.file] or position.offset == len(
            self.files[position.file]
        )
        if self.durable is not None and not self.flips:
            order = file_order(self.durable.file), self.durable.offset
            assert (file_order(position.file), position.offset) >= order
        self.compare(writer.history)

    def compare(self, history):
        for entry in history.manifest.files:
            source = self.files[entry.name]
            try:
                data = content(history, entry.name)
            except CorruptEvent:
                assert self.flips
                continue
            if entry.state is State.OPEN:
                assert data == source[: len(data)]
            elif entry.state is State.CLOSED and not self.flips:
                assert data == source
            elif data != source:  # as it is found when it is read, see below
                assert any(each.wrong for each in verify(history))

    def flip(self):
        stored = [file for file, inode in self.disk.files.items() if inode.now and "mysql-bin" in file.name]
        if stored and self.random.random() < 0.5:
            self.disk.flip(self.random.choice(stored))


def assert_complete(run):
    (history,) = run.archive().histories()
    assert [each.name for each in history.manifest.files] == list(run.files)
    assert [each.wrong for each in verify(history)] == [""] * len(run.files)
    assert {name: content(history, name) for name in run.files} == run.files
    assert not [name for name in run.disk.names(history.folder) if name.endswith(".tmp")]


@pytest.mark.parametrize("begin", first_quick(1, range(0, 10_000, 50)))
def test_a_crash_at_any_operation_loses_nothing_durable(begin):
    for seed in range(begin, begin + 50):
        run = Run(seed)
        run.run()
        assert_complete(run)
        assert not any("quarantined" in each for each in run.said), run.said


@pytest.mark.parametrize("begin", first_quick(1, range(0, 2_000, 50)))
def test_a_flipped_bit_is_named_and_never_read(begin):
    found = 0
    for seed in range(begin, begin + 50):
        run = Run(seed, flips=True)
        try:
            run.run()
        except CorruptEvent:
            found += 1
            continue
        (history,) = run.archive().histories()
        wrong = {each.file.partition("/")[2].split(".zst")[0] for each in verify(history) if each.wrong}
        for entry in history.manifest.files:
            if not any(entry.name in each for each in wrong):
                assert content(history, entry.name) == run.files[entry.name]
        found += bool(wrong)
    assert found, "some flips last to the end"


def test_a_crash_while_a_file_is_removed_leaves_it_or_nothing():
    for seed in range(40):
        run = Run(seed)
        run.run()
        (history,) = run.archive().histories()
        first, *others = history.manifest.files
        run.disk.crash_in = run.random.randint(0, 12)
        with contextlib.suppress(Crash):
            Upkeep(run.archive(), history).prune(first.name)
        run.disk.crash(power=run.random.random() < 0.5)
        ArchiveWriter(run.archive(), SERVER, sync_s=0, say=run.said.append).close()
        (history,) = run.archive().histories()
        names = [each.name for each in history.manifest.files]
        assert names in ([first.name, *(each.name for each in others)], [each.name for each in others])
        assert [each.wrong for each in verify(history)] == [""] * len(names)
        stored = [name for name in run.disk.names(history.folder) if name.startswith(first.name)]
        assert bool(stored) == (first.name in names)
