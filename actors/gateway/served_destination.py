"""A destination that a gateway serves: what answers for it, from when it is added until it is withdrawn."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from canal_group.actors.admission.calls import ALL_QUESTIONS_MAX, QUESTIONS_MAX, Calls
from canal_group.actors.gateway.batch_reader import BatchReader
from canal_group.actors.gateway.canal.destination import CanalDestination
from canal_group.actors.gateway.canal.packets import COUNTED as CANAL_PACKETS
from canal_group.actors.gateway.gateway_counters import GatewayCounters
from canal_group.actors.gateway.group_handle import GroupHandle
from canal_group.actors.gateway.joined_schemas import JoinedSchemas
from canal_group.actors.gateway.operator_requests import OperatorRequests
from canal_group.actors.gateway.requests import Requests
from canal_group.actors.gateway.shard_actors import ShardActors
from canal_group.actors.gateway.wiring import DestinationWiring
from canal_group.merge.calls.call import CALLS
from canal_group.merge.calls.consumers import Plan

#: as which streams of rows are counted
ROWS = "rows"


def new_counters() -> GatewayCounters:
    """Return counters of all that a gateway answers."""
    return GatewayCounters({*CALLS, ROWS, *CANAL_PACKETS})


class ServedDestination:
    """The parts of one launch of a destination. Safe to use from several threads.

    Args:
        wiring: of the destination; it has actors.
        describe: returns the gateway's state as a JSON object, with these counters.
    """

    def __init__(
        self, wiring: DestinationWiring, describe: Callable[[GatewayCounters], dict[str, Any]]
    ) -> None:
        actors = wiring.actors
        assert actors is not None, "it is not absent"
        self.wiring = wiring
        self.counters = counters = new_counters()
        self.group = group = GroupHandle(actors.group)
        shards = ShardActors(actors.shard_actors, actors.shards)
        # None of the parts refers to this: their threads end with them when the destination is withdrawn.
        operator = OperatorRequests(self.name, group, shards, partial(describe, counters))
        joined = JoinedSchemas(operator.questions.chosen_types, operator.questions.definitions)
        self.rows = BatchReader(shards.rows_at, lambda *key: group.ask(Plan(*key)), joined)
        self.requests = Requests(self.name, wiring.lease_s, group, operator, self.rows)
        #: questions to its sources and shards that are being answered
        self.questions = Calls(QUESTIONS_MAX, ALL_QUESTIONS_MAX)
        #: None: it is not served by canal's protocol
        self.canal: CanalDestination | None = None
        if wiring.canal is not None:
            self.canal = CanalDestination(
                self.name,
                wiring.canal.login,
                wiring.canal.transaction_ends,
                wiring.lease_s,
                group,
                self.requests,
                self.rows,
                counters,
            )

    @property
    def name(self) -> str:
        """The destination's name."""
        return self.wiring.destination

    def close(self) -> None:
        """End the connection to the group: what still answers for it raises ServerUnavailable."""
        self.group.close()
