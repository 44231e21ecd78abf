"""`canal-group consume` as a process: how much it prints, whom it waits for, and what its end leaves."""

from __future__ import annotations

import json
import signal
import subprocess
from typing import Any

from integration.shared_servers import SharedShop
from integration.shop import DEADLINE_S
from support.instance.program import PROGRAM, run


def consume(shop: SharedShop, client_id: str, *options: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [*PROGRAM, "consume", *where(shop), "--client", client_id, *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def where(shop: SharedShop) -> list[str]:
    return ["-g", shop.instance.uri, "-d", shop.destination]


def ids(lines: str) -> list[str]:
    rows: list[dict[str, Any]] = [json.loads(line) for line in lines.splitlines()]
    return [row["after"]["id"] for row in rows]


def test_rows_are_as_many_as_asked_for_also_within_a_transaction(served: SharedShop):
    """1. a part of a transaction is printed and not acknowledged; 2. so it comes again, and a part of the
    next one; 3. with the whole one all is acknowledged.
    """
    served.connect(client_id="counting").close()
    served.write(0, 2, rows=5)
    written = [str(number) for number in served.written["s0"]]
    take = ["consume", *where(served), "--client", "counting", "--ack", "--timeout", "20", "--rows"]
    for count, begin, whole in ((2, 0, False), (7, 0, False), (5, 5, True)):
        done = run(*take, str(count))
        assert ids(done.stdout) == written[begin : begin + count]
        assert ("Not acknowledged: a transaction of 5 rows" in done.stderr) != whole


def test_a_second_consumer_says_that_it_waits_and_sigterm_releases(served: SharedShop):
    """1. one holds the client id; 2. another one names it and waits; 3. SIGTERM ends the first one in good
    order, and the other has its rows long before a lease would have ended.
    """
    with consume(served, "pair", "--ack") as first:
        assert first.stdout is not None
        served.write(0, 1)
        assert first.stdout.readline()
        with consume(served, "pair", "--rows", "1", "--timeout", str(DEADLINE_S)) as second:
            assert second.stderr is not None
            said = second.stderr.readline()
            assert "waits: Client pair is held by" in said
            assert f":{first.pid}:" in said
            first.send_signal(signal.SIGTERM)
            assert first.wait(DEADLINE_S) == 0
            assert first.stderr is not None
            assert first.stderr.read() == ""
            served.write(0, 1)
            assert ids(second.communicate(timeout=served.instance.settings.consumer.lease_s / 2)[0]) == [
                str(served.written["s0"][-1])
            ]
            assert second.returncode == 0
