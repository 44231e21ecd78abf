"""A gateway process: its addresses, its actor, and the destinations that it serves.

The actor has no memory: when Ray starts it anew, it listens on nothing until it is told its destinations
again. A thread here asks it what it serves, and tells it whenever that is not what it should be.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import ray
from ray import ObjectRef
from ray.actor import ActorHandle

from canal_group.actors.admission.gateway_tls import GatewayTls
from canal_group.actors.gateway.address import Addresses, GatewayAddress, ReservedAddress
from canal_group.actors.gateway.canal.login import CanalLogin
from canal_group.actors.gateway.canal.wiring import CanalListener, CanalWiring
from canal_group.actors.gateway.wiring import DestinationActors, DestinationWiring, GatewayWiring
from canal_group.actors.group import wiring
from canal_group.actors.transport.ray_errors import translated
from canal_group.conf.listeners.canal_settings import CanalBounds, CanalSettings
from canal_group.conf.listeners.gateway_settings import GatewayBounds
from canal_group.conf.settings import InstanceSettings
from canal_group.merge.errors import CanalGroupError, ServerUnavailable

_log = logging.getLogger(__name__)

#: how often the actor is asked what it serves, seconds
TEND_EVERY_S = 0.3
#: how long it may take to start, or to start again, seconds
START_TIMEOUT_S = 60.0
#: how long its process may take to end, seconds
END_S = 5.0
#: how long it may take to answer, seconds
ASK_TIMEOUT_S = 10.0


@dataclass(slots=True)
class _CanalAddress:
    """An address of canal's protocol, with the destinations that are served there."""

    #: the address in the settings; None: the system chose a free port, for one instance alone
    named: tuple[str, int] | None
    address: ReservedAddress
    listener: CanalListener
    users: set[str] = field(default_factory=set)


