"""What `check --decode` prints of a comparison."""

from __future__ import annotations

import json

import pytest

from canal_group.binlog.second_opinion.comparison import Difference, Opinion
from canal_group.binlog.second_opinion.witness import EventPosition
from canal_group.conf.load import load_instance
from canal_group.programs.command.check import decode_check


@pytest.fixture
def settings(tmp_path):
    files = tmp_path / "mysql-bin.000001"
    file = tmp_path / "shop.yaml"
    file.write_text(f"preset: memory\ndestination: shop\nshards:\n  - {{name: s1, files: {files}}}\n")
    return load_instance(file)


def test_a_difference_is_printed_with_its_position_in_80_columns(monkeypatch, settings):
    differs = Difference(
        EventPosition("mysql-bin.000001", 1234), "shop.orders", "total (after)", "7" * 900, "'8'"
    )
    opinion = Opinion(2, 30, 400, difference=differs)
    opinion.values_left["YEAR 0000"] = 3
    monkeypatch.setattr(decode_check, "_tail", lambda *_: [])
    monkeypatch.setattr(decode_check, "second_opinion", lambda *_, **__: opinion)
    lines = []
    assert not decode_check.check_decoding(settings, (), 100, lines.append, as_json=False)
    assert max(map(len, lines)) <= 80
    whole = "\n".join(lines)
    assert "FAIL  s1: decoding: 30 rows and 400 values of 2 transactions" in whole
    assert "not compared: 3 values: YEAR 0000" in whole
    assert "first difference: mysql-bin.000001:1234, table shop.orders," in whole
    assert "(600 characters more)" in whole
    lines.clear()
    decode_check.check_decoding(settings, (), 100, lines.append, as_json=True)
    (found,) = map(json.loads, lines)
    assert (found["shard"], found["ok"]) == ("s1", False)
    assert found["difference"]["offset"] == 1234
    assert found["difference"]["theirs"] == "'8'"


def test_files_that_cannot_be_read_fail_with_a_sentence(settings):
    lines = []
    assert not decode_check.check_decoding(settings, (), 100, lines.append, as_json=False)
    assert lines[0].startswith("FAIL  s1: decoding: ")
