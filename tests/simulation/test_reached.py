"""What no seed reaches is printed, and the list of it is true."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

from simulation.branches import Branch, Counts, Key
from simulation.reached import ROOT, SEEDS
from simulation.unreached import Entry, compare, entry_of, load

CODE = '''
"""A module."""
from enum import Enum


class Lamp(Enum):
    ON = "on"
    OFF = "off"


AFTER = {(Lamp.ON, "press"): Lamp.OFF, (Lamp.OFF, "press"): Lamp.ON, (Lamp.ON, "break"): Lamp.OFF}


class Room:
    def described(self, lamps):
        """Return words."""
        words = "dark" if not lamps else "lit"
        for lamp in lamps:
            match lamp:
                case Lamp.ON:
                    continue
                case Lamp.OFF:
                    words = "half lit"
        try:
            lamps[0]
        except IndexError:
            words += "!"
        return words

    async def never(self):
        if self:
            return 1
        while self:
            return 2


def press(lamp):
    if lamp is None:
        raise ValueError(lamp)
    return AFTER[lamp, "press"]
'''


@pytest.fixture
def counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Counts:
    (tmp_path / "house").mkdir()
    (tmp_path / "house" / "lamps.py").write_text(CODE)
    monkeypatch.syspath_prepend(tmp_path)
    counts = Counts(tmp_path, ["house"])
    monkeypatch.setattr(sys, "meta_path", [counts, *sys.meta_path])
    monkeypatch.delitem(sys.modules, "house", raising=False)
    monkeypatch.delitem(sys.modules, "house.lamps", raising=False)
    counts.count_table("house/lamps.py", "AFTER")
    return counts


def never(counts: Counts, listed: tuple[Entry, ...] = ()) -> list[str]:
    return list(map(str, compare(listed, counts.branches, counts.collect()).unlisted))


def test_each_branch_not_taken_is_named_with_its_line(
    counts: Counts,
):
    lamps = importlib.import_module("house.lamps")
    assert lamps.Room().described([]) == "dark!"
    assert lamps.press(lamps.Lamp.ON) is lamps.Lamp.OFF
    assert never(counts) == [
        "house/lamps.py:17: Room.described: 'dark' if not lamps: not",
        "house/lamps.py:18: Room.described: loop lamps",
        "house/lamps.py:30: Room.never: entered",
        "house/lamps.py:38: press: if lamp is None",
        "house/lamps.py:11: AFTER: Lamp.OFF, press",
        "house/lamps.py:11: AFTER: Lamp.ON, break",
    ]


def test_loops_cases_and_errors_are_counted_each_way(counts: Counts):
    lamps = importlib.import_module("house.lamps")
    assert lamps.Room().described([lamps.Lamp.OFF, lamps.Lamp.OFF]) == "half lit"
    with pytest.raises(ValueError, match="None"):
        lamps.press(None)
    assert never(counts, (Entry("house/lamps.py", "AFTER"), Entry("house/lamps.py", "Room.never"))) == [
        "house/lamps.py:17: Room.described: 'dark' if not lamps",
        "house/lamps.py:20: Room.described: case Lamp.ON",
        "house/lamps.py:26: Room.described: except IndexError",
        "house/lamps.py:38: press: if lamp is None: not",
    ]


def test_a_listed_branch_that_is_reached_or_gone_is_told():
    branches = {"a.py": [Branch(Key("a.py", "A.f", text), line, None) for line, text in enumerate("xyz")]}
    listed = Entry("a.py", "A.f", "x"), Entry("a.py", "A"), Entry("b.py"), Entry("a.py", "A.f", "x", 2)
    found = compare(listed, branches, {"a.py": [0, 1, 0]})
    assert found.unlisted == ()
    assert found.reached == (Entry("a.py", "A"),)
    assert found.gone == (Entry("b.py"), Entry("a.py", "A.f", "x", 2))
    assert compare(listed[:1], branches, {"a.py": [0, 1, 0]}).unlisted == (branches["a.py"][2],)


def test_an_entry_needs_a_reason_and_is_there_once(tmp_path: Path):
    path = tmp_path / "unreached.toml"
    entry = entry_of(Branch(Key("a.py", "f", """if x == "'":"""), 7, None))
    path.write_text(entry)
    with pytest.raises(ValueError, match="gives no reason"):
        load(path)
    given = entry.replace('reason = ""', 'reason = "why"')
    path.write_text(given)
    assert load(path) == {Entry("a.py", "f", """if x == "'":"""): "why"}
    path.write_text(given * 2)
    with pytest.raises(ValueError, match="twice"):
        load(path)


@pytest.mark.parametrize(
    "options",
    [
        ["--seeds", "2", "--sample", "--jobs", "1"],
        pytest.param(
            ["--seeds", str(SEEDS)], id="complete", marks=[pytest.mark.soak, pytest.mark.timeout(1_800)]
        ),
    ],
)
def test_what_decides_is_reached_and_what_is_not_has_a_reason(options: list[str]):
    ran = subprocess.run(
        [sys.executable, "-m", "simulation.reached", *options],
        env={**os.environ, "PYTHONPATH": f"{ROOT}:{ROOT / 'tests'}"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "branches reached by" in ran.stdout
