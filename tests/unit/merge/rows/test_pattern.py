"""Patterns: what they mean, what is refused by name, and that none of them takes long."""

import pickle
import time

import pytest

from canal_group.actors.sink.route import Route
from canal_group.merge.errors import ConfigError
from canal_group.merge.rows.pattern import Pattern, PatternList, check_pattern
from canal_group.merge.rows.pattern_syntax import PatternSyntax
from canal_group.merge.rows.table_filter import READERS_FILTER_MAX, TableFilter
from canal_group.merge.values.chunk import TableName

#: seconds of processor time; an engine that tries one way after the other needs hours for most of these
AT_ONCE_S = 2.0


@pytest.mark.parametrize(
    "pattern",
    [
        r"(\w|\w\w)*(\w|\w\w)*(\w|\w\w)*(\w|\w\w)*!",
        r"(.*)*(.*)*(.*)*(.*)*(.*)*(.*)*(.*)*(.*)*!",
        r"((a|a)*)*!",
        r"(a?){60}a{60}!",
        r"(?:[^x]{0,40}y?){1,9}!",
    ],
)
def test_no_pattern_of_a_reader_takes_long(pattern):
    began = time.process_time()
    table_filter = TableFilter.of_reader(pattern)
    for _ in range(3):
        assert not table_filter.matches(TableName("a" * 64, "a" * 64))
    assert time.process_time() - began < AT_ONCE_S


@pytest.mark.parametrize("name", ["shop.a\nb", "shop.\n", "sh\nop.a", "shop.a\r\n"])
def test_a_dot_matches_every_character_of_a_name(name):
    assert PatternList([r".*\..*"]).matches(name)
    assert Pattern(r"(.*)\.(.*)").groups(name) == (name, *name.split("."))


@pytest.mark.parametrize(
    ("pattern", "why"),
    [
        ("(?=a)b", r"lookahead, \(\?="),
        ("(?!a)b", r"negative lookahead, \(\?!"),
        ("(?<=a)b", r"lookbehind, \(\?<="),
        ("(?<!a)b", r"negative lookbehind, \(\?<!"),
        (r"(a)\1", r"a backreference, \\1"),
        (r"(a)[\1]", r"a backreference, \\1"),
        ("(?P<x>a)(?P=x)", "a backreference"),
        (r"(a)\9", r"a backreference, \\9"),
        (r"(?<x>a)\k<x>", r"a backreference, \\k"),
        ("a++", r"possessive quantifiers such as \+\+"),
        ("a++b", "possessive"),
        ("a*+", "possessive"),
        ("a{1,2}+", "possessive"),
        ("(?>a)", "an atomic group"),
        ("(a)?(?(1)b|c)", "a conditional group"),
        ("a(?#note)", "a comment"),
        ("(?x)a b", "the flag x"),
        (r"\ba", r"\\b is not supported"),
        (r"[\b]", r"\\b is not supported inside brackets"),
        (r"[\Z]", r"\\Z is not supported inside brackets"),
        (r"[]\Z]", r"\\Z is not supported inside brackets"),
        (r"[^]\Z]", r"\\Z is not supported inside brackets"),
        (r"[ab\Z]", r"\\Z is not supported inside brackets"),
        (r"[a]\y", r"\\y is not supported(?! inside)"),
        (r"[a]]\y", r"\\y is not supported(?! inside)"),
        (r"\Qa.b\E", r"\\Q"),
        (r"\C", r"\\C"),
        ("[[:alpha:]]", "POSIX"),
        (r"\u12", "needs 4 hexadecimal digits"),
        (r"\u12zz", "needs 4 hexadecimal digits"),
        ("a{1001}", "repetition size"),
        ("\ud800", "surrogate"),
        ("a\udfff", "surrogate"),
        ("a(b", "missing"),
        ("a\\", "trailing"),
        ("[a", r"missing \]"),
        ("a**", "bad repetition"),
    ],
)
def test_what_the_engine_lacks_is_refused_by_name(pattern, why):
    with pytest.raises(PatternSyntax, match=why):
        check_pattern(pattern)
    with pytest.raises(ConfigError, match=why) as caught:
        TableFilter.of_reader(f"x,{pattern}")
    assert caught.value.details["pattern"] == pattern


