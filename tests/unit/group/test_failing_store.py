"""A store that cannot be written: few lines, few elections, and the reason in the status."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from canal_group.actors.coordination.local import LocalCoordinator
from canal_group.actors.group import candidate as candidate_module
from canal_group.actors.group import follower as follower_module
from canal_group.actors.group.candidate import Candidate
from canal_group.actors.group.follower import Follower, Losses
from canal_group.actors.group.registration import ShardRegistration
from canal_group.actors.group.wiring import ServerIdentity
from canal_group.actors.process.host import OS_HOST
from canal_group.conf.load import build_instance
from canal_group.merge import events as ev
from canal_group.merge.errors import CoordinatorUnavailable
from canal_group.merge.values.position import Position

DEADLINE_S = 20.0


class Elections(LocalCoordinator):
    """Counts elections."""

    def __init__(self) -> None:
        super().__init__("shop")
        self.count = 0

    def campaign(self) -> int:
        self.count += 1
        return super().campaign()


class Parts:
    """The real store of files, and a coordinator that counts."""

    def __init__(self, coordinator: Elections) -> None:
        self._coordinator = coordinator

    def __getattr__(self, name: str) -> Any:
        return getattr(candidate_module.wiring, name)

    def coordinator(self, *_: object) -> Elections:
        return self._coordinator


def test_a_take_over_that_fails_backs_off_and_keeps_its_reason(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
):
    # The temporary file of the epoch cannot be made: a folder is in its place.
    in_the_way = tmp_path / "cursors" / "shop@epoch.json.tmp"
    in_the_way.mkdir(parents=True)
    settings = build_instance(
        {
            "preset": "file",
            "destination": "shop",
            "shards": [{"name": "s0", "host": "db0", "user": "canal"}],
            "cursor": {"kind": "file", "folder": str(tmp_path / "cursors")},
        }
    )
    pauses: list[float] = []
    coordinator = Elections()

    async def story() -> dict[str, Any]:
        third = asyncio.Event()
        sleep = asyncio.sleep

        async def slept(seconds: float) -> None:
            pauses.append(seconds)
            if len(pauses) == 3:
                third.set()
                await sleep(DEADLINE_S)

        _sleep_by(monkeypatch, candidate_module, slept)
        registration = ShardRegistration(settings, None)  # type: ignore[arg-type]  # none is asked
        candidate = Candidate(
            registration, ServerIdentity("here:1", "me", ""), lambda: True, OS_HOST, Parts(coordinator)
        )
        async with asyncio.timeout(DEADLINE_S):
            await third.wait()
        state = candidate.describe()
        candidate._main.cancel()
        await asyncio.wait([candidate._main])
        return state

    with caplog.at_level(logging.INFO):
        state = asyncio.run(story())
    assert coordinator.count == len(pauses) == 3
    assert pauses == [0.5, 1.0, 2.0]
    assert "cannot take over" in state["error"]
    assert "shop@epoch.json cannot be written" in state["error"]
    said = [each for each in caplog.records if "cannot take over" in each.getMessage()]
    assert len(said) == 3
    assert {each.levelname for each in said} == {"ERROR"}


def _sleep_by(monkeypatch: pytest.MonkeyPatch, module: ModuleType, slept: Any) -> None:
    """Let one module sleep otherwise: loops of other tests may still run in this process."""
    monkeypatch.setattr(module, "asyncio", SimpleNamespace(**{**vars(asyncio), "sleep": slept}))


class FullDisk:
    """Histories that cannot be read until they are."""

    def __init__(self, failures: int) -> None:
        self._failures = failures

    async def load(self, _name: str) -> None:
        if self._failures:
            self._failures -= 1
            raise CoordinatorUnavailable("shop@epoch.json.lock cannot be opened (No space left on device).")


class NoSkips:
    async def of(self, _name: str) -> tuple[()]:
        return ()


class Channel:
    async def open(self, *_: object) -> Position:
        return Position("bin.000001", 4)


def test_an_opening_that_fails_is_a_state_and_one_error_with_back_off(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
):
    pauses: list[float] = []
    told: list[ev.Event] = []

    async def slept(seconds: float) -> None:
        pauses.append(seconds)

    _sleep_by(monkeypatch, follower_module, slept)
    follower = Follower(
        0,
        "s0",
        Channel(),  # type: ignore[arg-type]
        (1, 1),
        told.append,
        FullDisk(7),  # type: ignore[arg-type]
        NoSkips(),  # type: ignore[arg-type]
        OS_HOST,
        losses=Losses(),
        pace_s=0.01,
    )
    with caplog.at_level(logging.INFO):
        asyncio.run(follower._open(None, ()))
    assert pauses == [0.2, 0.4, 0.8, 1.6, 3.2, 5.0, 5.0]
    assert [type(event) for event in told] == [ev.ShardNotOpened] * 7
    (said,) = (each for each in caplog.records if each.name == follower_module.__name__)
    assert (said.levelname, said.shard) == ("ERROR", "s0")
    assert "No space left on device" in said.getMessage()


def test_a_shard_that_is_lost_again_and_again_is_opened_ever_later():
    losses, pauses = Losses(), []
    for _ in range(7):
        losses.lost()
        pauses.append(losses.pause_s)
    assert pauses == [0.0, 0.4, 0.8, 1.6, 3.2, 6.4, 10.0]
    losses.went_on()
    assert losses.pause_s == 0.0
    losses.lost()
    assert losses.pause_s == 0.0, "a first loss is an accident"
