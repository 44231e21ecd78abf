"""Faults in a small module, the tests that detect them, and the list of permitted survivors."""

from pathlib import Path

import pytest

from mutants.fork import Forks
from mutants.mutant import Key, Module
from mutants.survivors import compare, entries, load
from mutants.targets import IMPORTED, PACKAGES, ROOT, files_of, suite_of
from mutants.verdict import Fate, Verdict, not_noticed, score, table

CODE = '''
"""Nothing here can be wrong: 1 < 2."""
LIMIT = 3


class Box:
    """Holds less than 3."""

    def __init__(self, count: int = 7) -> None:
        super().__init__()
        self.count = count

    def __str__(self) -> str:
        return f"{self.count + 1}"

    def room(self) -> int:
        assert self.count >= 0
        if self.count > LIMIT:
            raise ValueError(f"{self.count - LIMIT} too many")
        return max(self.count, 0)


@register
def _(a: int):
    return a


@register
def _(a: str):
    return a + "b"


def first(numbers):
    for number in sorted(numbers):
        if not number and number is not None:
            continue
        return number
'''


@pytest.fixture
def module(tmp_path: Path) -> Module:
    path = tmp_path / "box.py"
    path.write_text(CODE)
    return Module(path, "box.py")


def changes(module, function):
    return [(str(key.was), key.now) for key in keys(module) if key.function == function]


def keys(module):
    return [mutant.key for mutant in module.mutants()]


def test_what_decides_is_changed_and_what_is_told_to_people_is_not(module):
    assert changes(module, "Box.__init__") == [("self.count = count", "(removed)")]
    assert changes(module, "Box.__str__") == []
    assert changes(module, "Box.room") == [
        ("if self.count > LIMIT:", "if True:"),
        ("if self.count > LIMIT:", "if False:"),
        ("if self.count > LIMIT:", "if self.count >= LIMIT:"),
        ("return max(self.count, 0)", "return None"),
        ("return max(self.count, 0)", "return min(self.count, 0)"),
        ("return max(self.count, 0)", "return max(self.count, 1)"),
    ]
    assert changes(module, "first") == [
        ("for number in sorted(numbers):", "for number in list(numbers):"),
        ("if not number and number is not None:", "if True:"),
        ("if not number and number is not None:", "if False:"),
        ("if not number and number is not None:", "if not number or number is not None:"),
        ("if not number and number is not None:", "if number and number is not None:"),
        ("if not number and number is not None:", "if not number and number is None:"),
        ("continue", "break"),
        ("return number", "return None"),
    ]


def test_each_mutant_is_code_that_differs_and_leaves_the_module_as_it_was(module):
    before = module.compiled()
    for mutant in module.mutants():
        assert mutant.code() != before[mutant.function], mutant.key
        assert module.compiled() == before


def test_a_mutant_does_what_it_says(module):
    space = {"register": lambda function: function}
    exec(compile(CODE, str(module.path), "exec"), space)
    swapped = next(mutant for mutant in module.mutants() if mutant.key.now == "return min(self.count, 0)")
    space["Box"].room.__code__ = swapped.code()
    assert space["Box"](2).room() == 0


def test_functions_that_are_called_underscore_are_named_for_what_they_take(module):
    assert changes(module, "_(int)") == [("return a", "return None")]
    assert changes(module, "_(str)") == [
        ("return a + 'b'", "return None"),
        ("return a + 'b'", "return a - 'b'"),
    ]


def test_mutants_of_one_name_are_told_apart_by_a_number(tmp_path):
    path = tmp_path / "twice.py"
    path.write_text("def f(a):\n    a.add()\n    a.add()\n")
    assert [(key.was, key.number) for key in keys(Module(path, "twice.py"))] == [
        ("a.add()", 1),
        ("a.add()", 2),
    ]


def test_a_mutant_keeps_its_name_when_lines_move(module):
    before = keys(module)
    module.path.write_text("\n\n" + CODE)
    assert keys(Module(module.path, "box.py")) == before


def test_a_fork_ended_by_a_signal_has_no_answer_and_a_failed_one_raises():
    forks = Forks(2)
    forks.start("answers", lambda: b"yes")
    forks.start("does not end", _forever, until_s=0.1)
    found = {}
    while len(forks):
        found |= dict(forks.ended())
    assert found == {"answers": b"yes", "does not end": None}
    forks.start("fails", lambda: b"" + 1)
    with pytest.raises(RuntimeError, match="fails failed outside of a test"):
        list(forks.ended())


def _forever():
    while True:
        pass


def test_a_run_and_the_list_differ_where_one_has_what_the_other_lacks():
    one, two, three, other = (Key(file, "f", "1", "2") for file in ("a", "b", "c", "d"))
    found = compare(
        [one, two, three, other], survived=[one], killed={two}, possible={one, two}, files={"a", "b", "c"}
    )
    assert (found.unlisted, found.killed, found.gone) == ((), (two,), (three,))
    found = compare([], survived=[one], killed=set(), possible={one}, files={"a"})
    assert found.unlisted == (one,)


def test_an_entry_of_the_list_is_the_mutant_again_once_it_has_a_reason(module, tmp_path):
    path = tmp_path / "list.toml"
    text = entries([*keys(module), Key("f", "g", """a["b'"] \\ 'c'""", "(removed)", 2)])
    path.write_text(text)
    with pytest.raises(ValueError, match="gives no reason"):
        load(path)
    path.write_text(text.replace('reason = ""', 'reason = "None can tell."'))
    assert list(load(path))[:-1] == keys(module)
    path.write_text(path.read_text() * 2)
    with pytest.raises(ValueError, match="twice"):
        load(path)


def test_the_list_has_a_reason_for_each():
    load()


def test_what_was_not_run_does_not_count():
    fates = (Fate.KILLED, Fate.EXCEEDED, Fate.SURVIVED, Fate.UNTESTED, Fate.NOT_RUN)
    verdicts = [Verdict(Key("a.py", "f", "1", str(index)), 1, fate) for index, fate in enumerate(fates)]
    assert score(verdicts) == (2, 4)
    assert not_noticed([each.json() for each in verdicts]) == {each.key for each in verdicts[2:]}
    assert [line.split() for line in table(verdicts)] == [
        ["a.py", "2/4", "50.0", "%", "1", "not", "run"],
        ["all", "2/4", "50.0", "%", "1", "not", "run"],
    ]


def test_without_any_all_packages_are_meant_and_a_folder_means_its_files():
    (package,) = (IMPORTED / each for each in PACKAGES if each.endswith("history"))
    assert {*files_of([])} > {*files_of([package])} == {*package.glob("*.py")}
    assert files_of([package, package / "facts.py"]) == files_of([package])
    for other in (ROOT / "conf", ROOT / "merge" / "missing.py"):
        with pytest.raises(ValueError, match="is not a file or a folder of merge, "):
            files_of([other])


def test_the_tests_of_a_package_need_no_server():
    of_merge, of_ddl = (suite_of(files_of([ROOT / package])) for package in ("merge", "binlog/schema"))
    assert ROOT / "tests/unit/binlog/schema/test_holdings.py" in of_ddl
    assert ROOT / "tests/unit/shard/test_sink.py" in of_merge
    assert suite_of(files_of([])) == sorted({*of_merge, *of_ddl})
    assert not any("integration" in path.parts for path in suite_of(files_of([])))
