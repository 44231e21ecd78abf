"""Which tables are kept, and what they are called."""

import pickle
from collections import Counter

import pytest

from canal_group.actors.sink.route import Route
from canal_group.actors.sink.sink import TABLES_MAX, Sink
from canal_group.merge.errors import ConfigError
from canal_group.merge.rows.table_filter import TableFilter, split_patterns
from canal_group.merge.values.chunk import TableName


@pytest.mark.parametrize(
    ("text", "patterns"),
    [
        ("", []),
        (" , ,", []),
        (r"a\.b", [r"a\.b"]),
        (r"a\.b , c\.d", [r"a\.b", r"c\.d"]),
        (r"shop\.(orders|items){1,2},x\.y", [r"shop\.(orders|items){1,2}", r"x\.y"]),
        (r"a\.[b,c],d\.(e,(f,g),h),i", [r"a\.[b,c]", r"d\.(e,(f,g),h)", "i"]),
        (r"a\(,b", [r"a\(", "b"]),
        (r"a\,b,c", [r"a\,b", "c"]),
        (r"a[],(],b", ["a[],(]", "b"]),
        (r"a[^],(],b", ["a[^],(]", "b"]),
        (r"a[\],(],b", [r"a[\],(]", "b"]),
        (r"a(b,c", [r"a(b,c"]),
        (r"a[b,c", [r"a[b,c"]),
        ("a),b", ["a)", "b"]),
        ("(a,b),c", ["(a,b)", "c"]),
        ("(a{1,2}b),c", ["(a{1,2}b)", "c"]),
        ("[]],a", ["[]]", "a"]),
        ("[^]],a", ["[^]]", "a"]),
        (r"[\]],a", [r"[\]]", "a"]),
        ("a\\", ["a\\"]),
    ],
)
def test_commas_inside_brackets_belong_to_the_expression(text, patterns):
    assert split_patterns(text) == patterns


@pytest.mark.parametrize(
    ("white", "black", "name", "matches"),
    [
        ("", "", "shop.orders", True),
        (r".*\..*", "", "shop.orders", True),
        (r"shop\..*", "", "shop.orders", True),
        (r"shop\..*", "", "shop2.orders", False),
        (r"shop\.orders", "", "shop.orders_1", False),
        (r"shop\.orders", "", "myshop.orders", False),
        (r"shop\.orders", "", "shopxorders", False),
        (r"a\.b,shop\.orders", "", "shop.orders", True),
        (r"shop\.orders|items", "", "shop.orders", True),
        (r"SHOP\.Orders", "", "shop.oRDERS", True),
        (r"shop\..*", "", "shop.", True),
        (r"shop\.t_\d{1,2}", "", "shop.t_12", True),
        ("", r"mysql\.slave_.*", "mysql.slave_info", False),
        ("", r"mysql\.slave_.*", "mysql.user", True),
        ("", r"shop\.tmp", "shop.tmp_1", True),
        (r"shop\..*", r"shop\.tmp_.*", "shop.tmp_1", False),
        (r"shop\..*", r"SHOP\.TMP_.*", "shop.tmp_1", False),
        (r"shop\..*", r"shop\.tmp_.*", "shop.orders", True),
    ],
)
def test_the_filter_is_canals(white, black, name, matches):
    schema, _, table = name.partition(".")
    assert TableFilter(white, black).matches(TableName(schema, table)) is matches


@pytest.mark.parametrize(
    ("white", "black", "where"), [(r"a\.b,c(d", "", "white list"), ("", "a,*b", "black list")]
)
def test_a_bad_expression_is_named(white, black, where):
    for build in (TableFilter, Sink):
        with pytest.raises(ConfigError) as caught:
            build(white, black)
        bad = "c(d" if white else "*b"
        assert repr(bad) in str(caught.value)
        assert where in str(caught.value)
        assert caught.value.details["pattern"] == bad


