"""The interface of `file_events.pyx`."""

from canal_group.binlog.native.receive_buffer import ReceiveBuffer

class FileBuffer(ReceiveBuffer):
    """Holds a part of a binlog file, after its magic."""

    def __init__(self) -> None: ...
    def take(self) -> bytes | None:
        """Return the next event; None if it has not arrived whole.

        Raises:
            ValueError: its header has an impossible size.
        """
