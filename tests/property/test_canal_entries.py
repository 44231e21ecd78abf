"""canal's entries of random batches, read by the protobuf library, against a slow model."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from support.rows.random_batches import NAMES, TABLES, as_text, batches

from canal_group.canal_protocol import entry_pb2, packet_pb2
from canal_group.merge.rows.canal.entries import ENTRIES, entries, messages
from canal_group.merge.values.chunk import Op
from canal_group.merge.values.header import Flag, gtid_text

#: mysql_type -> java.sql.Types
SQL_TYPES = {
    "bigint": -5,
    "varchar(9)": 12,
    "blob": 2004,
    "enum('a','b')": 1,
    "decimal(9,2)": 3,
    "time": 92,
}
SERVER_IDS = {"n": 7}
#: canal's clients know no rows that were read
EVENTS = {Op.INSERT: 1, Op.UPDATE: 2, Op.DELETE: 3, Op.READ: 1}


def columns_of(drawn, row, kinds, keys, *, updated):
    """The columns of an image as the messages that they are."""
    return [
        entry_pb2.Column(
            index=index,
            sqlType=SQL_TYPES[kinds[name]],
            name=name,
            isKey=name in keys,
            updated=updated(name, value),
            isNull=value is None,
            value=value or "",
            mysqlType=kinds[name],
        )
        for index, (name, value) in enumerate(row or [])
    ]


def expected_entries(drawn, rows_max):
    """Walk over headers and rows one by one."""
    batch, merged, columns, keys = drawn
    for header in merged:
        values, flags = header.values, header.values["flags"]
        gtid = gtid_text(NAMES[values["gtid_source"]], values["gtid_number"])
        changes = [(row, change) for row, change in header.changes if change is not None]
        whole = flags & Flag.BEGIN and flags & Flag.END
        around = not flags & Flag.DDL and (changes or not whole)
        shard = batch.shard_names[header.shard]
        server_id = 12 if gtid.startswith("0-12-") else SERVER_IDS.get(shard, 0)

        def entry(kind, store, *, row=None, count=0, event=0, table=("", "")):
            found = entry_pb2.Entry(entryType=kind, storeValue=store.SerializeToString())
            said = found.header
            said.version, said.sourceType, said.serverenCode = 1, entry_pb2.MYSQL, "UTF-8"
            said.logfileName, said.serverId = NAMES[values["file"]], server_id  # noqa: B023
            at = "end_offset" if kind == entry_pb2.TRANSACTIONEND else "begin_offset"
            said.logfileOffset = values[at]  # noqa: B023
            said.eventLength = values["end_offset"] - values["begin_offset"]  # noqa: B023
            said.executeTime, said.gtid = values["commit_us"] // 1000, gtid  # noqa: B023
            said.schemaName, said.tableName = table
            if event:
                said.eventType = event
            pairs = {"curtGtid": gtid, "rowsCount": count or "", "shard": shard}  # noqa: B023
            pairs["row"] = "" if row is None else row
            said.props.extend(entry_pb2.Pair(key=k, value=str(v)) for k, v in pairs.items() if v != "")
            return found

        if around and flags & Flag.BEGIN:
            yield entry(entry_pb2.TRANSACTIONBEGIN, entry_pb2.TransactionBegin())
        for part in _grouped(changes, rows_max):
            (first, change), table = part[0], TABLES[part[0][1].table]
            if change.sql is not None and not change.tables:
                continue
            if change.sql is not None:
                store = entry_pb2.RowChange(
                    eventType=entry_pb2.ALTER, isDdl=True, sql=change.sql, ddlSchemaName="db"
                )
                yield entry(entry_pb2.ROWDATA, store, row=first, event=entry_pb2.ALTER, table=table)
                continue
            store = entry_pb2.RowChange(eventType=EVENTS[change.op], isDdl=False)
            kinds, key = columns[change.table], keys[change.table]
            for _, each in part:
                before, after = (as_text(image, kinds) for image in (each.before, each.after))
                was = dict(before or [])
                store.rowDatas.add(
                    beforeColumns=columns_of(drawn, before, kinds, key, updated=lambda *_: False),
                    afterColumns=columns_of(
                        drawn,
                        after,
                        kinds,
                        key,
                        updated=lambda name, value, was=was: name not in was or was[name] != value,
                    ),
                )
            yield entry(
                entry_pb2.ROWDATA, store, row=first, count=len(part), event=EVENTS[change.op], table=table
            )
        if around and flags & Flag.END:
            yield entry(entry_pb2.TRANSACTIONEND, entry_pb2.TransactionEnd(transactionId=gtid))


def _grouped(changes, rows_max):
    """Cut a header's changes into what one entry holds."""
    part = []
    for row, change in changes:
        if part:
            last_row, last = part[-1]
            same = (last.table, EVENTS[last.op], last.sql) == (change.table, EVENTS[change.op], None)
            if not (same and change.sql is None and row == last_row + 1) or len(part) == rows_max:
                yield part
                part = []
        part.append((row, change))
    if part:
        yield part


