"""The collected tests: which functions each calls, and whether one detects a fault."""

from __future__ import annotations

import json
import resource
import signal
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from types import CodeType, FrameType, FunctionType

import pytest

from mutants.mutant import FunctionKey, Key, Module, Mutant, key_of
from mutants.verdict import Fate, Verdict

#: a test's limit of processor time: this factor times its usual time, plus this constant
SLOWER, SLOWER_S = 10, 2.0
#: memory limit of a mutant
MEMORY_BYTES_MAX = 4 << 30
#: the tests of a mutant, quickest first, are limited to this much of their usual time
TESTS_S_MAX = 15.0


@dataclass(frozen=True)
class Known:
    """The behaviour of a test without a fault."""

    took_s: float
    functions: frozenset[tuple[str, str]]


@dataclass
class Suite:
    """The collected tests, as they run in a fork.

    Args:
        items: all of them.
        run: runs a test, given also the next one, and returns whether it passed.
    """

    items: list[pytest.Item]
    run: Callable[[pytest.Item, pytest.Item | None], bool]
    #: by number of the test, what `watch` found
    known: list[Known] = field(default_factory=list)
    #: by function, numbers of the tests that killed its last mutants, the latest first
    _killers: dict[tuple[str, str], list[int]] = field(default_factory=dict)

    def watch(self, files: dict[str, str]) -> tuple[list[Known], list[str]]:
        """Run all tests; return the behaviour of each, and the names of those that fail."""
        outer = {path: _outer(Module(Path(path), file)) for path, file in files.items()}
        called: set[CodeType] = set()

        def note(frame: FrameType, event: str, _: object) -> None:
            if event == "call" and frame.f_code.co_filename in files:
                called.add(frame.f_code)

        known, broken = [], []
        for item, following in zip(self.items, [*self.items[1:], None], strict=True):
            called.clear()
            sys.setprofile(note)
            begun_s = time.process_time()
            passed = self.run(item, following)
            took_s = time.process_time() - begun_s
            sys.setprofile(None)
            # Watched, it takes longer, which a test that limits the time may not allow.
            if not passed and not self.run(item, following):
                broken.append(item.nodeid)
            keys = ((c.co_filename, outer[c.co_filename].get(key_of(c))) for c in called)
            functions = frozenset((files[path], name) for path, name in keys if name)
            known.append(Known(took_s, functions))
        return known, broken

    def of(self, key: Key) -> list[int]:
        """Return the tests of a mutant: those that killed its neighbours, then the quickest."""
        where = (key.file, key.function)
        found, took_s = list(self._killers.get(where, [])), 0.0
        for number in self._callers.get(where, []):
            took_s += self.known[number].took_s
            if found and took_s > TESTS_S_MAX:
                break
            if number not in found:
                found.append(number)
        return found

    @cached_property
    def _callers(self) -> dict[tuple[str, str], list[int]]:
        """The tests that call a function, the quickest first."""
        found: dict[tuple[str, str], list[int]] = {}
        for number in sorted(range(len(self.known)), key=lambda number: self.known[number].took_s):
            for function in self.known[number].functions:
                found.setdefault(function, []).append(number)
        return found

    def judge(self, function: FunctionType, code: CodeType, selected: Sequence[int]) -> bytes:
        """Inject a fault, run tests until one fails, and return its number as JSON; null: none failed."""
        function.__code__ = code
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES_MAX, MEMORY_BYTES_MAX))
        for number, following in zip(selected, [*selected[1:], None], strict=True):
            # The signal is not handled: the process ends without an answer.
            signal.setitimer(signal.ITIMER_PROF, SLOWER_S + SLOWER * self.known[number].took_s)
            if not self.run(self.items[number], None if following is None else self.items[following]):
                return json.dumps(number).encode()
        return b"null"

    def verdict(self, mutant: Mutant, answer: bytes | None) -> Verdict:
        """Return the verdict of an answer of `judge`, and remember its test; None: it did not answer."""
        if answer is None:
            return Verdict(mutant.key, mutant.line, Fate.EXCEEDED)
        killer = json.loads(answer)
        if killer is None:
            return Verdict(mutant.key, mutant.line, Fate.SURVIVED)
        found = self._killers.setdefault((mutant.key.file, mutant.key.function), [])
        if killer in found:
            found.remove(killer)
        found.insert(0, killer)
        return Verdict(mutant.key, mutant.line, Fate.KILLED, self.items[killer].nodeid)


def _outer(module: Module) -> dict[FunctionKey, str]:
    """Return the name of the function that each piece of code is part of."""
    found: dict[FunctionKey, str] = {}
    names = module.names()
    for key, function in module.compiled().items():
        waiting = [function]
        while waiting:
            code = waiting.pop()
            found[key_of(code)] = names[key]
            waiting += [each for each in code.co_consts if isinstance(each, CodeType)]
    return found
