"""What callers see of `file_events.pyx`."""

from actors.parse.native.receive_buffer import ReceiveBuffer

class FileBuffer(ReceiveBuffer):
    """Holds a part of a binlog file, behind its magic."""

    def __init__(self) -> None: ...
    def take(self) -> bytes | None:
        """Return the next event; None: it is not whole yet.

        Raises:
            ValueError: it says a size that no event has.
        """
