"""What a server's nodes say: where canal's clients connect to it, and where consumers do.

canal's clients read `address` of the running node, and the names of the cluster nodes. Where canal's protocol
is served, these are its address, and `gateway` says where the gateway is; where it is not, `address` is the
gateway's.
"""

from __future__ import annotations

import json
from typing import Any


def running_server(gateway: str, canal: str) -> dict[str, Any]:
    """Return the members of the running node.

    Args:
        gateway: "host:port" of the gateway.
        canal: "host:port" where canal's protocol is served; empty: nowhere.
    """
    if not canal:
        return {"active": True, "address": gateway}
    return {"active": True, "address": canal, "gateway": gateway}


def registered_server(gateway: str, canal: str) -> tuple[str, dict[str, Any]]:
    """Return the name of a server's cluster nodes, and what they say; arguments as for `running_server`."""
    return (canal, {"gateway": gateway}) if canal else (gateway, {})


def gateway_of(state: bytes, address: str = "") -> str:
    """Return where the gateway of a server is; empty: the node does not say.

    Args:
        state: what one of its nodes says.
        address: the name of the node, if that is an address.
    """
    try:
        members = json.loads(state or b"{}")
        return str(members.get("gateway") or members.get("address") or address)
    except (AttributeError, RecursionError, ValueError):
        return address
