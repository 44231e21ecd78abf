"""The compiled part: rows events' bytes into column buffers, without a Python object per row.

`images` is the one extension module. What it is made of stands in `.pxd` files beside it, as inline functions
that are compiled into it:

    faults      what can be wrong with bytes
    memory      buffers that grow, bitmaps
    numbers     bytes to integers
    decimals    packed DECIMAL to 128 and 256 bits
    temporal    dates and times to Arrow's microseconds and days
    text        UTF-8 validation, single-byte charsets to UTF-8
    json_text   binary JSON to text
    columns     one column's values into its buffers

Rules: nothing is read without a look at how many bytes remain; sizes are compared as `remaining < wanted`,
so that no sum can overflow; what is wrong comes back as a fault and never as a crash. No code here logs,
waits or keeps state between two calls other than its buffers.
"""

import importlib

try:
    importlib.import_module("actors.parse.native.images")
except ModuleNotFoundError as error:
    if error.name != "actors.parse.native.images":
        raise
    raise ImportError(
        "The row decoder is not compiled: run `make setup`, which needs a C compiler."
    ) from error
