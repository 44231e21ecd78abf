"""malloc tuning: memory that was touched once stays with the process.

Rows use blocks of megabytes that are soon freed. If the allocator returns a freed block to the kernel, the
kernel fills the next one with zeros page by page. That costs several times as much as copying rows into it;
on a virtual machine it took a third of the whole pipeline's time. So freed blocks are kept, up to a limit, in
one heap for all threads. Arrow allocates from the same heap as the rest of the process, so that it reuses
what gRPC freed.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator
from contextlib import contextmanager

import pyarrow as pa

#: free bytes at the end of the heap above which they are returned to the kernel
KEEP_BYTES_MAX = 128 << 20
#: blocks of more bytes than this are returned to the kernel at once
BLOCK_BYTES_MAX = 32 << 20
#: bytes by which the heap grows, and that stay free at its end when the rest is returned. Without it the
#: whole free end is returned, and a process whose use varies around the limit touches every page again each
#: time
PAD_BYTES = 64 << 20

#: environment of a process that is about to start; glibc and Arrow read it
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
    """Add `ENVIRONMENT` to the environment of child processes; variables that are set already stay."""
    added = {name: value for name, value in ENVIRONMENT.items() if name not in os.environ}
    os.environ.update(added)
    try:
        yield
    finally:
        for name in added:
            del os.environ[name]


def tune_malloc() -> None:
    """Tune malloc in this process, which must still have only one thread.

    Does nothing if the C library has no `mallopt`.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_M_ARENA_MAX, 1)
        mallopt(_M_TRIM_THRESHOLD, KEEP_BYTES_MAX)
        mallopt(_M_TOP_PAD, PAD_BYTES)
        mallopt(_M_MMAP_THRESHOLD, BLOCK_BYTES_MAX)
        pa.set_memory_pool(pa.system_memory_pool())
