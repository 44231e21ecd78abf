"""`canal-group archive`: from a folder of binlogs to an archive and back, and what is wrong in sentences."""

from __future__ import annotations

import json

import pytest
from support.binlog.archived import RECORDED, recorded
from typer.testing import CliRunner

from canal_group.binlog.archive.archive import Archive
from canal_group.binlog.archive.disk import Disk
from canal_group.binlog.archive.object_store import ObjectStore
from canal_group.binlog.archive.upkeep import Upkeep
from canal_group.merge.errors import CanalGroupError
from canal_group.programs.command.cli import app

SERVER = "1c355853-e502-11f1-8838-02fc00000001"
FILES = recorded("shop-1")
FIRST, LAST = FILES


@pytest.fixture
def run():
    """Run `canal-group archive ...`, and return exit code and output; an error of ours is raised."""

    def run(*arguments):
        result = CliRunner().invoke(app, ["archive", *map(str, arguments)])
        if isinstance(result.exception, CanalGroupError):
            raise result.exception
        return result.exit_code, result.output

    return run


def test_binlogs_are_taken_over_listed_checked_and_exported(run, tmp_path):
    folder, out = tmp_path / "archive", tmp_path / "out"
    key = tmp_path / "archive.key"
    key.write_text("ab" * 32)
    key.chmod(0o600)
    code, text = run("adopt", folder, RECORDED / "shop-1", "--server", SERVER, "--key-file", key)
    assert (code, text.splitlines()[0]) == (0, f"{FIRST}: taken over, {len(FILES[FIRST]):,} bytes")
    code, text = run("list", folder)
    assert f"{FIRST}  closed, sealed, 28,010 bytes; 2026-11-20T16:47:45Z to " in text
    _, text = run("list", folder, "--json")
    first, last = map(json.loads, text.splitlines())
    assert (first["name"], first["state"], last["name"], last["state"]) == (FIRST, "closed", LAST, "open")
    code, text = run("verify", folder, "--key-file", key)
    assert (code, text.count("ok ")) == (0, 2)
    code, text = run("export", folder, "--to", out, "--key-file", key)
    assert {path.name: path.read_bytes() for path in out.iterdir()} == FILES
    with pytest.raises(CanalGroupError, match="no key file is given"):
        run("export", folder, "--to", tmp_path / "other")


def test_damage_makes_verify_fail(run, tmp_path):
    run("adopt", tmp_path, RECORDED / "shop-1", "--server", SERVER)
    (stored,) = tmp_path.glob(f"*/{FIRST}.zst")
    data = bytearray(stored.read_bytes())
    data[100] ^= 1
    stored.write_bytes(data)
    code, text = run("verify", tmp_path)
    assert (code, text.splitlines()[0][:4]) == (1, "FAIL")
    assert "Bytes 0 to 28,010" in text


def test_prune_says_what_it_would_remove_and_removes_it_when_told(run, tmp_path):
    run("adopt", tmp_path, RECORDED / "shop-1", "--server", SERVER)
    _, text = run("prune", tmp_path, "--hours", "0")
    assert text.startswith(f"would remove {SERVER}@1795193265/{FIRST}")
    _, text = run("prune", tmp_path, "--hours", "0", "--keep", f"{FIRST}:4")
    assert not text
    _, text = run("prune", tmp_path, "--bytes-max", "1", "--keep", f"{FIRST}:4", "--remove")
    assert text.endswith(f"over its limit; lost to {FIRST}:4\n")
    _, text = run("list", tmp_path)
    assert FIRST not in text
    assert LAST in text
    assert run("prune", tmp_path)[0] == 2


def test_prune_asks_for_the_store_that_a_file_was_moved_to(run, tmp_path):
    folder, bucket = tmp_path / "archive", tmp_path / "store"
    run("adopt", folder, RECORDED / "shop-1", "--server", SERVER)
    archive = Archive(Disk(), folder, store=ObjectStore(str(bucket)))
    (history,) = archive.histories()
    Upkeep(archive, history).move(FIRST, 7)
    prune = ["prune", folder, "--hours", "0", "--remove"]
    with pytest.raises(CanalGroupError, match=f"{FIRST} of .* was moved to an object store"):
        run(*prune)
    assert FIRST in run("list", folder)[1]
    moved = set(bucket.rglob(f"{FIRST}*"))
    assert moved
    assert run(*prune, "--store", bucket)[1].startswith("removed ")
    assert not any(path.exists() for path in moved)


def test_what_is_not_an_archive_is_said(run, tmp_path):
    with pytest.raises(CanalGroupError, match="has no history"):
        run("verify", tmp_path)
