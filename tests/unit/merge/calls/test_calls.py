"""Calls: what JSON says of each is read as the same call, and what only admits says is not read at all."""

from __future__ import annotations

import json
from dataclasses import fields
from typing import Any, get_args, get_type_hints

import pytest

from merge.calls import consumers, operators
from merge.calls.body import body_of, call_of
from merge.calls.call import CALLS, Call, Right, operate, read
from merge.calls.operators import GivePolicy, SkipEvent
from merge.calls.resume import Resume
from merge.calls.values import ADMITTED
from merge.errors import UsageError
from merge.values.member import Policy
from merge.values.offset_range import OffsetRange
from merge.values.position import GroupPosition, Position

#: a value of each type that a field has
VALUES: dict[Any, Any] = {
    str: "orders",
    int: 7,
    float: 1.5,
    bool: True,
    dict[str, Any]: {"name": "s1"},
    Resume: Resume.NOW,
    Policy: Policy.SKIP,
    OffsetRange: OffsetRange(GroupPosition({}, 3), None, 5, 6, 1, 9, may_be_empty=True),
    Position: Position("bin.000001", 4),
}


def value_of(hint: Any) -> Any:
    return VALUES[hint] if hint in VALUES else next(VALUES[each] for each in get_args(hint) if each in VALUES)


def example(kind: type[Call[Any]]) -> Call[Any]:
    hints = get_type_hints(kind)
    values = {each.name: value_of(hints[each.name]) for each in fields(kind)}  # type: ignore[arg-type]
    return kind(**{**values, **({"session": "0x1f"} if "session" in values else {})})


@pytest.mark.parametrize("kind", CALLS.values(), ids=CALLS.keys())
def test_what_json_says_of_a_call_is_read_as_the_same_call(kind: type[Call[Any]]):
    hints = get_type_hints(kind, include_extras=True)
    call = example(kind)
    again = call_of(kind, json.loads(json.dumps(body_of(call))))
    for name, hint in hints.items():
        if name != "declared" and ADMITTED not in get_args(hint):
            assert getattr(again, name) == getattr(call, name), name


def test_a_call_names_its_caller_for_admission():
    body = {"shard": "s1", "at": "bin.000001:4", "by": "somebody else", "at_us": 5}
    assert call_of(SkipEvent, body) == SkipEvent("s1", "bin.000001:4", by="", at_us=0)


@pytest.mark.parametrize("policy", ["wait", None, 7, ["hold"]])
def test_a_policy_is_one_that_there_is(policy: object):
    with pytest.raises(UsageError, match="Expected one of resume, hold, skip"):
        call_of(GivePolicy, {"shard": "s1", "policy": policy})


def test_every_call_has_a_right_and_one_name():
    for module in (consumers, operators):
        made = [each for each in vars(module).values() if isinstance(each, type) and issubclass(each, Call)]
        assert all(isinstance(each.declared.right, Right) for each in made if each is not Call)
    with pytest.raises(AssertionError, match="declared twice"):

        @read("ack")
        class Again(Call[None]):
            pass

    with pytest.raises(AssertionError, match="is a field"):

        @operate("dance", audited=("partner",))
        class Dance(Call[None]):
            pass
