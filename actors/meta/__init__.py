"""Where cursors and subscriptions are kept: in memory, in a file, in ZooKeeper, or in one of them each while.

Adapters of `actors.ports.CursorStore`. Each write carries the epoch of the server that makes it; one that is
older than the newest the store has seen changes nothing and raises FencedError.
"""
