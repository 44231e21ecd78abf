"""What must not be printed is escaped, and nothing else is changed."""

from __future__ import annotations

import json
import unicodedata

import pytest

from canal_group.merge.printable import escaped, printable


def test_no_category_of_control_is_left_and_every_letter_is():
    every = "".join(map(chr, range(0x3000))) + "\ud800\udfff"
    left = escaped(every)
    assert left.encode()
    assert {unicodedata.category(char) for char in left}.isdisjoint({"Cc", "Zl", "Zp", "Cs"})
    assert len(left.splitlines()) == 1
    assert escaped("Grüße, 你好 🙂 עברית\u200f") == "Grüße, 你好 🙂 עברית\u200f"


@pytest.mark.parametrize(
    ("raw", "shown"),
    [
        ("\x1b[2K", "\\x1b[2K"),
        ("a\r\nb", "a\\r\\nb"),
        ("\x9b", "\\x9b"),
        ("\u202e", "\\u202e"),
        ("\ud800", "\\ud800"),
        ("\ufeff\ufffe\uffff", "\\ufeff\\ufffe\\uffff"),
    ],
)
def test_an_escape_names_the_character(raw: str, shown: str):
    assert escaped(raw) == shown
    assert printable({raw: [raw, (raw,), 1, None]}) == {shown: [shown, [shown], 1, None]}
    assert json.loads(json.dumps(printable({raw: 1.5}))) == {shown: 1.5}
