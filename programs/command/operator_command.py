"""Operator commands: commands that call a running instance, and the options that locate it."""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Callable
from typing import Any

from canal_group.gateway.tls import Tls
from canal_group.operator import Operator
from merge.well_known import GATEWAY
from programs.command.options.address_options import Destination, Gateway
from programs.command.options.login_options import TlsCa, TlsCert, TlsKey, TokenEnv, secret


def operated(run: Callable[..., None]) -> Callable[..., None]:
    """Return a typer command that makes the operator, the first argument of `run`.

    Its options are those of `run`, followed by those for the instance's address and the caller's login.
    """
    where = inspect.signature(_operator, eval_str=True).parameters
    own = list(inspect.signature(run, eval_str=True).parameters.values())[1:]

    def command(**options: Any) -> None:
        with contextlib.closing(_operator(**{name: options.pop(name) for name in where})) as operator:
            run(operator, **options)

    parameters = [each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in (*own, *where.values())]
    command.__name__, command.__doc__ = run.__name__, run.__doc__
    command.__annotations__ = {each.name: each.annotation for each in parameters}
    vars(command)["__signature__"] = inspect.Signature(parameters)
    return command


def _operator(
    destination: Destination,
    gateway: Gateway = GATEWAY,
    token_env: TokenEnv = None,
    tls_ca: TlsCa = None,
    tls_cert: TlsCert = None,
    tls_key: TlsKey = None,
) -> Operator:
    return Operator(gateway, destination, secret(token_env, "--token-env"), Tls(tls_ca, tls_cert, tls_key))
