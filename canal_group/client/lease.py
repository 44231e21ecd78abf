"""A consumer's lease of its client id: taken by subscribing, renewed on a thread of its own, given up.

With a `NodeKeeper` the consumer keeps its running node in ZooKeeper itself. Then the next consumer takes over
when that session ends, whatever the gateway knows.
"""

from __future__ import annotations

import os
import socket
import threading
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, Self, TypeVar

from canal_group.gateway.gateway_client import GatewayClient
from merge.errors import CanalGroupError, FencedError, NotSubscribed
from merge.values.position import GroupPosition

#: how often the lease is renewed while the consumer is busy elsewhere, seconds; never more seldom than this
#: part of what it lasts
_TOUCH_EVERY_S = 2.0
_TOUCH_EVERY_PART = 0.25
#: no lease is so short; who says so would have us do nothing else
_TOUCH_EVERY_MIN_S = 0.01

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class _Taken:
    """What the gateway answers to who subscribes."""

    epoch: int
    lease_s: float
    cursor: GroupPosition

    @classmethod
    def read(cls, value: Mapping[str, Any]) -> Self:
        lease_s = float(value["lease_s"])
        if not lease_s > 0:
            raise ValueError(f"a lease of {lease_s} seconds is not positive")
        return cls(int(value["epoch"]), lease_s, GroupPosition.from_json(value["cursor"]))


@dataclass(frozen=True, slots=True)
class _LeaseState:
    """What the gateway says of a subscription."""

    epoch: int
    #: None: it has none any more
    cursor: GroupPosition | None

    @classmethod
    def read(cls, value: Mapping[str, Any] | None) -> Self | None:
        if value is None:
            return None
        cursor = value["cursor"]
        return cls(int(value["epoch"]), None if cursor is None else GroupPosition.from_json(cursor))


class NodeKeeper(Protocol):
    """Keeps a client id's running node in ZooKeeper; `canal_group.gateway.discovery.Directory` does."""

    def take(self, client_id: str, holder: str) -> str:
        """Take the node, or keep it; return our session. Raises ConsumerActive: somebody else has it."""

    def let_go(self, client_id: str) -> None:
        """Give the node up."""

    def close(self) -> None:
        """End the session."""


class Lease:
    """The hold of one consumer on its client id.

    Args:
        gateway_client: the way to the gateways.
        client_id: what is held.
        node: keeps its running node; None: the gateway's server does.
    """

    def __init__(self, gateway_client: GatewayClient, client_id: str, node: NodeKeeper | None) -> None:
        self._gateway_client = gateway_client
        self._node = node
        self.client_id = client_id
        #: how others see us when they ask who holds the client id
        self.holder = f"{socket.gethostname()}:{os.getpid()}:{uuid.uuid4().hex[:8]}"
        #: the fencing epoch that our calls carry; 0: it was never taken
        self.epoch = 0
        #: whether it was given up for good
        self.closed = threading.Event()
        self._toucher: threading.Thread | None = None
        self._touch_every_s = _TOUCH_EVERY_S

    def take(self, table_filter: str, resume: str | None) -> GroupPosition:
        """Ask for the client id, once, and return the cursor; raises as `Consumer.subscribe`."""
        body: dict[str, Any] = {"holder": self.holder, "filter": table_filter, "resume": resume}
        if self._node is not None:
            body["session"] = self._node.take(self.client_id, self.holder)
        taken = self._gateway_client.ask_for("subscribe", _Taken.read, client_id=self.client_id, **body)
        self.epoch = taken.epoch
        every_s = min(_TOUCH_EVERY_S, taken.lease_s * _TOUCH_EVERY_PART)
        self._touch_every_s = max(every_s, _TOUCH_EVERY_MIN_S)
        return taken.cursor

    def keep(self) -> None:
        """Renew it from now on."""
        if (self._toucher is None or not self._toucher.is_alive()) and not self.closed.is_set():
            self._toucher = threading.Thread(target=self._renew, name=f"lease-{self.client_id}", daemon=True)
            self._toucher.start()

    def ask(self, request: str, *, wait_s: float = 0.0, **body: Any) -> Any:
        """Ask the gateway for something in its name; see `GatewayClient.ask`."""
        return self._gateway_client.ask(
            request, wait_s=wait_s, client_id=self.client_id, epoch=self.epoch, **body
        )

    def ask_for(self, request: str, read: Callable[[Any], T], /, *, wait_s: float = 0.0, **body: Any) -> T:
        """Ask the gateway for something in its name; see `GatewayClient.ask_for`."""
        named: dict[str, Any] = {"client_id": self.client_id, "epoch": self.epoch}
        return self._gateway_client.ask_for(request, read, wait_s=wait_s, **named, **body)

    def cursor(self) -> GroupPosition:
        """Return the cursor, with all acknowledgements in it that any server has accepted.

        Raises:
            NotSubscribed, FencedError: the lease is over.
        """
        lease_state = self._gateway_client.ask_for("lease_state", _LeaseState.read, client_id=self.client_id)
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
        """Give it up for good; once more does nothing."""
        if self.closed.is_set():
            return
        self.closed.set()
        if self._toucher is not None:
            self._toucher.join()
        try:
            if self.epoch:
                self.ask("release")
        except CanalGroupError:
            pass  # Whoever holds the client id by now, or nobody: our lease ends by itself.
        finally:
            if self._node is not None:
                self._node.let_go(self.client_id)
                self._node.close()

    def _renew(self) -> None:
        while not self.closed.wait(self._touch_every_s):
            try:
                self.ask("touch")
                if self._node is not None:
                    # Made anew where our session had ended, unless the next consumer was faster.
                    self._node.take(self.client_id, self.holder)
            except (FencedError, NotSubscribed):
                return  # The next call of the consumer says so.
            except CanalGroupError:
                continue
