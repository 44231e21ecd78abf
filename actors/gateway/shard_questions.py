"""Questions to the shards of an instance: which columns a table has, and where a start is."""

from __future__ import annotations

import time
from typing import Any

import pyarrow as pa
import ray

from canal_group.actors.gateway.group_handle import CALL_TIMEOUT_S
from canal_group.actors.gateway.group_port import GroupPort
from canal_group.actors.gateway.shard_actors import ShardActors
from canal_group.actors.transport.ray_errors import translated
from canal_group.merge.calls.consumers import ColumnTypes
from canal_group.merge.errors import CanalGroupError, ServerUnavailable, UsageError
from canal_group.merge.rows.chosen_types import TypeOverrides
from canal_group.merge.rows.joined import Definition, conflicts, joined, types_by_shard
from canal_group.merge.rows.row_key import RowKey
from canal_group.merge.values.chunk import TableName
from canal_group.merge.values.position import GroupPosition, Position
from canal_group.merge.values.start import At, parse_start

#: how long a shard may search its binlogs for a time, seconds
SEARCH_TIMEOUT_S = 60.0
#: methods that may search them: a shard runs these side by side, and nothing else waits for them
_SEARCHES = frozenset({"locate", "changes_of"})


class ShardQuestions:
    """Asks the shards of a destination. Safe to use from several threads.

    Args:
        destination: its name, for messages.
        group: knows which shards there are.
        shards: their actors.
    """

    def __init__(self, destination: str, group: GroupPort, shards: ShardActors) -> None:
        self._destination = destination
        self._group = group
        self._shards = shards

    def columns(self, name: str) -> pa.Schema:
        """Return a table's columns over all shards.

        Args:
            name: `schema.table`, as consumers see it.

        Raises:
            UsageError: no shard has such a table.
            SchemaMismatch: the columns of the shards cannot be merged.
        """
        table = TableName.of(name)
        definitions = self.definitions(table)
        if not definitions:
            raise self._unknown(name)
        return joined(table, definitions, (), self.chosen_types().of(table))

    def definitions(self, table: TableName) -> list[Definition]:
        """Return the columns of a table in each shard that has it, by the name that consumers know.

        Raises:
            SourceUnavailable, SourceUnfit: a source does not answer.
        """
        answers = self._ask("describe", table.schema, table.table)
        return [
            Definition(shard, pa.ipc.read_schema(pa.py_buffer(schema)))
            for shard, schemas in answers.items()
            for schema in schemas
        ]

    def chosen_types(self) -> TypeOverrides:
        """Return the types that operators chose for columns.

        Raises:
            ServerUnavailable: the group does not answer.
        """
        return TypeOverrides.from_json(self._group.ask(ColumnTypes()))

    def joined(self, name: str) -> dict[str, Any]:
        """Return the joined schema of a table as a JSON object, with what each shard has of it.

        `columns`: for each its `name`, its `type` (null: the types in its shards cannot be joined), the
        `chosen` type if there is one, and by shard what it is there.

        Raises:
            UsageError: no shard has such a table.
        """
        table, chosen_types = TableName.of(name), self.chosen_types()
        definitions = self.definitions(table)
        types = chosen_types.of(table)
        torn = {column.lower() for column, _ in conflicts(definitions)} - types.keys()
        whole = joined(table, definitions, (), types | dict.fromkeys(torn, pa.null()))
        if not definitions:
            raise self._unknown(name)
        return {
            "table": name,
            "columns": [
                {
                    "name": column.name,
                    "type": None if column.name.lower() in torn else str(column.type),
                    "chosen": chosen_types.tables.get(name, {}).get(column.name.lower()),
                    "shards": types_by_shard(definitions, column.name),
                }
                for column in whole
            ],
        }

    def position(self, start: str) -> GroupPosition:
        """Return the group position that a start means now; see `canal_group.merge.values.start`.

        Raises:
            ConfigError: the text is not a start.
            PositionPurged: a source no longer has changes from that time.
            UsageError: a shard reads files, which do not tell it.
        """
        parsed = parse_start(start, time.time_ns() // 1000)
        if isinstance(parsed, GroupPosition):
            return parsed
        timeout_s = SEARCH_TIMEOUT_S if isinstance(parsed, At) else CALL_TIMEOUT_S
        return GroupPosition(self._ask("locate", parsed, timeout_s=timeout_s))

    def beginning(self, *, latest: bool) -> tuple[GroupPosition | None, dict[str, Position]]:
        """Return where a client id without a cursor begins.

        Args:
            latest: whether it asks for the ends of the binlogs, whatever the instance file says.

        Returns:
            The positions at which the instance file has it begin, None if there are none; and the ends of the
            other sources' binlogs, as far as they answer.

        Raises:
            PositionPurged: a source no longer has where the instance file says.
        """
        answers = self._ask("beginning", timeout_s=SEARCH_TIMEOUT_S, latest=latest)
        starts = {shard: position for shard, (is_end, position) in answers.items() if not is_end}
        ends = {shard: position for shard, (is_end, position) in answers.items() if is_end and position}
        return GroupPosition(starts) if starts else None, ends

    def changes_of(self, key: str, bytes_max: int, shard: str | None) -> dict[str, Any]:
        """Return where the last changes of a row are in the shards' binlogs.

        See `canal_group.actors.shard.row_search`.

        Args:
            key: `schema.table:primary key`, as consumers see it.
            bytes_max: how much of the end of each binlog is searched.
            shard: the only one that is asked; None: every shard.

        Raises:
            UsageError: the text names no row, or there is no such shard.
        """
        return self._ask("changes_of", RowKey.parse(key), bytes_max, timeout_s=SEARCH_TIMEOUT_S, only=shard)

    def schema(self, shard: str | None) -> dict[str, Any]:
        """Return the shards' definitions of their sources' tables, as JSON objects; None: every shard.

        Raises:
            UsageError: there is no such shard.
        """
        return self._ask("schema", only=shard)

    def rebuild_schema(self, shard: str) -> dict[str, Any]:
        """Let a shard forget what it knows of its source's tables.

        Raises:
            UsageError: there is no such shard, or it reads files.
        """
        return self._ask("rebuild_schema", only=shard)

    def _unknown(self, table: str) -> UsageError:
        return UsageError(
            f"No shard of {self._destination} has a table {table}.",
            hint="Name it as consumers see it, after filter and routes. If the account may not SELECT"
            " from it, it is known from its first row on; until then pass its columns: .schema(...).",
        )

    def _not_active(self, group: dict[str, Any]) -> ServerUnavailable:
        """Return why the shards are not asked, by the group's status."""
        if "error" in group:
            return ServerUnavailable(
                f"The group of {self._destination} does not report its shards: {group['error']}",
                retry_after_s=0.5,
            )
        return ServerUnavailable.not_active(
            f"This server of {self._destination}",
            self._destination,
            group.get("active_server") or "",
            group.get("stopped") or "",
        )

    def _ask(
        self,
        method: str,
        *arguments: Any,
        timeout_s: float = CALL_TIMEOUT_S,
        only: str | None = None,
        **keywords: Any,
    ) -> dict[str, Any]:
        """Return the answers of all shards, or of one, by name; those that left are not asked.

        Raises:
            UsageError: there is no such shard.
        """
        group = self._group.status()
        if not group.get("active"):
            raise self._not_active(group)
        shards = [shard["shard"] for shard in group["shards"] if shard["role"] != "left"]
        if only is not None and only not in shards:
            raise UsageError(f"{self._destination} has no shard {only}.", hint=f"It has {', '.join(shards)}.")
        shards = [shard for shard in shards if only in (None, shard)]
        group_of = "search" if method in _SEARCHES else "describe"
        references = [
            getattr(self._shards.actor(shard), method)
            .options(concurrency_group=group_of)
            .remote(*arguments, **keywords)
            for shard in shards
        ]
        answers: dict[str, Any] = {}
        errors: list[CanalGroupError] = []
        # Ray logs an error that nobody fetches: each answer is fetched, also after a refusal.
        ends_s = time.monotonic() + timeout_s
        for shard, reference in zip(shards, references, strict=True):
            try:
                with translated(f"Shard {shard}"):
                    answers[shard] = ray.get(reference, timeout=max(0.0, ends_s - time.monotonic()))
            except CanalGroupError as error:
                errors.append(error)
        if errors:
            raise errors[0]
        return answers
