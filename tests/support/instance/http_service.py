"""The HTTP service over a running instance, and calls of it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import requests
from integration.shared_servers import SharedShop
from prometheus_client.parser import text_string_to_metric_families

from canal_group.actors.http.service import HttpService, HttpSettings


class Http:
    """Calls a service."""

    def __init__(self, service: HttpService, shop: SharedShop, audit_log: Path) -> None:
        self.service = service
        self.audit_log = audit_log
        self.base = f"/api/instances/{shop.destination}"
        self.token = shop.instance.address.operator_token

    def __call__(self, method: str, path: str, *, token: str | None = None, **options: Any) -> Any:
        headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        if "data" in options:
            headers["Content-Type"] = "application/json"
        return requests.request(method, self.service.url + path, headers=headers, timeout=60, **options)

    def operate(self, method: str, path: str, **options: Any) -> Any:
        return self(method, self.base + path, token=self.token, **options)

    def state(self) -> dict[str, Any]:
        answer = self("GET", self.base)
        assert answer.status_code == 200, answer.text
        return dict(answer.json())

    def samples(self, path: str = "/metrics") -> dict[tuple[str, ...], float]:
        """Scrape; return the values by name and labels."""
        answer = self("GET", path)
        assert answer.status_code == 200, answer.text
        return {
            (sample.name, *(f"{key}={value}" for key, value in sorted(sample.labels.items()))): sample.value
            for family in text_string_to_metric_families(answer.text)
            for sample in family.samples
        }


@contextmanager
def listening(shop: SharedShop, folder: Path, **changes: Any) -> Iterator[Http]:
    file = folder / "shop.yaml"
    running = SimpleNamespace(instances={file: shop.instance})
    settings = HttpSettings(**{"port": 0, "audit_log": folder / "audit.jsonl", **changes})
    with HttpService(running, settings) as service:
        yield Http(service, shop, settings.audit_log)
