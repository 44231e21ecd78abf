"""Messages: what a batch of changes becomes for a queue."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class Messages:
    """n messages in the order of publishing, which each topic's partition keeps."""

    #: names of topics
    topics: tuple[str, ...]
    #: (n,) index into `topics`
    topic: NDArray[np.int32]
    #: (n,)
    partition: NDArray[np.int32]
    #: (n,) utf8 or binary Array
    value: Any
    #: name -> (n,) utf8 Array; a message lacks a header that is null. See
    #: `canal_group.programs.output.formats`
    headers: Mapping[str, Any]
    #: (n,) utf8 Array; None: messages have no key
    key: Any = None

    def __len__(self) -> int:
        return len(self.topic)
