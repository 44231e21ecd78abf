"""What an operator is told of client ids, also while no server is active."""

import pytest

from canal_group.actors.gateway.operator_requests import OperatorRequests
from canal_group.merge.calls.operators import (
    AddToSnapshot,
    RemoveClient,
    Rewind,
    RollBackClient,
    SetClientAside,
)
from canal_group.merge.errors import ServerUnavailable, UsageError

CALLS = [
    AddToSnapshot("copy", "shop.orders"),
    SetClientAside("copy"),
    RollBackClient("copy"),
    RemoveClient("copy"),
    Rewind("copy", "latest"),
]


class Group:
    """A group that has no clients, and is asked for nothing else."""

    def __init__(self, **status):
        self._status = status

    def status(self):
        return self._status


@pytest.mark.parametrize("call", CALLS, ids=lambda call: type(call).__name__)
def test_a_group_without_the_client_says_so_only_while_it_is_active(call):
    """Elsewhere the client id is there, so the operator asks again."""
    standby = Group(active=False, active_server="10.0.0.2:11113", stopped=None)
    with pytest.raises(ServerUnavailable, match=r"is not the active one; 10\.0\.0\.2:11113 is active"):
        OperatorRequests("shop", standby, None, dict).answer(call)
    with pytest.raises(ServerUnavailable, match="is not the active one"):
        OperatorRequests("shop", Group(active=False, error="It restarts."), None, dict).answer(call)
    with pytest.raises(UsageError, match="shop has no client copy"):
        OperatorRequests("shop", Group(active=True, clients=[]), None, dict).answer(call)
