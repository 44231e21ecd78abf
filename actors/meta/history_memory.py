"""Schema histories in memory: they live as long as the group actor, as its cursors do."""

from __future__ import annotations

from merge.values.epoch import refuse_older


class MemoryHistoryStore:
    """Keeps histories in this process; implements `actors.ports.SchemaHistoryStore`.

    It needs no lock: one write of a shard is done before the next begins.
    """

    def __init__(self) -> None:
        self._epoch = 0
        self._kept: dict[str, str] = {}

    def load(self, shard: str, epoch: int) -> str | None:
        """Return a shard's history; None if there is none.

        Raises:
            FencedError: a newer epoch has been seen.
        """
        self._advance(shard, epoch)
        return self._kept.get(shard)

    def save(self, shard: str, history: str, epoch: int) -> None:
        """Keep a shard's history.

        Raises:
            FencedError: a newer epoch has been seen; nothing was changed.
        """
        self._advance(shard, epoch)
        self._kept[shard] = history

    def append(self, shard: str, text: str, epoch: int) -> None:
        """Continue a shard's history. Raises as `save`."""
        self._advance(shard, epoch)
        self._kept[shard] += text

    def _advance(self, shard: str, epoch: int) -> None:
        refuse_older(epoch, self._epoch, f"the schema history of {shard}")
        self._epoch = epoch
