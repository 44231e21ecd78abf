"""Print the changes of a merged group with canal-python, a client of canal.

    pip install canal-python
    export PROTOCOL_BUFFERS_PYTHON_IMPLEMENTATION=python
    python examples/canal_client.py 127.0.0.1:11111 shop

The instance file has `canal: {port: 11111}`, see docs/canal-protocol.md. canal-python's generated code is
older than protobuf 4, hence the variable.
"""

from __future__ import annotations

import sys
import time

from canal.client import Client
from canal.protocol import EntryProtocol_pb2 as entry_protocol

#: row changes that one get asks for, and how long it waits for them, milliseconds
BATCH_ROWS, WAIT_MS = 1_000, 5_000


def show(entry: entry_protocol.Entry) -> None:
    """Print the row changes of an entry, one a line."""
    change = entry_protocol.RowChange()
    change.MergeFromString(entry.storeValue)
    name = f"{entry.header.schemaName}.{entry.header.tableName}"
    if change.isDdl:
        print(name, change.sql)
    for row in change.rowDatas:
        for side, columns in (("before", row.beforeColumns), ("after", row.afterColumns)):
            if columns:
                values = {each.name: None if each.isNull else each.value for each in columns}
                print(name, entry_protocol.EventType.Name(change.eventType), side, values)


def main() -> None:
    """Read until the server leaves."""
    host, _, port = sys.argv[1].rpartition(":")
    client = Client()
    client.connect(host=host, port=int(port))
    client.check_valid()
    client.subscribe(client_id=b"1001", destination=sys.argv[2].encode(), filter=b".*\\..*")
    while True:
        message = client.get_without_ack(BATCH_ROWS, WAIT_MS, 2)
        for entry in message["entries"]:
            if entry.entryType == entry_protocol.ROWDATA:
                show(entry)
        if message["id"]:
            client.ack(message["id"])
        else:
            time.sleep(0.1)


if __name__ == "__main__":
    main()
