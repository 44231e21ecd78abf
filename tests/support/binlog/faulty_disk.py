"""A disk in memory that loses what was not synced, tears writes, reorders names, flips bits and fills up."""

from __future__ import annotations

import contextlib
import errno

#: unit in which a disk keeps or loses what was written
BLOCK = 512


class Crash(BaseException):
    """The process ends here; nothing of it may catch this."""


class Inode:
    """A file's content: now, and what is sure to outlast a crash."""

    def __init__(self):
        self.now, self.durable = bytearray(), b""

    def after_crash(self, random):
        """Keep some of the blocks that were not synced, each or not; the length may be any between."""
        if self.now == self.durable:
            return
        size = random.choice([len(self.durable), len(self.now), random.randint(0, len(self.now))])
        size = max(size, min(len(self.durable), len(self.now)))  # what was synced and not cut
        kept = bytearray(size)
        for begin in range(0, size, BLOCK):
            end = min(begin + BLOCK, size)
            synced = self.durable[begin:end]
            whole = len(synced) == end - begin and self.now[begin:end] == synced
            if whole or random.random() < 0.7:
                kept[begin:end] = self.now[begin:end]
            else:
                kept[begin : begin + len(synced)] = synced
        self.now, self.durable = kept, bytes(kept)


class FaultyDisk:
    """Implements `FileLayer`.

    Args:
        random: chooses what a crash leaves.
        capacity: bytes of the disk.
    """

    def __init__(self, random, capacity=1 << 40):
        self.random, self.capacity = random, capacity
        self.files, self.durable_files = {}, {}
        self.folders = set()
        #: changes of names since the last sync of their folder
        self.pending = []
        #: operations until the process ends; None: it does not
        self.crash_in = None
        self.failing_syncs = 0

    def step(self):
        if self.crash_in is not None:
            self.crash_in -= 1
            if self.crash_in < 0:
                raise Crash

    def crash(self, *, power):
        """Let the process end; with `power`, the machine, too."""
        self.crash_in = None
        if not power:
            return
        names = dict(self.durable_files)
        for change in self.random.sample(self.pending, len(self.pending)):
            if self.random.random() < 0.5:
                change(names)
        self.files, self.durable_files, self.pending = names, dict(names), []
        for inode in set(names.values()):
            inode.after_crash(self.random)

    def flip(self, file):
        """Flip a bit of a file."""
        inode = self.files[file]
        at = self.random.randrange(len(inode.now))
        inode.now[at] ^= 1 << self.random.randrange(8)
        inode.durable = bytes(inode.now)

    def used(self):
        return sum(len(inode.now) for inode in set(self.files.values()))

    # ---- FileLayer --------------------------------------------------------------------------------

    def make_folder(self, folder):
        self.step()
        self.folders |= {folder, *folder.parents}

    def create(self, file):
        self.step()
        if file in self.files:
            raise FileExistsError(errno.EEXIST, "it exists", str(file))
        inode = Inode()
        self._change(lambda names: names.__setitem__(file, inode))
        return Opened(self, inode)

    def open(self, file, *, append=False):  # noqa: ARG002 - as the port has it
        self.step()
        if file not in self.files:
            raise FileNotFoundError(errno.ENOENT, "it is missing", str(file))
        return Opened(self, self.files[file])

    def rename(self, file, name):
        self.step()
        inode = self.files[file]

        def change(names):
            if names.get(file) is inode:
                del names[file]
            names[name] = inode

        self._change(change)

    def remove(self, file):
        self.step()
        if file not in self.files:
            raise FileNotFoundError(errno.ENOENT, "it is missing", str(file))
        self._change(lambda names: names.pop(file, None))

    def names(self, folder):
        inner = {each for each in self.folders if each.parent == folder}
        return sorted(each.name for each in {*self.files, *inner} if each.parent == folder)

    def sync_folder(self, _folder):
        self.step()
        self.durable_files, self.pending = dict(self.files), []

    def free(self, _folder):
        return self.capacity - self.used(), self.capacity

    def lock(self, _file):
        return contextlib.nullcontext()

    def _change(self, change):
        change(self.files)
        self.pending.append(change)


class Opened:
    def __init__(self, disk, inode):
        self.disk, self.inode = disk, inode

    @property
    def size(self):
        return len(self.inode.now)

    def read_at(self, offset, size):
        return bytes(self.inode.now[offset : offset + size])

    def append(self, data):
        data = bytes(data)
        room = self.disk.capacity - self.disk.used()
        try:
            self.disk.step()
        except Crash:
            self.inode.now += data[: self.disk.random.randint(0, len(data))]
            raise
        self.inode.now += data[:room]
        if len(data) > room:
            raise OSError(errno.ENOSPC, "No space left on device")

    def truncate(self, size):
        self.disk.step()
        del self.inode.now[size:]
        self.inode.now += bytes(size - len(self.inode.now))

    def sync(self):
        self.disk.step()
        if self.disk.failing_syncs:
            self.disk.failing_syncs -= 1
            raise OSError(errno.EIO, "Input/output error")
        self.inode.durable = bytes(self.inode.now)

    def close(self):
        pass
