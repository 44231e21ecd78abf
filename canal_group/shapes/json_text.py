"""JSON text of Arrow columns: no Python per value.

`plain`, `quoted`, `objects` and `name_lists` say how a column is written, `compose` and `written` write it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Literal, TypeAlias

import numpy as np
import pyarrow as pa

from canal_group.merge.rows.text import values_of
from canal_group.shapes.json_writer import Member, write

#: the members of an object, some of which are objects themselves
Members: TypeAlias = "Mapping[str, Member | Members]"


def plain(values: Any) -> Member:
    """Return values whose texts are JSON: numbers, truth values, JSON texts.

    Args:
        values: (n,) Array.
    """
    return Member(
        "plain", values_of(values.cast(pa.utf8()) if pa.types.is_boolean(values.type) else values, "")
    )


def quoted(texts: Any) -> Member:
    """Return texts that are written as JSON strings.

    Args:
        texts: (n,) utf8 Array.
    """
    return Member("string", values_of(texts, ""))


def objects(maps: Any, kind: Literal["object", "listed"] = "object") -> Member:
    """Return maps from text to text that are written as JSON objects, or as lists with one object each.

    Args:
        maps: (n,) tidy MapArray, see `canal_group.shapes.maps`.
        kind: `object` or `listed`.
    """
    return _of_maps(kind, maps)


def name_lists(maps: Any) -> Member:
    """Return maps whose keys are written as a JSON list, null for no keys; `maps` as for `objects`."""
    return _of_maps("names", maps)


def compose(members: Members) -> Any:
    """Return JSON objects with these members: (n,) utf8 Array.

    Args:
        members: by name, in their order; all of one length.
    """
    heads, tail = _flat(members, "")
    return _texts(heads, tail)


def written(member: Member) -> Any:
    """Return JSON values: (n,) utf8 Array."""
    return _texts([("", member)], "")


def _flat(members: Members, before: str) -> tuple[list[tuple[str, Member]], str]:
    """Return members with all that stands before each, and what stands after the last one."""
    heads: list[tuple[str, Member]] = []
    before += "{"
    for name, member in members.items():
        before += f"{json.dumps(name)}:"
        if isinstance(member, Mapping):
            inner, before = _flat(member, before)
            heads += inner
        else:
            heads.append((before, member))
            before = ""
        before += ","
    return heads, before.removesuffix(",") + "}"


def _texts(heads: list[tuple[str, Member]], tail: str) -> Any:
    rows = heads[0][1].rows
    offsets, data = write([(head.encode(), member) for head, member in heads], tail.encode(), rows)
    return pa.Array.from_buffers(pa.utf8(), rows, [None, pa.py_buffer(offsets), pa.py_buffer(data)])


def _of_maps(kind: Literal["object", "listed", "names"], maps: Any) -> Member:
    valid = maps.is_valid().to_numpy(zero_copy_only=False).view(np.uint8)
    return Member(kind, values_of(maps.items, ""), values_of(maps.keys, ""), maps.offsets.to_numpy(), valid)
