"""The compiled part of assembly: loops over rows that numpy and Arrow would pass over several times.

`runs` finds the runs of rows that lie side by side, and copies them; its callers know what memory it may
read. `text` prints values, with the help of `canal_group.merge.values.native`; `canal` writes canal's
entries, and each value's text right into its entry.
"""

import importlib

try:
    importlib.import_module("canal_group.merge.rows.native.runs")
except ModuleNotFoundError as error:
    if error.name != "canal_group.merge.rows.native.runs":
        raise
    raise ImportError(
        "The hot loops are not compiled: run `make setup`, which needs a C compiler."
    ) from error
