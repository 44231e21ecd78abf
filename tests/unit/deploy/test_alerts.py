"""Alerts: Prometheus's own tool reads and plays them, and each has a runbook line."""

from __future__ import annotations

import subprocess
from pathlib import Path

import yaml
from support.instance.prometheus import ROOT, program

ALERTS = ROOT / "deploy" / "prometheus" / "alerts.yaml"
PLAYED = Path(__file__).with_name("alerts_test.yaml")


def names():
    groups = yaml.safe_load(ALERTS.read_text())["groups"]
    return [rule["alert"] for group in groups for rule in group["rules"]]


def test_rules_fire_when_they_should_and_only_then():
    for command in (["check", "rules", ALERTS], ["test", "rules", PLAYED]):
        done = subprocess.run([program("promtool"), *command], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr


def test_each_rule_is_played_and_has_a_line_for_the_operator_on_call():
    played, operating = PLAYED.read_text(), (ROOT / "docs" / "operating.md").read_text()
    for name in names():
        assert played.count(f"alertname: {name}") >= 1, name
        assert f"| {name} |" in operating, name
