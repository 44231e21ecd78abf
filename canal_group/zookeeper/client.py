"""Client: kazoo's client as servers and consumers use it, and its errors as ours."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from kazoo.client import KazooClient
from kazoo.exceptions import (
    AuthFailedError,
    ConfigurationError,
    InvalidACLError,
    KazooException,
    NoAuthError,
    NodeExistsError,
    NoNodeError,
)
from kazoo.retry import KazooRetry
from kazoo.security import make_digest_acl

from canal_group.merge.errors import ConfigError, CoordinatorUnavailable
from canal_group.zookeeper.login import ZooKeeperLogin

#: kazoo writes every request at level DEBUG, passwords included
_kazoo_log = logging.getLogger(f"{__name__}.kazoo")
_kazoo_log.setLevel(logging.INFO)


def new_client(
    hosts: str,
    session_timeout_s: float,
    login: ZooKeeperLogin,
    make_client: Callable[..., Any] = KazooClient,
) -> Any:
    """Return a client that is not connected; every node that it makes belongs to its user alone.

    Args:
        hosts: "host:port,host:port", optionally followed by a chroot.
        session_timeout_s: seconds of silence after which ZooKeeper ends the session.
        login: the user.
        make_client: makes it.

    Raises:
        ConfigError: `hosts` is not such a list.
    """
    # kazoo's default waits up to an hour between two attempts to connect.
    retry = KazooRetry(max_tries=-1, delay=0.05, backoff=2, max_delay=min(1.0, session_timeout_s / 10))
    try:
        return make_client(
            hosts=hosts,
            timeout=session_timeout_s,
            connection_retry=retry,
            default_acl=acl_of(login),
            logger=_kazoo_log,
            **login.client_options(),
        )
    except (ConfigurationError, ValueError) as error:
        raise ConfigError(
            f"{hosts!r} is not a list of ZooKeeper hosts ({error}).", hint="Expected host:port,host:port."
        ) from error


def acl_of(login: ZooKeeperLogin) -> list[Any] | None:
    """Return the access list of a user's nodes; None: everybody may use them."""
    return [make_digest_acl(login.user, login.password, all=True)] if login.user else None


@contextmanager
def translated(
    client: Any, refused: Callable[[str], ConfigError], unavailable: Callable[[str], CoordinatorUnavailable]
) -> Iterator[None]:
    """Raise kazoo's errors as ours; that a node exists, or does not, is an answer and is raised as it is.

    Args:
        client: whose errors they are.
        refused: returns the error of a user without access; its argument is the name of kazoo's.
        unavailable: returns the error of a lost connection or a timeout; its argument says which.
    """
    try:
        yield
    except (NoAuthError, InvalidACLError, AuthFailedError) as error:
        raise refused(type(error).__name__) from error
    except (NoNodeError, NodeExistsError):
        raise
    except (KazooException, client.handler.timeout_exception) as error:
        raise unavailable(f"did not answer ({type(error).__name__})") from error
