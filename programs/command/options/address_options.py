"""Address options of the command line: the instance that a command is for, and how to reach it."""

from __future__ import annotations

from typing import Annotated

import typer

Destination = Annotated[str, typer.Option("--destination", "-d", help="The logical instance.")]
Gateway = Annotated[
    str, typer.Option("--gateway", "-g", help="The gateway, grpc://host:port; separate several by commas.")
]
Zookeeper = Annotated[
    str | None,
    typer.Option("--zookeeper", "-z", help="ZooKeeper's host:port,host:port; finds the active gateway."),
]
SharedMemory = Annotated[
    bool,
    typer.Option(
        "--shared-memory/--no-shared-memory",
        help="Read rows by shared memory from a gateway on this machine; otherwise by Arrow Flight.",
    ),
]
