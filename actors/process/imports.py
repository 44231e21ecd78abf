"""Control what an actor's process imports: before it serves, or never.

Two imports would otherwise happen at the worst time, with the first transaction:

- The first time pyarrow makes an array, it checks whether the object is from pandas. For that it imports
  pandas if it is installed, which takes half a second of processor time and tens of megabytes in each shard.
  Our actors never handle pandas objects.
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
    """An import finder that hides pandas."""

    def find_spec(self, name: str, path: Sequence[str] | None = None, target: object = None) -> None:  # noqa: ARG002  the protocol's signature
        """Raise for pandas as if it were not installed; leave other modules to the next finder."""
        if name == _PANDAS:
            raise ModuleNotFoundError(f"{_PANDAS} is left out", name=name)


def freeze_imports() -> None:
    """Prepare a process for serving; each actor calls it first.

    Imported modules are never garbage. They are frozen, so that the garbage collector does not traverse them
    again and again while the process handles rows.
    """
    leave_pandas_out()
    gc.collect()
    gc.freeze()


def leave_pandas_out() -> None:
    """Make pyarrow treat pandas as not installed; other code can still import it.

    Call it before the process makes its first array. If pandas is imported already, nothing changes.
    """
    if _PANDAS in sys.modules:
        return
    finder = _NotHere()
    sys.meta_path.insert(0, finder)
    try:
        pa.array([0])
    finally:
        sys.meta_path.remove(finder)
