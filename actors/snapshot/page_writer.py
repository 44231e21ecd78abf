"""Page writers: the thread that writes a lane's pages, in their order, and lets each be handed out then.

A page is in the ring before it is written, and waits there, as all that follows it: neither the stream nor
those who read pages wait for the disk. What waits is written at once. Its bound is the ring's, which is full
of it in the end.
"""

from __future__ import annotations

import logging
import random
from collections import deque
from collections.abc import Callable
from itertools import islice

from canal_group.actors.ports import Host
from canal_group.actors.snapshot.page_folder import KeptPage, PageFolder
from canal_group.merge.back_off import BackOff
from canal_group.merge.errors import ShardUnavailable

#: most pages of one file, and bytes of their rows; one page may have more
PAGES_MAX, BYTES_MAX = 16, 4 << 20
#: limits of the pauses after a failure of the disk, seconds
_FIRST_PAUSE_S, _PAUSE_MAX_S = 0.1, 10.0

_log = logging.getLogger(__name__)


class PageWriter:
    """Writes pages; see the module.

    Args:
        shard: its name.
        folder: where they are written.
        wrote: is called with the number of the next pages that are on the disk now.
        lost: is called with the error when the folder has become another lane's: no page is written any more.
        host: starts the thread.
    """

    def __init__(
        self,
        shard: str,
        folder: PageFolder,
        wrote: Callable[[int], None],
        lost: Callable[[ShardUnavailable], None],
        host: Host,
    ) -> None:
        self._shard, self._folder, self._wrote, self._lost = shard, folder, wrote, lost
        self._lock = host.lock()
        self._came = host.condition(self._lock)
        self._waiting: deque[KeptPage] = deque()
        self._closed = False
        self._stopped = host.event()
        #: the reason why writing has stopped; None: pages are written
        self.waits_for: str | None = None
        self._thread = host.start(self._run, f"pages-{shard}")

    def add(self, page: KeptPage) -> None:
        """Queue a page; the thread writes pages in the order in which the ring got them."""
        with self._lock:
            self._waiting.append(page)
            self._came.notify_all()

    def close(self) -> None:
        """End the thread, and wait for it: then no file of its appears any more."""
        with self._lock:
            self._closed = True
            self._came.notify_all()
        self._stopped.set()
        self._thread.join()

    def _run(self) -> None:
        back_off = BackOff(_PAUSE_MAX_S)
        while pages := self._next():
            try:
                self._folder.add(pages)
            except ShardUnavailable as error:
                self._lost(error)
                return
            except OSError as error:
                self.waits_for = f"pages cannot be written: {error.strerror or error}"
                _log.warning("%s", self.waits_for, extra={"shard": self._shard})
                self._stopped.wait(back_off.failed(_FIRST_PAUSE_S, random.random()))  # noqa: S311  no secret
                continue
            self.waits_for = None
            back_off.reset()
            with self._lock:
                for _ in pages:
                    self._waiting.popleft()
            self._wrote(len(pages))

    def _next(self) -> list[KeptPage]:
        """Wait for queued pages; return the next pages of one binlog file, or an empty list after `close`."""
        with self._lock:
            self._came.wait_for(lambda: bool(self._waiting) or self._closed)
            if self._closed:
                return []
            pages, size, file = list[KeptPage](), 0, _file(self._waiting[0])
            for each in islice(self._waiting, PAGES_MAX):
                size += int(each.page.headers["bytes"][0])
                if pages and (size > BYTES_MAX or _file(each) != file):
                    break
                pages.append(each)
            return pages


def _file(kept: KeptPage) -> str:
    name: str = kept.page.names[kept.page.headers["file"][0]]
    return name
