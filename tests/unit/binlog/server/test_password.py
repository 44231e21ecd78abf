"""Passwords that a command prints, or a file holds, when a connection is opened."""

from __future__ import annotations

import dataclasses
import json
import sys
import time
from pathlib import Path

import pytest
from support.defaults import address_of
from support.security.rogue_server import Wire, rogue
from support.security.rogue_server import login as let_in

from canal_group.binlog.server.dump_server.wire import address_fields, address_from
from canal_group.binlog.server.password import OUTPUT_BYTES_MAX, PasswordMissing, RenewedPassword
from canal_group.binlog.server.source import connect
from canal_group.merge.errors import SourceUnavailable, SourceUnfit

DENIED = b"\xff\x15\x04#28000Access denied"


def command(script: str, timeout_s: float = 20.0, lifetime_s: float = 0.0) -> RenewedPassword:
    return RenewedPassword((sys.executable, "-c", script), timeout_s=timeout_s, lifetime_s=lifetime_s)


def counting(folder, lifetime_s=0.0):
    """A command whose password is the number of its runs."""
    script = f"""
import os, time
open({str(folder)!r} + f"/{{time.time_ns()}}", "w")
print(len(os.listdir({str(folder)!r})))
"""
    return command(script, lifetime_s=lifetime_s)


def test_the_first_line_is_the_password(tmp_path):
    assert command("print('t0ken\\r\\nsecond')").read() == "t0ken"
    (tmp_path / "token").write_bytes(b" t0ken \r\n")
    assert RenewedPassword(file=str(tmp_path / "token"), timeout_s=1, lifetime_s=0).read() == " t0ken "


@pytest.mark.parametrize(
    ("script", "why"),
    [
        ("print('hunter2'); exit(3)", "ended with status 3"),
        ("", "the first line of the command .* is empty"),
        ("print('\\nhunter2')", "is empty"),
        ("import sys; sys.stdout.buffer.write(b'\\xff\\n')", "is not UTF-8 text"),
        (f"print('x' * {OUTPUT_BYTES_MAX + 1})", f"prints more than {OUTPUT_BYTES_MAX} bytes"),
    ],
)
def test_a_command_that_fails_is_an_error_without_its_output(script, why):
    with pytest.raises(PasswordMissing, match=why) as missing:
        command(script).read()
    assert "hunter2" not in str(missing.value)


def test_a_command_that_does_not_end_is_ended_with_what_it_started(tmp_path):
    script = f"""
import subprocess, sys
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
open({str(tmp_path / "child")!r}, "w").write(str(child.pid))
print("hunter2", flush=True)
child.wait()
"""
    with pytest.raises(PasswordMissing, match=r"did not end within 2 s"):
        command(script, timeout_s=2.0).read()
    child = int((tmp_path / "child").read_text())
    deadline_s = time.monotonic() + 20
    while _runs(child):
        assert time.monotonic() < deadline_s, "the child still runs"


def _runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_a_missing_program_or_file_is_named(tmp_path):
    with pytest.raises(PasswordMissing, match=r"the command '/no/such' cannot be run"):
        RenewedPassword(("/no/such", "hunter2"), timeout_s=1, lifetime_s=0).read()
    with pytest.raises(PasswordMissing, match=r"gone cannot be read \(No such file or directory\)"):
        RenewedPassword(file=str(tmp_path / "gone"), timeout_s=1, lifetime_s=0).read()


def test_a_password_is_used_again_for_its_lifetime_only(tmp_path):
    anew, kept = counting(tmp_path), counting(tmp_path, lifetime_s=600)
    assert [anew.read(), anew.remembered(), anew.read()] == ["1", None, "2"]
    assert [kept.remembered(), kept.read(), kept.remembered()] == [None, "3", "3"]
    short = dataclasses.replace(kept, lifetime_s=1e-6)
    assert [short.read(), short.remembered()] == ["4", None]


def test_each_connection_has_the_password_of_its_moment(tmp_path):
    """A server denies the first one: a remembered password is read again once, and no other."""
    served = []

    def note(wire: Wire) -> None:
        served.append(wire.heard[-1])
        if len(served) == 2:
            wire.send(DENIED)
        else:
            let_in(wire)

    with rogue(note) as server:
        where = address_of(
            name="s1",
            host="127.0.0.1",
            port=server.port,
            user="canal",
            password=counting(tmp_path, lifetime_s=600),
            server_id=9,
            read_timeout_s=5.0,
        )
        connect(where).close()
        connect(where).close()
        assert len(served) == 3, "denied with a remembered one, it logs in with a new one"
        assert len(list(tmp_path.iterdir())) == 2
        assert served[1] != served[2]
        del served[1:]
        with pytest.raises(SourceUnfit, match="Access denied"):
            connect(dataclasses.replace(where, password=counting(tmp_path)))
        assert len(list(tmp_path.iterdir())) == 3


def test_a_source_without_a_password_is_unavailable_and_tried_again():
    where = address_of(
        name="s1", host="127.0.0.1", port=1, user="canal", password=command("exit(3)"), server_id=9
    )
    with pytest.raises(SourceUnavailable, match=r"^canal@127\.0\.0\.1:1 has no password: .* status 3"):
        connect(where)


def test_a_dump_server_is_told_where_the_password_comes_from():
    for password in (
        command("print(1)"),
        RenewedPassword(file="/token", timeout_s=1, lifetime_s=2),
        "hunter2",
    ):
        where = address_of(name="s1", host="db", port=1, user="canal", password=password, server_id=9)
        assert "hunter2" not in repr(where)
        assert address_from(json.loads(json.dumps(address_fields(where)))).password == password
