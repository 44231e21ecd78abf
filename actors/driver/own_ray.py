"""A Ray of our own: started on this machine with its spare process, and ended with us."""

from __future__ import annotations

import ray

from canal_group.actors.driver import local_ray
from canal_group.actors.driver.spare_process import SpareProcess
from canal_group.conf.server_settings import RaySettings


class OwnRay:
    """A Ray that runs from now on, until closed.

    Args:
        settings: without an address.
        forward: whether the actors' lines are logged here, too.

    Raises:
        Exception: as `ray.init`.
    """

    def __init__(self, settings: RaySettings, *, forward: bool) -> None:
        local_ray.start(
            settings.namespace,
            settings.num_cpus,
            forward=forward,
            spare_processes=int(settings.spare_process),
        )
        self._spare = SpareProcess() if settings.spare_process else None

    def close(self) -> None:
        """Shut Ray down, with all actors and tasks."""
        if self._spare is not None:
            self._spare.close()
        ray.shutdown()
