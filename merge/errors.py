"""Define every public error of this project, grouped by who has to act.

    CanalGroupError
    ├── UsageError          the caller must act
    │   ├── ConfigError         a setting is invalid
    │   ├── AccessDenied        the token is missing, unknown, or does not allow the call
    │   ├── NotSubscribed       subscribe first
    │   ├── SubscriptionDropped the client was inactive for too long; choose where to continue
    │   ├── UnknownBatch        this id was never delivered, or is acknowledged already
    │   ├── AckOutOfOrder       an older batch is outstanding
    │   └── RolledBack          this batch was rolled back; get again
    ├── RetryableError      temporary: wait `retry_after_s` and call again
    │   ├── SourceUnavailable       a MySQL or MariaDB server
    │   ├── CoordinatorUnavailable  ZooKeeper
    │   ├── ShardUnavailable        a shard actor
    │   ├── ServerUnavailable       the gateway, or the group actor that it calls
    │   ├── SinkUnavailable         a queue that changes are published to
    │   └── ConsumerActive          another consumer holds this client id
    ├── FencedError         stop, never retry: somebody newer owns this
    └── DataError           the operator
        ├── PositionRefused     the source cannot begin at this position
        │   └── PositionPurged      it no longer has it
        ├── CorruptEvent        bytes that cannot be what they claim
        ├── UnsupportedEvent    bytes this version does not decode
        ├── DefinitionContradicted  a definition that was followed is not the source's
        ├── SchemaMismatch      tables that cannot become one
        │   └── SchemaGrown         rows with a column that their reader's schema lacks
        ├── SinkRefused         a queue does not take a message, or not from us
        └── SourceUnfit         a source that fails the preflight

A refused call changes nothing. An error carries fields besides its text. It can be pickled and sent over the
network without loss.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, ClassVar, Self, TypeAlias

Detail: TypeAlias = str | int | float | None

#: longest wait before the next attempt that an error may ask for, seconds
RETRY_AFTER_MAX_S = 86_400.0


class CanalGroupError(Exception):
    """Base of every error of this project.

    Args:
        message: one sentence that says what is wrong.
        hint: one sentence that says what to do about it; may be empty.
        details: the fields of the error by name; JSON scalars.
    """

    def __init__(self, message: str, *, hint: str = "", **details: Detail) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.details: dict[str, Detail] = details

    def __str__(self) -> str:
        return f"{self.message} {self.hint}" if self.hint else self.message

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (type(self), self.message, self.hint, self.details)

    def to_dict(self) -> dict[str, Any]:
        """Return the error as a JSON object; `error_from_dict` reads it."""
        return {
            "error": type(self).__name__,
            "message": self.message,
            "hint": self.hint,
            "details": self.details,
        }


class UsageError(CanalGroupError):
    """The caller asked for something impossible; asking again does not help."""


class ConfigError(UsageError):
    """A setting is unknown, of the wrong type, or contradicts another."""


class AccessDenied(UsageError):
    """The token is missing, unknown, or does not allow the call; nothing was done."""


class NotSubscribed(UsageError):
    """This client id has no subscription on the destination."""


class SubscriptionDropped(UsageError):
    """This client id was inactive for so long that its rows are no longer held; say where to continue.

    Fields: `away_s`, how long it was inactive, and `cursor`. The sources can be read again from the cursor as
    long as they have the binlogs that follow it.
    """


class UnknownBatch(UsageError):
    """No such batch: it was never delivered, or is acknowledged already."""


class AckOutOfOrder(UsageError):
    """An older batch is outstanding; acknowledge batches in the order of delivery."""


class RolledBack(UsageError):
    """The batch was rolled back, by a request or because its rows were lost; get it again."""


class RetryableError(CanalGroupError):
    """Something is unavailable for a while. `retry_after_s` says when to try again."""

    default_retry_after_s: ClassVar[float] = 1.0

    @property
    def retry_after_s(self) -> float:
        """Seconds to wait before the next attempt."""
        value = self.details.get("retry_after_s")
        return float(value) if value is not None else self.default_retry_after_s


class SourceUnavailable(RetryableError):
    """A MySQL or MariaDB server refuses connections, or closed one."""


class CoordinatorUnavailable(RetryableError):
    """ZooKeeper does not answer; nothing is served that another server may own by now."""


class ShardUnavailable(RetryableError):
    """A shard actor is down or restarting."""


class ServerUnavailable(RetryableError):
    """The gateway, or the group that it calls, is down, restarting or on standby."""

    @classmethod
    def not_active(cls, server: str, destination: str, active: str, stopped: str) -> Self:
        """Return the error for callers of a server that stands by, or of one that is stopped.

        Args:
            server: as the beginning of a sentence.
            destination: its name.
            active: "host:port" of the active server; empty: unknown, or this one.
            stopped: who stopped the destination, as `StopMark` says it; empty: nobody.
        """
        if stopped:
            hint = "`canal-group start` lets it be served again."
            return cls(f"{destination} is {stopped}.", hint=hint, retry_after_s=1.0)
        where = f"; {active} is active." if active else "."
        return cls(f"{server} is not the active one{where}", retry_after_s=0.5)


class SinkUnavailable(RetryableError):
    """A queue that changes are published to does not answer, or has not confirmed them in time."""


class ConsumerActive(RetryableError):
    """Another consumer holds this client id; `holder` names it."""


class FencedError(CanalGroupError):
    """An owner with a newer epoch has taken over. Stop; never retry.

    Fields: `our_epoch`, `current_epoch`.
    """


class DataError(CanalGroupError):
    """The data or the source cannot be processed; an operator must act.

    Fields where known: `shard`, `file`, `offset`.
    """


class PositionRefused(DataError):
    """The source cannot start at the position: its binlogs do not contain it, or are damaged there."""


class PositionPurged(PositionRefused):
    """The source no longer has the binlog file that holds the position."""


class CorruptEvent(DataError):
    """Bytes of an event contradict themselves."""


class UnsupportedEvent(DataError):
    """This version does not decode an event, or a part of it."""


class DefinitionContradicted(DataError):
    """The definition of a table that was followed through its statements is not what the source shows."""


class SchemaMismatch(DataError):
    """Tables of several shards or schema versions cannot be combined into one."""


class SchemaGrown(SchemaMismatch):
    """Rows have a column that their reader's schema lacks; a reader that starts again can have it.

    Fields: `table`, `column`.
    """


class SinkRefused(DataError):
    """A queue does not take what is published; `hint` says what to change.

    Fields where known: `topic`.
    """


class SourceUnfit(DataError):
    """The source's settings or grants do not allow reading its binlog; `hint` has the statement to run."""


