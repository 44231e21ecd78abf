"""A sample of the stream: few enough rows in a second to be read, of those that come for the first time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np
import pyarrow as pa

from canal_group.programs.demo.show.change_line import SHOWN

#: rows at the beginning, and rows in a second after them
FIRST_ROWS: Final = 20
ROWS_PER_S: Final = 4.0


class Sample:
    """Chooses rows of the batches that it is shown: spread over a batch, in its order.

    Args:
        clock: returns the time, seconds.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        #: rows that may be shown now, at the time of the last look
        self._allowed, self._looked_s = float(FIRST_ROWS), clock()
        #: the last row that was chosen from a batch: what comes again after a rollback is not shown again
        self._last_seq = -1

    def of(self, envelope: pa.Table) -> list[dict[str, Any]]:
        """Return the rows of a batch to show, columns `SHOWN`.

        Args:
            envelope: the batch, see `canal_group.merge.rows.envelope.ENVELOPE`.
        """
        now_s = self._clock()
        # A pause saves up a second's rows at most, so that what follows does not rush past.
        saved = max(self._allowed, ROWS_PER_S)
        self._allowed = min(self._allowed + (now_s - self._looked_s) * ROWS_PER_S, saved)
        self._looked_s = now_s
        seq = envelope.column("seq").to_numpy()
        new = np.flatnonzero(seq > self._last_seq)
        count = min(int(self._allowed), len(new))
        if not count:
            return []
        self._allowed -= count
        chosen = new[np.linspace(0, len(new) - 1, count).astype(np.int64)]
        self._last_seq = int(seq[new[-1]])
        rows: list[dict[str, Any]] = envelope.select(SHOWN).take(pa.array(chosen)).to_pylist()
        return rows
