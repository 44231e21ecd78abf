"""Failed logins of a listener, by address: each one makes the next login from there wait longer."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from ipaddress import IPv6Network, ip_address
from typing import Final

from canal_group.actors.process.clock import clock_s

#: wait of a login after the first failure, seconds; each further failure doubles the wait
FIRST_S: Final = 0.1
MAX_S: Final = 4.0
#: how long after the last failed login an address is forgotten, seconds
FORGET_S: Final = 60.0
#: addresses remembered; beyond this number the address with the oldest failure is forgotten
ADDRESSES_MAX: Final = 1_024
#: bits of an IPv6 address that its owner did not choose
_IPV6_BITS: Final = 64


@dataclass(slots=True)
class _Failures:
    last_s: float
    #: how long the next login waits, seconds
    pause_s: float


class FailedLogins:
    """Remembers which addresses failed to log in. Its methods run on one thread.

    Args:
        clock: returns seconds that never step back.
    """

    def __init__(self, clock: Callable[[], float] = clock_s) -> None:
        self._clock = clock
        self._failures: OrderedDict[str, _Failures] = OrderedDict()

    def pause_s(self, host: str) -> float:
        """Return how long a login from an address waits before it is checked, seconds."""
        failures = self._failures.get(_owner(host))
        if failures is None or self._clock() > failures.last_s + FORGET_S:
            return 0.0
        return failures.pause_s

    def failed(self, host: str) -> None:
        """Count a failed login from an address."""
        pause_s = min(max(FIRST_S, 2 * self.pause_s(host)), MAX_S)
        self._failures[_owner(host)] = _Failures(self._clock(), pause_s)
        self._failures.move_to_end(_owner(host))
        if len(self._failures) > ADDRESSES_MAX:
            self._failures.popitem(last=False)

    def succeeded(self, host: str) -> None:
        """Forget the failed logins from an address, after one that succeeded."""
        self._failures.pop(_owner(host), None)


def _owner(host: str) -> str:
    address = ip_address(host.partition("%")[0])
    if address.version == 4:  # noqa: PLR2004  of IP
        return str(address)
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return str(IPv6Network((address, _IPV6_BITS), strict=False))
