"""The expiry of certificates: told by name and date from thirty days before, and refused once it has come."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry, generate_latest
from support.security.certificates import Authority
from typer.testing import CliRunner

from canal_group.actors.admission.expiry import expiry_of
from canal_group.actors.http.metrics.instances import InstanceFamilies
from canal_group.programs.command.cli import app


def checked(folder: Path, days: float) -> tuple[int, str]:
    """Return exit code and output of `check` for an instance whose certificate expires in so many days."""
    pair = Authority(folder).pair("gateway", days=days)
    binlogs = folder / "binlogs"
    binlogs.mkdir()
    (binlogs / "bin.000001").write_bytes(b"\xfebin")
    file = folder / "shop.yaml"
    file.write_text(
        f"preset: memory\ndestination: shop\nshards: [{{name: s0, files: {binlogs}}}]\n"
        f"gateway: {{ssl: {{cert: {pair.cert}, key: {pair.key}}}}}\n"
    )
    done = CliRunner().invoke(app, ["check", "-c", str(file)])
    return done.exit_code, done.output


def test_check_warns_from_thirty_days_before(tmp_path: Path):
    code, said = checked(tmp_path, 10)
    assert code == 0
    assert f"gateway.ssl.cert: {tmp_path / 'gateway.pem'} expires on 20" in said


def test_check_says_nothing_of_one_that_holds_for_long(tmp_path: Path):
    code, said = checked(tmp_path, 31)
    assert code == 0
    assert "expires" not in said


def test_check_fails_for_one_that_has_expired(tmp_path: Path):
    code, said = checked(tmp_path, -0.01)
    assert code == 1
    assert f"gateway.ssl.cert: {tmp_path / 'gateway.pem'} has expired on 20" in said


@pytest.mark.parametrize("content", [b"", b"no PEM"])
def test_a_file_without_a_certificate_has_no_expiry(tmp_path: Path, content: bytes):
    file = tmp_path / "cert.pem"
    file.write_bytes(content)
    assert expiry_of("gateway.ssl.cert", file) is None
    assert expiry_of("gateway.ssl.cert", tmp_path / "none") is None


def test_a_metric_has_the_date_of_each_certificate(tmp_path: Path):
    expiry = expiry_of("gateway.ssl.cert", Authority(tmp_path).pair("gateway", days=10).cert)
    assert expiry is not None
    assert expiry.at_s == pytest.approx(time.time() + 10 * 86_400, abs=60)
    state = {
        "destination": "shop",
        "now_us": 0,
        "group": {"active": False},
        "shards": [],
        "gateway": {},
        "certificates": [{"setting": expiry.setting, "expires_s": expiry.at_s}],
    }
    registry = CollectorRegistry()
    registry.register(InstanceFamilies([state]))
    name = 'canal_group_certificate_expires_timestamp_seconds{destination="shop",setting="gateway.ssl.cert"}'
    assert name in generate_latest(registry).decode()
