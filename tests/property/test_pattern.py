"""Patterns mean what they mean in Python, wherever Python and canal agree."""

import re

from hypothesis import given
from hypothesis import strategies as st

from canal_group.merge.rows.pattern import PatternList

_CHARS = "abAB_.-19$ÄäЖ["
_LITERALS = ("a", "B", "ä", "_", r"\_", r"\.", "-", r"\$", r"\x61", r"\u0436", r"\Ж", r"\[")
_CLASSES = (
    "[ab]",
    "[^a]",
    "[]a]",
    "[a-c_]",
    r"[\w.]",
    r"[^\W]",
    r"[\[\]]",
    ".",
    r"\w",
    r"\W",
    r"\d",
    r"\D",
    r"\S",
)
_ATOMS = st.sampled_from([*_LITERALS, *_CLASSES, "^", "$", r"\Z", "(?i:b)"])
_QUANTIFIERS = st.sampled_from(
    ["", "", "", "*", "+", "?", "*?", "+?", "??", "{2}", "{1,2}", "{,2}", "{1,}", "{1,2}?"]
)


def _pieces(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    groups = st.tuples(st.sampled_from(["(", "(?:"]), inner, st.just(")")).map("".join)
    alternatives = st.lists(inner, min_size=1, max_size=3).map("|".join)
    return st.one_of(
        st.lists(inner, max_size=3).map("".join),
        st.tuples(groups, _QUANTIFIERS).map("".join),
        alternatives.map(lambda text: f"(?:{text})"),
    )


_ANCHORS = ("^", "$", r"\Z")
_PATTERNS = st.recursive(
    st.tuples(_ATOMS, _QUANTIFIERS).map(lambda pair: pair[0] + ("" if pair[0] in _ANCHORS else pair[1])),
    _pieces,
    max_leaves=6,
)


@given(_PATTERNS, st.lists(st.text(_CHARS, max_size=6), min_size=1, max_size=8))
def test_patterns_match_what_they_match_in_python(pattern: str, names: list[str]):
    ours, pythons = PatternList([pattern]), re.compile(pattern, re.IGNORECASE)
    for name in names:
        assert ours.matches(name) == bool(pythons.fullmatch(name)), (pattern, name)
