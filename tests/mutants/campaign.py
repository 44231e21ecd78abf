"""A campaign: every mutant in a process of its own, against the tests that call its function.

pytest collects the tests once, as usual. One fork runs all of them without a fault: it checks that they pass,
and reports which of the files' functions each test calls and how long it takes. Then each mutant gets a fork
of the same process, in which the code of one function is replaced; nothing is imported or collected again.
"""

from __future__ import annotations

import gc
import pickle
import random
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import FunctionType

import pytest
from hypothesis import HealthCheck, Phase, settings

from mutants.fork import Forks
from mutants.mutant import FunctionKey, Key, Module, Mutant, key_of
from mutants.suite import Known, Suite
from mutants.verdict import Fate, Verdict

#: mutants that run concurrently
WORKERS = 2
#: interval of progress reports
TOLD_S = 30.0
#: number of cases of a property, and of a rule-based state machine
EXAMPLES, MACHINE_EXAMPLES = 40, 40


@dataclass(eq=False)
class Campaign:
    """A pytest plugin that runs mutants instead of tests.

    Args:
        root: the folder that files are named from.
        files: the files to inject faults into.
        only: the mutants to run; None: all.
        sample: how many of them, chosen at random; None: all.
        seed: of that choice, and of the order.
        seconds_max: no mutant starts after this time.
        say: takes progress messages.
    """

    root: Path
    files: Sequence[Path]
    only: Collection[Key] | None
    sample: int | None
    seed: int
    seconds_max: float
    say: Callable[[str], None]
    verdicts: list[Verdict] = field(default_factory=list)
    #: all mutants of the files
    possible: list[Mutant] = field(default_factory=list)
    #: tests that fail, or cannot be collected, before any fault was injected
    broken: list[str] = field(default_factory=list)
    _failed: bool = False

    def pytest_configure(self) -> None:
        """Register a profile with few cases per property, the same in each run, without shrinking."""
        settings.register_profile(
            "mutants",
            max_examples=EXAMPLES,
            phases=(Phase.explicit, Phase.generate),
            derandomize=True,
            database=None,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        )

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection(self) -> None:
        """Load that profile, after the tests' own was loaded."""
        settings.load_profile("mutants")

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Note a test file that cannot be collected."""
        if report.failed:
            self.broken.append(report.nodeid)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Note that a test failed."""
        self._failed = self._failed or report.failed

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Run the mutants."""
        begun_s = time.monotonic()
        if self.broken:
            return True
        # Created once, before the forks: each fork would create one, and remove those of others.
        session.config._tmp_path_factory.getbasetemp()  # type: ignore[attr-defined]
        for item in session.items:
            _shorten(item)
        suite = Suite(session.items, self._run)
        suite.known = self._watched(suite)
        if self.broken:
            return True
        self.say(f"{len(suite.known)} tests pass in {sum(each.took_s for each in suite.known):.0f} s")
        modules = [Module(path, str(path.relative_to(self.root))) for path in self.files]
        self.possible = [mutant for module in modules for mutant in module.mutants()]
        chosen = [mutant for mutant in self.possible if self.only is None or mutant.key in self.only]
        random.Random(self.seed).shuffle(chosen)
        chosen = chosen[: self.sample]
        # Stored one by one, so that an interrupt keeps the results so far.
        for verdict in self._verdicts(chosen, suite, begun_s + self.seconds_max):
            self.verdicts.append(verdict)
        return True

    def _run(self, item: pytest.Item, following: pytest.Item | None) -> bool:
        """Run a test and return whether it passed."""
        self._failed = False
        item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
        return not self._failed

    def _watched(self, suite: Suite) -> list[Known]:
        """Return the behaviour of each test without a fault; add the tests that fail to `broken`."""
        files = {str(path): str(path.relative_to(self.root)) for path in self.files}
        forks: Forks[str] = Forks(1)
        forks.start("The suite", lambda: pickle.dumps(suite.watch(files)), until_s=self.seconds_max)
        answers: list[bytes | None] = []
        while len(forks):
            answers += [answer for _, answer in forks.ended()]
        if answers[0] is None:
            raise RuntimeError("The tests do not end.")
        known, broken = pickle.loads(answers[0])
        self.broken += broken
        return known  # type: ignore[no-any-return]

    def _verdicts(self, mutants: Sequence[Mutant], suite: Suite, until_s: float) -> Iterator[Verdict]:
        targets = _functions(self.files)
        gc.collect()
        gc.freeze()  # so that a fork copies fewer pages
        forks: Forks[Mutant] = Forks(WORKERS)
        waiting, done, told_s = list(reversed(mutants)), 0, time.monotonic()
        while waiting or len(forks):
            while waiting and not forks.full:
                mutant = waiting.pop()
                selected = suite.of(mutant.key)
                if time.monotonic() < until_s and selected:
                    code = mutant.code()
                    function = targets[mutant.module.path, mutant.function]
                    forks.start(mutant, partial(suite.judge, function, code, selected))
                else:
                    yield Verdict(mutant.key, mutant.line, Fate.NOT_RUN if selected else Fate.UNTESTED)
            for mutant, answer in forks.ended():
                yield suite.verdict(mutant, answer)
                done += 1
            if time.monotonic() > told_s + TOLD_S:
                told_s = time.monotonic()
                self.say(f"{done} of {len(mutants)} mutants")


def _shorten(item: pytest.Item) -> None:
    """Limit a state machine's cases: its own settings would override the profile."""
    own = getattr(getattr(item, "cls", None), "settings", None)
    if isinstance(own, settings) and own.max_examples > MACHINE_EXAMPLES:
        profile = settings.get_profile("mutants")
        item.cls.settings = settings(  # type: ignore[attr-defined]
            profile, max_examples=MACHINE_EXAMPLES, stateful_step_count=own.stateful_step_count
        )


def _functions(files: Sequence[Path]) -> dict[tuple[Path, FunctionKey], FunctionType]:
    """Return the functions of some files that exist in memory."""
    paths = {str(path): path for path in files}
    return {
        (paths[each.__code__.co_filename], key_of(each.__code__)): each
        for each in gc.get_objects()
        if isinstance(each, FunctionType) and each.__code__.co_filename in paths
    }
