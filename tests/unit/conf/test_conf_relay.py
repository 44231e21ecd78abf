"""The settings of a relay: each key is explained, and whatever is wrong with one is one sentence."""

from __future__ import annotations

import re
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
import yaml

from canal_group.conf.relay.relay_settings import (
    BatchSettings,
    MetricsSettings,
    ReadSettings,
    RelaySettings,
    RetrySettings,
    RouteSettings,
    load_relay,
)
from canal_group.merge.errors import ConfigError
from canal_group.programs.output.formats import format_of
from canal_group.programs.output.kinds import kinds, settings_of
from canal_group.programs.output.routing.router import Router

ROOT = Path(__file__).parents[3]
SHIPPED = files("canal_group.conf").joinpath("relay.yaml").read_text(encoding="utf-8")
GOOD = """\
destination: shop
read: {gateway: 'grpc://127.0.0.1:11113'}
output: {kind: lines, path: changes.jsonl}
"""


def refusal(folder: Path, text: str) -> str:
    file = folder / "relay.yaml"
    file.write_text(text)
    with pytest.raises(ConfigError) as caught:
        load_relay(file, settings_of)
    return str(caught.value).replace(f"{folder}/", "")


def explained() -> dict[str, str]:
    """Section and key -> the comment above it, of the shipped file with every key set."""
    comments, section, comment = {}, "", []
    for line in SHIPPED.splitlines():
        bare = re.sub(r"^( *)#(?=\S)", r"\1", line)
        key = re.match(r"( *)([a-z_]+):(.*)", bare)
        if re.match(r" *# ", line):
            comment.append(line.strip(" #"))
        elif key is None:
            comment = []
        else:
            indent, name, value = key.groups()
            if not indent:
                section = name if not value.strip() else ""
            elif section == "output" and name == "kind":
                section = f"output.{value.strip()}"
            comments[f"{section}.{name}" if indent else name] = " ".join(comment)
    return comments


def fields() -> dict[str, Any]:
    by_path = {name: RelaySettings.model_fields[name] for name in RelaySettings.model_fields}
    sections = {
        "read": ReadSettings,
        "route": RouteSettings,
        "batch": BatchSettings,
        "retry": RetrySettings,
        "metrics": MetricsSettings,
    }
    sections |= {f"output.{kind}": settings_of(kind) for kind in kinds()}
    for section, model in sections.items():
        by_path |= {f"{section}.{name}": field for name, field in model.model_fields.items()}
    return by_path


def test_the_shipped_file_explains_every_key_and_no_other():
    assert set(explained()) == set(fields())


def test_the_shipped_file_and_the_examples_can_be_loaded():
    for file in (ROOT / "conf" / "relay.yaml", *sorted((ROOT / "examples").glob("relay-*.yaml"))):
        settings = load_relay(file, settings_of)
        assert settings.destination == "shop"
        format_of(settings.format)
        Router(settings.route)


