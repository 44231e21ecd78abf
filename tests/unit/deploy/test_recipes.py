"""The recipes in deploy/: what they name is what the code has, and what they mount is declared."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml
from support.instance.prometheus import ROOT
from support.readme import blocks

from canal_group.actors.http.app import App
from canal_group.actors.http.recent_log import RecentLog
from canal_group.conf.listeners.gateway_settings import GatewaySettings
from canal_group.conf.load import build_instance
from canal_group.merge.well_known import GATEWAY
from canal_group.programs.command.cli import app
from canal_group.programs.command.options.http_options import HTTP

DEPLOY = ROOT / "deploy"
COMPOSE = DEPLOY / "docker" / "compose.yaml"
KUBERNETES = DEPLOY / "kubernetes" / "canal-group.yaml"
KUBERAY = DEPLOY / "kuberay" / "ray-job.yaml"
RAY_CLUSTER = DEPLOY / "kuberay" / "ray-cluster.yaml"
ZOOKEEPER = DEPLOY / "kubernetes" / "zookeeper.yaml"
#: where Kubernetes mounts secrets
SECRETS = "/etc/canal-group-secrets"
UNIT = DEPLOY / "systemd" / "canal-group.service"
DOCKERFILE = DEPLOY / "docker" / "Dockerfile"
DEPLOYING = ROOT / "docs" / "deploying.md"
PORTS = {int(HTTP.rpartition(":")[2]), int(GATEWAY.rpartition(":")[2])}


def documents(path: Path) -> list[Any]:
    return list(yaml.safe_load_all(path.read_text()))


def kind(path: Path, name: str) -> Any:
    return next(each for each in documents(path) if each["kind"] == name)


def within(value: Any, key: str) -> list[Any]:
    """Return the values of a key, wherever in a document it is."""
    if isinstance(value, dict):
        found = [value[key]] if key in value else []
        return found + [each for inner in value.values() for each in within(inner, key)]
    if isinstance(value, list):
        return [each for inner in value for each in within(inner, key)]
    return []


def commands() -> list[tuple[str, list[str]]]:
    """Return every command line of canal-group in recipes and their documentation, with its file's name."""
    docker = re.findall(r"^CMD (\[.*\])$", DOCKERFILE.read_text(), re.MULTILINE)[-1]
    (unit,) = re.findall(r"^ExecStart=\S+/canal-group (.*)$", UNIT.read_text(), re.MULTILINE)
    (job,) = within(kind(KUBERAY, "RayJob"), "entrypoint")
    (arguments,) = within(kind(KUBERNETES, "StatefulSet"), "args")
    documented = re.findall(r"canal-group ((?:serve|status|check) [^`\n]*)", DEPLOYING.read_text())
    return [
        ("Dockerfile", yaml.safe_load(docker)),
        (UNIT.name, shlex.split(unit)),
        (KUBERAY.name, shlex.split(job)[1:]),
        (KUBERNETES.name, arguments),
        *((DEPLOYING.name, shlex.split(line)) for line in documented),
    ]


@pytest.mark.parametrize(("file", "words"), commands())
def test_the_command_line_takes_each_command(file: str, words: list[str]):
    """It is parsed, and not run."""
    command = typer.main.get_command(app).commands[words[0]]  # type: ignore[attr-defined]
    with command.make_context(f"{file}: {words[0]}", list(words[1:])) as context:
        assert context.params


def test_ports_are_those_that_the_code_listens_on():
    assert GatewaySettings().port in PORTS
    service = kind(KUBERNETES, "Service")["spec"]["ports"]
    assert {each["port"] for each in service} == PORTS
    for path, name in ((KUBERNETES, "StatefulSet"), (KUBERAY, "RayJob")):
        assert set(within(kind(path, name), "containerPort")) == PORTS
    for _, words in commands():
        for index, word in enumerate(words):
            if word == "--http":
                assert int(words[index + 1].rpartition(":")[2]) in PORTS
    (healthy,) = re.findall(r"http://127\.0\.0\.1:(\d+)/live", DOCKERFILE.read_text())
    assert int(healthy) == int(HTTP.rpartition(":")[2])


