"""canal-python, unchanged, in a process of its own: its generated code needs protobuf's pure Python.

Reads commands as JSON lines, `[method, arguments]`, and answers each with a JSON line, `{"value": ...}` or
`{"error": ...}`. Entries come as objects, their bytes decoded by canal-python's own messages.
"""

import contextlib
import io
import json
import sys

from canal.client import Client
from canal.protocol import EntryProtocol_pb2 as entry_protocol
from google.protobuf.message import Message

_STORED = {
    entry_protocol.TRANSACTIONBEGIN: entry_protocol.TransactionBegin,
    entry_protocol.ROWDATA: entry_protocol.RowChange,
    entry_protocol.TRANSACTIONEND: entry_protocol.TransactionEnd,
}


def _fields(message):
    """Every field of a message by name, defaults included."""
    found = {}
    for field in message.DESCRIPTOR.fields:
        value = getattr(message, field.name)
        if field.type == field.TYPE_MESSAGE:
            value = _fields(value) if isinstance(value, Message) else [_fields(each) for each in value]
        found[field.name] = value
    return found


def _entry(entry):
    stored = _STORED[entry.entryType]()
    stored.MergeFromString(entry.storeValue)
    return {
        "type": entry_protocol.EntryType.Name(entry.entryType),
        "header": _fields(entry.header),
        "stored": _fields(stored),
    }


def _plain(value):
    if isinstance(value, dict) and "entries" in value:
        return {"id": value["id"], "entries": [_entry(entry) for entry in value["entries"]]}
    return value


def main():
    client = Client()
    for line in sys.stdin:
        method, arguments = json.loads(line)
        # Its texts are bytes.
        arguments = {k: v.encode() if isinstance(v, str) and k != "host" else v for k, v in arguments.items()}
        try:
            with contextlib.redirect_stdout(io.StringIO()):
                answer = {"value": _plain(getattr(client, method)(**arguments))}
        except Exception as error:  # noqa: BLE001  canal-python raises nothing else
            answer = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
