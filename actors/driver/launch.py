"""Launch: the one module that turns plain classes into Ray actors, with every option and its reason.

All actors belong to the driver that launched them: they end with it, also if it is killed. Group and shards
are an instance's; a gateway may be shared (`canal_group.actors.driver.gateways`).
"""

from __future__ import annotations

import logging
import uuid
from functools import partial
from typing import Any

import ray
from ray.actor import ActorHandle
from ray.exceptions import RayError
from ray.util.placement_group import PlacementGroup, placement_group, remove_placement_group
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy, PlacementGroupSchedulingStrategy

from canal_group.actors.admission.calls import ALL_QUESTIONS_MAX, QUESTIONS_MAX
from canal_group.actors.coordination.embedded import EmbeddedZooKeeper
from canal_group.actors.driver import local_ray
from canal_group.actors.driver.actor_registry import ActorRegistry
from canal_group.actors.driver.gateways import Gateways
from canal_group.actors.driver.instance import Instance
from canal_group.actors.driver.own_ray import OwnRay
from canal_group.actors.driver.zookeepers import ZooKeepers
from canal_group.actors.gateway.gateway import Gateway
from canal_group.actors.gateway.wiring import DestinationActors, GatewayWiring
from canal_group.actors.group import wiring
from canal_group.actors.group.group import GroupActor
from canal_group.actors.process.log import ActorLog, LogLevel
from canal_group.actors.shard.channel import REPLAYS
from canal_group.actors.shard.shard import ShardActor
from canal_group.actors.shard.wiring import shard_wiring
from canal_group.conf.settings import InstanceSettings
from canal_group.conf.shard_settings import ShardSettings
from canal_group.conf.stream_settings import REPLAYS_MAX
from canal_group.merge.errors import ConfigError

_log = logging.getLogger(__name__)

#: CPUs that the bundle of a shard reserves: almost none, so that any number of shards fits
SHARD_CPUS = 0.001
#: time within which the placement group must be ready, seconds
PLACEMENT_TIMEOUT_S = 30

#: options of every actor
_COMMON: dict[str, Any] = {
    # An actor waits for sockets most of its time. Reserving whole CPUs would leave a small machine unable to
    # place the last shard, and Ray would wait silently for free CPUs.
    "num_cpus": 0,
    # A crashed actor is always restarted: its state is in the source and in the cursor store.
    "max_restarts": -1,
    # Ray must not repeat a call that may have run: gets and acks are not idempotent.
    "max_task_retries": 0,
}
_SHARD: dict[str, Any] = {
    **_COMMON,
    # An open that waits for its source must not delay status, nor a search of its binlogs what is known of a
    # table. Rows and polls have servers of their own.
    "concurrency_groups": {
        "status": 1,
        "describe": QUESTIONS_MAX,
        "search": ALL_QUESTIONS_MAX,
        REPLAYS: REPLAYS_MAX,
    },
}
_GROUP: dict[str, Any] = {
    **_COMMON,
    # The gets of many consumers wait on one loop.
    "max_concurrency": 1000,
    # The state can be read while the loop is busy.
    "concurrency_groups": {"status": 1},
}
_GATEWAY: dict[str, Any] = {
    **_COMMON,
    # Flight threads serve rows; calls of the actor only change destinations and ask for states.
    "max_concurrency": 4,
}


class _ActorNames:
    """Names by which an instance's actors find each other, and people them (`ray list actors`).

    A name is not a lock: each launch has names of its own, and the coordinator decides who is active.
    """

    def __init__(self, destination: str) -> None:
        self._stem = f"{destination}/{uuid.uuid4().hex[:8]}"
        self.group = f"{self._stem}/group"
        #: what the names of shards' actors begin with; the shard's name follows
        self.shards = f"{self._stem}/shard/"


def launch(
    settings: InstanceSettings,
    *,
    log: LogLevel | None = None,
    zookeepers: ZooKeepers | None = None,
    gateways: Gateways | None = None,
) -> Instance:
    """Start an instance: Ray and an embedded ZooKeeper where the settings say so, then the actors.

    Args:
        settings: of the instance.
        log: the least severe level that actors log, here and into Ray's files; None: `info`, and not here.
        zookeepers: of the server that the instance belongs to; None: it stands alone.
        gateways: of the same server; None: it stands alone.

    Returns:
        The instance, with its gateway listening. Whether its server is the active one, or stands by, its
        status tells.

    Raises:
        ConfigError: the gateway's port is taken, its certificate cannot be used, or Ray cannot be reached.
        ServerUnavailable: Ray did not start the gateway in time.
    """
    level = LogLevel.INFO if log is None else log
    of_server = Gateways(partial(gateway_actor, level=level)) if gateways is None else gateways
    started_by = ZooKeepers() if zookeepers is None else zookeepers
    gateway, addresses = of_server.take(settings)
    try:
        own_ray = join_ray(settings, forward=log is not None)
    except BaseException:
        of_server.give_back(gateway, settings)
        raise
    _log.info(
        "waits for the actors of %s to start: its group, its gateway and %d shards",
        settings.destination,
        len(settings.shards),
        extra={"destination": settings.destination},
    )
    zookeeper, placement = None, None
    begun: list[ActorHandle] = []
    try:
        embedded = wiring.embedded(settings)
        zookeeper = started_by.take(embedded) if embedded is not None else None
        identity = wiring.ServerIdentity(
            address=addresses.gateway.advertised,
            owner=uuid.uuid4().hex,
            zookeeper_hosts=_zookeeper_hosts(settings, zookeeper),
            canal_address="" if addresses.canal is None else addresses.canal.advertised,
        )
        names = _ActorNames(settings.destination)
        of_group = ActorLog(level, settings.destination)
        placement = _placement(len(settings.shards))
        shards = {
            shard.name: _actor(
                ShardActor,
                names.shards + shard.name,
                _SHARD | _at(placement, index),
                shard_wiring(settings, shard),
                ActorLog(level, settings.destination, shard.name),
            )
            for index, shard in enumerate(settings.shards)
        }
        begun += shards.values()
        options = _GROUP | _on_this_node()
        group = _actor(GroupActor, names.group, options, settings, identity, names.shards, of_group)
        begun.append(group)
        of_server.add(gateway, settings, DestinationActors(names.group, names.shards, tuple(shards)))
    except BaseException:
        of_server.give_back(gateway, settings)
        for actor in begun:
            ray.kill(actor, no_restart=True)
        if placement is not None:
            remove_placement_group(placement)
        if zookeeper is not None:
            started_by.give_back(zookeeper)
        if own_ray is not None:
            own_ray.close()
        raise
    return Instance(
        settings=settings,
        addresses=addresses,
        group=group,
        gateway=gateway,
        gateways=of_server,
        shard_actors=names.shards,
        actor_registry=ActorRegistry(group, shards, lambda shard: _late_shard(settings, names, shard, level)),
        placement=placement,
        zookeeper=zookeeper,
        zookeepers=started_by,
        own_ray=own_ray,
    )


