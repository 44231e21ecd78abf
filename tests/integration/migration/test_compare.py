"""One shard as an instance of its own and inside a group: both streams by canal's protocol, compared."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from integration.shop import Shop
from support.soak import first_quick
from typer.testing import CliRunner

from canal_group.programs.command.cli import app

LISTENER = {"canal": {"port": 0}}


@pytest.fixture
def file(shop: Shop, tmp_path: Path) -> Path:
    """The instance file that the command reads: the group's shards and routes."""
    settings = shop.settings(**LISTENER)
    shards = [
        {"name": each.name, "host": each.host, "port": each.port, "user": each.user}
        for each in settings.shards
    ]
    routes = [{"match": each.match, "to": each.to} for each in settings.filter.routes]
    written = tmp_path / "trial.yaml"
    written.write_text(
        yaml.safe_dump(
            {
                "preset": "memory",
                "destination": shop.destination,
                "shards": shards,
                "filter": {"white": settings.filter.white, "routes": routes},
            }
        )
    )
    return written


def alone(shop: Shop, **filters: Any) -> Shop:
    """Return a shop whose instance has only the first shard, unrouted, as canal would serve it."""
    one = object.__new__(Shop)
    one.__dict__.update(shop.__dict__, servers=shop.servers[:1], destination=f"{shop.destination}-s0")
    return one


def compared(file: Path, canal: str, ours: str, shop: Shop, *, status: int) -> dict[str, Any]:
    options = (
        "--shard",
        "s0",
        "--canal-destination",
        f"{shop.destination}-s0",
        "--timeout",
        "8",
        "--rows",
        "120",
        "--differences",
        "3",
    )
    done = CliRunner().invoke(
        app, ["compare", "-c", str(file), "--canal", canal, "--ours", ours, *options, "--json"]
    )
    assert done.exit_code == status, done.output
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


@pytest.mark.parametrize(
    "mask", first_quick(1, [None, {"column": "note", "kind": "constant", "value": "masked"}])
)
def test_a_shard_is_the_same_alone_and_in_a_group_or_the_diff_is_shown(
    shop: Shop, file: Path, mask: dict[str, str] | None
) -> None:
    tables = [] if mask is None else [{"match": r"shop_0\.orders", "masks": [mask]}]
    one = alone(shop)
    filters = {"white": r"shop_0\..*", "tables": tables}
    with (
        shop.serve(**LISTENER, start="latest") as group,
        one.serve(**LISTENER, start="latest", filter=filters) as single,
    ):
        # The client id that it reads under begins here.
        shop.connect(group, client_id="1001").close()
        one.connect(single, client_id="1001").close()
        shop.write_everywhere(20, rows=3)
        shop.servers[0].execute(
            "UPDATE shop_0.orders SET price = NULL", "ALTER TABLE shop_0.orders ADD c INT"
        )
        shop.write(1, 1)
        found = compared(
            file, single.canal_address, group.canal_address, shop, status=0 if mask is None else 1
        )
    if mask is None:
        assert (found["ok"], found["differences"]) == (True, [])
        # 60 rows of three columns, and two images of each when they are updated
        assert (found["rows"], found["values"]) == (120, 60 * 3 + 60 * 3 * 2)
        return
    assert len(found["differences"]) == 3
    difference = found["differences"][0]
    assert (difference["table"], difference["column"]) == ("shop.orders", "note")
    assert (difference["theirs"], difference["ours"][:6]) == ("'masked'", "'note ")
    assert difference["file"].startswith("mysql-bin.")
