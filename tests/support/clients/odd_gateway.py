"""A gateway that answers what a test gave it."""

from __future__ import annotations

import json
from typing import Any

from pyarrow import flight

from canal_group.merge.values.position import GroupPosition

CURSOR = GroupPosition().to_json()
SUBSCRIBED = {"epoch": 1, "lease_s": 30, "cursor": CURSOR}
STANDING = {"epoch": 0, "cursor": CURSOR, "outstanding": []}


class Gateway(flight.FlightServerBase):
    """Answers each request with the value that it was given for it, and rows with an error."""

    def __init__(self, **values: Any) -> None:
        super().__init__("grpc://127.0.0.1:0")
        usual = {"subscribe": SUBSCRIBED, "lease_state": STANDING, "release": None, "touch": None}
        self.values: dict[str, Any] = {**usual, **values}
        self.told = b""
        self.asked: list[str] = []
        self.bodies: list[dict[str, Any]] = []
        self.uri = f"grpc://127.0.0.1:{self.port}"

    def do_action(self, _context: object, action: flight.Action) -> list[bytes]:
        self.asked.append(action.type)
        self.bodies.append(json.loads(action.body.to_pybytes()))
        return [json.dumps({"value": self.values[action.type]}).encode()]

    def do_get(self, _context: object, _ticket: flight.Ticket) -> flight.RecordBatchStream:
        raise flight.FlightServerError("no", extra_info=self.told)
