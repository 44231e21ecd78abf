"""Instances: their states as Prometheus's families.

Everything comes from the states that `canal-group status` shows; nothing is counted here. Labels are
destinations, shards, client ids and fixed words: tables are never labels. `docs/metrics.md` explains each
family, with canal's name where canal has one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate
from typing import Any

from prometheus_client.core import HistogramMetricFamily, SummaryMetricFamily

from canal_group.actors.gateway.gateway_counters import DURATIONS_S
from canal_group.actors.http.metrics.families import Families
from canal_group.actors.shard.shard_counters import QUANTILES
from canal_group.merge.printable import printable

_INSTANCE = ("destination",)
_SHARD = ("destination", "shard")
_CLIENT = ("destination", "client_id")


class InstanceFamilies(Families):
    """The families of some instances, made once for each scrape.

    Args:
        states: as `canal-group status --json` prints them.
    """

    def __init__(self, states: Iterable[Mapping[str, Any]]) -> None:
        super().__init__(_INSTANCE)
        for state in map(printable, states):
            self._add_group(state)
            merged = {shard["shard"]: shard for shard in state["group"].get("shards", ())}
            for shard in state["shards"]:
                self._add_shard(state, shard, merged.get(shard["shard"], {}))
            full_rings = state["group"].get("full_rings", ())
            for full in full_rings:
                what = "How long nothing of its full ring was freed, if that is more than five seconds."
                of = (state["destination"], full["shard"])
                self._gauge("shard_ring_full_seconds", what, full["since_s"], of, _SHARD)
            for client in state["group"].get("clients", ()):
                self._add_client(state["destination"], client)
                since_s = [full["since_s"] for full in full_rings if client["client_id"] in full["clients"]]
                what = "How long full rings have been kept for it; 0: none is."
                of = (state["destination"], client["client_id"])
                self._gauge("client_full_ring_seconds", what, max(since_s, default=0.0), of, _CLIENT)
            for certificate in state.get("certificates", ()):
                what = "When a certificate expires, by the setting that names its file."
                of = (state["destination"], certificate["setting"])
                name, labels = "certificate_expires_timestamp_seconds", (*_INSTANCE, "setting")
                self._gauge(name, what, certificate["expires_s"], of, labels)
            if "spare_pid" in state:
                what = "Whether a process is ready for the actor that ends next."
                self._gauge("spare_process", what, state["spare_pid"] is not None, (state["destination"],))
            self._add_gateway(state["destination"], state["gateway"])

    # ---- what there is ---------------------------------------------------------------------------------

    def _add_group(self, state: Mapping[str, Any]) -> None:
        group, of = state["group"], (state["destination"],)
        self._gauge("active", "Whether this server is the active one.", group.get("active", False), of)
        self._gauge("stopped", "Whether an operator stopped it.", bool(group.get("stopped")), of)
        what = "How long the coordinator has not answered this server."
        self._gauge("coordinator_silence_seconds", what, group.get("silence_s"), of)
        servers = group.get("servers", ())
        self._gauge("servers", "Servers that serve it or stand by.", len(servers) or None, of)
        if not group.get("active"):
            return
        since_us = next((one["since_us"] for one in servers if one["active"]), None)
        self._time("active_since", "Since when the active server is active.", since_us, of)
        self._gauge(
            "epoch", "Fencing epoch of the active server; grows with each election.", group["epoch"], of
        )
        self._gauge("merging", "Whether transactions are merged, and not only opened.", group["merging"], of)
        self._count(
            "rewinds", "Times that every shard was opened again in this epoch.", group["generation"], of
        )
        self._gauge("clients", "Client ids with a subscription.", len(group["clients"]), of)
        self._gauge("headers_pending", "Transactions that wait for a shard.", group["headers_pending"], of)
        self._gauge(
            "headers_kept", "Merged transactions that are not acknowledged.", group["headers_kept"], of
        )
        self._time("watermark", "Time up to which transactions are merged.", group["watermark_us"], of)
        self._add_ddl(group.get("ddl"), of)
        for shard in group["shards"]:
            held = group["held_by"] == shard["shard"]
            since_s = group["held_since_s"] if held else 0.0
            self._gauge(
                "held_seconds",
                "How long the group has waited for this shard; 0: it does not.",
                since_s,
                (*of, shard["shard"]),
                _SHARD,
            )

    def _add_ddl(self, ddl: Mapping[str, Any] | None, of: tuple[str, ...]) -> None:
        if ddl is None:
            return
        for kind in ("delivered", "withheld", "missed"):
            what = "DDL statements on tables by what merge.ddl decided, in this epoch."
            self._count("ddl_statements", what, ddl[kind], (*of, kind), ("destination", "kind"))
        self._gauge("ddl_waiting", "DDL statements withheld and not delivered yet.", ddl["waiting"], of)

    def _add_shard(
        self, state: Mapping[str, Any], shard: Mapping[str, Any], merged: Mapping[str, Any]
    ) -> None:
        of = (state["destination"], shard["shard"])

        def gauge(name: str, what: str, value: float | None) -> None:
            self._gauge(f"shard_{name}", what, value, of, _SHARD)

        def count(name: str, what: str, value: float) -> None:
            self._count(f"shard_{name}", what, value, of, _SHARD)

        running = shard["state"] in ("streaming", "finished")
        gauge("up", "Whether its source is read, or was read to its end.", running)
        gauge("skipped", "Whether the group goes on without it.", merged.get("skipped"))
        if merged:
            count("late_transactions", "Transactions before the watermark when they came.", merged["late"])
            count("late_rows", "Rows of these.", merged["late_rows"])
            count("future_transactions", "Transactions stamped ahead of their clock.", merged["future"])
            self._time(
                "shard_frontier",
                "No later transaction is before this time.",
                merged["frontier_us"],
                of,
                _SHARD,
            )
            if merged["frontier_us"]:
                lag_us = state["now_us"] + shard.get("skew_us", 0) - merged["frontier_us"]
                gauge("lag_seconds", "Age of the frontier, by its source's clock.", max(lag_us, 0) / 1e6)
        counters, ring, failover = shard.get("counters"), shard.get("ring"), shard.get("failover")
        gauge("shares_dump", "Whether a dump server sends its source's binlog.", shard.get("shares_dump"))
        self._add_archive(of, shard.get("archive"))
        if failover is not None:
            count("failovers", "Times that another of its hosts was read.", failover["switches"])
        if counters is None or ring is None:
            return
        gauge("clock_skew_seconds", "Its source's clock minus this server's.", shard["skew_us"] / 1e6)
        count("read_bytes", "Bytes that came from its source.", counters["read_bytes"])
        count("decoded_bytes", "Bytes of decoded rows in memory.", counters["decoded_bytes"])
        count("transactions", "Transactions stored.", counters["transactions"])
        count("statements", "Statements stored.", counters["statements"])
        count("long_statements", "Statements too long to be read.", counters["long_statements"])
        count("reconnects", "Connections that were lost or failed.", counters["reconnects"])
        self._add_events(of, counters)
        self._add_definitions(of, shard, counters)
        for kind, rows in counters["rows"].items():
            self._count("shard_rows", "Row changes stored, by kind.", rows, (*of, kind), (*_SHARD, "kind"))
        for kind in ("zero_dates", "invalid_text"):
            value = counters[kind]
            what = "Values that no column type can hold, read as null or replaced."
            self._count("shard_lossy_values", what, value, (*of, kind), (*_SHARD, "kind"))
        self._delay(of, counters["delay_s"])
        gauge("ring_headers", "Transactions in the ring.", ring["put"] - ring["ack"])
        gauge("ring_headers_max", "Transactions that fit.", ring["headers_max"])
        gauge("ring_bytes", "Bytes of rows in the ring.", ring["bytes"])
        gauge("ring_bytes_max", "Bytes at which the ring is full.", ring["bytes_max"])
        gauge("ring_full", "Whether reading waits for room.", ring["full"])
        gauge("ring_held_back", "Transactions that wait for the archive's disk.", ring["held"])
        gauge("ring_put_sequence", "Sequence of the last transaction stored.", ring["put"])
        gauge("ring_get_sequence", "Sequence of the last transaction handed to the group.", ring["get"])
        gauge("ring_ack_sequence", "Sequence of the last transaction freed.", ring["ack"])
        count("ring_waits", "Times that reading waited for room.", ring["waits"])
        count("ring_wait_seconds", "Seconds that reading waited for room.", ring["waited_s"])

    def _add_definitions(
        self, of: tuple[str, ...], shard: Mapping[str, Any], counters: Mapping[str, Any]
    ) -> None:
        for table, times in counters["contradicted_definitions"].items():
            what = "Stops because the source shows a table otherwise than was followed, by the table."
            self._count("shard_contradicted_definitions", what, times, (*of, table), (*_SHARD, "table"))
        for kind, number in (shard.get("definitions") or {}).items():
            what = "Tables that are known, not read yet, or followed and not confirmed yet."
            self._gauge("shard_definitions", what, number, (*of, kind), (*_SHARD, "kind"))

    def _add_archive(self, of: tuple[str, str], archive: Mapping[str, Any] | None) -> None:
        if archive is None:
            return
        for name, what, value in (
            ("writing", "Whether its source is archived now.", archive["error"] is None),
            ("behind_seconds", "Age of what was archived last.", archive.get("behind_s")),
            ("bytes", "Bytes of its archive on this disk.", archive.get("bytes")),
            ("damaged_files", "Files of its archive with damaged bytes.", archive.get("damaged")),
        ):
            self._gauge(f"shard_archive_{name}", what, value, of, _SHARD)
        what = "When the oldest file of its archive begins."
        self._time("shard_archive_oldest", what, archive.get("oldest_us") or None, of, _SHARD)

    def _add_events(self, of: tuple[str, ...], counters: Mapping[str, Any]) -> None:
        typed = {
            "ignored_events": "Events of unknown types that their server marked as ignorable, by type.",
            "skipped_events": "Events that an operator has left out, each time that they were read, by type.",
            "unsupported_events": "Stops at an event that this version does not read, by the event's type.",
        }
        for name, what in typed.items():
            for kind, times in counters[name].items():
                self._count(f"shard_{name}", what, times, (*of, kind), (*_SHARD, "type"))

    def _add_client(self, destination: str, client: Mapping[str, Any]) -> None:
        of, totals, outstanding = (destination, client["client_id"]), client["totals"], client["outstanding"]

        def gauge(name: str, what: str, value: float | None) -> None:
            self._gauge(f"client_{name}", what, value, of, _CLIENT)

        def count(name: str, what: str) -> None:
            self._count(f"client_{name}", what, totals[name], of, _CLIENT)

        gauge("active", "Whether it has a consumer.", client["holder"] is not None)
        gauge(
            "set_aside",
            "Whether it cannot go on: dropped, or purged.",
            bool(client["error"]) or client["dropped"],
        )
        replay = client.get("replay")
        gauge("replayed", "Whether it is replayed, or waits for it.", replay is not None)
        behind_s = replay["behind_s"] if replay is not None else 0.0
        gauge("replay_behind_seconds", "How far its replay is behind; 0: it has none.", behind_s)
        for part in (client.get("snapshot") or {}).get("shards", ()):
            self._add_snapshot((*of, part["shard"]), part)
        for shard, tables in (client.get("unread") or {}).get("shards", {}).items():
            what = "Tables that its snapshots could not read, until one has."
            self._gauge("client_snapshot_failed_tables", what, tables, (*of, shard), (*_CLIENT, "shard"))
        gauge("away_seconds", "How long it has had no consumer; 0: it has one.", client["away_s"] or 0.0)
        gauge("outstanding_batches", "Batches delivered and not acknowledged.", len(outstanding))
        gauge("outstanding_rows", "Rows of these.", sum(batch["rows"] for batch in outstanding))
        age_s = outstanding[0]["age_s"] if outstanding else 0.0
        gauge("oldest_batch_age_seconds", "How long the oldest of these is outstanding.", age_s)
        what = "Time up to which it has acknowledged everything."
        self._time("client_cursor", what, client["cursor_commit_us"], of, _CLIENT)
        lost = {loss["shard"]: loss["number"] for loss in client["losses"]}
        what = "Times that it lost what a source had purged (merge.purged), or a shard left with."
        self._count("client_losses", what, sum(lost.values()), of, _CLIENT)
        count("delivered_batches", "Batches delivered in this epoch.")
        count("delivered_rows", "Rows of these.")
        count("acked_batches", "Batches acknowledged in this epoch.")
        count("acked_rows", "Rows of these.")
        count("rolled_back_batches", "Batches rolled back in this epoch.")

    def _add_snapshot(self, of: tuple[str, ...], part: Mapping[str, Any]) -> None:
        for name, what, value in (
            ("rows", "Rows that its snapshot has read since it was opened last.", part["rows"]),
            ("tables_left", "Tables that its snapshot has still to read.", part["left"]),
        ):
            self._gauge(f"client_snapshot_{name}", what, value, of, (*_CLIENT, "shard"))

    def _add_gateway(self, destination: str, gateway: Mapping[str, Any]) -> None:
        of, counters = (destination,), gateway.get("counters")
        self._gauge("gateway_up", "Whether the gateway answers.", counters is not None, of)
        if counters is None:
            return
        self._count("gateway_sent_rows", "Rows sent or lent to consumers.", counters["sent_rows"], of)
        self._count("gateway_sent_bytes", "Bytes of these in memory.", counters["sent_bytes"], of)
        self._count("gateway_empty_gets", "Gets that ended without a batch.", counters["empty_gets"], of)
        what = "Calls for destinations that its gateway does not serve, the same for all that share it."
        self._count("gateway_unserved_calls", what, gateway["unserved_calls"], of)
        for request, calls in counters["calls"].items():
            for error, times in calls["errors"].items():
                what = "Calls that were refused or failed, by error."
                labels = ("destination", "request", "error")
                self._count("gateway_errors", what, times, (destination, request, error), labels)
            self._durations((destination, request), calls)

    # ---- how it is said --------------------------------------------------------------------------------

    def _delay(self, of: tuple[str, ...], delay_s: Mapping[str, Any]) -> None:
        what = "Time from a commit until its transaction is stored; quantiles are of the last 1,024 chunks."
        family = self._family(SummaryMetricFamily, "shard_delay_seconds", what, _SHARD)
        family.add_metric(of, delay_s["count"], delay_s["sum"])
        for name, quantile in QUANTILES.items():
            if delay_s[name] is not None:
                labels = {**dict(zip(_SHARD, of, strict=True)), "quantile": str(quantile)}
                family.add_sample(family.name, labels, delay_s[name])

    def _durations(self, of: Sequence[str], calls: Mapping[str, Any]) -> None:
        what = "Calls of consumers and operators by duration; that of a get includes its wait for rows."
        labels = ("destination", "request")
        family = self._family(HistogramMetricFamily, "gateway_call_duration_seconds", what, labels)
        bounds = [*map(str, DURATIONS_S), "+Inf"]
        upto = list(accumulate(calls["durations"]))
        family.add_metric(of, list(zip(bounds, upto, strict=True)), calls["seconds"])
