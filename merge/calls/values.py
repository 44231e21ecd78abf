"""Values of calls, as JSON brought them: of their types and within bounds, or refused in a sentence.

A field's annotation names its reader, which gets the field's name and what JSON says of it. `Bounds` in it
are those that the reader checks, for whoever describes the field.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Annotated, Any, Final, TypeAlias

from canal_group.merge.calls.client_id import checked_client_id
from canal_group.merge.calls.resume import Resume
from canal_group.merge.errors import UsageError
from canal_group.merge.rows.row_key import RowKey
from canal_group.merge.values.gtids.gtid import parse_gtid_set
from canal_group.merge.values.member import Policy
from canal_group.merge.values.offset_range import OffsetRange
from canal_group.merge.values.position import TEXT_MAX, GroupPosition, Position
from canal_group.merge.whole import TIMES_US, WHOLE, Bounds, shown, whole

#: how long a call may wait for rows, seconds
WAIT_MAX_S: Final = 30.0
#: how much of the end of a binlog may be searched, bytes
SEARCHED: Final = Bounds(1, 1 << 30, "bytes")
#: client ids, and the names of their holders, are no longer, characters
NAME_MAX: Final = 128
HOLDER_MAX: Final = 256
#: names of shards, tables, columns and types, and positions in a binlog, characters
NAMED_MAX: Final = 300
#: the name of a table and a primary key, characters
KEY_MAX: Final = 4_000
#: a condition on the rows of a table, characters
CONDITION_MAX: Final = 1_000
#: ZooKeeper's sessions are numbers of 64 bits, with a sign in Python's clients
_SESSION = re.compile(r"(-?(0x)?[0-9a-fA-F]{1,16})?")


def number(name: str, value: Any, bounds: Bounds = WHOLE) -> int:
    """Return a whole number within its bounds.

    Raises:
        UsageError: the value is another one.
    """
    try:
        return whole(value, bounds)
    except ValueError as error:
        raise UsageError(f"{name}: {error}.") from None


def wait_s(name: str, value: Any) -> float:
    """Return for how many seconds a call waits, `0 <= wait_s <= WAIT_MAX_S`: what is beyond is cut.

    Raises:
        UsageError: it is not a number, or not a finite one.
    """
    if type(value) not in {int, float} or (type(value) is float and not math.isfinite(value)):
        raise _unfit(name, value, "a number of seconds")
    return float(min(max(value, 0), WAIT_MAX_S))


def holder(name: str, value: Any) -> str:
    """Return the name by which others see a consumer.

    Raises:
        UsageError: it is empty, too long, or cannot be shown.
    """
    if not isinstance(value, str) or not 0 < len(value) <= HOLDER_MAX or not value.isprintable():
        raise _unfit(name, value, f"a printable text of 1 to {HOLDER_MAX} characters")
    return value


def session(name: str, value: Any) -> str:
    """Return the ZooKeeper session of a consumer, in hexadecimal digits; empty: it has none.

    Raises:
        UsageError: the value is not a session's id.
    """
    if not isinstance(value, str) or not _SESSION.fullmatch(value):
        raise _unfit(name, value, "a session of ZooKeeper in hexadecimal digits")
    return value


def client_id(name: str, value: Any) -> str:
    """Return a client id.

    Raises:
        UsageError: it is not a text, or cannot be a client id.
    """
    if not isinstance(value, str) or len(value) > NAME_MAX:
        # Nobody's client id is not a way around those that a token is for.
        raise _unfit(name, value, f"a text of at most {NAME_MAX} characters")
    return checked_client_id(value)


def resume(name: str, value: Any) -> Resume:
    """Return where a dropped subscription continues.

    Raises:
        UsageError: nowhere.
    """
    if value not in tuple(Resume):
        raise UsageError(f"{name} is {shown(value)}.", hint="Expected 'cursor' or 'now'.")
    return Resume(value)


def policy(name: str, value: Any) -> Policy:
    """Return whether a silent shard holds its group.

    Raises:
        UsageError: it says neither.
    """
    if value not in tuple(Policy):
        raise UsageError(f"{name} is {shown(value)}.", hint=f"Expected one of {', '.join(Policy)}.")
    return Policy(value)


def text(name: str, value: Any) -> str:
    """Return a text.

    Raises:
        UsageError: the value is not a text, or longer than any position.
    """
    if not isinstance(value, str) or len(value) > TEXT_MAX:
        raise _unfit(name, value, f"a text of at most {TEXT_MAX} characters")
    return value


def named(name: str, value: Any) -> str:
    """Return a name, or a position in a binlog.

    Raises:
        UsageError: it is not a text, or too long.
    """
    if not isinstance(value, str) or len(value) > NAMED_MAX:
        raise _unfit(name, value, f"a text of at most {NAMED_MAX} characters")
    return value


def shard(name: str, value: Any) -> str:
    """Return the name of a shard; raises as `named`."""
    return named(name, value)


def gtid(name: str, value: Any) -> str:
    """Return a text that is a GTID.

    Raises:
        UsageError: it is not one.
    """
    parse_gtid_set(found := named(name, value))
    return found


def row_key(name: str, value: Any) -> str:
    """Return a text that names a row.

    Raises:
        UsageError: it names none, or is too long.
    """
    if not isinstance(value, str) or len(value) > KEY_MAX:
        raise _unfit(name, value, f"a text of at most {KEY_MAX} characters")
    RowKey.parse(value)
    return value


def condition(name: str, value: Any) -> str:
    """Return a condition on rows in a source's SQL.

    Raises:
        UsageError: it is not a text, or too long.
    """
    if not isinstance(value, str) or not 0 < len(value) <= CONDITION_MAX:
        raise _unfit(name, value, f"a text of 1 to {CONDITION_MAX} characters")
    return value


def search_bytes(name: str, value: Any) -> int:
    """Return how much of a binlog is searched, bytes.

    Raises:
        UsageError: it is nothing, or too much.
    """
    return number(name, value, SEARCHED)


def flag(_: str, value: Any) -> bool:
    """Return whether something is true."""
    return bool(value)


def group_position(_: str, value: Any) -> GroupPosition:
    """Return a group position; raises as `GroupPosition.from_json`."""
    return GroupPosition.from_json(value)


def position(_: str, value: Any) -> Position:
    """Return a shard's position; raises as `Position.from_dict`."""
    return Position.from_dict(value)


