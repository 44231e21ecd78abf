"""Calls that are answered at once: each caller has its own number, and all together have one."""

from __future__ import annotations

from contextlib import ExitStack

import pytest

from canal_group.actors.admission.calls import Calls
from canal_group.merge.errors import ServerUnavailable


def test_one_caller_leaves_some_to_others_until_all_have_all():
    calls = Calls(2, 3)
    with ExitStack() as held:
        for name in ("a", "a", "b"):
            held.enter_context(calls.one_of(name))
        for name in ("a", "b", "c"):
            with (
                pytest.raises(ServerUnavailable, match=f"{name} may have 2, and all callers 3"),
                calls.one_of(name),
            ):
                pass
    for name in ("c", "c"):
        assert calls.begin(name)
    assert not calls.begin("c")
    calls.end("c")
    assert calls.begin("c")


def test_a_question_that_fails_is_counted_no_more():
    calls = Calls(1, 1)
    for _ in range(2):
        with pytest.raises(ZeroDivisionError), calls.one_of("a"):
            raise ZeroDivisionError
