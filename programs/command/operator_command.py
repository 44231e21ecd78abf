"""Operator commands: commands that call a running instance, and the options that locate it."""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Callable
from typing import Any, Final

from canal_group.gateway.tls import Tls
from canal_group.merge.calls.call import OperatorCall
from canal_group.merge.well_known import GATEWAY
from canal_group.operator import Operator
from canal_group.programs.command.options.address_options import Destination, Gateway
from canal_group.programs.command.options.login_options import TlsCa, TlsCert, TlsKey, TokenEnv, secret

#: the calls that have a command
COMMANDED: Final[set[type[OperatorCall[Any]]]] = set()

Command = Callable[..., None]


def operated(*calls: type[OperatorCall[Any]]) -> Callable[[Command], Command]:
    """Return a decorator that makes a typer command of a function whose first argument is the operator.

    Its options are those of the function, followed by those for the instance's address and the caller's
    login.

    Args:
        calls: those that it makes; they get no command that is derived from their fields.
    """
    COMMANDED.update(calls)
    return _command


def _command(run: Command) -> Command:
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