def test_probes_ask_paths_that_are_there():
    made = App(dict, None, None, RecentLog(), hosts=["*"])  # type: ignore[arg-type]
    paths = {getattr(route, "path", "") for route in made.asgi.routes}
    assert paths >= {"/live", "/ready"}
    asked = [
        probe["httpGet"]
        for path, name in ((KUBERNETES, "StatefulSet"),)
        for key in ("startupProbe", "livenessProbe", "readinessProbe")
        for probe in within(kind(path, name), key)
    ]
    assert {each["path"] for each in asked} == {"/live", "/ready"}
    assert {(each["port"], each["scheme"]) for each in asked} == {("http", "HTTPS")}
    for path in re.findall(r"`GET (/\w+)`", DEPLOYING.read_text()):
        assert path in paths, path


@pytest.mark.parametrize("source", ["compose", "kubernetes"])
def test_instance_files_are_valid_and_name_secrets_that_the_recipe_mounts(source: str):
    if source == "compose":
        value = yaml.safe_load((DEPLOY / "docker" / "shop.yaml").read_text())
        mounted = {f"/run/secrets/{name}" for name in yaml.safe_load(COMPOSE.read_text())["secrets"]}
    else:
        value = yaml.safe_load(kind(KUBERNETES, "ConfigMap")["data"]["shop.yaml"])
        created = re.findall(r"--from-literal=([\w-]+)=", KUBERNETES.read_text())
        mounted = {f"{SECRETS}/{name}" for name in created}
        mounted |= {"/etc/canal-group-tls/tls.crt", "/etc/canal-group-tls/tls.key"}
        for path, name in ((KUBERNETES, "StatefulSet"), (KUBERAY, "RayJob")):
            assert {SECRETS, "/etc/canal-group-tls"} <= set(within(kind(path, name), "mountPath"))
            assert not within(kind(path, name), "secretKeyRef"), "a secret is a file, and no variable"
    settings = build_instance(value, source=source, folder=Path("/etc/canal-group"), secrets=())
    assert settings.gateway.names_who
    assert settings.coordination.kind == "zookeeper"
    for key in ("password_env", "password_file", "token_env", "token_file", "cert", "key"):
        assert set(within(value, key)) <= mounted, key


def test_what_a_recipe_mounts_and_selects_is_declared():
    compose = yaml.safe_load(COMPOSE.read_text())
    for name, service in compose["services"].items():
        assert set(service.get("secrets", ())) <= set(compose["secrets"]), name
        for mount in service["volumes"]:
            source = mount.split(":")[0]
            known = (
                (COMPOSE.parent / source).exists() if source.startswith(".") else source in compose["volumes"]
            )
            assert known, mount
    for path, name in ((KUBERNETES, "StatefulSet"), (KUBERAY, "RayJob"), (RAY_CLUSTER, "RayCluster")):
        for pod in within(kind(path, name), "template"):
            volumes = {each["name"] for each in pod["spec"].get("volumes", ())}
            for container in pod["spec"]["containers"]:
                assert {each["name"] for each in container.get("volumeMounts", ())} == volumes
    workload, label = kind(KUBERNETES, "StatefulSet")["spec"], {"app": "canal-group"}
    assert workload["template"]["metadata"]["labels"] == workload["selector"]["matchLabels"] == label
    assert kind(KUBERNETES, "Service")["spec"]["selector"] == label
    assert workload["serviceName"] == kind(KUBERNETES, "Service")["metadata"]["name"]


def test_instances_find_zookeeper_and_its_servers_find_each_other():
    instance = yaml.safe_load(kind(KUBERNETES, "ConfigMap")["data"]["shop.yaml"])
    host, _, port = instance["coordination"]["hosts"].partition(":")
    services = {
        each["metadata"]["name"]: each["spec"] for each in documents(ZOOKEEPER) if each["kind"] == "Service"
    }
    assert int(port) in [each["port"] for each in services[host]["ports"]]
    servers = kind(ZOOKEEPER, "StatefulSet")
    name, spec = servers["metadata"]["name"], servers["spec"]
    (variable,) = (each["value"] for each in within(servers, "env")[0] if each["name"] == "ZOO_SERVERS")
    ports = ":".join(str(each["port"]) for each in services[spec["serviceName"]]["ports"])
    assert variable.split() == [
        f"server.{number + 1}={name}-{number}.{spec['serviceName']}:{ports};{port}"
        for number in range(spec["replicas"])
    ]
    assert services[host]["selector"] == services[spec["serviceName"]]["selector"]
    assert spec["template"]["metadata"]["labels"] == services[host]["selector"]