class GatewayProcess:
    """The gateway of one address. Its methods may be called from any thread.

    Args:
        settings: of the first instance; what they say of the listener is what all of them say.
        make: makes the actor.
        audit_log: where changes that commands make are logged; None: nowhere.

    Raises:
        ConfigError: it cannot listen there, or its certificate cannot be used.
    """

    def __init__(
        self,
        settings: InstanceSettings,
        make: Callable[[GatewayWiring], ActorHandle],
        audit_log: Path | None,
    ) -> None:
        self._make = make
        tls = wiring.gateway_tls(settings)
        self._address = GatewayAddress(settings.gateway)
        self._listener = gateway_wiring(settings, self._address, tls, audit_log)
        self._canal: list[_CanalAddress] = []
        #: destinations whose settings name the address of this gateway
        self._users: set[str] = set()
        #: destinations that this gateway serves now
        self._served: dict[str, tuple[InstanceSettings, DestinationActors]] = {}
        self._absent: Sequence[InstanceSettings] = ()
        self._version = 0
        self._actor: ActorHandle | None = None
        self._lock = threading.Lock()
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name="gateway", daemon=True)

    @property
    def actor(self) -> ActorHandle:
        """The actor; there is one once a destination was added."""
        assert self._actor is not None, "a destination was added"
        return self._actor

    def reserve(self, settings: InstanceSettings) -> Addresses:
        """Return the addresses of an instance, held until it is withdrawn.

        Raises:
            ConfigError: canal's protocol cannot be served there, or its certificate cannot be used.
        """
        with self._lock:
            canal = None if settings.canal is None else self._canal_address(settings, settings.canal)
            if canal is not None:
                canal.users.add(settings.destination)
            self._users.add(settings.destination)
            return Addresses(self._address, None if canal is None else canal.address)

    def _canal_address(self, settings: InstanceSettings, canal: CanalSettings) -> _CanalAddress:
        """Return where an instance is served by canal's protocol; one that is held already is shared."""
        held = self._named(canal)
        if held is not None:
            return held
        tls = wiring.canal_tls(settings)
        address = ReservedAddress(canal, "canal's protocol", "canal")
        listener = CanalListener(canal.host, address.port, tls, canal.part(CanalBounds))
        named = (canal.host, canal.port) if canal.port else None
        self._canal.append(_CanalAddress(named, address, listener))
        return self._canal[-1]

    def _named(self, canal: CanalSettings) -> _CanalAddress | None:
        return next((held for held in self._canal if held.named == (canal.host, canal.port)), None)

    def add(
        self, settings: InstanceSettings, actors: DestinationActors, absent: Sequence[InstanceSettings]
    ) -> None:
        """Serve an instance that has reserved its addresses; return when it is served.

        Args:
            settings: of the instance.
            actors: that answer for it.
            absent: others of the server that belong to this address.

        Raises:
            ConfigError: a listener cannot listen.
            ServerUnavailable: Ray did not start the actor in time, or it cannot serve the instance.
        """
        with self._lock:
            self._absent = absent
            self._served[settings.destination] = settings, actors
            try:
                if self._actor is None:
                    self._actor = self._make(self._listener)
                    self._await_actor(settings.destination)
                self._version += 1
                failed = self._tell(START_TIMEOUT_S)
                _check_served(settings.destination, failed)
            except BaseException:
                del self._served[settings.destination]
                # The call may still arrive: what the thread tells next is newer.
                self._version += 1
                raise
            # Not before: until it listens, another account of the machine could, and be shown the token.
            self._publish_operator_token()
            if self._thread.ident is None:
                self._thread.start()

    def _await_actor(self, destination: str) -> None:
        """Return when the actor runs.

        Raises:
            ServerUnavailable: Ray did not start it in time.
        """
        try:
            ray.get(self._ask_version(), timeout=START_TIMEOUT_S)
        except ray.exceptions.GetTimeoutError as error:
            raise ServerUnavailable(
                f"Ray did not start the gateway of {destination} within {START_TIMEOUT_S:g} s.",
                hint="Look at the machine's load and at `ray status`, then start it again.",
            ) from error

    def _ask_version(self) -> ObjectRef[int]:
        # While the process starts, or if Ray loses its connection to it, Ray asks again.
        asked: ObjectRef[int] = self.actor.version.options(max_task_retries=-1).remote()
        return asked

    def withdraw(self, destination: str, absent: Sequence[InstanceSettings]) -> bool:
        """Serve an instance no more, and release its addresses.

        Returns:
            Whether the process has ended with it: it was the last one.
        """
        with self._lock:
            if self._closing.is_set():
                return True
            self._absent = absent
            self._users.discard(destination)
            served = self._served.pop(destination, None) is not None
            if served and self._users and self._actor is not None:
                self._version += 1
                self._publish_operator_token()
                try:
                    self._tell(ASK_TIMEOUT_S)
                except (CanalGroupError, ray.exceptions.RayError, RuntimeError) as error:
                    # It is told again by the thread.
                    _log.info("the gateway at %s is told later: %s", self._address.location, error)
            for held in list(self._canal):
                held.users.discard(destination)
                if not held.users and self._users:
                    held.address.close()
                    self._canal.remove(held)
            if self._users:
                return False
            self._closing.set()
        self._end()
        return True

    def close(self) -> None:
        """End the process with all that it serves; who withdraws later has nothing to do."""
        with self._lock:
            self._users.clear()
            self._served.clear()
            self._closing.set()
        self._end()

    def _end(self) -> None:
        if self._actor is not None:
            ray.kill(self._actor, no_restart=True)
        if self._thread.ident is not None:
            self._thread.join()
        for address in (self._address, *(held.address for held in self._canal)):
            # An instance that starts again wants the same port.
            address.await_unused(END_S)
            address.close()

    def _publish_operator_token(self) -> None:
        if any(not settings.gateway.names_who for settings, _ in self._served.values()):
            self._address.publish_operator_token()
        else:
            self._address.withdraw_operator_token()

    # ---- what the actor is told

    def _run(self) -> None:
        told = ""
        while not self._closing.wait(TEND_EVERY_S):
            try:
                self._tend()
                told = ""
            except (CanalGroupError, ray.exceptions.RayError, RuntimeError) as error:
                if str(error) != told and not self._closing.is_set():
                    _log.warning("the gateway at %s cannot serve: %s", self._address.location, error)
                told = str(error)
            except Exception:  # noqa: BLE001  the thread goes on: the next look may find the gateway well again
                _log.exception("the gateway at %s is not tended", self._address.location)

    def _tend(self) -> None:
        """Tell the actor what to serve if it does not: it was started anew, or missed a call."""
        with translated("The gateway"):
            version = ray.get(self._ask_version(), timeout=ASK_TIMEOUT_S)
        with self._lock:
            if version < self._version and not self._closing.is_set():
                failed = self._tell(ASK_TIMEOUT_S)
                if failed:
                    raise ServerUnavailable("; ".join(f"{name}: {why}" for name, why in failed.items()))
                _log.info("the gateway at %s serves again", self._address.location)

    def _tell(self, timeout_s: float) -> dict[str, str]:
        """Tell the actor what to serve; repeated by Ray, as the actor ignores what it knows.

        Returns:
            The destinations that it cannot serve, and why.

        Raises:
            ConfigError: a listener cannot listen.
            ServerUnavailable: it does not answer, or failed.
        """
        assert self._actor is not None, "it was made"
        call = self._actor.serve.options(max_task_retries=-1).remote(self._version, list(self._wirings()))
        try:
            with translated("The gateway"):
                failed: dict[str, str] = ray.get(call, timeout=timeout_s)
        except RuntimeError as error:
            # Also a defect of it is one of an instance, and ends no other.
            raise ServerUnavailable(str(error), hint="Look at the gateway's log.") from error
        return failed

    def _wirings(self) -> Iterable[DestinationWiring]:
        for settings, actors in self._served.values():
            yield self._wiring(settings, actors)
        for settings in self._absent:
            if settings.destination not in self._served:
                yield self._wiring(settings, None)

    def _wiring(self, settings: InstanceSettings, actors: DestinationActors | None) -> DestinationWiring:
        """Return the wiring of an instance; None for its actors: it is absent."""
        return DestinationWiring(
            destination=settings.destination,
            grants=wiring.grants(settings, self._address.operator_token),
            lease_s=settings.consumer.lease_s,
            snapshot=settings.consumer.snapshot == "initial",
            canal=self._canal_wiring(settings),
            actors=actors,
        )

    def _canal_wiring(self, settings: InstanceSettings) -> CanalWiring | None:
        if settings.canal is None:
            return None
        own = (each for each in self._canal if settings.destination in each.users)
        held = next(own, None) or self._named(settings.canal)
        canal = settings.canal
        return None if held is None else CanalWiring(held.listener, _login(canal), canal.transaction_entries)


def gateway_wiring(
    settings: InstanceSettings, address: GatewayAddress, tls: GatewayTls | None, audit_log: Path | None
) -> GatewayWiring:
    """Return the wiring of the listener at the address of an instance."""
    return GatewayWiring(address.location, tls, settings.gateway.part(GatewayBounds), audit_log)


def _check_served(destination: str, failed: Mapping[str, str]) -> None:
    """Return if a destination is not among those that cannot be served, by reason.

    Raises:
        ServerUnavailable: it is.
    """
    if destination in failed:
        raise ServerUnavailable(failed[destination])


def _login(canal: CanalSettings) -> CanalLogin | None:
    if canal.user is None or canal.password is None:
        return None
    return CanalLogin.of(canal.user, canal.password.get_secret_value())
