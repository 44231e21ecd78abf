"""Unit tests never start Ray: importing it to do so fails the test."""

import builtins
import sys
from concurrent.futures import wait

import pytest
from support.group import purges

from canal_group.actors.process.loop_thread import LoopThread

#: seconds within which what a test has closed ends
ENDED_S = 5.0


def _forbidden(*_args, **_kwargs):
    pytest.fail("a unit test must not call ray.init")


@pytest.fixture(autouse=True)
def no_ray(monkeypatch):
    """Make `ray.init` fail, whether Ray is imported already or by the test; without importing it here."""
    real = builtins.__import__

    def importing(name, *args, **kwargs):
        module = real(name, *args, **kwargs)
        if name.partition(".")[0] == "ray" and hasattr(sys.modules.get("ray"), "init"):
            monkeypatch.setattr(sys.modules["ray"], "init", _forbidden)
        return module

    monkeypatch.setattr(builtins, "__import__", importing)
    if "ray" in sys.modules and hasattr(sys.modules["ray"], "init"):
        monkeypatch.setattr(sys.modules["ray"], "init", _forbidden)


@pytest.fixture(autouse=True)
def no_work_left(monkeypatch):
    """Fail a test that leaves work on a thread's loop: it would go on, and log, while others run."""
    real, begun = LoopThread.run, []

    def run(loop, work):
        future = real(loop, work)
        begun.append((work, future))
        return future

    monkeypatch.setattr(LoopThread, "run", run)
    yield
    wait([future for _, future in begun], ENDED_S)
    left = [work.__qualname__ for work, future in begun if not future.done()]
    assert not left, f"the test has not closed what runs {left}"


@pytest.fixture(params=[False, True], ids=["refused", "opened first"])
def opened_first(request):
    """Whether a shard says where it is open before its source was asked."""
    purges.OPENED_FIRST[0] = request.param
