"""How a server gets its Ray, and what it says if it gets none."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from canal_group.actors.driver import launch
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
