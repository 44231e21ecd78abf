"""The bar of a snapshot: what it says, and that it makes room for rows and goes at the end."""

from __future__ import annotations

import os
import sys
import threading

import pytest
from rich.cells import cell_len

from canal_group.programs.command.consuming.snapshot_bar import SnapshotBar, bar_line

SNAPSHOT = {"rows": 300, "rows_estimated": 1_200, "words": "snapshot: tables read: 1 of 4"}


def test_a_bar_fits_its_line_and_needs_an_estimate():
    assert bar_line(SNAPSHOT, 80) == "[#####               ]  25%  snapshot: tables read: 1 of 4"
    assert bar_line({**SNAPSHOT, "rows": 9_999}, 80).startswith(f"[{'#' * 20}] 100%")
    assert bar_line({**SNAPSHOT, "rows_estimated": None}, 80) == SNAPSHOT["words"]
    assert cell_len(bar_line({**SNAPSHOT, "words": "waits at \x1b[2J" + "寿" * 80}, 79)) <= 79


def test_a_bar_makes_room_for_rows_and_goes_at_the_end(monkeypatch):
    """1. It draws on a terminal; 2. rows are printed where it was, and it is below them; 3. it ends."""
    master, slave = os.openpty()
    monkeypatch.setenv("COLUMNS", "80")
    clients = [{"client_id": "other", "snapshot": None}, {"client_id": "copy", "snapshot": SNAPSHOT}]
    with os.fdopen(slave, "w") as terminal:
        monkeypatch.setattr(sys, "stderr", terminal)
        seen = b""
        with SnapshotBar("copy", lambda: {"group": {"clients": clients}}, has_snapshot=True) as bar:
            while b"25%" not in seen:
                seen += os.read(master, 1024)
            with bar.hidden():
                terminal.write("a row")
                terminal.flush()
        rest = b""
        while not rest.endswith(b"4\r\x1b[2K"):
            rest += os.read(master, 1024)
    os.close(master)
    cleared = rest.index(b"\r\x1b[2Ka row[#####")
    assert b"#" not in rest[:cleared]


@pytest.mark.parametrize("has_terminal", [False, True])
def test_without_a_terminal_or_a_snapshot_no_state_is_asked_for(has_terminal, monkeypatch, capsys):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: has_terminal)
    with SnapshotBar("copy", dict, has_snapshot=not has_terminal) as bar, bar.hidden():
        assert "snapshot-bar" not in [each.name for each in threading.enumerate()]
        sys.stdout.write("a row")
    assert capsys.readouterr() == ("a row", "")
