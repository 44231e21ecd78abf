"""`scripts/words.py`: what it finds of the words that this project does not use."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
_SPEC = importlib.util.spec_from_file_location("words", ROOT / "scripts/words.py")
assert _SPEC is not None
assert _SPEC.loader is not None
words = importlib.util.module_from_spec(_SPEC)
sys.modules["words"] = words
_SPEC.loader.exec_module(words)

RULE = '[[rule]]\nname = "n"\npattern = \'{pattern}\'\nscopes = {scopes}\nwrite = "w"\n'
MODULE = '''\
"""A docstring of a parcel that
is long."""


class SmallParcel:
    weight = 1  # of a parcel, in kg

    def carry(self, parcel_id):
        self.parcel_weight = parcel_id
        raise ValueError(f"the parcel {parcel_id} is too\\nheavy")
'''
PAGE = """\
# A page

A text of a
parcel.

    not looked for

```
a parcel in code
```

The second parcel.
"""


@pytest.fixture
def tree(tmp_path):
    (tmp_path / "tests").mkdir()
    (tmp_path / "module.py").write_text(MODULE)
    (tmp_path / "page.md").write_text(PAGE)
    (tmp_path / "settings.yaml").write_text("port: 1  # the parcel's\nparcel: 2\n")
    (tmp_path / "tests/test_it.py").write_text("def test_a_parcel_arrives(): ...\ndef test_it(): ...\n")
    return tmp_path


@pytest.fixture
def found(tree, capsys):
    """Return the output with these rules, without the last line, and the exit status."""

    def look(*rules, head=""):
        (tree / "rules").write_text(head + "".join(rules))
        status = words.main(["--root", str(tree), "--rules", str(tree / "rules")])
        *lines, last = capsys.readouterr().out.splitlines()
        assert last == f"words: {len(lines)} found by {len(rules)} rules"
        return lines, status

    return look


def rule(*scopes, pattern=r"\bparcel\b", more=""):
    return RULE.format(pattern=pattern, scopes=list(scopes)) + more


@pytest.mark.parametrize(
    ("scope", "expected"),
    [
        ("test names", ["tests/test_it.py:1: n: `test_a_parcel_arrives`"]),
        ("docstrings", ["module.py:1: n: `parcel`"]),
        ("comments", ["module.py:6: n: `parcel`", "settings.yaml:1: n: `parcel`"]),
        ("messages", ["module.py:10: n: `parcel`"]),
        ("docs", ["page.md:4: n: `parcel`", "page.md:12: n: `parcel`"]),
        (
            "identifiers",
            [
                "module.py:5: n: `SmallParcel`",
                "module.py:8: n: `parcel_id`",
                "module.py:9: n: `parcel_weight`",
                "tests/test_it.py:1: n: `test_a_parcel_arrives`",
            ],
        ),
    ],
)
def test_each_scope_finds_its_own_words(found, scope, expected):
    lines, status = found(rule(scope))
    assert lines == [f"{each}: w" for each in expected]
    assert status == 1


def test_a_tree_without_the_words_passes(found):
    assert found(rule("docs", pattern="lane")) == ([], 0)


def test_words_on_two_lines_are_found(found):
    lines, _ = found(rule("docs", "docstrings", "messages", pattern=r"of a parcel|that is|too heavy"))
    assert lines == [
        "module.py:1: n: `of a parcel`: w",
        "module.py:1: n: `that is`: w",
        "module.py:10: n: `too heavy`: w",
        "page.md:3: n: `of a parcel`: w",
    ]


def test_a_length_limit_is_a_pattern(found):
    lines, _ = found(rule("test names", pattern="^.{21,}$"))
    assert lines == ["tests/test_it.py:1: n: `test_a_parcel_arrives`: w"]
    assert found(rule("test names", pattern="^.{22,}$")) == ([], 0)


def test_an_exception_allows_its_word_in_its_files(found):
    allow = '[[rule.allow]]\nfile = "module.py"\ntext = "SmallParcel"\nreason = "its name elsewhere"\n'
    lines, _ = found(rule("identifiers", more=allow))
    assert [line.split("`")[1] for line in lines] == ["parcel_id", "parcel_weight", "test_a_parcel_arrives"]
    allow = '[[rule.allow]]\nfile = "module.py"\nreason = "of another library"\n'
    lines, _ = found(rule("identifiers", more=allow))
    assert [line.split("`")[1] for line in lines] == ["test_a_parcel_arrives"]


def test_an_unused_exception_is_reported(found):
    allow = '[[rule.allow]]\nfile = "page.md"\ntext = "lane"\nreason = "a road"\n'
    lines, status = found(rule("docs", pattern="lane", more=allow))
    assert lines == ["words.toml: n: the exception page.md lane is not needed"]
    assert status == 1


def test_excluded_files_are_not_searched(found):
    assert found(rule("docs"), head='exclude = ["page.md"]\n') == ([], 0)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (rule("docs", more='[[rule.allow]]\ntext = "x"\n'), "has no reason"),
        (rule("poems"), "needs scopes of"),
        (rule(), "needs scopes of"),
        (rule("docs", more="limit = 3\n"), "unknown={'limit'}"),
        (rule("docs") + rule("docs"), "two rules have the same name"),
    ],
)
def test_malformed_rules_are_refused(tmp_path, text, message):
    (tmp_path / "rules").write_text(text)
    with pytest.raises(ValueError, match=message):
        words.Rules.read(tmp_path / "rules")


@pytest.mark.parametrize(
    "name",
    [
        "test_who_reads_goes_on",
        "test_a_shard_whose_source_is_gone",
        "test_nobody_is_told",
        "test_whatever_happens_it_ends",
        "test_a_cursor_that_is_none_is_refused",
        "test_" + "a" * 66,
    ],
)
def test_house_english_in_a_test_name_is_found(tmp_path, name):
    (tmp_path / "tests").mkdir()
    file = tmp_path / "tests/test_it.py"
    file.write_text(f"def {name}(): ...\n")
    assert len(list(words.Rules.read(words.RULES).of_file(tmp_path, file))) == 1
