"""How a server gets its Ray, and what it says if it gets none."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from canal_group.actors.driver import launch
from canal_group.merge.errors import ConfigError

OWN = SimpleNamespace(ray=SimpleNamespace(address=None, namespace="n", num_cpus=1))


@pytest.mark.parametrize(
    ("raised", "becomes"),
    [
        (Exception("The current node timed out during startup."), ConfigError),
        (RuntimeError("no port is free"), ConfigError),
        (TypeError("a defect"), TypeError),
    ],
)
def test_an_error_of_ray_is_a_sentence_and_a_defect_is_not(monkeypatch, raised, becomes):
    def start(*_arguments, **_named):
        raise raised

    # Another test of this process may have joined a Ray already.
    monkeypatch.setattr(launch.ray, "is_initialized", lambda: False)
    monkeypatch.setattr(launch.local_ray, "start", start)
    with pytest.raises(becomes, match=str(raised)):
        launch.join_ray(OWN, forward=False)
