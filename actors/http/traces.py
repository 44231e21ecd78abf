"""Traces over HTTP: where a transaction is, and where the last changes of a row are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request

from actors.admission.calls import Calls
from actors.http.callers import Callers
from actors.http.operations import check_form, check_shard
from actors.shard.row_search import SEARCH_BYTES_MAX
from merge.calls.operators import Trace, TraceKey
from merge.rows.row_key import RowKey
from merge.values.gtids.gtid import parse_gtid_set

#: characters of a table's name and a primary key
KEY_CHARS_MAX = 4_000


@dataclass(frozen=True, slots=True)
class Traces:
    """Answers the paths of `canal-group trace`. Safe to use from several threads."""

    callers: Callers
    #: those that are being answered
    questions: Calls

    def router(self) -> APIRouter:
        """Return the paths."""
        router = APIRouter(prefix="/api/instances/{destination}")
        router.get("/transactions/{gtid}", summary="Where a transaction is")(self.transaction)
        router.get("/changes", summary="Where the last changes of a row are")(self.changes)
        return router

    def transaction(self, request: Request, destination: str, gtid: str, shard: str | None = None) -> Any:
        """Return where a transaction is: which shards have read it, in the group, and at each client id."""
        served, grant = self.callers.operator(request, destination, "trace")
        check_form(parse_gtid_set, gtid)
        if shard is not None:
            check_shard(served, shard)
        with self.questions.one_of(grant.name):
            return served.requests.answer(Trace(gtid, shard))

    def changes(
        self,
        request: Request,
        destination: str,
        key: Annotated[str, Query(max_length=KEY_CHARS_MAX)],
        within_bytes: Annotated[int, Query(ge=1, le=SEARCH_BYTES_MAX)] = 64 << 20,
        shard: str | None = None,
    ) -> Any:
        """Return where the last changes of a row are in the sources' binlogs: `key=shop.orders:42`."""
        served, grant = self.callers.operator(request, destination, "trace")
        check_form(RowKey.parse, key)
        if shard is not None:
            check_shard(served, shard)
        with self.questions.one_of(grant.name):
            return served.requests.answer(TraceKey(key, within_bytes, shard))
