"""A reader of a real server in a thread, and a listener that records what it hands over."""

from __future__ import annotations

import contextlib
import threading

from support.deadline import await_true
from support.defaults import chunk_limits, source_reader

from canal_group.merge.values.chunk import TableName
from canal_group.merge.values.header import Flag


def of_app(schema, table):
    return TableName(schema, table) if schema == "app" else None


class Recorder:
    """A listener that keeps all it is told, and can be held up."""

    def __init__(self):
        self.events = []
        self.gate = threading.Event()
        self.gate.set()
        #: the chunk that is held up
        self.held = None
        self.error = None

    def opened(self, position):
        self.events.append(("opened", position))

    def chunk_read(self, chunk):
        self.held = chunk
        self.gate.wait()
        self.held = None
        self.events.append(("chunk", chunk))

    def reached(self, position):
        self.events.append(("reached", position))

    def caught_up(self, frontier_us):
        self.events.append(("caught_up", frontier_us))

    def connected(self, skew_us, server_version):
        self.events.append(("connected", (skew_us, server_version)))

    def disconnected(self, error, retry_after_s):
        self.events.append(("disconnected", error))
        assert 0 < retry_after_s <= 10

    def of(self, kind):
        return [value for name, value in list(self.events) if name == kind]

    @property
    def chunks(self):
        return self.of("chunk")

    @property
    def headers(self):
        return [header for chunk in self.chunks for header in chunk.headers]

    @property
    def transactions(self):
        """The transactions that changed rows of a selected table, or its definition."""
        return [h for h in self.headers if int(h["flags"]) & Flag.END and (h["rows"] or h["row_begin"])]

    def rows(self, table):
        """Rows of a table in the order in which they were handed over."""
        return [
            row
            for chunk in self.chunks
            for each in chunk.tables
            if each.name.table == table
            for row in each.rows.to_pylist()
        ]

    @property
    def statements(self):
        return [r for chunk in self.chunks if chunk.statements for r in chunk.statements.to_pylist()]


@contextlib.contextmanager
def reading(address, start=None, limits=None, select=of_app, *, connects=True, **options):
    """Run a reader in a thread; on the way out it is stopped, and its error raised."""
    recorder = Recorder()
    reader = source_reader(address, select, limits or chunk_limits(), recorder, **options)

    def run():
        try:
            reader.run(start)
        except Exception as error:  # noqa: BLE001 - handed to the test
            recorder.error = error

    thread = threading.Thread(target=run)
    thread.start()
    try:
        if connects:
            await_true(lambda: recorder.of("connected") or recorder.error, "the reader connects")
        yield recorder
    finally:
        recorder.gate.set()
        reader.stop()
        thread.join(20)
        assert not thread.is_alive(), "the reader stops"
    if recorder.error is not None:
        raise recorder.error


def await_rows(recorder, table, count):
    await_true(lambda: recorder.error or len(recorder.rows(table)) >= count, f"{count} rows of {table}")
    if recorder.error is not None:
        raise recorder.error
