"""What both files say about an instance, with placeholders filled in."""

import pytest

from canal_group.merge.errors import ConfigError
from canal_group.programs.migration.canal_files.properties import read_properties
from canal_group.programs.migration.canal_files.view import View


@pytest.fixture
def view(tmp_path):
    def make(own, server=""):
        (tmp_path / "shop").mkdir(exist_ok=True)
        files = tmp_path / "shop" / "instance.properties", tmp_path / "canal.properties"
        for file, text in zip(files, (own, server), strict=True):
            file.write_text(text)
        return View("shop", read_properties(files[0]), read_properties(files[1]))

    return make


def test_the_instance_s_file_replaces_canal_properties(view):
    merged = view("a=1\nb=", "a=2\nb=3\nc=4")
    assert [merged.text(key) for key in "abcd"] == ["1", None, "4", None]
    assert merged.entry("c").file.endswith("canal.properties")
    assert merged.given("b") is None


@pytest.mark.parametrize(
    ("own", "value"),
    [
        ("a=${b}\nb=1", "1"),
        ("a=x${b}y${c}\nb=1\nc=2", "x1y2"),
        ("a=${none:5}", "5"),
        ("a=${none:}", None),
        ("a=${b:5}\nb=6", "6"),
        ("a=${none:${b}}\nb=7", "7"),
        ("a=${b}\nb=${c}\nc=8", "8"),
        ("a=${canal.instance.destination:}/h2", "shop/h2"),
        ("a=${FROM_HOST}:3306\nFROM_HOST=db", "db:3306"),
        ("a=${HOST_OF_ENV}", "env"),
        ("a=$b {c}", "$b {c}"),
        ("a=jdbc:h2:${dir}/h2;X=1\ndir=${none:../conf}/x", "jdbc:h2:../conf/x/h2;X=1"),
    ],
)
def test_placeholders_stand_for_entries_and_variables(view, own, value, monkeypatch):
    monkeypatch.setenv("HOST_OF_ENV", "env")
    assert view(own).text("a") == value


@pytest.mark.parametrize(
    ("own", "sentence"),
    [
        (
            "\na=${none}",
            "line 2: `a` should have placeholders that stand for an entry or a variable of the environment,",
        ),
        (
            "a=${b}\nb=${a}",
            "line 1: `a` should have placeholders that end, but has one that stands for itself.",
        ),
        ("a=${a}", "line 1: `a` should have placeholders that end, but has one that stands for itself."),
    ],
)
def test_a_placeholder_for_nothing_or_itself_is_refused(view, own, sentence):
    with pytest.raises(ConfigError) as error:
        view(own).text("a")
    assert sentence in error.value.message


def test_placeholders_that_double_are_bounded(view):
    own = "\n".join(f"k{n}=${{k{n + 1}}}${{k{n + 1}}}" for n in range(19)) + "\nk19=0123456789\n"
    with pytest.raises(ConfigError, match="should have at most 65536 characters"):
        view(own).text("k0")


def test_numbers_and_flags_are_read_or_refused(view):
    entries = view("n=7\nbig=1e3\nminus=-1\nyes=TRUE\nno=false\nmaybe=maybe")
    assert (entries.whole("n"), entries.whole("none")) == (7, None)
    assert (
        entries.flag("yes"),
        entries.flag("no"),
        entries.flag("none"),
        entries.flag("none", default=True),
    ) == (
        True,
        False,
        False,
        True,
    )
    for key, ask in (("big", entries.whole), ("minus", entries.whole), ("maybe", entries.flag)):
        with pytest.raises(ConfigError, match=f"line [236]: `{key}` should be"):
            ask(key)
    with pytest.raises(ConfigError, match="should be a whole number from 8, but is '7'"):
        entries.whole("n", 8)


def test_a_value_that_is_one_variable_is_known_as_such(view):
    entries = view("a=${DB_PASSWORD}\nb=x${DB_PASSWORD}\nc=${DB:x}\nd=${a}\ne=${not.one}")
    assert [entries.variable(key) for key in "abcde"] == ["DB_PASSWORD", None, None, None, None]


def test_placeholders_of_placeholders_are_filled_in_once_each(view):
    """Ten times ten deep: each by itself would be filled in ten thousand million times."""
    own = "\n".join(f"a{n}={f'${{a{n - 1}}}' * 10}" for n in range(1, 11))
    assert view(f"a0=\n{own}").text("a10") is None
    with pytest.raises(ConfigError, match="should have at most 65536 characters"):
        view(f"a0=x\n{own}").text("a10")
