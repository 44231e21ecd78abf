"""A stepped clock: what its processes see, and what they do not see."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from chaos.clocks import S_US, Clock, compiled
from chaos.journal import now_us
from chaos.sources import ClockedMariaDb
from playground.database.server_process import ServerMissingError

#: how long a query may take, microseconds
NEAR_US = 2 * S_US
#: prints its time of day, and sleeps and waits, for each line of input
ASKED = """
import sys, threading, time
for _ in sys.stdin:
    begun_s = time.monotonic()
    time.sleep(0.05)
    threading.Event().wait(0.05)
    threading.Lock().acquire(timeout=0.05)
    assert time.monotonic() - begun_s < 5
    print(time.time_ns() // 1000, flush=True)
"""


@pytest.fixture
def clock(tmp_path: Path) -> Clock:
    return Clock(tmp_path / "clock", compiled(tmp_path))


def test_a_python_process_sees_each_step_at_once_and_sleeps_as_before(clock: Clock):
    command = [*clock.command(sys.executable), "-c", ASKED]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        for offset_us in (0, 90 * S_US, -200 * S_US, -1, 0):
            clock.set(offset_us)
            process.stdin.write("\n")
            process.stdin.flush()
            assert abs(int(process.stdout.readline()) - now_us() - offset_us) < NEAR_US
        process.stdin.close()


def test_a_mariadb_stamps_by_its_own_clock(clock: Clock):
    try:
        ClockedMariaDb.template()
    except ServerMissingError as error:
        pytest.skip(str(error))
    with ClockedMariaDb(clock) as server:
        for offset_us in (60 * S_US, -60 * S_US, 0):
            clock.set(offset_us)
            ((stamp,),) = server.execute("SELECT CAST(UNIX_TIMESTAMP(NOW(6)) * 1000000 AS INTEGER)")
            assert abs(int(stamp) - now_us() - offset_us) < NEAR_US
            server.execute("DO SLEEP(0.1)")
