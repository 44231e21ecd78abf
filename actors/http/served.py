"""One instance of a server, as the HTTP service sees it: who may ask, and who answers."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from functools import partial
from typing import Any

from canal_group.actors.admission.access import Grant, Grants
from canal_group.actors.admission.expiry import expiries
from canal_group.actors.coordination.switch import Switch, ZooKeeperSwitch
from canal_group.actors.driver.instance import Instance
from canal_group.actors.driver.spare_process import spare_pid
from canal_group.actors.gateway.operator_requests import OperatorRequests
from canal_group.actors.gateway.requests import seen_by
from canal_group.actors.gateway.shard_actors import ShardActors
from canal_group.actors.group import wiring
from canal_group.actors.http.history import History
from canal_group.actors.http.ray_group import RayGroup, gateway_state
from canal_group.conf.server_settings import EmbeddedSettings

#: how long a state is shown again before the actors are asked anew, seconds: it bounds what scrapes cost
STATE_AGE_MAX_S = 0.5
#: pause between two samples for the history, seconds: while somebody looks at the history, and otherwise. A
#: sample asks every actor of the instance, which costs the actor more than the counting does
WATCHED_EVERY_S = 1.0
SAMPLE_EVERY_S = 5.0
#: how long somebody who has looked at the history is taken to look, seconds
WATCHED_S = 10.0


class Served:
    """Answers for one instance. Safe to use from several threads.

    Args:
        instance: a launched instance.
    """

    def __init__(self, instance: Instance) -> None:
        self.settings = instance.settings
        self.uri = instance.uri
        self.grants: Grants = wiring.grants(instance.settings, instance.address.operator_token)
        names = [shard.name for shard in instance.settings.shards]
        self.requests = OperatorRequests(
            instance.settings.destination,
            RayGroup(instance.group),
            ShardActors(instance.shard_actors, names),
            partial(gateway_state, instance.gateway.actor, instance.settings.destination),
        )
        self._state = Shared(self._ask, STATE_AGE_MAX_S)
        self._zookeeper = instance.zookeeper
        #: when certificates expire, by the files that the instance read at its start
        self._expiries = expiries(instance.settings)
        #: what the page plots: every state that was shown to anybody
        self._history = History()
        #: when a state was asked for last, and when somebody looked at the history, of `time.monotonic`
        self._asked_s = self._watched_s = -float("inf")

    @property
    def destination(self) -> str:
        """The name of the stream."""
        return self.settings.destination

    def _ask(self) -> dict[str, Any]:
        self._asked_s = time.monotonic()
        certificates = [{"setting": each.setting, "expires_s": each.at_s} for each in self._expiries]
        state = {**self.requests.status(), "certificates": certificates, "spare_pid": spare_pid()}
        self._history.take(state)
        return state

    def watch(self, since_us: int) -> dict[str, Any]:
        """Return samples and events after a time; for a while from now on there is a sample each second."""
        self._watched_s = time.monotonic()
        return self._history.since(since_us)

    def sample(self) -> None:
        """Take a sample for the history if one is due; called every second."""
        now_s = time.monotonic()
        every_s = WATCHED_EVERY_S if now_s - self._watched_s < WATCHED_S else SAMPLE_EVERY_S
        # A call comes a little earlier or later than a second after the last.
        if now_s - self._asked_s > every_s - WATCHED_EVERY_S / 2:
            self.state()

    def state(self) -> dict[str, Any]:
        """Return the state of the instance as a JSON object, at most `STATE_AGE_MAX_S` old."""
        return self._state.get()

    def changed(self) -> None:
        """Ask the actors anew for the next state: something was changed."""
        self._state.forget()

    def switch(self) -> Switch:
        """Return the switch that stops and starts the destination.

        Raises:
            ConfigError: it is coordinated in memory, where a stop mark cannot be stored.
        """
        if self._zookeeper is None:
            return wiring.switch(self.settings)
        # Only this process may know the port of an embedded ZooKeeper.
        chosen = self.settings.coordination
        assert isinstance(chosen, EmbeddedSettings), "it was started for this"
        return ZooKeeperSwitch(
            self._zookeeper.hosts, self.destination, chosen.prefix, wiring.zookeeper_login(chosen)
        )

    def state_for(self, grant: Grant) -> dict[str, Any]:
        """Return the part of the state that a caller may see."""
        return seen_by(grant, self.state())


class Shared:
    """A value that several threads want at once: one asks for it, and the others get the same answer.

    Args:
        ask: returns a new value.
        age_max_s: how old a value may be, seconds.
    """

    def __init__(self, ask: Callable[[], dict[str, Any]], age_max_s: float) -> None:
        self._ask = ask
        self._age_max_s = age_max_s
        self._lock = threading.Lock()
        self._value: dict[str, Any] = {}
        self._asked_s: float | None = None

    def forget(self) -> None:
        """Ask for a new value the next time."""
        with self._lock:
            self._asked_s = None

    def get(self) -> dict[str, Any]:
        """Return the value; raises what `ask` raises."""
        with self._lock:
            now_s = time.monotonic()
            if self._asked_s is None or now_s - self._asked_s > self._age_max_s:
                self._value, self._asked_s = self._ask(), time.monotonic()
            return self._value
