"""A campaign: every mutant in a process of its own, against the tests that call its function.

pytest collects the tests once, as it always does. One fork runs all of them as they are: it shows that they
pass, and says which functions of `merge/` each calls and how long it takes. Then each mutant gets a fork of
the same process, in which the code of one function is another: nothing is imported or collected again.
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
from mutants.mutant import Key, Module, Mutant, Place, place_of
from mutants.suite import Known, Suite
from mutants.verdict import Fate, Verdict

#: mutants at a time
WORKERS = 2
#: it is told this often how far it is
TOLD_S = 30.0
#: cases of a property, of a machine of rules
EXAMPLES, MACHINE_EXAMPLES = 40, 40


@dataclass(eq=False)
class Campaign:
    """A plugin of pytest that runs mutants instead of tests.

    Args:
        root: the folder that files are named from.
        files: what to put faults in.
        only: the only mutants that are wanted; None: all.
        sample: how many of them, by chance; None: all.
        seed: of that chance, and of the order.
        seconds_max: no mutant begins after so long.
        say: told how far it is.
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
    #: tests that fail, or errors of collecting them, before any fault was put in
    broken: list[str] = field(default_factory=list)
    _failed: bool = False

    def pytest_configure(self) -> None:
        """Let properties have few cases, the same in each run, and not look for the smallest."""
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
        """Use that profile: the tests' own has been loaded by now."""
        settings.load_profile("mutants")

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Note what cannot be collected."""
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
        # Made once, before the forks: each of them would make one, and clear away those of others.
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
        # One by one: what was found stays, also where somebody interrupts.
        for verdict in self._verdicts(chosen, suite, begun_s + self.seconds_max):
            self.verdicts.append(verdict)
        return True

    def _run(self, item: pytest.Item, following: pytest.Item | None) -> bool:
        """Run a test and return whether it passed."""
        self._failed = False
        item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
        return not self._failed

    def _watched(self, suite: Suite) -> list[Known]:
        """Return what each test does as it is; fill `broken` if one fails."""
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
        gc.freeze()  # so that a fork copies less
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
    """Let a machine of rules have few cases: it says itself how many it wants."""
    own = getattr(getattr(item, "cls", None), "settings", None)
    if isinstance(own, settings) and own.max_examples > MACHINE_EXAMPLES:
        profile = settings.get_profile("mutants")
        item.cls.settings = settings(  # type: ignore[attr-defined]
            profile, max_examples=MACHINE_EXAMPLES, stateful_step_count=own.stateful_step_count
        )


def _functions(files: Sequence[Path]) -> dict[tuple[Path, Place], FunctionType]:
    """Return the functions of some files that are alive."""
    paths = {str(path): path for path in files}
    return {
        (paths[each.__code__.co_filename], place_of(each.__code__)): each
        for each in gc.get_objects()
        if isinstance(each, FunctionType) and each.__code__.co_filename in paths
    }
