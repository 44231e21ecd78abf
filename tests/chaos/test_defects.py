"""Tests of the search for defects in logs."""

from __future__ import annotations

from pathlib import Path

from chaos.defects import defects

LOG = """\
2026-11-27T05:32:36Z INFO candidate destination=chaos epoch=9: active
2026-11-27T05:32:39Z ERROR candidate destination=chaos: the group failed
  Traceback (most recent call last):
    File "follower.py", line 146, in follow
      rpc = await self._channel.rpc()
            ^^^^^^^^^^^^^^^^^^^^^^^^^
  asyncio.exceptions.InvalidStateError: Result is not set.
2026-11-27T05:32:40Z WARNING ray: a task failed
"""


def test_a_traceback_in_a_log_is_a_defect(tmp_path: Path):
    log = tmp_path / "server-0.log"
    log.write_text(LOG)
    (found,) = defects([log])
    assert found == (
        "server-0.log: 2026-11-27T05:32:39Z ERROR candidate destination=chaos: the group failed"
        " asyncio.exceptions.InvalidStateError: Result is not set."
    )
    log.write_text("\n".join(line for line in LOG.splitlines() if not line.startswith(" ")))
    assert not list(defects([log]))
