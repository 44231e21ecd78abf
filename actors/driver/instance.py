"""An instance that was launched: its actors, and what was started for them.

See `canal_group.actors.driver.launch`.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import ray
from ray import ObjectRef
from ray.actor import ActorHandle
from ray.util.placement_group import PlacementGroup, remove_placement_group

from canal_group.actors.coordination.embedded import EmbeddedZooKeeper
from canal_group.actors.driver.actor_registry import ActorRegistry
from canal_group.actors.driver.gateway_process import GatewayProcess
from canal_group.actors.driver.gateways import Gateways
from canal_group.actors.driver.own_ray import OwnRay
from canal_group.actors.driver.zookeepers import ZooKeepers
from canal_group.actors.gateway.address import Addresses, GatewayAddress
from canal_group.conf.settings import InstanceSettings

_log = logging.getLogger(__name__)

#: how long a group may take to hand over, seconds
CLOSE_TIMEOUT_S = 10


@dataclass(frozen=True, slots=True)
class Instance:
    """A launched instance. A context manager: leaving it ends its actors, in good order."""

    settings: InstanceSettings
    #: addresses of the gateway and of canal's protocol; other instances may listen there too
    addresses: Addresses
    group: ActorHandle
    #: the process of the instance's gateway; other instances may use the same process
    gateway: GatewayProcess
    #: the gateways of the server, which started `gateway`
    gateways: Gateways
    #: what the names of the shards' actors begin with; the shard's name follows
    shard_actors: str
    actor_registry: ActorRegistry
    #: where the shards are placed
    placement: PlacementGroup
    zookeeper: EmbeddedZooKeeper | None
    #: who started that one
    zookeepers: ZooKeepers
    #: the Ray started for this instance; None: an older Ray, which outlives the instance
    own_ray: OwnRay | None

    @property
    def uri(self) -> str:
        """Where others reach the gateway: "grpc://host:port", "grpc+tls://" with TLS."""
        return self.address.uri

    @property
    def address(self) -> GatewayAddress:
        """The address of the gateway."""
        return self.addresses.gateway

    @property
    def canal_address(self) -> str:
        """Where canal's clients connect: "host:port"; empty if its protocol is not served."""
        return "" if self.addresses.canal is None else self.addresses.canal.advertised

    def ask_state(self) -> ObjectRef[dict[str, Any]]:
        """Ask the group for its state, in which `active` tells whether this server is active."""
        answer: ObjectRef[dict[str, Any]] = self.group.status.options(concurrency_group="status").remote()
        return answer

    def file_refused(self, error: str) -> None:
        """Let the group's state say that the instance file is refused; empty: it is right again."""
        self.group.file_refused.remote(error)

    def adopt(self, changed: InstanceSettings) -> list[str]:
        """Let shards join and leave as changed settings say; return a sentence for each.

        Those that left out are drained; see `canal-group shard remove`.

        Raises:
            ConfigError: something else changed, or a shard's definition or index; nothing was done.
            ServerUnavailable: this server is not the active one, or does not answer.
        """
        return self.actor_registry.adopt(self.settings, changed)

    def stop(self) -> None:
        """Hand over, end the actors, and what was started for them."""
        close_groups([self])
        self.end()

    def end(self) -> None:
        """Kill the actors at once, and release the gateway, the ZooKeeper and the Ray of the instance."""
        self.actor_registry.close()
        self.gateways.give_back(self.gateway, self.settings)
        for actor in (self.group, *self.actor_registry.actors):
            ray.kill(actor, no_restart=True)
        remove_placement_group(self.placement)
        if self.zookeeper is not None:
            self.zookeepers.give_back(self.zookeeper)
        if self.own_ray is not None:
            self.own_ray.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


def close_groups(instances: Sequence[Instance]) -> None:
    """Let the groups of instances give up their activity in good order, all at once."""
    answers = [instance.group.close.remote() for instance in instances]
    for instance, answer in zip(instances, answers, strict=True):
        try:
            ray.get(answer, timeout=CLOSE_TIMEOUT_S)
        except ray.exceptions.RayError as error:
            _log.warning(
                "group did not close: %s", error, extra={"destination": instance.settings.destination}
            )
