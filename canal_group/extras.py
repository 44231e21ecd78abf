"""Extras of the distribution: what must be installed for all but reading as a consumer."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

#: which extra brings a module, by its top-level name
EXTRAS = {
    "confluent_kafka": "kafka",
    "cryptography": "server",
    "fastapi": "server",
    "google": "server",  # protobuf
    "javaproperties": "server",
    "pandas": "ray-data",
    "pika": "rabbitmq",
    "prometheus_client": "server",
    "pydantic": "server",
    "pymysql": "server",
    "pymysqlreplication": "server",
    "pyspark": "spark",
    "ray": "server",
    "re2": "server",
    "rich": "server",
    "sqlglot": "server",
    "starlette": "server",
    "typer": "server",
    "uvicorn": "server",
    "yaml": "server",
}


class MissingExtraError(ImportError):
    """What is asked for needs an extra that is not installed.

    Args:
        what: what is asked for.
        module: the module that was not found.
        extra: the extra that brings it.
    """

    def __init__(self, what: str, module: str, extra: str) -> None:
        super().__init__(
            f"{what} needs {module}, which is not installed: pip install 'canal-group[{extra}]'.", name=module
        )
        self.extra = extra


@contextmanager
def needed_by(what: str, extra: str | None = None) -> Iterator[None]:
    """Name the extra to install if an import in the context finds no module that an extra brings.

    Args:
        what: what is asked for, the first word of the error.
        extra: the extra of `what`; None: the one that brings the module.

    Raises:
        MissingExtraError: a module of an extra is not installed.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        module = (error.name or "").partition(".")[0]
        if module not in EXTRAS:
            raise
        raise MissingExtraError(what, module, extra or EXTRAS[module]) from error
