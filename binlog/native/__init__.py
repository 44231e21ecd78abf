"""The compiled part: decodes rows events into column buffers, without a Python object per row.

`images` gathers the rows of a table, and `accumulator` the headers of a chunk. `packets` holds what arrived,
and `fast_path` reads the usual events in it without a step of Python for each. `partial` reads images that
lack columns, in code separate from that for whole images. Their parts:

    decimals    packed DECIMAL to 128 and 256 bits
    text        UTF-8 validation, single-byte charsets to UTF-8
    json_text   binary JSON to text
    columns     one column's values into its buffers
    crc32       checksums
    gtids       what the usual GTID events say
    known       tables and sources that the fast path has learned
    packed      MariaDB's compressed columns
    json_difference   a JSON document with differences applied

A `.pxd` declares, the `.pyx` of its name implements. What is called for each value, or for each byte, is
inline in a `.pxd` without a `.pyx`, because a call between two modules costs as much as such a function:

    faults      what can be wrong with bytes
    memory      buffers that grow, bitmaps
    numbers     bytes to integers
    temporal    dates and times to Arrow's microseconds and days

Rules: before every read the number of remaining bytes is checked; sizes are compared as `remaining < wanted`,
so that no sum can overflow; damaged bytes return a fault and never crash. No code here logs, waits, or keeps
state between two calls other than its buffers.
"""

import importlib

try:
    for name in ("accumulator", "images", "fast_path", "packets", "partial"):
        importlib.import_module(f"canal_group.binlog.native.{name}")
except ModuleNotFoundError as error:
    if not (error.name or "").startswith("canal_group.binlog.native."):
        raise
    raise ImportError(
        "The row decoder is not compiled: run `make setup`, which needs a C compiler."
    ) from error
