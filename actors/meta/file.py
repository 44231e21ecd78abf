"""Cursors in one JSON file per destination.

    {"epoch": 7, "subscriptions": {"1001": {"cursor": "<GroupPosition as JSON text>", "filter": "shop.*"}}}

Rules:
- the file is replaced as a whole: a temporary file is written, flushed to the disk and renamed, and the
  folder is flushed. After a crash the file holds the old value or the new one;
- a damaged file is an error. Starting over silently would lose or repeat data.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from actors.meta.locked import locked
from actors.ports import Subscription
from actors.process.durable import make_folder, replace_file
from merge.errors import ConfigError, CoordinatorUnavailable, UsageError
from merge.values.epoch import refuse_older
from merge.values.loss import from_dicts, to_dicts
from merge.values.position import GroupPosition

_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}")


@dataclass(frozen=True, slots=True)
class _Content:
    """The content of the file."""

    #: the highest epoch that has written to it
    epoch: int = 0
    subscriptions: dict[str, Subscription] = field(default_factory=dict)

    def to_json(self) -> str:
        subscriptions = {
            subscription.client_id: {
                "cursor": None if subscription.cursor is None else subscription.cursor.to_json(),
                "filter": subscription.filter,
                **({"dropped": True} if subscription.dropped else {}),
                **({"losses": to_dicts(subscription.losses)} if subscription.losses else {}),
                **({"quiet_since": since.to_json()} if (since := subscription.quiet_since) else {}),
            }
            for subscription in self.subscriptions.values()
        }
        return (
            json.dumps({"epoch": self.epoch, "subscriptions": subscriptions}, indent=1, sort_keys=True) + "\n"
        )

    @classmethod
    def from_json(cls, text: bytes) -> _Content:
        value = json.loads(text)
        epoch, entries = value["epoch"], value["subscriptions"]
        if type(epoch) is not int or epoch < 0:
            raise ValueError(f"{epoch!r} is not an epoch")
        return cls(
            epoch, {client_id: _subscription(client_id, entry) for client_id, entry in entries.items()}
        )


class FileCursorStore:
    """Keeps subscriptions in a file; they survive a restart and a loss of power.

    Guarantees: a reader sees the last complete write; writes of several processes on one machine do not
    interleave; a write with an epoch older than the newest one changes nothing. A newly elected server
    therefore writes its epoch with `claim` before it reads. Guarantees nothing across machines.

    Implements `actors.ports.CursorStore`.

    Args:
        destination: name of the destination, from which the file's name is made.
        folder: folder of the file; created if missing.

    Raises:
        ConfigError: the destination's name cannot name a file, or the folder cannot be created.
    """

    def __init__(self, destination: str, folder: Path) -> None:
        if not _NAME.fullmatch(destination):
            raise ConfigError(
                f"{destination!r} is not a destination name.",
                hint="Use letters, digits, dots, hyphens and underscores.",
            )
        #: the file that holds the cursors
        self.file = folder / f"{destination}.cursors.json"
        try:
            make_folder(folder)
        except OSError as error:
            raise ConfigError(f"The folder {folder} cannot be created ({error.strerror}).") from error

    def claim(self, epoch: int) -> None:
        """Refuse every epoch older than `epoch` from now on, also after a restart.

        Raises:
            FencedError: a newer epoch has been seen; nothing was written.
            ConfigError: the file is damaged.
            CoordinatorUnavailable: the file could not be written.
        """
        with locked(self.file):
            content = self._read()
            refuse_older(epoch, content.epoch, str(self.file))
            if epoch != content.epoch:
                self._write(_Content(epoch, content.subscriptions))

    def load(self) -> list[Subscription]:
        """Return every subscription, in the order of client ids; none if there is no file yet.

        Raises:
            ConfigError: the file is damaged.
        """
        return [subscription for _, subscription in sorted(self._read().subscriptions.items())]

    def save(self, subscription: Subscription, epoch: int) -> None:
        """Write a subscription; it replaces the client id's last one.

        Raises:
            FencedError: a newer epoch has been seen; nothing was written.
            ConfigError: the file is damaged; nothing was written.
            CoordinatorUnavailable: the file could not be written; saving again is harmless.
        """
        with locked(self.file):
            content = self._read()
            refuse_older(epoch, content.epoch, f"the cursor of {subscription.client_id}")
            self._write(_Content(epoch, {**content.subscriptions, subscription.client_id: subscription}))

    def forget(self, client_id: str, epoch: int) -> None:
        """Remove a subscription and its cursor, if there is one; errors as in `save`."""
        with locked(self.file):
            content = self._read()
            refuse_older(epoch, content.epoch, f"the subscription of {client_id}")
            rest = {name: kept for name, kept in content.subscriptions.items() if name != client_id}
            self._write(_Content(epoch, rest))

    def flush(self, epoch: int) -> None:
        """Do nothing: a save is durable when it returns."""

    def close(self) -> None:
        """Do nothing: whatever was saved is kept."""

    # ---- inside

    def _read(self) -> _Content:
        try:
            return _Content.from_json(self.file.read_bytes())
        except FileNotFoundError:
            return _Content()
        except OSError as error:
            raise ConfigError(f"{self.file} cannot be read ({error.strerror}).") from error
        except (AttributeError, KeyError, RecursionError, TypeError, ValueError, UsageError) as error:
            raise ConfigError(
                f"{self.file} does not hold cursors ({type(error).__name__}: {error}).",
                hint="Restore it from a backup, or remove it to begin where the instance's settings say.",
            ) from error

    def _write(self, content: _Content) -> None:
        try:
            replace_file(self.file, content.to_json())
        except OSError as error:
            raise CoordinatorUnavailable(f"{self.file} cannot be written ({error.strerror}).") from error


def _subscription(client_id: str, entry: dict[str, Any]) -> Subscription:
    pattern, cursor = entry["filter"], entry["cursor"]
    if not isinstance(pattern, str):
        raise TypeError(f"{pattern!r} is not a filter")
    dropped, losses = entry.get("dropped", False) is True, from_dicts(entry.get("losses", []))
    if cursor is None:
        return Subscription(client_id, pattern, None, dropped, losses)
    return Subscription(
        client_id,
        pattern,
        _position(cursor),
        dropped,
        losses,
        _position(entry["quiet_since"]) if "quiet_since" in entry else None,
    )


def _position(text: Any) -> GroupPosition:
    if not isinstance(text, str):
        raise TypeError(f"{text!r} is not a cursor")
    return GroupPosition.from_json(text)
