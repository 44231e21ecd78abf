"""A consumer's lease of its client id: taken by subscribing, renewed on a thread of its own, released.

With a `NodeKeeper` the consumer keeps its running node in ZooKeeper itself. The next consumer then takes over
as soon as that session ends, whatever the gateway knows.
"""

from __future__ import annotations

import os
import socket
import threading
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol, Self

from canal_group.gateway.gateway_client import GatewayClient
from canal_group.merge.calls.consumers import LeaseState, Release, Subscribe, Touch
from canal_group.merge.calls.values import resume as resume_of
from canal_group.merge.errors import CanalGroupError, FencedError, NotSubscribed
from canal_group.merge.values.position import GroupPosition
from canal_group.merge.whole import whole

#: interval at which a thread renews the lease, seconds; at least every quarter of the lease
_TOUCH_EVERY_S = 2.0
_TOUCH_EVERY_PART = 0.25
#: lower limit of that interval: a gateway that grants a shorter lease must not keep us busy renewing it
_TOUCH_EVERY_MIN_S = 0.01


@dataclass(frozen=True, slots=True)
class _Taken:
    epoch: int
    lease_s: float
    cursor: GroupPosition

    @classmethod
    def read(cls, value: Mapping[str, Any]) -> Self:
        lease_s = float(value["lease_s"])
        if not lease_s > 0:
            raise ValueError(f"a lease of {lease_s} seconds is not positive")
        return cls(whole(value["epoch"]), lease_s, GroupPosition.from_json(value["cursor"]))


@dataclass(frozen=True, slots=True)
class _LeaseState:
    epoch: int
    #: None: the subscription has no cursor any more
    cursor: GroupPosition | None

    @classmethod
    def read(cls, value: Mapping[str, Any] | None) -> Self | None:
        if value is None:
            return None
        cursor = value["cursor"]
        return cls(whole(value["epoch"]), None if cursor is None else GroupPosition.from_json(cursor))


class NodeKeeper(Protocol):
    """Keeps a client id's running node in ZooKeeper; `canal_group.gateway.discovery.Directory` does."""

    def take(self, client_id: str, holder: str) -> str:
        """Take the node, or keep it; return our session. Raises ConsumerActive: another consumer has it."""

    def let_go(self, client_id: str) -> None:
        """Release the node."""

    def close(self) -> None:
        """End the session."""


class Lease:
    """The hold of one consumer on its client id.

    Args:
        gateway_client: the client of the gateways.
        client_id: the client id to hold.
        node: keeps its running node; None: the gateway's server does.
        keep: as in `canal_group.connect`.
        look: as in `canal_group.connect`.
    """

    def __init__(
        self,
        gateway_client: GatewayClient,
        client_id: str,
        node: NodeKeeper | None,
        *,
        keep: bool = False,
        look: bool = False,
        snapshot: bool | None = None,
    ) -> None:
        self._keep, self._look, self._snapshot = keep, look, snapshot
        self._gateway_client = gateway_client
        self._node = node
        self.client_id = client_id
        #: the name that others see when they ask who holds the client id
        self.holder = f"{socket.gethostname()}:{os.getpid()}:{uuid.uuid4().hex[:8]}"
        #: the fencing epoch that our calls carry; 0: the lease was never taken
        self.epoch = 0
        #: set when the lease is released for good
        self.closed = threading.Event()
        self._toucher: threading.Thread | None = None
        self._touch_every_s = _TOUCH_EVERY_S

    def take(self, table_filter: str, resume: str | None, start: str | None = None) -> GroupPosition:
        """Request the client id once and return the cursor; raises as `Consumer.subscribe`."""
        session = "" if self._node is None else self._node.take(self.client_id, self.holder)
        where = None if resume is None else resume_of("resume", resume)
        call = Subscribe(
            self.client_id,
            self.holder,
            table_filter,
            session,
            where,
            start,
            self._keep,
            self._look,
            self._snapshot,
        )
        taken = self._gateway_client.ask_for(call, _Taken.read)
        self.epoch = taken.epoch
        every_s = min(_TOUCH_EVERY_S, taken.lease_s * _TOUCH_EVERY_PART)
        self._touch_every_s = max(every_s, _TOUCH_EVERY_MIN_S)
        return taken.cursor

    def keep(self) -> None:
        """Renew the lease from now on, on a thread."""
        if (self._toucher is None or not self._toucher.is_alive()) and not self.closed.is_set():
            self._toucher = threading.Thread(target=self._renew, name=f"lease-{self.client_id}", daemon=True)
            self._toucher.start()

    @property
    def key(self) -> tuple[str, int]:
        """The client id and epoch under which its consumer calls."""
        return self.client_id, self.epoch

    def cursor(self) -> GroupPosition:
        """Return the cursor, which includes every acknowledgement that any server has accepted.

        Raises:
            NotSubscribed, FencedError: the lease has ended.
        """
        lease_state = self._gateway_client.ask_for(LeaseState(self.client_id), _LeaseState.read)
        if lease_state is None or lease_state.cursor is None:
            raise NotSubscribed(f"Client {self.client_id} is not subscribed.", hint="Subscribe again.")
        if lease_state.epoch != self.epoch:
            raise FencedError(
                f"Epoch {self.epoch} of client {self.client_id} has ended: another consumer took over.",
                hint="Stop this consumer.",
                our_epoch=self.epoch,
                current_epoch=lease_state.epoch,
            )
        return lease_state.cursor

    def close(self) -> None:
        """Release the lease for good; a second call does nothing."""
        if self.closed.is_set():
            return
        self.closed.set()
        if self._toucher is not None:
            self._toucher.join()
        try:
            if self.epoch:
                self._gateway_client.ask(Release(*self.key))
        except CanalGroupError:
            pass  # Our lease ends by itself, whether or not another consumer holds the client id by now.
        finally:
            if self._node is not None:
                self._node.let_go(self.client_id)
                self._node.close()

    def _renew(self) -> None:
        while not self.closed.wait(self._touch_every_s):
            try:
                self._gateway_client.ask(Touch(*self.key))
                if self._node is not None:
                    # Creates the node again if our session had ended, unless the next consumer was faster.
                    self._node.take(self.client_id, self.holder)
            except (FencedError, NotSubscribed):
                return  # The consumer's next call raises it.
            except CanalGroupError:
                continue
