"""Stores of cursors and subscriptions: in memory, in a file, in ZooKeeper, or periodically in one of them.

Adapters of `actors.ports.CursorStore`. Each write carries the epoch of the server that makes it. A write with
an epoch older than the newest that the store has seen changes nothing and raises FencedError.
"""