@pytest.mark.parametrize(
    ("pattern", "matches", "others"),
    [
        (r"a\_b", "a_b", "a-b"),
        (r"a{,2}b", "aab", "aaab"),
        (r"a{,}b", "aaaab", "a{,}b"),
        (r"a{x}", "a{x}", "a"),
        (r"\w+", "Größe_1", "a-b"),
        (r"[\w-]+", "Größe-1", "a.b"),
        (r"a\W", "a-", "a_"),
        (r"[^\W]", "ü", "-"),
        (r"[\W\d]+", "1-2", "a"),
        (r"\d\D", "1a", "11"),
        (r"\u00fc\U000000fc", "üÜ", "uu"),
        (r"a\Z", "a", "b"),
        (r"\Aa$", "a", "b"),
        ("[]a]+", "a]", "b"),
        ("[^]]", "a", "]"),
        ("[[a]+", "[a", "b"),
        (r"\ü", "ü", "u"),
        ("(?-i:A)b", "AB", "ab"),
        ("(?i:A)|(?P<x>b)", "b", "ab"),
        (".", "ü", "ab"),
        ("GRÖSSE", "größe".replace("ß", "ss"), "grosse"),
    ],
)
def test_a_pattern_means_what_it_means_elsewhere(pattern, matches, others):
    asked = PatternList([pattern])
    assert asked.matches(matches)
    assert not asked.matches(others)


def test_patterns_of_a_list_stay_apart():
    for halves in (["(b", "a)"], ["a)", "(b"], ["a|(?:b", "c)"]):
        with pytest.raises(PatternSyntax):
            PatternList(halves)
    either = PatternList(["(?i)a", "(?-i)b", "c|d"])
    assert [either.matches(name) for name in ("A", "b", "B", "d", "ac", "")] == [
        True,
        True,
        False,
        True,
        False,
        False,
    ]
    assert not PatternList([])
    assert not PatternList([]).matches("a")


def test_what_a_readers_filter_may_cost_is_bounded():
    for longest in ("a" * READERS_FILTER_MAX, ",".join(rf"\w+\.{number:03}" for number in range(450))):
        TableFilter.of_reader(longest)
    with pytest.raises(ConfigError, match="has 4097 characters; the bound is 4096"):
        TableFilter.of_reader("a" * (READERS_FILTER_MAX + 1))
    with pytest.raises(ConfigError, match=r"pattern too large") as caught:
        TableFilter.of_reader("(?:[^y]{1,60}x?){1,15},a")
    assert "in the white list" in str(caught.value)
    assert TableFilter("(?:[^y]{1,60}x?){1,15},a").matches(TableName("shop", "orders"))
    many = ",".join(rf"shop_\d+\.orders_{number}" for number in range(2_000))
    assert TableFilter(many).matches(TableName("shop_7", "orders_1999"))


def test_patterns_are_values_that_travel():
    assert pickle.loads(pickle.dumps(Pattern("(a)b"))).groups("ab") == ("ab", "a")
    assert pickle.loads(pickle.dumps(PatternList(["a", "b"]))).matches("b")


def test_a_target_names_groups_by_number_and_by_name():
    route = Route(r"(?P<shop>\w+)_\d\.(x)?(.*)", r"\g<shop>.ü\2\3\\_\g<1>")
    assert route.apply(TableName("a_1", "t")) == TableName("a", "üt\\_a")
    assert Route(r"a\..*", r"b.\g<0>").apply(TableName("A", "t")) == TableName("b", "A.t")
    for to in (r"a.\3", r"a.\g<y>", r"a.\n", "a.\\"):
        with pytest.raises(ConfigError, match="cannot be the target"):
            Route("(a)(?P<x>b)", to)