def test_defaults_are_what_the_shipped_file_says(tmp_path: Path):
    (tmp_path / "relay.yaml").write_text(GOOD)
    settings = load_relay(tmp_path / "relay.yaml", settings_of)
    shipped = yaml.safe_load(re.sub(r"(?m)^( *)#(?=\S)", r"\1", SHIPPED).partition("\noutput:")[0])
    for section in ("batch", "retry"):
        assert getattr(settings, section).model_dump() == shipped[section]
    assert settings.output.path == tmp_path / "changes.jsonl"
    assert settings.name == "shop/1001"


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ("kind: lines", "output.kind"),
        (
            "kind: pulsar",
            "relay.yaml: `output.kind` should be one of kafka, lines, rabbitmq, but is 'pulsar'.",
        ),
        ("kind: kafka", "relay.yaml: `output.servers` should be given, but is missing."),
    ],
)
def test_a_wrong_output_is_named(tmp_path: Path, change: str, sentence: str):
    text = GOOD.replace("kind: lines, path: changes.jsonl", change)
    message = (
        refusal(tmp_path, text)
        if "lines" not in change
        else refusal(tmp_path, GOOD.replace("kind: lines, ", ""))
    )
    assert sentence in message


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("formt: flat", "relay.yaml: `formt` should be a known key (nearest: format), but is unknown."),
        ("format: avro", "`format` should be 'flat', 'protobuf', 'debezium' or 'arrow', but is 'avro'."),
        ("route: {partitions: 0}", "`route.partitions` should be at least 1, but is 0."),
        ("route: {topics: a}", "`route.topics` should be a known key (nearest: topic), but is unknown."),
        ("retry: {max_s: 0.1}", "`retry.max_s` should be at least `first_s`, but is 0.1."),
        ("metrics: {}", "`metrics.port` should be given, but is missing."),
        ("metrics: {port: 70000}", "`metrics.port` should be at most 65535, but is 70000."),
        ("batch: {rows_max: '5'}", "`batch.rows_max` should be a whole number, but is '5'."),
    ],
)
def test_a_wrong_setting_is_named(tmp_path: Path, line: str, sentence: str):
    assert sentence in refusal(tmp_path, f"{GOOD}{line}\n")


def test_one_way_to_the_destination_is_named(tmp_path: Path):
    both = GOOD.replace("'}", "', zookeeper: 'zk:2181'}")
    none = GOOD.replace("{gateway: 'grpc://127.0.0.1:11113'}", "{client_id: a}")
    assert "`read.zookeeper` should be given, or `gateway`, and not both, but is given too." in refusal(
        tmp_path, both
    )
    assert "`read.zookeeper` should be given, or `gateway`, and not both, but is missing." in refusal(
        tmp_path, none
    )


@pytest.mark.parametrize("kind", ["kafka", "rabbitmq"])
def test_a_password_is_read_from_its_file_and_shown_nowhere(tmp_path: Path, kind: str):
    (tmp_path / "secret").write_text("hunter2\n")
    where = "servers: 'a:1', " if kind == "kafka" else ""
    output = f"{{kind: {kind}, {where}username: canal, password_file: secret}}"
    (tmp_path / "relay.yaml").write_text(GOOD.replace("{kind: lines, path: changes.jsonl}", output))
    settings = load_relay(tmp_path / "relay.yaml", settings_of)
    assert "hunter2" not in repr(settings) + str(settings.model_dump())
    alone = output.replace("username: canal, ", "")
    assert "`output.username` should be given together" in refusal(
        tmp_path, GOOD.replace("{kind: lines, path: changes.jsonl}", alone)
    )


