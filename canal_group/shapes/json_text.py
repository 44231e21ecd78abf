"""JSON text of Arrow columns: no Python per value.

Each function returns a utf8 array of JSON values, where a null is the text `null`; `members` and `compose`
put them together.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

NULL = "null"
_CONTROL_END = 0x20
_QUOTE, _BACKSLASH = ord('"'), ord("\\")


def quoted(texts: Any) -> Any:
    """Return each text as a JSON string.

    Args:
        texts: (n,) utf8 Array.
    """
    return pc.fill_null(pc.binary_join_element_wise('"', escaped(texts), '"', ""), NULL)


def escaped(texts: Any) -> Any:
    """Return texts with the characters escaped that may not stand in a JSON string; nulls stay null."""
    octets = _special(texts)
    if _BACKSLASH in octets:
        texts = pc.replace_substring(texts, "\\", "\\\\")
    for octet in octets - {_BACKSLASH}:
        character = chr(octet)
        texts = pc.replace_substring(texts, character, json.dumps(character)[1:-1])
    return texts


def numbers(values: Any) -> Any:
    """Return each whole number as JSON."""
    return pc.fill_null(values.cast(pa.utf8()), NULL)


def booleans(values: Any) -> Any:
    """Return each truth value as JSON."""
    return pc.fill_null(values.cast(pa.utf8()), NULL)


def objects(maps: Any) -> Any:
    """Return each map from text to text as a JSON object.

    Args:
        maps: (n,) tidy MapArray, see `canal_group.shapes.maps`.
    """
    names = pc.dictionary_encode(maps.keys)
    labels = [f"{json.dumps(name, ensure_ascii=False)}:" for name in names.dictionary.to_pylist()]
    label = pa.array([f'{label}"' for label in labels], pa.utf8()).take(names.indices)
    entries = pc.binary_join_element_wise(label, escaped(maps.items), '"', "")
    if maps.items.null_count:
        none = pa.array([f"{label}{NULL}" for label in labels], pa.utf8()).take(names.indices)
        entries = pc.coalesce(entries, none)
    valid = maps.is_valid()
    joined = pc.binary_join(pa.ListArray.from_arrays(maps.offsets, entries), ",")
    return pc.if_else(valid, pc.binary_join_element_wise("{", joined, "}", ""), NULL)


def name_lists(maps: Any) -> Any:
    """Return the keys of each map as a JSON list of strings; `maps` as for `objects`."""
    joined = pc.binary_join(pa.ListArray.from_arrays(maps.offsets, quoted(maps.keys)), ",")
    return pc.if_else(maps.is_valid(), pc.binary_join_element_wise("[", joined, "]", ""), NULL)


def compose(members: Mapping[str, Any]) -> Any:
    """Return JSON objects with these members.

    Args:
        members: name -> (n,) JSON texts; all of one length.
    """
    parts: list[Any] = []
    for index, (name, texts) in enumerate(members.items()):
        parts += [f"{',' if index else '{'}{json.dumps(name)}:", texts]
    return pc.binary_join_element_wise(*parts, "}", "")


def _special(texts: Any) -> set[int]:
    """Return which octets in texts have to be escaped."""
    _, offsets, data = texts.buffers()
    if data is None or not len(texts):
        return set()
    ends = np.frombuffer(offsets, np.int32)[texts.offset :][: len(texts) + 1]
    octets = np.frombuffer(data, np.uint8)[int(ends[0]) : int(ends[-1])]
    special = octets[(octets < _CONTROL_END) | (octets == _QUOTE) | (octets == _BACKSLASH)]
    return set(np.unique(special).tolist())
