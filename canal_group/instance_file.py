"""The instance file of a running server: shards that it gains or loses join or leave."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from conf.load import load_instance
from conf.settings import InstanceSettings
from merge.errors import CanalGroupError, RetryableError


class ShardsOfFile:
    """Passes on what a file says whenever it has changed; what cannot be is said once, and changes nothing.

    Args:
        config: the instance file, as it was served.
        say: takes a sentence.
    """

    def __init__(self, config: Path, say: Callable[[str], object]) -> None:
        self._config = config
        self._say = say
        self._seen = self._stamp()

    def follow(self, adopt: Callable[[InstanceSettings], list[str]]) -> None:
        """Hand changed settings to `adopt` and say its sentences; what can be retried is, next time."""
        stamp = self._stamp()
        if stamp == self._seen or stamp is None:
            return
        try:
            for sentence in adopt(load_instance(self._config)):
                self._say(sentence)
        except RetryableError:
            return
        except CanalGroupError as error:
            self._say(f"{self._config} changed, and nothing follows from it: {error}")
        self._seen = stamp

    def _stamp(self) -> tuple[int, int] | None:
        try:
            found = self._config.stat()
        except OSError:
            return None
        return found.st_mtime_ns, found.st_size
