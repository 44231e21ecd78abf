"""What an actor's process imports, and when: before it serves, or never.

Two imports come by themselves at the worst of moments, the first transaction:

- pyarrow asks whether an object is one of pandas' the first time it makes an array of anything, and imports
  pandas for that where it is installed: half a second of processor time and tens of megabytes in each shard.
  Nothing that an actor of ours handles comes from pandas.
- numpy imports its masked arrays for the first `np.unique`.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Sequence

import numpy.ma  # noqa: F401  see above
import pyarrow as pa

_PANDAS = "pandas"


class _NotHere:
    """A finder that finds no pandas."""

    def find_spec(self, name: str, path: Sequence[str] | None = None, target: object = None) -> None:  # noqa: ARG002  the protocol's signature
        """Raise for pandas as if it were not installed; leave any other module to the next finder."""
        if name == _PANDAS:
            raise ModuleNotFoundError(f"{_PANDAS} is left out", name=name)


def freeze_imports() -> None:
    """Make a process ready to serve: called first, by who serves in it.

    What is imported by now stays, hence is no garbage: the collector, which would look at all of it again and
    again while rows pass by, is told to pass over it.
    """
    leave_pandas_out()
    gc.collect()
    gc.freeze()


def leave_pandas_out() -> None:
    """Let pyarrow take pandas for not installed; who imports it himself still gets it.

    Called before the process makes its first array. Where pandas is imported already nothing changes.
    """
    if _PANDAS in sys.modules:
        return
    finder = _NotHere()
    sys.meta_path.insert(0, finder)
    try:
        pa.array([0])
    finally:
        sys.meta_path.remove(finder)
