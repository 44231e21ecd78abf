"""Exit codes: what each means, in the documentation and in the commands."""

import re
import sys
from pathlib import Path

import pytest
from support.clients.odd_gateway import Gateway

from canal_group.merge import errors
from canal_group.merge.errors import CanalGroupError, RetryableError
from canal_group.programs.command.cli import main
from canal_group.programs.command.options.exit_code import ExitCode, exit_code_of

OPERATING = Path(__file__).parents[3] / "docs" / "operating.md"
CLASSES = [
    each for each in vars(errors).values() if isinstance(each, type) and issubclass(each, CanalGroupError)
]


def test_the_documented_codes_are_those_that_there_are():
    section = OPERATING.read_text().partition("## Exit codes")[2].partition("\n## ")[0]
    assert [int(code) for code in re.findall(r"^\| (\d+) \|", section, re.MULTILINE)] == list(ExitCode)


@pytest.mark.parametrize("kind", CLASSES, ids=lambda kind: kind.__name__)
def test_what_may_pass_has_a_code_of_its_own(kind):
    expected = ExitCode.UNAVAILABLE if issubclass(kind, RetryableError) else ExitCode.FAILED
    assert exit_code_of(kind("No.")) is expected


def ended(monkeypatch, *words):
    """Return the code with which a command ends."""
    monkeypatch.setattr(sys, "argv", ["canal-group", *map(str, words)])
    with pytest.raises(SystemExit) as ended:
        main()
    return ended.value.code or 0


@pytest.fixture
def shop(tmp_path):
    """An instance file whose one source is not there."""
    file = tmp_path / "shop.yaml"
    shard = "{name: s0, host: 127.0.0.1, port: 1, user: canal}"
    file.write_text(f"preset: memory\ndestination: shop\nshards: [{shard}]\n")
    return file


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (ExitCode.DONE, ["--help"]),
        (ExitCode.USAGE, ["serve"]),
        (ExitCode.USAGE, ["serve", "-c", "FILE", "--log-level", "loud"]),
        (ExitCode.USAGE, ["nothing"]),
        (ExitCode.FAILED, ["position", "-c", "none.yaml", "--at", "latest"]),
        (ExitCode.FAILED, ["position", "-c", "FILE", "--at", "soon"]),
        (ExitCode.FAILED, ["check", "-c", "FILE"]),
        (ExitCode.UNAVAILABLE, ["position", "-c", "FILE", "--at", "latest"]),
    ],
)
def test_a_command_ends_with_the_code_of_what_it_came_to(monkeypatch, shop, code, words, capsys):
    assert ended(monkeypatch, *(shop if word == "FILE" else word for word in words)) == code
    assert "Traceback" not in capsys.readouterr().err


@pytest.mark.parametrize(
    ("code", "read_by"), [(ExitCode.NOT_FOUND, []), (ExitCode.DONE, ["s0"])], ids=["not read", "read"]
)
def test_a_transaction_that_no_shard_has_read_has_a_code_of_its_own(monkeypatch, code, read_by, capsys):
    trace = {"gtid": "0-1-42", "read_by": read_by, "found": None, "clients": []}
    with Gateway(trace=trace, status={"group": {"held_by": None}}) as gateway:
        words = ["trace", "-d", "shop", "-g", gateway.uri, "--gtid", "0-1-42"]
        assert ended(monkeypatch, *words) == code
    assert capsys.readouterr().out.startswith("0-1-42 was ")


def test_a_row_without_a_change_has_the_code_of_what_is_not_found(monkeypatch):
    found = {"key": "shop.orders:1", "changes": [], "searched": {}}
    with Gateway(trace_key=found, status={"group": {}}) as gateway:
        words = ["trace", "-d", "shop", "-g", gateway.uri, "--key", "shop.orders:1"]
        assert ended(monkeypatch, *words) == ExitCode.NOT_FOUND


def test_ctrl_c_has_a_code(monkeypatch, shop):
    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("canal_group.conf.load.load_instance", interrupted)
    assert ended(monkeypatch, "position", "-c", shop, "--at", "latest") == ExitCode.INTERRUPTED
