"""A Ray of our own on this machine, listening on loopback only."""

from __future__ import annotations

import ray
from ray._private import ray_constants

LOOPBACK = "127.0.0.1"


def start(namespace: str, num_cpus: int | None = None) -> None:
    """Start Ray on this machine and connect to it; `ray.shutdown` ends it.

    Args:
        namespace: where its actors' names stand.
        num_cpus: CPUs it may plan with; None: all of the machine's.
    """
    # Ray replaces 127.0.0.1 by an address that other machines reach, and then listens on every interface. It
    # leaves loopback alone where it knows no clusters, as on a desktop; that is what is wanted here.
    enabled, ray_constants.ENABLE_RAY_CLUSTER = ray_constants.ENABLE_RAY_CLUSTER, False
    try:
        ray.init(
            address="local",
            namespace=namespace,
            num_cpus=num_cpus,
            include_dashboard=False,
            log_to_driver=False,
            logging_level="warning",
            _node_ip_address=LOOPBACK,
        )
    finally:
        ray_constants.ENABLE_RAY_CLUSTER = enabled
