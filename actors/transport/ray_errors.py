"""Translate Ray's errors to ours."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from ray.exceptions import RayActorError, RayTaskError

from canal_group.merge.errors import CanalGroupError, ServerUnavailable


@contextmanager
def translated(whom: str) -> Iterator[None]:
    """Translate what waiting for an actor's answer raises.

    Args:
        whom: the actor asked, as a sentence names it.

    Raises:
        CanalGroupError: the actor's own.
        ServerUnavailable: the actor is unavailable or restarting, or did not answer in time.
        RuntimeError: the actor's call met an error that is not ours.
    """
    try:
        yield
    except RayTaskError as error:
        if isinstance(error.cause, CanalGroupError):
            raise error.cause from None
        # Ray's is of the class of its cause as well, with a traceback for its words: it would be taken for an
        # error of the caller's, and shown.
        raise RuntimeError(f"{whom} failed: {type(error.cause).__name__}") from error
    except RayActorError as error:
        raise ServerUnavailable(
            f"{whom} is unavailable or restarting ({type(error).__name__}).", retry_after_s=0.1
        ) from error
    except TimeoutError as error:  # Ray's own, or that of a future of an answer
        raise ServerUnavailable(f"{whom} did not answer in time.", retry_after_s=1.0) from error
