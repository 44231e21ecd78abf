"""Tables that a snapshot could not read: named everywhere until a snapshot has read them."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from integration.shared_servers import SharedShop
from integration.shop import Shop, kill
from integration.zookeeper_fixtures import eventually
from support.instance.http_service import Http, listening
from support.instance.page import CHROMIUM, DRIVER, Page
from support.instance.shop_copy import Copy
from typer.testing import CliRunner

from canal_group.actors.driver.instance import Instance
from canal_group.programs.command.cli import app

GAUGE = "canal_group_client_snapshot_failed_tables"


@pytest.fixture
def page(request: pytest.FixtureRequest) -> Page | None:
    """The page in a browser; None where there is no browser."""
    return None if CHROMIUM is None or DRIVER is None else Page(request.getfixturevalue("browser"))


class Told:
    """What is told of an instance, in each of the places where operators look."""

    def __init__(self, shop: Shop, instance: Instance, http: Http, page: Page | None) -> None:
        self._shop, self.instance, self._http, self._page = shop, instance, http, page

    def client(self) -> dict[str, Any]:
        (client,) = self._http.state()["group"]["clients"]
        return dict(client)

    def named(self) -> dict[str, str] | None:
        """Return the reasons that the API names; None while its server is not active."""
        clients = self._http.state()["group"].get("clients")
        return clients and (clients[0]["unread"] or {"reasons": {}})["reasons"]

    def run(self, *words: str) -> str:
        secrets = {"CANAL_GROUP_TOKEN": self.instance.address.operator_token or ""}
        done = CliRunner(env=secrets).invoke(app, [*words, "-g", self.instance.uri])
        assert done.exit_code == 0, done.output
        return " ".join(done.stdout.split())

    def check(self, reasons: dict[str, str]) -> None:
        """Assert which tables are named."""
        eventually(lambda: self.named() == reasons, f"the API names {list(reasons)}")
        shown = self.run("status", "-d", self._shop.destination)
        gauges = {key[1:]: value for key, value in self._http.samples().items() if key[0] == GAUGE}
        assert set(gauges.values()) == ({1.0} if reasons else set())
        assert ("could not read" in shown) == bool(reasons)
        for table, why in reasons.items():
            assert f"not read: {table}: {why}" in shown
            assert any(f"shard={table.partition(' ')[0]}" in labels for labels in gauges)
        if self._page is not None:
            self._page.open(self._http.service.url)
            told = self._page.until_text("#clients", "copy")
            assert ("could not read" in told) == bool(reasons)
            assert all(f"{table}: {why}" in told for table, why in reasons.items())


@contextlib.contextmanager
def serving(shop: Shop, folder: Path, page: Page | None) -> Iterator[Told]:
    with shop.serve(archive={"folder": str(folder / "archive")}) as instance:
        served = cast("SharedShop", SimpleNamespace(destination=shop.destination, instance=instance))
        with listening(served, folder) as http:
            yield Told(shop, instance, http, page)


def test_an_unread_table_is_named_until_it_is_read(shop: Shop, tmp_path: Path, page: Page | None) -> None:
    """1. The rows of one shard may not be selected; 2. the mark of its snapshot is acknowledged, another
    server takes over, and everything is started anew; 3. after the GRANT the table is read.
    """
    shop.write_everywhere(2, 5)
    account = f"`{shop.servers[0].address().user}`@`127.0.0.1`"
    shop.servers[0].execute(f"GRANT SELECT ON shop_0.* TO {account}")
    grant = f"GRANT SELECT ON `shop_1`.* TO {account};"
    shop.servers[1].execute(grant, f"REVOKE SELECT ON shop_1.* FROM {account}")
    with (
        serving(shop, tmp_path, page) as told,
        shop.connect(told.instance, client_id="copy", snapshot="initial") as consumer,
    ):
        copy = Copy(consumer)
        copy.complete(shop)
        eventually(lambda: told.client()["snapshot"] is None, "the snapshot is over")
        (why,) = (why for mark in copy.marks for why in mark.failed.values())
        assert why.endswith(grant)
        unread = {"s1 shop_1.orders": why}
        told.check(unread)
        before, rows = consumer.status()["group"], len(copy.rows)
        kill(before["pid"])
        shop.write_everywhere(1)
        copy.until(lambda: len(copy.rows) > rows)
        assert consumer.status()["group"]["epoch"] > before["epoch"]
        told.check(unread)
    with serving(shop, tmp_path, page) as told:
        told.check(unread)
        shop.servers[1].execute(grant)
        told.run(
            "snapshot",
            "again",
            "-d",
            shop.destination,
            "copy",
            "shop_1.orders",
            "--token-env",
            "CANAL_GROUP_TOKEN",
        )
        with shop.connect(told.instance, client_id="copy") as consumer:
            copy = Copy(consumer)
            copy.complete(shop)
            assert {shard for shard, _ in copy.rows} == {"s1"}
            eventually(lambda: told.client()["snapshot"] is None, "it is over")
            told.check({})
