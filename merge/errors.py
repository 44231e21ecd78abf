"""Every error that crosses a border of this project, split by who must act.

    CanalGroupError
    ├── UsageError          the caller
    │   ├── ConfigError         a setting that cannot hold
    │   ├── AccessDenied        the token is missing, unknown, or for something else
    │   ├── NotSubscribed       subscribe first
    │   ├── SubscriptionDropped was away too long; choose where to go on
    │   ├── UnknownBatch        this id was never delivered, or is acknowledged already
    │   ├── AckOutOfOrder       an older batch is outstanding
    │   └── RolledBack          this batch was taken back; get again
    ├── RetryableError      nobody: wait `retry_after_s` and call again
    │   ├── SourceUnavailable       a MySQL or MariaDB server
    │   ├── CoordinatorUnavailable  ZooKeeper
    │   ├── ShardUnavailable        a shard actor
    │   ├── ServerUnavailable       the gateway, or the group actor behind it
    │   └── ConsumerActive          another consumer holds this client id
    ├── FencedError         stop, never retry: somebody newer owns this
    └── DataError           the operator
        ├── PositionRefused     the source cannot begin at this position
        │   └── PositionPurged      it no longer has it
        ├── CorruptEvent        bytes that cannot be what they claim
        ├── UnsupportedEvent    bytes this version does not decode
        ├── SchemaMismatch      tables that cannot become one
        └── SourceUnfit         a source that fails the preflight

A refused call changes nothing. An error carries fields, not only text; it survives pickling and the wire.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, ClassVar, TypeAlias

Detail: TypeAlias = str | int | float | None

#: nobody is told to wait longer before the next attempt, seconds
RETRY_AFTER_MAX_S = 86_400.0


class CanalGroupError(Exception):
    """Base of every error of this project.

    Args:
        message: one sentence on what is wrong.
        hint: one sentence on what to do about it; may be empty.
        details: the fields of the error, JSON scalars, by name.
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
        """Return the error as a JSON object; `error_from_dict` is the way back."""
        return {
            "error": type(self).__name__,
            "message": self.message,
            "hint": self.hint,
            "details": self.details,
        }


class UsageError(CanalGroupError):
    """The caller asked for something that cannot be; asking again will not help."""


class ConfigError(UsageError):
    """A setting is unknown, of the wrong type, or contradicts another."""


class AccessDenied(UsageError):
    """The token that was shown is missing, unknown, or does not allow it; nothing was done."""


class NotSubscribed(UsageError):
    """This client id has no subscription on the destination."""


class SubscriptionDropped(UsageError):
    """This client id was away for so long that its rows are no longer held; say where to go on.

    Fields: `away_s`, and `cursor`, from where the sources can be read again as long as they have it.
    """


class UnknownBatch(UsageError):
    """No such batch: never delivered, or acknowledged before."""


class AckOutOfOrder(UsageError):
    """An older batch is outstanding; batches are acknowledged in the order of delivery."""


class RolledBack(UsageError):
    """The batch was taken back, by a rollback or because its rows were lost; get it again."""


class RetryableError(CanalGroupError):
    """Something is away for a while. `retry_after_s` says when a new attempt makes sense."""

    default_retry_after_s: ClassVar[float] = 1.0

    @property
    def retry_after_s(self) -> float:
        """Seconds to wait before the next attempt."""
        value = self.details.get("retry_after_s")
        return float(value) if value is not None else self.default_retry_after_s


class SourceUnavailable(RetryableError):
    """A MySQL or MariaDB server refuses connections or broke one off."""


class CoordinatorUnavailable(RetryableError):
    """ZooKeeper does not answer; nothing is served that might belong to somebody else by now."""


class ShardUnavailable(RetryableError):
    """A shard actor is down or restarting."""


class ServerUnavailable(RetryableError):
    """The gateway, or the group behind it, is down, restarting or standing by."""


class ConsumerActive(RetryableError):
    """Another consumer holds this client id; `holder` names it."""


class FencedError(CanalGroupError):
    """Somebody with a newer epoch owns this now. Stop; never retry.

    Fields: `our_epoch`, `current_epoch`.
    """


class DataError(CanalGroupError):
    """The data or the source cannot be processed; an operator must act.

    Fields where known: `shard`, `file`, `offset`.
    """


class PositionRefused(DataError):
    """The source cannot begin at the position: it is none of its own, or its binlog is damaged there."""


class PositionPurged(PositionRefused):
    """The source no longer has the binlog file that holds the position."""


class CorruptEvent(DataError):
    """Bytes of an event contradict themselves."""


class UnsupportedEvent(DataError):
    """An event, or a part of one, that this version does not decode."""


class SchemaMismatch(DataError):
    """Tables of several shards or versions that cannot be put into one."""


class SourceUnfit(DataError):
    """The source's settings or grants do not allow to follow it; `hint` holds the statement that mends it."""


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
    """Return the error that `CanalGroupError.to_dict` described; an unknown class becomes the base class.

    A `retry_after_s` that nobody can wait for is left out: what describes the error need not be one of ours.

    Raises:
        ValueError: this describes no error.
    """
    try:
        cls = _BY_NAME.get(str(value.get("error")), CanalGroupError)
        details = dict(value.get("details", {}))
        if not _is_wait(details.get("retry_after_s", 0)):
            del details["retry_after_s"]
        return cls(str(value["message"]), hint=str(value.get("hint", "")), **details)
    except (AttributeError, KeyError, RecursionError, TypeError, ValueError) as error:
        raise ValueError("this describes no error") from error


def error_from_json(text: str | bytes) -> CanalGroupError:
    """Return the error that a JSON text describes; see `error_from_dict`."""
    try:
        return error_from_dict(json.loads(text))
    except RecursionError as error:
        raise ValueError("this describes no error") from error


def _is_wait(value: object) -> bool:
    return isinstance(value, int | float) and 0 <= value <= RETRY_AFTER_MAX_S