def _rebuild(
    cls: type[CanalGroupError], message: str, hint: str, details: Mapping[str, Detail]
) -> CanalGroupError:
    return cls(message, hint=hint, **details)


def _tree(cls: type[CanalGroupError]) -> dict[str, type[CanalGroupError]]:
    found = {cls.__name__: cls}
    for sub in cls.__subclasses__():
        found |= _tree(sub)
    return found


_BY_NAME = _tree(CanalGroupError)


def error_from_dict(value: Any) -> CanalGroupError:
    """Return the error that `CanalGroupError.to_dict` wrote; an unknown class becomes the base class.

    The input may come from a program that is not ours, so a `retry_after_s` that is not a number of seconds
    from 0 to `RETRY_AFTER_MAX_S` is left out.

    Raises:
        ValueError: the value does not describe an error.
    """
    try:
        cls = _BY_NAME.get(str(value.get("error")), CanalGroupError)
        details = dict(value.get("details", {}))
        if not _is_wait(details.get("retry_after_s", 0)):
            del details["retry_after_s"]
        return cls(str(value["message"]), hint=str(value.get("hint", "")), **details)
    except (AttributeError, KeyError, RecursionError, TypeError, ValueError) as error:
        raise ValueError("the value does not describe an error") from error


def error_from_json(text: str | bytes) -> CanalGroupError:
    """Return the error that a JSON text describes; see `error_from_dict`."""
    try:
        return error_from_dict(json.loads(text))
    except RecursionError as error:
        raise ValueError("the text does not describe an error") from error


def _is_wait(value: object) -> bool:
    return isinstance(value, int | float) and 0 <= value <= RETRY_AFTER_MAX_S
