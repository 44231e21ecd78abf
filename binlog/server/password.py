"""Renewed passwords: short-lived ones, which a command prints or a file holds when a connection is opened.

The first line of what a command prints, or a file holds, is the password. A command's standard error goes to
that of this process. No error shows the password, or the arguments of the command.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import subprocess
import threading
import time
from dataclasses import dataclass, field

#: longest output of a password command: the password's line and the lines after it, bytes
OUTPUT_BYTES_MAX = 64 << 10
#: passwords that a process remembers
_REMEMBERED_MAX = 64

_lock = threading.Lock()
#: when it was read, by the clock of `time.monotonic`, and the password
_remembered: dict[RenewedPassword, tuple[float, str]] = {}


class PasswordMissing(Exception):  # noqa: N818  named for what happened
    """There is no password to log in with; the text is the rest of a sentence about the account."""


@dataclass(frozen=True, slots=True)
class RenewedPassword:
    """Where the password of an account comes from; one of `command` and `file` is given."""

    #: program and arguments, without a shell
    command: tuple[str, ...] | None = field(default=None, repr=False)
    file: str | None = None
    #: how long the command may take
    timeout_s: float = field(kw_only=True)
    #: how long a password is used again; 0: it is read anew for each connection
    lifetime_s: float = field(kw_only=True)

    @classmethod
    def of_fields(cls, command: list[str] | None, **fields: object) -> RenewedPassword:
        """Return the source of a password that `dataclasses.asdict` and JSON describe."""
        return cls(None if command is None else tuple(command), **fields)  # type: ignore[arg-type]

    def remembered(self) -> str | None:
        """Return the password if its age is below its lifetime, else None."""
        with _lock:
            read_s, password = _remembered.get(self, (0.0, None))
        return password if password is not None and time.monotonic() - read_s < self.lifetime_s else None

    def read(self) -> str:
        """Return the password as it is now.

        Raises:
            PasswordMissing: the command fails, takes too long or prints none; the file cannot be read.
        """
        began_s = time.monotonic()
        if self.command is None:
            output, whence = _content(str(self.file)), f"{self.file}"
        else:
            output, whence = _printed(self.command, self.timeout_s), f"the command {self.command[0]!r}"
        try:
            password = output.split(b"\n", 1)[0].removesuffix(b"\r").decode()
        except UnicodeDecodeError:
            raise PasswordMissing(f"has no password: the first line of {whence} is not UTF-8 text") from None
        if not password:
            raise PasswordMissing(f"has no password: the first line of {whence} is empty")
        if self.lifetime_s:
            with _lock:
                if len(_remembered) >= _REMEMBERED_MAX:
                    _remembered.clear()
                _remembered[self] = began_s, password
        return password


def _content(file: str) -> bytes:
    try:
        with open(file, "rb") as opened:  # noqa: PTH123  a path as text
            content = opened.read(OUTPUT_BYTES_MAX + 1)
    except OSError as error:
        raise PasswordMissing(f"has no password: {file} cannot be read ({error.strerror})") from error
    if len(content) > OUTPUT_BYTES_MAX:
        raise PasswordMissing(f"has no password: {file} is longer than {OUTPUT_BYTES_MAX} bytes")
    return content


def _printed(command: tuple[str, ...], timeout_s: float) -> bytes:
    subject = f"has no password: the command {command[0]!r}"
    deadline_s = time.monotonic() + timeout_s
    try:
        process = subprocess.Popen(  # noqa: S603  the operator's own, and no shell
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, start_new_session=True
        )
    except (OSError, ValueError) as error:
        raise PasswordMissing(f"{subject} cannot be run ({error})") from error
    with process:
        try:
            assert process.stdout is not None, "a pipe"
            output = _read(process.stdout.fileno(), deadline_s)
            if len(output) > OUTPUT_BYTES_MAX:
                raise PasswordMissing(f"{subject} prints more than {OUTPUT_BYTES_MAX} bytes")
            status = process.wait(max(0.0, deadline_s - time.monotonic()))
        except (TimeoutError, subprocess.TimeoutExpired):
            raise PasswordMissing(f"{subject} did not end within {timeout_s:g} s") from None
        finally:
            if process.poll() is None:
                # Kill the whole process group: the command may have started other processes.
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
    if status:
        raise PasswordMissing(f"{subject} ended with status {status}")
    return output


def _read(descriptor: int, deadline_s: float) -> bytes:
    """Return the bytes of a pipe up to its end, or one more than may come.

    Raises:
        TimeoutError: the end did not come in time.
    """
    output = b""
    with selectors.DefaultSelector() as selector:
        selector.register(descriptor, selectors.EVENT_READ)
        while len(output) <= OUTPUT_BYTES_MAX:
            if not selector.select(max(0.0, deadline_s - time.monotonic())):
                raise TimeoutError
            part = os.read(descriptor, OUTPUT_BYTES_MAX + 1 - len(output))
            if not part:
                break
            output += part
    return output
