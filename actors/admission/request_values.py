"""Values of a request, as JSON brought them: of their types and within bounds, or refused in a sentence."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any

from merge.delivery.client_id import checked_client_id
from merge.errors import UsageError

#: how long a request may wait for rows, seconds
WAIT_MAX_S = 30.0
#: numbers of our own have 64 bits with a sign
WHOLE_MAX = (1 << 63) - 1
#: client ids, and the names of their holders, are no longer, characters
NAME_MAX = 128
HOLDER_MAX = 256
#: ZooKeeper's sessions are numbers of 64 bits, with a sign in Python's clients
_SESSION = re.compile(r"(-?(0x)?[0-9a-fA-F]{1,16})?")
#: what a refusal shows of a value, characters
_SHOWN_MAX = 100


def whole(body: Mapping[str, Any], name: str) -> int:
    """Return a whole number of `0 <= number <= WHOLE_MAX`.

    Raises:
        KeyError: it is missing.
        UsageError: it is another one, or none.
    """
    value = body[name]
    if type(value) is not int or not 0 <= value <= WHOLE_MAX:
        raise _unfit(name, value, f"a whole number from 0 to {WHOLE_MAX}")
    return value


def whole_or_none(body: Mapping[str, Any], name: str) -> int | None:
    """Return a whole number; None: it is null, or missing. Raises UsageError as `whole`."""
    return None if body.get(name) is None else whole(body, name)


def wait_s(body: Mapping[str, Any]) -> float:
    """Return for how many seconds a request waits, `0 <= wait_s <= WAIT_MAX_S`: what is beyond is cut.

    Raises:
        KeyError: it is missing.
        UsageError: it is no number, or not a finite one.
    """
    value = body["timeout_s"]
    if type(value) not in {int, float} or (type(value) is float and not math.isfinite(value)):
        raise _unfit("timeout_s", value, "a number of seconds")
    return float(min(max(value, 0), WAIT_MAX_S))


def holder(body: Mapping[str, Any]) -> str:
    """Return the name by which others see a consumer.

    Raises:
        KeyError: it is missing.
        UsageError: it is empty, too long, or cannot be shown.
    """
    value = body["holder"]
    if not isinstance(value, str) or not 0 < len(value) <= HOLDER_MAX or not value.isprintable():
        raise _unfit("holder", value, f"a printable text of 1 to {HOLDER_MAX} characters")
    return value


def session(body: Mapping[str, Any]) -> str:
    """Return the ZooKeeper session of a consumer, in hexadecimal digits; empty: it has none.

    Raises:
        UsageError: it is none.
    """
    value = body.get("session", "")
    if not isinstance(value, str) or not _SESSION.fullmatch(value):
        raise _unfit("session", value, "a session of ZooKeeper in hexadecimal digits")
    return value


def client_id(body: Mapping[str, Any]) -> str | None:
    """Return under which client id something is asked; None: under none.

    Raises:
        UsageError: it is not a text, or cannot be a client id.
    """
    if "client_id" not in body:
        return None
    value = body["client_id"]
    if not isinstance(value, str) or len(value) > NAME_MAX:
        # Nobody's client id is no way around those that a token is for.
        raise _unfit("client_id", value, f"a text of at most {NAME_MAX} characters")
    return checked_client_id(value)


def _unfit(name: str, value: Any, expected: str) -> UsageError:
    shown = repr(value)
    shown = shown if len(shown) <= _SHOWN_MAX else f"{shown[:_SHOWN_MAX]}..."
    return UsageError(f"{name} is {shown}, not {expected}.")