def test_the_job_fits_the_servers_node_and_the_head_runs_nothing():
    job = kind(KUBERAY, "RayJob")["spec"]
    server = next(each for each in job["rayClusterSpec"]["workerGroupSpecs"] if each["groupName"] == "server")
    offered = json.loads(json.loads(server["rayStartParams"]["resources"]))
    assert json.loads(job["entrypointResources"]) == offered == {"server": 1}
    assert server["replicas"] == server["maxReplicas"] == 1, "one machine has the host name"
    assert job["rayClusterSpec"]["headGroupSpec"]["rayStartParams"]["num-cpus"] == "0"
    assert "--entrypoint-resources '{\"server\": 1}'" in DEPLOYING.read_text()
    (gate,) = yaml.safe_load((DEPLOY / "kuberay" / "operator-values.yaml").read_text())["featureGates"]
    assert gate == {"name": "GCSFaultToleranceEmbeddedStorage", "enabled": True}
    assert job["rayClusterSpec"]["gcsFaultToleranceOptions"]["backend"] == "rocksdb"
    ray = next(
        line for line in (ROOT / "constraints.txt").read_text().splitlines() if line.startswith("ray==")
    )
    assert job["rayClusterSpec"]["rayVersion"] == ray.removeprefix("ray==")


def test_the_image_has_project_files_and_an_unprivileged_user():
    text = DOCKERFILE.read_text()
    shown = (DOCKERFILE.parent / "Dockerfile.dockerignore").read_text().splitlines()
    copied = [
        name for line in re.findall(r"^COPY (?!--)(.*)$", text, re.MULTILINE) for name in line.split()[:-1]
    ]
    for name in copied:
        assert (ROOT / name).exists(), name
        assert f"!{name}" in shown, name
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    found = project["tool"]["setuptools"]["packages"]["find"]["include"]
    assert {each.rstrip("*") for each in found} <= set(copied), "every package is copied"
    assert "-c constraints.txt" in text
    assert re.findall(r"^USER (\d+)$", text, re.MULTILINE) == ["10001"]
    assert within(kind(KUBERNETES, "StatefulSet"), "runAsUser") == [10001]


def test_images_are_named_without_a_host():
    images = re.findall(r"^FROM (\S+)", DOCKERFILE.read_text(), re.MULTILINE)
    for path in (COMPOSE, KUBERNETES, KUBERAY, RAY_CLUSTER, ZOOKEEPER):
        images += [image for document in documents(path) for image in within(document, "image")]
    assert images
    for image in images:
        assert re.fullmatch(r"[a-z-]+(:[\w.-]+)?", image), image


def test_the_service_may_write_where_its_settings_keep_things():
    (state,) = re.findall(r"^StateDirectory=(.*)$", UNIT.read_text(), re.MULTILINE)
    files = [block for block in blocks(DEPLOYING.read_text())["systemd"] if block.startswith("preset:")]
    shard = {"name": "s0", "host": "db0", "user": "canal"}
    for text in files:
        value = {**yaml.safe_load(text), "destination": "shop", "shards": [shard]}
        settings = build_instance(value, source="server.yaml", folder=Path("/etc/canal-group"), secrets=())
        folders = within(settings.model_dump(), "folder")
        assert len(folders) == 2
        assert all(folder.is_relative_to(f"/var/lib/{state}/data") for folder in folders)
    assert [yaml.safe_load(text)["preset"] for text in files] == ["file", "group"]


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="there is no systemd-analyze here")
def test_systemd_reads_the_unit(tmp_path: Path):
    program = Path(sys.executable).with_name("canal-group")
    unit = tmp_path / UNIT.name
    unit.write_text(re.sub(r"^ExecStart=\S+", f"ExecStart={program}", UNIT.read_text(), flags=re.MULTILINE))
    command = ["systemd-analyze", "verify", "--man=no", str(unit)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    said = [line for line in (done.stdout + done.stderr).splitlines() if UNIT.name in line]
    assert (done.returncode, said) == (0, []), done.stderr
    assert "KillMode=mixed" in unit.read_text(), "Ray must outlive the hand-over"
