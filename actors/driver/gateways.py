"""The gateway processes of one server: instances that listen at the same address share one."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

from ray.actor import ActorHandle

from canal_group.actors.driver.gateway_process import GatewayProcess
from canal_group.actors.gateway.address import Addresses
from canal_group.actors.gateway.wiring import DestinationActors, GatewayWiring
from canal_group.conf.settings import InstanceSettings

#: withdrawn destinations remembered, whose clients are told to ask again;
#: beyond this number the destination named longest ago is forgotten
EXPECTED_MAX = 1_024


class Gateways:
    """Starts a process for the first instance that listens at an address, and ends it after the last one.

    Its methods are called by one thread at a time.

    Args:
        make: makes the actor of a gateway.
        audit_log: where changes that commands make are logged; None: nowhere.
    """

    def __init__(self, make: Callable[[GatewayWiring], ActorHandle], audit_log: Path | None = None) -> None:
        self._make, self._audit_log = make, audit_log
        #: by host and port; a port that was free belongs to one instance
        self._shared: dict[tuple[str, int], GatewayProcess] = {}
        self._expected: dict[str, InstanceSettings] = {}

    def expect(self, instances: Iterable[InstanceSettings]) -> None:
        """Remember instances that are served, or will be: their clients come in, and are told to wait."""
        for settings in instances:
            self._expected.pop(settings.destination, None)
            self._expected[settings.destination] = settings
        while len(self._expected) > EXPECTED_MAX:
            del self._expected[next(iter(self._expected))]

    def take(self, settings: InstanceSettings) -> tuple[GatewayProcess, Addresses]:
        """Return the gateway of an instance, and the addresses that it holds there, until `give_back`.

        Raises:
            ConfigError: it cannot listen there, or a certificate cannot be used.
        """
        process = self._shared.get(_at(settings))
        if process is not None:
            return process, process.reserve(settings)
        process = GatewayProcess(settings, self._make, self._audit_log)
        try:
            addresses = process.reserve(settings)
        except BaseException:
            process.withdraw(settings.destination, ())
            raise
        if settings.gateway.port:
            self._shared[_at(settings)] = process
        return process, addresses

    def add(self, process: GatewayProcess, settings: InstanceSettings, actors: DestinationActors) -> None:
        """Serve an instance at its gateway; raises as `GatewayProcess.add`."""
        self.expect([settings])
        process.add(settings, actors, self._absent(settings))

    def give_back(self, process: GatewayProcess, settings: InstanceSettings) -> None:
        """Serve an instance no more; end its gateway if nobody else uses it."""
        if process.withdraw(settings.destination, self._absent(settings)):
            self._shared = {at: each for at, each in self._shared.items() if each is not process}

    def close(self) -> None:
        """End the shared gateways, without a last call that a dead process would not answer."""
        for process in self._shared.values():
            process.close()
        self._shared.clear()

    def _absent(self, settings: InstanceSettings) -> list[InstanceSettings]:
        """Return the instances that are expected at the address of another one."""
        if not settings.gateway.port:
            return []
        return [each for each in self._expected.values() if _at(each) == _at(settings)]


def _at(settings: InstanceSettings) -> tuple[str, int]:
    return settings.gateway.host, settings.gateway.port
