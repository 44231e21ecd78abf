"""Documents: JSON, geometry and VECTOR, which have a length and a format of their own."""

from __future__ import annotations

import pyarrow as pa

from binlog.columns.types.column import Column, ColumnType, Extra, TypeRow, sized
from binlog.columns.types.strings import LENGTHS

#: names of the geometry types, by their number in a table map
GEOMETRY_NAMES = (
    "geometry",
    "point",
    "linestring",
    "polygon",
    "multipoint",
    "multilinestring",
    "multipolygon",
    "geometrycollection",
)


def _possible(column: Column) -> bool:
    return column.size in LENGTHS


ROWS = (
    TypeRow(
        ColumnType.JSON,
        lambda _: "json",
        lambda _: pa.utf8(),
        lambda column: ("json", column.size, 0, ()),
        meta_size=1,
        read=sized,
        possible=_possible,
    ),
    TypeRow(
        ColumnType.GEOMETRY,
        # Kept as stored: the SRID, 4 bytes little-endian, then the WKB.
        lambda column: f"{column.geometry or 'geometry'} /* srid u32, wkb */",
        lambda _: pa.binary(),
        lambda column: ("string", column.size, 0, ()),
        meta_size=1,
        read=sized,
        possible=_possible,
        extra=Extra.GEOMETRY,
    ),
    TypeRow(
        ColumnType.VECTOR,
        lambda _: "vector",
        lambda _: pa.list_(pa.float32()),
        lambda column: ("vector", column.size, 0, ()),
        meta_size=1,
        read=sized,
        possible=_possible,
    ),
)

#: `DATA_TYPE` in information_schema -> type; MySQL calls a collection of geometries `geomcollection`
NAMES = {
    "json": ColumnType.JSON,
    "vector": ColumnType.VECTOR,
    **dict.fromkeys((*GEOMETRY_NAMES, "geomcollection"), ColumnType.GEOMETRY),
}
