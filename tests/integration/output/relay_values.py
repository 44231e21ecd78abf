"""Settings of relays that read a shop, as a file would have them."""

from __future__ import annotations

import uuid
from typing import Any

from integration.shared_servers import SharedShop

#: of a topic whose messages are spread by key
PARTITIONS = 3


def relay_values(shop: SharedShop, output: dict[str, Any], **changes: Any) -> dict[str, Any]:
    """Return settings of a relay with a client id of its own."""
    return {
        "destination": shop.destination,
        "read": {
            "gateway": shop.instance.uri,
            "client_id": f"relay-{uuid.uuid4().hex[:8]}",
            "filter": r"shop\.orders",
        },
        "retry": {"max_s": 1.0},
        "output": output,
        **changes,
    }


def partitioned_values(shop: SharedShop, output: dict[str, Any], topic: str) -> dict[str, Any]:
    """Return settings of a relay that spreads small batches over the partitions of a topic."""
    route = {"topic": topic, "partitions": PARTITIONS, "partition_hash": r".*\..*:$pk$"}
    return relay_values(shop, output, route=route, batch={"rows_max": 200})
