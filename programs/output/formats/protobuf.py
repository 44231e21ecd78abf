"""canal's protobuf messages: a Packet of Messages, whose entries are the changes of a partition's run."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from canal_group.canal_protocol.packet_pb2 import Messages as Body
from canal_group.canal_protocol.packet_pb2 import Packet, PacketType
from canal_group.client.batch import Batch
from canal_group.merge.rows.canal.entries import ROWS
from canal_group.merge.rows.canal.parsed import is_parsed
from canal_group.programs.output.formats.format import grouped, read_envelope
from canal_group.programs.output.messages import Messages
from canal_group.programs.output.routing.router import Routes

_ENTRY = "entry"


def read(batch: Batch) -> pa.Table:
    """Return a batch's changes that canal delivers, with a column more: `entry`, each one's message."""
    rows = read_envelope(batch)
    rows = rows.filter(is_parsed(rows))
    entries = batch.canal_entries(rows_max=1)
    of_rows = np.flatnonzero(entries.column("entry_type").to_numpy() == ROWS)
    entries = entries.take(pa.array(of_rows))
    same = np.array_equal(entries.column("seq").to_numpy(), rows.column("seq").to_numpy())
    assert same, "a change has an entry of its own"
    return rows.append_column(_ENTRY, entries.column(_ENTRY))


def protobuf(rows: pa.Table, routes: Routes) -> Messages:
    """Return packets of changes and statements."""
    return grouped(rows, routes, _packet)


def _packet(rows: pa.Table) -> bytes:
    body = Body(batch_id=rows.column("seq")[0].as_py(), messages=rows.column(_ENTRY).to_pylist())
    return Packet(type=PacketType.MESSAGES, body=body.SerializeToString()).SerializeToString()
