"""Reset watch: notices that a source has begun its binlog anew while its dump goes on.

After RESET, a MariaDB whose dump is in its first file goes on sending heartbeats, and then what the new file
has from the old offset on. So the source is asked each second how many RESET statements it has run; after
each one, whether the file that is dumped is still the one that was begun.
"""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Callable
from typing import Any, Final

import pymysql

from canal_group.binlog.server.source import SourceAddress, connect, query_one
from canal_group.binlog.server.starts.binary_logs import binlog_sizes
from canal_group.binlog.server.starts.logged import created_at_source
from canal_group.merge.errors import CanalGroupError, DataError
from canal_group.merge.values.resets.reset import created_again, refused_again

_log = logging.getLogger(__name__)

#: between two questions, seconds
_ASK_EVERY_S: Final = 1.0
_COUNT: Final = "SHOW GLOBAL STATUS LIKE 'Com_reset'"


class ResetWatch:
    """Asks in a thread of its own, which ends soon after `close`.

    Args:
        address: the source.
        server: identity of the server that is dumped.
        reached: returns the file that is dumped, up to where, and when it was created, seconds since 1970.
    """

    def __init__(
        self, address: SourceAddress, server: str, reached: Callable[[], tuple[str, int, int]]
    ) -> None:
        self._address, self._server, self._reached = address.scanner("reset"), server, reached
        self._closed = threading.Event()
        #: the source's count of RESET statements when its file was last compared with the dumped file; None:
        #: never
        self._count: int | None = None
        #: set when the file is another one
        self.error: DataError | None = None
        threading.Thread(target=self._run, name="reset-watch", daemon=True).start()

    def close(self) -> None:
        """Ask no more."""
        self._closed.set()

    def _run(self) -> None:
        while not self._closed.wait(_ASK_EVERY_S) and self.error is None:
            try:
                with contextlib.closing(connect(self._address)) as connection:
                    self._ask(connection)
            except CanalGroupError as error:
                # The dump says what is wrong with the source.
                _log.debug("the source %s is not asked for resets: %s", self._address.location, error)

    def _ask(self, connection: pymysql.Connection[Any]) -> None:
        """Ask until `close`, or until the file is another one."""
        while not self._closed.is_set():
            file, offset, created_s = self._reached()
            count = query_one(self._address, connection, _COUNT).number("Value")
            sizes = binlog_sizes(self._address, connection) if count != self._count and created_s else {}
            # What is not there may be purged: the next file is compared then.
            if file in sizes:
                now_s = created_at_source(self._address, self._server, file, sizes[file])
                if created_again(created_s, now_s) or sizes[file] < offset:
                    self.error = refused_again(file, created_s, now_s)
                    return
                self._count = count
            self._closed.wait(_ASK_EVERY_S)
