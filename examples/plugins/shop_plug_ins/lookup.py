"""A processing function that joins a CSV file: `key,value` lines, read when the shard begins.

process: {function: lookup, file: regions.csv, key: country, column: region}
"""

from __future__ import annotations

import csv

import pyarrow as pa
import pyarrow.compute as pc

from canal_group.conf.value import AnchoredPath, Settings, Text


class LookupSettings(Settings):
    """What is joined."""

    #: of lines `key,value`
    file: AnchoredPath
    #: the column whose text is looked up
    key: Text
    #: the column that is added
    column: Text


class Lookup:
    """Adds the value of a key; null if the file has none."""

    def __init__(self, settings: LookupSettings) -> None:
        with settings.file.open(encoding="utf-8", newline="") as opened:
            found = dict(csv.reader(opened))
        self._keys, self._values = pa.array(found.keys(), pa.utf8()), pa.array(found.values(), pa.utf8())
        self.reads = (settings.key,)
        self.adds = pa.schema([(settings.column, pa.utf8())])

    def process(self, table: str, rows: pa.RecordBatch) -> pa.RecordBatch:  # noqa: ARG002  all tables alike
        """Return the rows with the column."""
        keys = pc.cast(rows.column(0), pa.utf8())
        values = self._values.take(pc.index_in(keys, value_set=self._keys))
        return rows.append_column(self.adds[0], values)


SETTINGS, FUNCTION = LookupSettings, Lookup
