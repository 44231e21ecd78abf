"""Stored cursors: each client id's subscription, with where it has acknowledged to."""

from __future__ import annotations

import json
import logging

from canal_group.actors.ports import EpochStore, Host, Key, Kind, Subscription, damaged
from canal_group.merge.calls.client_id import checked_client_id
from canal_group.merge.delivery.snapshot_steering import steerings
from canal_group.merge.errors import ConfigError, UsageError
from canal_group.merge.values.loss import from_dicts, to_dicts
from canal_group.merge.values.marks.snapshot_mark import unread_of_json, unread_to_json
from canal_group.merge.values.position import GroupPosition

_log = logging.getLogger(__name__)

CURSORS = Kind(
    "cursors",
    "its client id begins where the instance's settings say",
    ("filter", "cursor", "dropped", "losses", "quiet_since", "lasting", "unread"),
)


class StoredCursors:
    """Reads and writes subscriptions under one epoch. Writes of one client id follow one another.

    Args:
        store: keeps them.
        epoch: of the group.
        host: runs blocking work.
    """

    def __init__(self, store: EpochStore, epoch: int, host: Host) -> None:
        self._store, self._epoch, self._host = store, epoch, host
        #: what was written last, by client id
        self._written: dict[str, Subscription] = {}

    async def load(self) -> list[Subscription]:
        """Return every subscription, in the order of client ids.

        Raises:
            ConfigError: a name is not a client id.
            CanalGroupError: as `EpochStore.get`, but for what is damaged: that sets its client id aside.
        """
        return await self._host.blocking(self._load)

    async def save(self, subscription: Subscription) -> None:
        """Write a subscription; that may wait if only positions changed. Raises as `EpochStore.put`."""
        await self._host.blocking(self._save, subscription)

    async def forget(self, client_id: str) -> None:
        """Remove a subscription and its cursor, if there is one; raises as `EpochStore.delete`."""
        self._written.pop(client_id, None)
        await self._host.blocking(self._store.delete, Key(CURSORS, client_id), self._epoch)

    def _load(self) -> list[Subscription]:
        stored = [self._read(name) for name in self._store.names(CURSORS, self._epoch)]
        return [subscription for subscription in stored if subscription is not None]

    def _read(self, name: str) -> Subscription | None:
        try:
            key = Key(CURSORS, checked_client_id(name))
        except UsageError as error:
            raise damaged(f"{CURSORS.name}/{name[:200]!a}", CURSORS, error) from error
        try:
            text = self._store.get(key, self._epoch)
            return None if text is None else subscription_of(name, text)
        except ConfigError as error:
            return _set_aside(name, error)
        except (AttributeError, KeyError, RecursionError, TypeError, ValueError, UsageError) as error:
            return _set_aside(name, damaged(self._store.where(key), CURSORS, error))

    def _save(self, subscription: Subscription) -> None:
        stored = self._written.get(subscription.client_id)
        self._written[subscription.client_id] = subscription
        self._store.put(
            Key(CURSORS, subscription.client_id),
            text_of(subscription),
            self._epoch,
            may_wait=stored is not None and _only_moved(stored, subscription),
        )


def _set_aside(client_id: str, error: ConfigError) -> Subscription:
    """Return the subscription of a client id of which nothing can be read: it alone has to wait."""
    _log.error("client %s is set aside: %s", client_id, error)
    return Subscription(client_id, "", None, dropped=True, unreadable=error)


def text_of(subscription: Subscription) -> str:
    """Return a subscription as it is stored."""
    cursor, since = subscription.cursor, subscription.quiet_since
    members = {
        "filter": subscription.filter,
        **({} if cursor is None else {"cursor": cursor.to_json()}),
        **({"dropped": ""} if subscription.dropped else {}),
        **({"losses": json.dumps(to_dicts(subscription.losses))} if subscription.losses else {}),
        **({} if since is None else {"quiet_since": since.to_json()}),
        **({"lasting": ""} if subscription.lasting else {}),
        **({"unread": unread_to_json(subscription.unread)} if subscription.unread else {}),
    }
    return json.dumps(members) + "\n"


def subscription_of(client_id: str, text: str) -> Subscription:
    """Return the subscription that `text_of` wrote.

    Raises:
        AttributeError, KeyError, RecursionError, TypeError, ValueError, UsageError: it wrote no such text.
    """
    members: dict[str, str] = json.loads(text)
    if not all(isinstance(member, str) for member in members.values()):
        raise TypeError("a member is not a text")
    cursor, since = members.get("cursor"), members.get("quiet_since")
    return Subscription(
        client_id,
        members["filter"],
        None if cursor is None else GroupPosition.from_json(cursor),
        "dropped" in members,
        from_dicts(json.loads(members.get("losses", "[]"))),
        None if since is None else GroupPosition.from_json(since),
        "lasting" in members,
        unread_of_json(members.get("unread", "{}")),
    )


def _only_moved(before: Subscription, after: Subscription) -> bool:
    """Return whether only the positions in the cursor changed, and no operator steered a snapshot."""
    if before.cursor is None or after.cursor is None:
        return False
    same = ("filter", "dropped", "losses", "lasting", "unread")
    if any(getattr(before, name) != getattr(after, name) for name in same):
        return False
    return (
        before.cursor.shards.keys() == after.cursor.shards.keys()
        and before.cursor.retired == after.cursor.retired
        and steerings(before.cursor) == steerings(after.cursor)
    )
