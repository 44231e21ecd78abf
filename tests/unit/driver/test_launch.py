"""How a server gets its Ray, and what it says if it gets none."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from canal_group.actors.driver import launch, local_ray
from canal_group.conf.server_settings import RaySettings
from canal_group.merge.errors import ConfigError

OWN = SimpleNamespace(ray=RaySettings())


@pytest.mark.parametrize(
    ("raised", "becomes", "words"),
    [
        (Exception("The node timed out."), ConfigError, "did not start.*The node timed out.*--address auto"),
        (RuntimeError("no port is free"), ConfigError, "did not start.*no port is free"),
        (TypeError("a defect"), TypeError, "a defect"),
    ],
)
def test_an_error_of_ray_is_a_sentence_and_a_defect_is_not(monkeypatch, raised, becomes, words):
    def start(*_arguments, **_named):
        raise raised

    # Another test of this process may have joined a Ray already.
    monkeypatch.setattr(launch.ray, "is_initialized", lambda: False)
    monkeypatch.setattr(launch.local_ray, "start", start)
    with pytest.raises(becomes, match=words):
        launch.join_ray(OWN, forward=False)


@pytest.mark.parametrize("failures", [1, 2])
def test_a_ray_that_does_not_start_is_started_once_more(monkeypatch, tmp_path, caplog, failures):
    tries, ended = [], []

    def init(**_options):
        tries.append(len(tries))
        if len(tries) <= failures:
            raise Exception("The node timed out.")  # noqa: TRY002  as Ray does

    monkeypatch.setattr(local_ray.ray, "init", init)
    monkeypatch.setattr(local_ray.ray, "shutdown", lambda: ended.append(len(tries)))
    monkeypatch.setattr(local_ray, "require_token", lambda: None)
    monkeypatch.setattr(local_ray, "private_folder", lambda: tmp_path)
    if failures == 1:
        local_ray.start("test")
    else:
        with pytest.raises(Exception, match="The node timed out"):
            local_ray.start("test")
    assert (len(tries), ended) == (2, [1])
    assert "Ray did not start, and is started again: The node timed out." in caplog.text
