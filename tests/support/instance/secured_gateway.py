"""A gateway with a certificate, and clients with tokens."""

from __future__ import annotations

from typing import Any

from integration.shop import CLIENT
from support.security.certificates import Authority

#: by what the settings find it -> the secret
SECRETS = {
    "READER_TOKEN": "reader-s3cret-1",
    "STOCK_TOKEN": "stock-s3cret-2",
    "OPS_TOKEN": "ops-s3cret-3",
    "ZOOKEEPER_PASSWORD": "zookeeper-s3cret-4",
}


def gateway_of(authority: Authority, **ssl: str) -> dict[str, Any]:
    """A gateway with a certificate, and three clients."""
    pair = authority.pair("gateway")
    return {
        "port": 0,
        "ssl": {"cert": str(pair.cert), "key": str(pair.key), **ssl},
        "clients": [
            {"name": "reader", "token_env": "READER_TOKEN", "client_ids": [CLIENT]},
            {"name": "stock", "token_env": "STOCK_TOKEN", "destinations": ["stock"]},
            {"name": "ops", "token_env": "OPS_TOKEN", "operate": True},
        ],
    }
