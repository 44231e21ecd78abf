"""The page of a demo's instance."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from canal_group.actors.driver.instance import Instance
from canal_group.actors.http.service import HttpService, HttpSettings
from canal_group.programs.demo.instance import DESTINATION


@dataclass(frozen=True, slots=True)
class _Demo:
    """The one instance of a demo, as the HTTP service wants it."""

    instances: Mapping[Path, Instance]


@contextmanager
def page_of(instance: Instance) -> Iterator[HttpService]:
    """Serve the page of a demo's instance, on a free port: a server may have the usual one."""
    with tempfile.TemporaryDirectory(prefix="cg-page-") as folder:
        settings = HttpSettings(port=0, audit_log=Path(folder) / "audit.jsonl")
        with HttpService(_Demo({Path(folder) / f"{DESTINATION}.yaml": instance}), settings) as service:
            yield service
