"""Calls: what JSON says of each is read as the same call, and what only admits says is not read at all."""

from __future__ import annotations

import json
from dataclasses import fields
from typing import Any, get_args, get_type_hints

import pytest

from canal_group.merge.calls import consumers, operators
from canal_group.merge.calls.body import body_of, call_of
from canal_group.merge.calls.call import CALLS, Call, OperatorCall, Right, operate, operator_calls, read
from canal_group.merge.calls.call_field import fields_of
from canal_group.merge.calls.docstring import docstring_of
from canal_group.merge.calls.operators import GivePolicy, Resolve, SkipEvent, Trace, TraceKey
from canal_group.merge.calls.resume import Resume
from canal_group.merge.calls.values import ADMITTED, KEY_MAX, NAMED_MAX, SEARCHED
from canal_group.merge.errors import UsageError
from canal_group.merge.values.member import Policy
from canal_group.merge.values.offset_range import OffsetRange
from canal_group.merge.values.position import GroupPosition, Position

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
#: of a field whose reader takes no other text
TEXTS = {"session": "0x1f", "gtid": "0-1-42", "key": "shop.orders:42"}


def value_of(hint: Any) -> Any:
    return VALUES[hint] if hint in VALUES else next(VALUES[each] for each in get_args(hint) if each in VALUES)


def example(kind: type[Call[Any]]) -> Call[Any]:
    hints = get_type_hints(kind)
    values = {each.name: value_of(hints[each.name]) for each in fields(kind)}  # type: ignore[arg-type]
    return kind(**{**values, **{name: text for name, text in TEXTS.items() if name in values}})


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


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        (Trace, {"gtid": "nonsense"}),
        (Trace, {"gtid": "0-1-1", "shard": "x" * (NAMED_MAX + 1)}),
        (Trace, {"gtid": "0-1-1", "shard": 5}),
        (TraceKey, {"key": "shop.orders"}),
        (TraceKey, {"key": "shop.orders:" + "4" * KEY_MAX}),
        (TraceKey, {"key": "shop.orders:4", "within_bytes": 0}),
        (TraceKey, {"key": "shop.orders:4", "within_bytes": SEARCHED.most + 1}),
    ],
)
def test_what_an_operator_names_is_of_its_form_and_size(kind: type[Call[Any]], body: dict[str, Any]):
    with pytest.raises(UsageError):
        call_of(kind, body)


def test_a_required_field_is_sent_also_if_it_is_null():
    assert body_of(Resolve("shop.orders", "note", None))["type"] is None
    with pytest.raises(KeyError):
        call_of(Resolve, {"table": "shop.orders", "column": "note"})


@pytest.mark.parametrize("kind", operator_calls().values(), ids=operator_calls().keys())
def test_an_operators_call_says_what_each_of_its_fields_is(kind: type[OperatorCall[Any]]):
    said = docstring_of(kind)
    assert said.fields.keys() == {each.name for each in fields_of(kind)}
    assert said.summary
    assert not said.summary.endswith(".")
    assert "Args:" not in said.text
    assert "Raises:" not in said.text


def test_the_parts_of_a_docstring_are_lines():
    said = docstring_of(Trace)
    assert said.fields["shard"] == (
        "Whose transaction it is; otherwise of the only one that has it. Servers of MariaDB with the same "
        "domain and server_id number their transactions alike."
    )
    assert docstring_of(TraceKey).text.endswith(
        "\n\nOne that the instance's rules leave out has none: nobody gets it."
    )


def test_every_call_has_a_right_and_one_name():
    for module in (consumers, operators):
        made = [each for each in vars(module).values() if isinstance(each, type) and issubclass(each, Call)]
        assert all(
            isinstance(each.declared.right, Right) for each in made if each not in (Call, OperatorCall)
        )
    with pytest.raises(AssertionError, match="declared twice"):

        @read("ack")
        class Again(Call[None]):
            pass

    with pytest.raises(AssertionError, match="is a field"):

        @operate("dance", "POST /dances", audited=("partner",))
        class Dance(OperatorCall[None]):
            pass

    assert "dance" not in CALLS


@pytest.mark.parametrize(
    ("path", "audited", "wrong"),
    [
        ("POST /dances", None, "dance is a POST"),
        ("GET /dances", (), "dance is a GET"),
        ("/dances", None, "not a method and a path"),
        ("GET dances", None, "not a method and a path"),
        ("GET /dances/{partner}", None, "what a path names is a field"),
    ],
)
def test_an_operators_call_has_a_path_that_fits_it(path: str, audited: tuple[str, ...] | None, wrong: str):
    with pytest.raises(AssertionError, match=wrong):

        @operate("dance", path, audited=audited)
        class Dance(OperatorCall[None]):
            pass