def parsed(data):
    found = entry_pb2.Entry()
    found.ParseFromString(data)
    return found


@given(batches(), st.sampled_from([0, 1, 2]))
def test_entries_are_what_a_walk_over_the_headers_finds(drawn, rows_max):
    batch = drawn[0]
    found = entries(batch, SERVER_IDS, rows_max=rows_max)
    found.validate(full=True)
    assert found.schema == ENTRIES
    assert not rows_max or max(found["rows"].to_pylist(), default=0) <= rows_max
    seen = [parsed(each) for each in found["entry"].to_pylist()]
    # A shard hands out a table in pieces: where one ends, an entry ends.
    assert _joined(seen) == _joined(expected_entries(drawn, rows_max))


def _joined(found):
    """Adjacent entries of one table and operation as one, whose rows are counted together."""
    joined = []
    for each in found:
        row, said = entry_pb2.RowChange(), each.header
        if each.entryType == entry_pb2.ROWDATA:
            row.ParseFromString(each.storeValue)
            each = entry_pb2.Entry(header=said, entryType=each.entryType)  # noqa: PLW2901
            props = {pair.key: pair.value for pair in said.props}
            at = int(props.pop("row"))
            assert int(props.pop("rowsCount", 0)) == len(row.rowDatas)
            del each.header.props[:]
            each.header.props.extend(entry_pb2.Pair(key=k, value=v) for k, v in sorted(props.items()))
        else:
            at = 0
        rows = list(row.rowDatas)
        if joined and rows and joined[-1][0] == each and joined[-1][1] + len(joined[-1][2]) == at:
            joined[-1][2].extend(rows)
        else:
            joined.append((each, at, rows, row.isDdl, row.sql, row.eventType, row.ddlSchemaName))
    return joined


@given(batches())
def test_the_table_says_what_the_entries_say(drawn):
    for row in entries(drawn[0]).to_pylist():
        entry = parsed(row["entry"])
        said = entry.header
        assert (row["entry_type"], row["event_type"]) == (entry.entryType, said.eventType)
        assert (row["schema"], row["table"]) == (said.schemaName, said.tableName)
        props = {pair.key: pair.value for pair in said.props}
        assert (row["rows"], row["shard"]) == (int(props.get("rowsCount", 0)), props["shard"])
    numbers = entries(drawn[0])["seq"].to_pylist()
    assert numbers == sorted(numbers)


@given(batches())
def test_a_message_holds_the_entries(drawn):
    body, count = messages(drawn[0], {}, 2)
    found = packet_pb2.Messages()
    found.ParseFromString(bytes(body))
    assert list(found.messages) == entries(drawn[0])["entry"].to_pylist()
    assert count == len(found.messages)


@given(batches())
def test_a_message_without_transaction_ends_holds_the_other_entries(drawn):
    body, count = messages(drawn[0], {}, 2, transaction_ends=False)
    found = packet_pb2.Messages()
    found.ParseFromString(bytes(body))
    table = entries(drawn[0]).to_pylist()
    assert list(found.messages) == [row["entry"] for row in table if row["entry_type"] == entry_pb2.ROWDATA]
    assert count == len(found.messages)
