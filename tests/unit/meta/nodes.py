"""ZooKeeper's nodes as a store sees them, in a dictionary."""

from canal_group.actors.meta.zookeeper import BYTES_MAX
from canal_group.merge.errors import CoordinatorUnavailable
from canal_group.merge.values.epoch import fenced


class Nodes:
    """Nodes of a destination whose server was elected for `epoch`."""

    def __init__(self, epoch=1):
        self.epoch = epoch
        self.data = {}
        self.writes = 0
        #: number of writes after which each further one fails; None: none fails
        self.fails_after = None

    def read(self, path):
        return self.data.get(path)

    def children(self, path):
        depth = len(path) + 1
        return sorted({name[depth:].split("/")[0] for name in self.data if name.startswith(path + "/")})

    def require_epoch(self, epoch):
        if epoch != self.epoch:
            raise fenced(epoch, self.epoch, "not current")

    check_epoch = require_epoch

    def write(self, epoch, changes):
        self.require_epoch(epoch)
        if self.fails_after is not None:
            self.fails_after -= 1
            if self.fails_after < 0:
                raise CoordinatorUnavailable("lost")
        self.writes += 1
        assert all(len(data or b"") <= BYTES_MAX for _, data in changes)
        for path, data in changes:
            self.data.pop(path, None)
            if data is not None:
                self.data[path] = data
