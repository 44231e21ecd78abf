"""Pages: memory that was touched once stays with the process.

Rows come and go in blocks of megabytes. An allocator that hands a freed block back to the kernel has the next
one filled with zeros page by page, which costs several times what copying rows into it costs; on a virtual
machine it was a third of the whole pipeline. So freed blocks are kept, up to a bound, in one heap for all
threads, and Arrow allocates where everybody else in the process does: what gRPC freed holds what Arrow makes
next.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator
from contextlib import contextmanager

import pyarrow as pa

#: what may lie free at the end of the heap before it goes back to the kernel, bytes
KEEP_BYTES_MAX = 128 << 20
#: blocks of more bytes than this go back to the kernel at once
BLOCK_BYTES_MAX = 32 << 20
#: what the heap grows by, and what stays of its free end when that goes back, bytes: without it all of that
#: end goes, and a process whose blocks come and go around the bound touches every page anew each time
PAD_BYTES = 64 << 20

#: for a process that is about to start; glibc and Arrow read it, others pass over it
ENVIRONMENT = {
    "MALLOC_ARENA_MAX": "1",
    "MALLOC_TRIM_THRESHOLD_": str(KEEP_BYTES_MAX),
    "MALLOC_MMAP_THRESHOLD_": str(BLOCK_BYTES_MAX),
    "MALLOC_TOP_PAD_": str(PAD_BYTES),
    "ARROW_DEFAULT_MEMORY_POOL": "system",
}
# <malloc.h>
_M_ARENA_MAX, _M_TRIM_THRESHOLD, _M_TOP_PAD, _M_MMAP_THRESHOLD = -8, -1, -2, -3


@contextmanager
def inherited() -> Iterator[None]:
    """Give `ENVIRONMENT` to the processes that are started meanwhile; what is set already stays as it is."""
    added = {name: value for name, value in ENVIRONMENT.items() if name not in os.environ}
    os.environ.update(added)
    try:
        yield
    finally:
        for name in added:
            del os.environ[name]


def tune_malloc() -> None:
    """Do the same in this process, which must not have more than one thread yet.

    Where the C library is not glibc nothing changes.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_M_ARENA_MAX, 1)
        mallopt(_M_TRIM_THRESHOLD, KEEP_BYTES_MAX)
        mallopt(_M_TOP_PAD, PAD_BYTES)
        mallopt(_M_MMAP_THRESHOLD, BLOCK_BYTES_MAX)
        pa.set_memory_pool(pa.system_memory_pool())
