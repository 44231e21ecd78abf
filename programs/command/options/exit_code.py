"""Exit codes of the commands; docs/operating.md explains them."""

from __future__ import annotations

from enum import IntEnum

from canal_group.merge.errors import CanalGroupError, RetryableError


class ExitCode(IntEnum):
    """What a command came to."""

    #: done; a signal ended `serve`, which has handed over, or SIGTERM `consume`, which has let its client go
    DONE = 0
    #: refused, or something is wrong with what was checked: an operator must act
    FAILED = 1
    #: the command line itself is wrong; nothing was done
    USAGE = 2
    #: not now: a source, ZooKeeper, a server or a gateway does not answer, or the change is still under way
    UNAVAILABLE = 3
    #: what was looked for is not there: `trace` found no such transaction, or no change of the row
    NOT_FOUND = 4
    #: ended by Ctrl-C
    INTERRUPTED = 130


def exit_code_of(error: CanalGroupError) -> ExitCode:
    """Return the exit code of a command that ends with an error."""
    return ExitCode.UNAVAILABLE if isinstance(error, RetryableError) else ExitCode.FAILED
