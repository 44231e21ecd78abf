"""The recipes in deploy/ by the rules of their readers: Kubernetes, KubeRay, Compose, a linter."""

from __future__ import annotations

import copy
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import compose_spec
import jsonschema
import kubernetes_validate
import pytest
import yaml
from support.instance.prometheus import ROOT

DEPLOY = ROOT / "deploy"
DOCKERFILE = DEPLOY / "docker" / "Dockerfile"
COMPOSE = DEPLOY / "docker" / "compose.yaml"
KUBERAY = DEPLOY / "kuberay"
#: the oldest and the newest Kubernetes that is compared with
VERSIONS = ("1.29", "1.36")
SCHEMA = yaml.safe_load(Path(__file__).with_name("kuberay_schema.yaml").read_text())


def objects(folder: str) -> list[Any]:
    """Return each object of a folder's recipes, with a name for the test."""
    return [
        pytest.param(found, id=f"{file.name}:{found['kind']}:{found['metadata']['name']}")
        for file in sorted((DEPLOY / folder).glob("*.yaml"))
        for found in yaml.safe_load_all(file.read_text())
        if "kind" in found
    ]


def check_kuberay(found: dict[str, Any]) -> None:
    """Raise ValidationError if KubeRay would refuse an object."""
    rule = {**SCHEMA, "$ref": f"#/{found['kind']}"}
    jsonschema.Draft202012Validator(rule).validate(found["spec"])
    cluster = found["spec"].get("rayClusterSpec", found["spec"])
    for template in templates(cluster):
        pod = {"apiVersion": "v1", "kind": "PodTemplate", "metadata": {"name": "pod"}, "template": template}
        kubernetes_validate.validate(pod, VERSIONS[-1], strict=True)


def templates(cluster: dict[str, Any]) -> Iterator[Any]:
    yield cluster["headGroupSpec"]["template"]
    for group in cluster["workerGroupSpecs"]:
        yield group["template"]


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("found", objects("kubernetes"))
def test_kubernetes_takes_each_object(found: dict[str, Any], version: str):
    kubernetes_validate.validate(found, version, strict=True)


@pytest.mark.parametrize("found", objects("kuberay"))
def test_kuberay_takes_each_object(found: dict[str, Any]):
    assert found["apiVersion"] == "ray.io/v1"
    check_kuberay(found)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("gcsFaultToleranceOptions", "backend"), "etcd"),
        (("gcsFaultToleranceOptions", "redisPasword"), "x"),
        (("workerGroupSpecs", 0, "rayStartParams", "num-cpus"), 0),
        (("workerGroupSpecs", 1, "replica"), 2),
        (("workerGroupSpecs", 1, "template", "spec", "containers", 0, "volumeMount"), []),
        (("headGroupSpec", "template", "spec", "terminationGracePeriodSeconds"), "60s"),
    ],
)
def test_a_slip_in_a_recipe_of_kuberay_is_seen(path: tuple[Any, ...], value: object):
    (parameter,) = (each for each in objects("kuberay") if "RayCluster" in str(each.id))
    changed = copy.deepcopy(parameter.values[0])
    member = changed["spec"]
    for key in path[:-1]:
        member = member[key]
    member[path[-1]] = value
    with pytest.raises((jsonschema.ValidationError, kubernetes_validate.ValidationError)):
        check_kuberay(changed)


def test_the_job_brings_the_cluster_that_stands_alone():
    job, cluster = (yaml.safe_load((KUBERAY / f"ray-{name}.yaml").read_text()) for name in ("job", "cluster"))
    assert job["spec"]["rayClusterSpec"] == cluster["spec"]


def compose_of(text: str) -> compose_spec.PyCompose:
    """Return a Compose file that is right; raise ValueError otherwise. Its merge keys are YAML's business."""
    compose = compose_spec.PyCompose.from_json(json.dumps(yaml.safe_load(text)))
    compose.validate()
    return compose


def test_compose_takes_its_file():
    text = COMPOSE.read_text()
    assert set(compose_of(text).service_names()) == {"zookeeper", "canal-1", "canal-2"}
    for right, wrong in (
        ("stop_grace_period: 60s", "stop_grace_period: soon"),
        ("secrets: [canal_password,", "secrets: [canal_pasword,"),
        ("init: true", "inti: true"),
    ):
        assert right in text
        with pytest.raises(ValueError, match=r"duration `soon`|canal_pasword|inti"):
            compose_of(text.replace(right, wrong))


def test_the_linter_finds_nothing_in_the_dockerfile():
    program = Path(sys.executable).with_name("hadolint")
    if not program.exists():
        pytest.skip("hadolint is not installed: it has no package for this kind of machine")
    done = subprocess.run(
        [program, "--no-color", str(DOCKERFILE)], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (0, "")
