"""The type of an answer: JSON of that type is read, and other JSON is refused; its schema describes it."""

from __future__ import annotations

from typing import Any

import pytest

from canal_group.merge.calls.answer_type import answer_type, read_answer, schema_of
from canal_group.merge.calls.answers import ShardState
from canal_group.merge.calls.call import OperatorCall, operator_calls
from canal_group.merge.calls.operators import (
    GivePolicy,
    RemoveShard,
    Rewind,
    ShowJoined,
    ShowSchema,
    SkipEvent,
)
from canal_group.merge.values.member import Policy, Role
from canal_group.merge.values.skips.skipped_event import Unit

COLUMN = {"name": "note", "type": None, "chosen": None, "shards": {"s0": "text"}}
EVENT = {
    "shard": "s0",
    "server": "",
    "file": "bin.000001",
    "created_s": 0,
    "offset": 4,
    "part": 0,
    "unit": "event",
    "by": "ops",
    "at_us": 5,
    "already": False,
}
ANSWERS: list[tuple[OperatorCall[Any], Any]] = [
    (Rewind("app", "latest"), {"from": None, "to": "{}"}),
    (
        GivePolicy("s0", Policy.SKIP),
        {"shard": "s0", "role": "member", "policy": "skip", "skipped": True, "lag": 5},
    ),
    (RemoveShard("s0"), {"shard": "s0", "role": "left"}),
    (
        RemoveShard("s0", now=True),
        {"shard": "s0", "role": "left", "rows_dropped": 4, "left_at": {"app": "b:4"}},
    ),
    (SkipEvent("s0", "bin.000001:4"), EVENT),
    (ShowSchema(), {"s0": [{"schema": "shop"}]}),
    (ShowJoined("shop.orders"), {"table": "shop.orders", "columns": [COLUMN]}),
]


@pytest.mark.parametrize(("call", "value"), ANSWERS)
def test_an_answer_of_its_type_is_what_it_was(call: OperatorCall[Any], value: Any):
    assert read_answer(call, value) == value


def test_words_that_are_one_of_several_are_read_as_these():
    assert read_answer(SkipEvent("s0", "bin.000001:4"), EVENT)["unit"] is Unit.EVENT
    assert read_answer(*ANSWERS[2])["role"] is Role.LEFT


@pytest.mark.parametrize(
    ("call", "value"),
    [
        (Rewind("app", "latest"), {"from": None}),
        (Rewind("app", "latest"), {"from": 5, "to": "{}"}),
        (GivePolicy("s0", Policy.SKIP), {"shard": "s0", "role": "king", "policy": None, "skipped": True}),
        (GivePolicy("s0", Policy.SKIP), {"shard": "s0", "role": "member", "policy": None, "skipped": 1}),
        (RemoveShard("s0"), {"shard": "s0", "role": "left", "left_at": []}),
        (RemoveShard("s0"), {"shard": "s0", "role": "left", "rows_dropped": True}),
        (SkipEvent("s0", "bin.000001:4"), {**EVENT, "unit": "day"}),
        (ShowSchema(), {"s0": {}}),
        (
            ShowJoined("shop.orders"),
            {"table": "shop.orders", "columns": [{**COLUMN, "shards": {"s0": None}}]},
        ),
        (ShowJoined("shop.orders"), []),
    ],
)
def test_an_answer_of_another_type_is_refused(call: OperatorCall[Any], value: Any):
    with pytest.raises((KeyError, TypeError, ValueError)):
        read_answer(call, value)


@pytest.mark.parametrize("kind", operator_calls().values(), ids=operator_calls().keys())
def test_every_operators_call_declares_what_it_is_answered_with(kind: type[OperatorCall[Any]]):
    assert schema_of(answer_type(kind))["type"] == "object"


def test_a_schema_says_what_there_is_at_least():
    assert schema_of(ShardState) == {
        "type": "object",
        "title": "ShardState",
        "description": "A shard in its group.",
        "properties": {
            "shard": {"type": "string"},
            "role": {"type": "string", "enum": ["member", "joining", "leaving", "left"]},
            "policy": {"anyOf": [{"type": "string"}, {"type": "null"}]},
            "skipped": {"type": "boolean"},
        },
        "required": ["shard", "role", "policy", "skipped"],
    }
    assert schema_of(dict[str, list[dict[str, Any]]]) == {
        "type": "object",
        "additionalProperties": {
            "type": "array",
            "items": {"type": "object", "additionalProperties": True},
        },
    }
