"""The audit log: what it says of a change, and that several processes can write it."""

import fcntl
import json
import multiprocessing
import threading

import pytest

from canal_group.actors.admission import audit_log
from canal_group.actors.admission.audit_log import VALUE_CHARS_MAX, AuditLog, audited
from canal_group.merge.calls.call import CALLS, Right, operate
from canal_group.merge.calls.operators import AddShard, Operation, RemoveShard
from canal_group.merge.errors import ServerUnavailable, UsageError


@pytest.fixture
def file(tmp_path):
    return tmp_path / "made" / "audit.jsonl"


def change(log, run=lambda: 7, **details):
    return log.changing("ops at 10.0.0.1", "gateway", "shop", "shard_policy", details, run)


def lines_of(file):
    return [json.loads(line) for line in file.read_text().splitlines()]


def test_a_change_is_written_before_and_after_it_is_made(file):
    log = AuditLog(file)
    assert change(log, lambda: lines_of(file)[-1]["result"], shard="s1") == "begun"
    for line, result in zip(lines_of(file), ("begun", "done"), strict=True):
        assert line.pop("time").endswith("+00:00")
        assert line == {
            "who": "ops at 10.0.0.1",
            "through": "gateway",
            "destination": "shop",
            "operation": "shard_policy",
            "shard": "s1",
            "result": result,
        }
    assert file.stat().st_mode & 0o777 == 0o600


def test_a_change_that_is_refused_or_fails_is_written_too(file):
    def refuse():
        raise UsageError("No such shard.", hint="Look again.")

    log = AuditLog(file)
    with pytest.raises(UsageError):
        change(log, refuse)
    with pytest.raises(ZeroDivisionError):
        change(log, lambda: 1 // 0)
    results = [line["result"] for line in lines_of(file)]
    assert results == ["begun", "refused: UsageError: No such shard.", "begun", "failed"]


def test_nothing_is_changed_that_cannot_be_written(file):
    file.mkdir(parents=True)
    with pytest.raises(ServerUnavailable, match="cannot be written"):
        change(AuditLog(file), lambda: pytest.fail("it was changed"))


def test_a_link_is_not_followed(file, tmp_path):
    file.parent.mkdir()
    file.symlink_to(tmp_path / "other")
    with pytest.raises(ServerUnavailable):
        change(AuditLog(file))
    assert not (tmp_path / "other").exists()


def test_the_last_lines_are_read_back_whole(file):
    log = AuditLog(file)
    assert log.lines == []
    for number in range(5):
        log.seen("root@here", "shop", "stop", mark=str(number))
    assert [line["mark"] for line in AuditLog(file, shown_max=2).lines] == ["3", "4"]
    short = AuditLog(file, shown_bytes_max=file.stat().st_size - 1)
    assert [line["mark"] for line in short.lines] == ["1", "2", "3", "4"], "the first is cut"
    with file.open("a") as out:
        out.write('{"time": ')
    assert [line["mark"] for line in log.lines][-1] == "4"


def test_a_writer_waits_for_another_and_follows_a_rotated_file(file):
    """1. another process has the lock; 2. it moves the file aside; 3. the line is in the new one."""
    log = AuditLog(file)
    log.seen("first", "shop", "stop")
    older = file.with_name("audit.jsonl.1")
    with file.open("a") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        writer = threading.Thread(target=log.seen, args=("second", "shop", "stop"))
        writer.start()
        writer.join(0.3)
        assert writer.is_alive(), "it waits"
        file.replace(older)
    writer.join(60)
    assert [[line["who"] for line in lines_of(one)] for one in (older, file)] == [["first"], ["second"]]


def _write(file, name, count, begin):
    audit_log.FILE_BYTES_MAX = 40_000
    log = AuditLog(file)
    begin.wait(60)
    for number in range(count):
        log.seen(name, "shop", "stop", number=number)


def test_processes_write_whole_lines_and_move_the_file_aside_once(file):
    """No line is missing, and each writer's are in order."""
    start = multiprocessing.get_context("spawn")
    begin = start.Barrier(2)
    writers = [start.Process(target=_write, args=(file, name, 200, begin)) for name in "ab"]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join(60)
        assert writer.exitcode == 0
    older = file.with_name("audit.jsonl.1")
    assert 40_000 < older.stat().st_size < 40_500, "it was full"
    lines = [*lines_of(older), *lines_of(file)]
    for name in "ab":
        assert [line["number"] for line in lines if line["who"] == name] == list(range(200))
    assert sorted(one.name for one in file.parent.iterdir()) == ["audit.jsonl", "audit.jsonl.1"]


def test_only_calls_that_change_something_are_audited():
    assert all(kind.declared.audited is None for kind in CALLS.values() if kind.declared.right is Right.READ)
    assert all(issubclass(kind, Operation) for kind in CALLS.values() if kind.declared.audited is not None)
    with pytest.raises(TypeError, match="audited"):
        operate("dance", "POST /dances")  # type: ignore[call-arg]


def test_secrets_of_a_new_shard_are_not_in_it_and_values_are_bounded():
    shard = {"name": "s9", "host": "x", "password": "s3cret"}
    assert audited(AddShard(shard)) == {"shard": "s9"}
    assert audited(RemoveShard("s3cret" * 1000, now=True)) == {
        "shard": ("s3cret" * 1000)[:VALUE_CHARS_MAX],
        "now": True,
    }