def gateway_actor(gateway: GatewayWiring, *, level: LogLevel) -> ActorHandle:
    """Make the actor of a gateway.

    Args:
        gateway: its wiring.
        level: the least severe level that it logs.
    """
    name = f"gateway/{gateway.location.rpartition(':')[2]}/{uuid.uuid4().hex[:8]}"
    return _actor(Gateway, name, _GATEWAY | _on_this_node(), gateway, ActorLog(level))


def _late_shard(
    settings: InstanceSettings, names: _ActorNames, shard: ShardSettings, level: LogLevel
) -> ActorHandle:
    """Make the actor of a shard that joins later, on any node: the placement group has no bundle left."""
    options = {**_SHARD, "scheduling_strategy": "SPREAD"}
    log = ActorLog(level, settings.destination, shard.name)
    return _actor(ShardActor, names.shards + shard.name, options, shard_wiring(settings, shard), log)


def _placement(count: int) -> PlacementGroup:
    """Reserve a bundle for each shard, on as many nodes as there are.

    Parsing is the heavy part. Ray's SPREAD strategy for single actors, and its soft affinity, place actors
    that reserve no CPU by chance. If a bundle's node dies, Ray makes the bundle again on another.

    Raises:
        ConfigError: the cluster has too few CPUs for it.
    """
    placement = placement_group([{"CPU": SHARD_CPUS}] * count, strategy="SPREAD")
    if not placement.wait(PLACEMENT_TIMEOUT_S):
        remove_placement_group(placement)
        raise ConfigError(
            f"Ray does not have the CPUs for {count} shards that reserve {SHARD_CPUS} CPUs each.",
            hint="Look at `ray status`: its nodes may have no CPU left, or none at all.",
        )
    return placement


def _at(placement: PlacementGroup, index: int) -> dict[str, Any]:
    strategy = PlacementGroupSchedulingStrategy(placement, placement_group_bundle_index=index)
    return {"scheduling_strategy": strategy}


def _on_this_node() -> dict[str, Any]:
    """Return options that keep an actor on the driver's node.

    The gateway's address, local cursors and an embedded ZooKeeper are this machine's.
    """
    node_id = ray.get_runtime_context().get_node_id()
    return {"scheduling_strategy": NodeAffinitySchedulingStrategy(node_id=node_id, soft=False)}


def _actor(cls: type, name: str, options: dict[str, Any], *arguments: Any) -> ActorHandle:
    return ray.remote(**options)(cls).options(name=name).remote(*arguments)


def join_ray(settings: InstanceSettings, *, forward: bool) -> OwnRay | None:
    """Connect to Ray, starting one where none is named; return that one, which has to be closed.

    Args:
        settings: say which Ray.
        forward: whether the actors' lines are logged here, too.
    """
    if ray.is_initialized():
        return None
    cluster = settings.ray
    try:
        if cluster.address is None:
            return OwnRay(cluster, forward=forward)
        local_ray.join(cluster.address, cluster.namespace, forward=forward)
    except Exception as error:
        # Where its processes start too slowly, Ray raises Exception itself; other kinds are defects.
        known = (OSError, RuntimeError, ValueError, RayError)
        if not isinstance(error, known) and type(error) is not Exception:
            raise
        if cluster.address is None:
            raise ConfigError(
                f"Ray did not start on this machine: {error}",
                hint="If the machine is busy, try again, or start Ray before with `ray start --head` and use"
                " `--address auto`.",
            ) from error
        raise ConfigError(
            f"Ray at {cluster.address} cannot be used: {error}",
            hint="Start one with `ray start --head`, or leave ray.address empty.",
        ) from error
    return None


def _zookeeper_hosts(settings: InstanceSettings, server: EmbeddedZooKeeper | None) -> str:
    if server is not None:
        return server.hosts
    coordination = settings.coordination
    return coordination.hosts if coordination.kind == "zookeeper" else ""
