"""The compiled part: rows events' bytes into column buffers, without a Python object per row.

`images` gathers the rows of a table, `accumulator` the headers of a chunk, `packets` holds what arrived,
`fast_path` takes the usual events off it without a step of Python for each, and `partial` reads images that
lack columns, apart from those that are whole. What they are made of stands in `.pxd` files beside them, as
inline functions:

    faults      what can be wrong with bytes
    memory      buffers that grow, bitmaps
    numbers     bytes to integers
    decimals    packed DECIMAL to 128 and 256 bits
    temporal    dates and times to Arrow's microseconds and days
    text        UTF-8 validation, single-byte charsets to UTF-8
    json_text   binary JSON to text
    columns     one column's values into its buffers
    crc32       checksums
    gtids       what the usual GTID events say
    known       tables and sources that the fast path has met
    json_difference   a JSON document as differences leave it

Rules: nothing is read without a look at how many bytes remain; sizes are compared as `remaining < wanted`,
so that no sum can overflow; what is wrong comes back as a fault and never as a crash. No code here logs,
waits or keeps state between two calls other than its buffers.
"""

import importlib

try:
    for name in ("accumulator", "images", "fast_path", "packets", "partial"):
        importlib.import_module(f"actors.parse.native.{name}")
except ModuleNotFoundError as error:
    if not (error.name or "").startswith("actors.parse.native."):
        raise
    raise ImportError(
        "The row decoder is not compiled: run `make setup`, which needs a C compiler."
    ) from error