@pytest.mark.parametrize(
    ("kind", "keys", "sentence"),
    [
        (
            "kafka",
            "cert: a.pem, ca: b.pem",
            "`output.key` should be given together with `cert`, but is missing.",
        ),
        ("rabbitmq", "key: a.pem", "`output.cert` should be given together with `key`, but is missing."),
        (
            "rabbitmq",
            "cert: a.pem, key: b.pem",
            "`output.ca` should be given together with `cert`: it turns on TLS, but is missing.",
        ),
        (
            "kafka",
            "mechanism: PLAIN",
            "`output.username` should be given together with `mechanism`, but is missing.",
        ),
        (
            "kafka",
            "mechanism: GSSAPI",
            "`output.mechanism` should be 'PLAIN', 'SCRAM-SHA-256' or 'SCRAM-SHA-512', but is 'GSSAPI'.",
        ),
        (
            "kafka",
            "protocol: SSL",
            "`output.ca` should be given with the protocol SSL, but is missing.",
        ),
        (
            "kafka",
            "protocol: SASL_PLAINTEXT",
            "`output.username` should be given with the protocol SASL_PLAINTEXT, but is missing.",
        ),
        (
            "kafka",
            "protocol: PLAINTEXT, ca: a.pem",
            "`output.ca` should be left out with the protocol PLAINTEXT, but is given.",
        ),
        (
            "kafka",
            "protocol: SSL, ca: a.pem, username: canal, password_file: secret",
            "`output.username` should be left out with the protocol SSL, but is given.",
        ),
        ("rabbitmq", "username: canal", "`output.password_file` should be given together with the login's"),
        ("kafka", "password: hunter2", "`output.password` should be a known key (nearest: password_"),
        (
            "kafka",
            "options: {sasl.password: hunter2}",
            "`output.options.sasl.password` should be left out: `ca`",
        ),
        (
            "kafka",
            "options: {ssl.ca.location: a.pem}",
            "`output.options.ssl.ca.location` should be left out: `ca`",
        ),
    ],
)
def test_a_connection_that_cannot_be_is_named(tmp_path: Path, kind: str, keys: str, sentence: str):
    (tmp_path / "secret").write_text("hunter2\n")
    where = "servers: 'a:1', " if kind == "kafka" else ""
    output = f"{{kind: {kind}, {where}{keys}}}"
    message = refusal(tmp_path, GOOD.replace("{kind: lines, path: changes.jsonl}", output))
    assert sentence in message
    assert "hunter2" not in message


@pytest.mark.parametrize(
    ("keys", "protocol"),
    [
        ("", "plaintext"),
        ("protocol: PLAINTEXT", "plaintext"),
        ("ca: a.pem", "ssl"),
        ("username: canal, password_file: secret", "sasl_plaintext"),
        ("ca: a.pem, username: canal, password_file: secret, protocol: SASL_SSL", "sasl_ssl"),
    ],
)
def test_login_and_authorities_make_kafka_s_protocol(tmp_path: Path, keys: str, protocol: str):
    (tmp_path / "secret").write_text("hunter2\n")
    output = f"{{kind: kafka, servers: 'a:1', {keys}}}"
    (tmp_path / "relay.yaml").write_text(GOOD.replace("{kind: lines, path: changes.jsonl}", output))
    options = load_relay(tmp_path / "relay.yaml", settings_of).output.connection()
    assert options["security.protocol"] == protocol
    assert options.get("ssl.ca.location") == (str(tmp_path / "a.pem") if keys.startswith("ca:") else None)


def test_tls_has_a_port_of_its_own_in_rabbitmq(tmp_path: Path):
    for keys, port in (("", 5672), (", ca: a.pem", 5671), (", ca: a.pem, port: 7", 7)):
        text = GOOD.replace("{kind: lines, path: changes.jsonl}", f"{{kind: rabbitmq{keys}}}")
        (tmp_path / "relay.yaml").write_text(text)
        assert load_relay(tmp_path / "relay.yaml", settings_of).output.open_port == port


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path):
    with pytest.raises(ConfigError, match="the file should be readable, but is not"):
        load_relay(tmp_path / "none.yaml", settings_of)


def test_options_that_the_guarantees_depend_on_are_refused(tmp_path: Path):
    output = "{kind: kafka, servers: 'a:1', options: {acks: 1}}"
    message = refusal(tmp_path, GOOD.replace("{kind: lines, path: changes.jsonl}", output))
    assert "`output.options.acks` should leave this one to canal-group, but is set." in message


@pytest.mark.parametrize(
    ("rules", "sentence"),
    [
        ({"partition_hash": r"shop\.orders:"}, "has an empty part"),
        ({"partition_hash": r"shop\.(orders:id"}, "regular expression"),
        ({"dynamic_topic": "orders:"}, "nothing after the topic"),
        ({"dynamic_topic_partitions": "orders:six"}, "not a topic and its number"),
    ],
)
def test_a_malformed_rule_is_named(rules: dict[str, str], sentence: str):
    with pytest.raises(ConfigError, match=sentence):
        Router(RouteSettings(topic="t", **rules))