def test_filters_are_values():
    assert TableFilter("a", "b") == TableFilter("a", "b") != TableFilter("a")
    assert len({TableFilter("a"), TableFilter("a"), TableFilter("", "a")}) == 2
    copy = pickle.loads(pickle.dumps(TableFilter(r"shop\..*")))
    assert copy == TableFilter(r"shop\..*")
    assert not copy.matches(TableName("other", "t"))


def test_the_first_matching_route_names_the_table():
    routes = [
        Route(r"^shop_\d+\.orders_\d+$", "shop.orders"),
        Route(r"shop_(\d+)\.(?P<table>\w+?)_\d+", r"shop.\g<table>_of_\1"),
        Route(r"shop_.*\..*", "shop.rest"),
    ]
    sink = Sink(routes=routes)
    assert sink.select("shop_3", "orders_17") == TableName("shop", "orders")
    assert sink.select("SHOP_3", "ORDERS_17") == TableName("shop", "orders")
    assert sink.select("shop_3", "items_17") == TableName("shop", "items_of_3")
    assert sink.select("shop_3", "orders_x") == TableName("shop", "rest")
    assert sink.select("other", "orders_17") == TableName("other", "orders_17")
    assert sink.select("xshop_3", "orders_17") == TableName("xshop_3", "orders_17")


def test_a_table_name_keeps_its_dots():
    assert Sink().select("shop", "a.b") == TableName("shop", "a.b")
    assert Sink(routes=[Route(r"shop_\d\.(.*)", r"shop.\1")]).select("shop_1", "a.b") == ("shop", "a.b")


def test_a_statement_on_a_schema_is_routed_by_a_pattern_that_allows_it():
    sink = Sink(routes=[Route(r"shop_\d\.(.*)", r"shop.\1")])
    assert sink.select("shop_1", "") == TableName("shop", "")


@pytest.mark.parametrize(
    ("pattern", "to"),
    [
        ("a(", "a.b"),
        ("a", "orders"),
        ("a", ".b"),
        ("a", "b."),
        ("a", r"a.\1"),
        ("(a)", r"a.\g<x>"),
        ("a", "a.\\"),
    ],
)
def test_a_bad_route_is_refused_when_it_is_made(pattern, to):
    with pytest.raises(ConfigError):
        Route(pattern, to)


def test_a_route_that_leaves_no_name_is_refused_when_it_matches():
    sink = Sink(routes=[Route(r"shop\.([a-z]*)\d*", r"shop.\1")])
    assert sink.select("shop", "orders1") == TableName("shop", "orders")
    with pytest.raises(ConfigError, match=r"shop\.17"):
        sink.select("shop", "17")
    with pytest.raises(ConfigError, match=r"17\.t"):
        Sink(routes=[Route(r"([a-z]*)\d*\.t", r"\1.t")]).select("17", "t")


def test_filters_see_the_names_of_the_source():
    sink = Sink(r"shop_\d+\..*", r"shop_9\..*", [Route(r"shop_\d+\.(.*)", r"shop.\1")])
    assert sink.select("shop_1", "t") == TableName("shop", "t")
    assert sink.select("shop_9", "t") is None
    assert sink.select("shop", "t") is None


def test_answers_are_remembered_within_bounds(monkeypatch):
    counts = Counter()
    real = TableFilter.matches

    def counted(self, name):
        counts[name] += 1
        return real(self, name)

    monkeypatch.setattr(TableFilter, "matches", counted)
    sink = Sink(black=r"s\.t1")
    for _ in range(3):
        assert sink.select("s", "t0") == TableName("s", "t0")
        assert sink.select("s", "t1") is None
    assert counts == {TableName("s", "t0"): 1, TableName("s", "t1"): 1}
    for number in range(TABLES_MAX + 10):
        sink.select("s", f"x{number}")
    assert sink._decision.cache_info().currsize == TABLES_MAX