def offset_range(_: str, value: Mapping[str, Any]) -> OffsetRange:
    """Return an offset range; its bounds are at least one row and one byte."""
    rows_min, key_us_max = value.get("rows_min"), value.get("key_us_max")
    until = value.get("until")
    return OffsetRange(
        GroupPosition.from_json(value["start"]),
        None if until is None else GroupPosition.from_json(until),
        rows_max=max(1, number("rows_max", value["rows_max"])),
        bytes_max=max(1, number("bytes_max", value["bytes_max"])),
        rows_min=0 if rows_min is None else number("rows_min", rows_min),
        key_us_max=None if key_us_max is None else number("key_us_max", key_us_max, TIMES_US),
        may_be_empty=bool(value.get("may_be_empty")),
    )


def entry(_: str, value: Any) -> dict[str, Any]:
    """Return a JSON object."""
    return dict(value)


#: types that JSON says as others, see `said`
SAID_AS: Final[dict[Any, Any]] = {
    GroupPosition: str,
    Position: dict[str, Any],
    OffsetRange: dict[str, Any],
}


def said(value: Any) -> Any:
    """Return a field's value as a JSON value, which its reader reads."""
    match value:
        case GroupPosition():
            return value.to_json()
        case Position():
            return value.to_dict()
        case OffsetRange():
            return {
                "start": value.start.to_json(),
                "until": None if value.until is None else value.until.to_json(),
                "rows_max": value.rows_max,
                "bytes_max": value.bytes_max,
                "rows_min": value.rows_min,
                "key_us_max": value.key_us_max,
                "may_be_empty": value.may_be_empty,
            }
        case _:
            return value


def _unfit(name: str, value: Any, expected: str) -> UsageError:
    return UsageError(f"{name} is {shown(value)}, not {expected}.")


#: not from outside: whoever admits the call says it
ADMITTED: Final = object()

Whole: TypeAlias = Annotated[int, number, WHOLE]
WaitS: TypeAlias = Annotated[float, wait_s]
Holder: TypeAlias = Annotated[str, holder]
Session: TypeAlias = Annotated[str, session]
ClientId: TypeAlias = Annotated[str, client_id]
Resuming: TypeAlias = Annotated[Resume, resume]
Policing: TypeAlias = Annotated[Policy, policy]
Text: TypeAlias = Annotated[str, text]
Named: TypeAlias = Annotated[str, named, Bounds(0, NAMED_MAX)]
ShardName: TypeAlias = Annotated[str, shard, Bounds(0, NAMED_MAX)]
Gtid: TypeAlias = Annotated[str, gtid, Bounds(0, NAMED_MAX)]
RowNamed: TypeAlias = Annotated[str, row_key, Bounds(0, KEY_MAX)]
Condition: TypeAlias = Annotated[str, condition, Bounds(1, CONDITION_MAX)]
SearchBytes: TypeAlias = Annotated[int, search_bytes, SEARCHED]
Flag: TypeAlias = Annotated[bool, flag]
GroupStart: TypeAlias = Annotated[GroupPosition, group_position]
ShardStart: TypeAlias = Annotated[Position, position]
Between: TypeAlias = Annotated[OffsetRange, offset_range]
Entry: TypeAlias = Annotated[dict[str, Any], entry]
By: TypeAlias = Annotated[str, ADMITTED]
AdmittedUs: TypeAlias = Annotated[int, ADMITTED]
Undisturbing: TypeAlias = Annotated[bool, ADMITTED]
