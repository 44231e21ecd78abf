"""A server that stands by: what the coordinator said last is shown only as long as it is known to be true."""

from __future__ import annotations

from canal_group.actors.group.standby import Standby
from canal_group.actors.ports import Silence


class Coordinator:
    """One that has not answered for a time."""

    def __init__(self, for_s: float, active: str) -> None:
        self._silence = Silence("ZooKeeper at zk:2181", for_s, 10.0)
        self._active = active

    def silence(self) -> Silence:
        return self._silence

    def active_address(self) -> str:
        return self._active

    def stop_mark(self) -> None:
        return None


def standby(for_s: float, active: str) -> Standby:
    return Standby("shop", "a:1", Coordinator(for_s, active))  # type: ignore[arg-type]  # what it asks of it


def test_it_names_the_active_server_while_the_coordinator_answers():
    known = standby(9.0, "b:1").describe()
    assert (known["active_server"], known["silence_s"]) == ("b:1", 9.0)
    assert "error" not in known


def test_no_server_is_active_once_the_coordinator_is_away():
    known = standby(93.4, "b:1").describe()
    assert known["active_server"] is None
    assert known["error"] == (
        "nobody is known to be active: ZooKeeper at zk:2181 has not answered for 93 s; b:1 was before that"
    )
    refusal = standby(93.4, "b:1").refusal()
    assert refusal.message.startswith("shop: nobody is known to be active: ZooKeeper at zk:2181")


def test_it_does_not_name_itself():
    assert standby(1.0, "a:1").describe()["active_server"] is None
