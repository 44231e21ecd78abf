"""Errors carry fields, survive pickling and the wire, and say who must act."""

import json
import pickle
from pathlib import Path

import pytest

from canal_group.merge import errors
from canal_group.merge.errors import (
    RETRY_AFTER_MAX_S,
    CanalGroupError,
    DataError,
    FencedError,
    RetryableError,
    UsageError,
    error_from_dict,
    error_from_json,
)


def tree(cls):
    return [cls, *(found for sub in cls.__subclasses__() for found in tree(sub))]


EVERY = [cls for cls in tree(CanalGroupError) if cls.__module__ == "canal_group.merge.errors"]


@pytest.mark.parametrize("cls", EVERY)
def test_each_error_survives_pickling_and_the_wire(cls):
    error = cls("It broke.", hint="Mend it.", shard="a", offset=4, retry_after_s=0.5, file=None)
    for copy in (pickle.loads(pickle.dumps(error)), error_from_dict(json.loads(json.dumps(error.to_dict())))):
        assert type(copy) is cls
        assert str(copy) == "It broke. Mend it."
        assert (copy.message, copy.hint) == ("It broke.", "Mend it.")
        assert copy.details == {"shard": "a", "offset": 4, "retry_after_s": 0.5, "file": None}


def test_an_error_without_a_hint_prints_its_message():
    assert str(DataError("It broke.")) == "It broke."


def test_an_unknown_error_becomes_the_base_class():
    error = error_from_dict({"error": "FromTheFuture", "message": "New.", "details": {"x": 1}})
    assert type(error) is CanalGroupError
    assert error.details == {"x": 1}


def test_a_retryable_error_says_when():
    assert RetryableError("Away.").retry_after_s == 1.0
    assert RetryableError("Away.", retry_after_s=7).retry_after_s == 7.0
    assert RetryableError("Away.", retry_after_s=0).retry_after_s == 0.0


def test_every_error_names_exactly_one_party_to_act():
    for cls in EVERY[1:]:
        assert sum(issubclass(cls, who) for who in (UsageError, RetryableError, FencedError, DataError)) == 1


def test_the_drawn_tree_is_the_real_one():
    drawn = Path(errors.__file__).read_text().split('"""')[1]
    for cls in EVERY:
        lines = [line for line in drawn.splitlines() if line.strip("│├└─ ").split(" ")[0] == cls.__name__]
        assert len(lines) == 1, cls
        # four characters of indentation, then four for each level below the base
        level = cls.__mro__.index(CanalGroupError)
        assert lines[0].index(cls.__name__) == 4 * (level + 1), cls


def test_the_operators_page_says_what_every_error_asks_for():
    page = Path(__file__).parents[3] / "docs" / "operating.md"
    section = page.read_text().split("## What errors ask for")[1].split("\n## ")[0]
    first = [line.split("|")[1] for line in section.splitlines() if line.startswith("| `")]
    assert [cls.__name__ for cls in EVERY[1:] if not any(f"`{cls.__name__}`" in each for each in first)] == []


@pytest.mark.parametrize(
    ("wait", "waits_s"),
    [(0, 0.0), (RETRY_AFTER_MAX_S, RETRY_AFTER_MAX_S), (RETRY_AFTER_MAX_S + 1, 1.0), (-1, 1.0), ("5", 1.0)],
)
def test_a_wait_that_cannot_be_meant_is_left_out(wait, waits_s):
    told = {"error": "RetryableError", "message": "Away.", "details": {"retry_after_s": wait, "shard": "a"}}
    error = error_from_json(json.dumps(told))
    assert (error.retry_after_s, error.details["shard"]) == (waits_s, "a")
    assert type(error_from_dict({"error": "UsageError", "message": "No."})) is UsageError
