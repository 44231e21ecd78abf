"""The first signal ends the work, once; what must not be disturbed is not."""

import os
import signal
import threading

import pytest

from canal_group.programs.demo.interrupts import Interrupts

SAID = "Interrupted: stopping what was started; this takes some seconds."


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_first_signal_interrupts_and_says_so_and_later_ones_do_not(number, capfd):
    with Interrupts():
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), number)
        os.kill(os.getpid(), number)
    assert capfd.readouterr().err.splitlines() == [SAID]


def test_ignored_signals_pass(capfd):
    with Interrupts() as interrupts:
        interrupts.ignore()
        os.kill(os.getpid(), signal.SIGINT)
    assert not capfd.readouterr().err


@pytest.mark.parametrize("failing", [False, True])
def test_a_deferred_signal_is_raised_after_the_work_also_where_that_fails(failing, capfd):
    """That it was heard is said at once, and once."""
    steps = []

    def work(interrupts):
        with interrupts.deferred():
            os.kill(os.getpid(), signal.SIGINT)
            assert capfd.readouterr().err.splitlines() == [SAID]
            os.kill(os.getpid(), signal.SIGINT)
            steps.append("worked on")
            if failing:
                raise ValueError("broke")

    with Interrupts() as interrupts, pytest.raises(KeyboardInterrupt):
        work(interrupts)
    assert steps == ["worked on"]
    assert not capfd.readouterr().err


def test_handlers_are_put_back_and_other_threads_have_none():
    before = signal.getsignal(signal.SIGINT)
    with Interrupts():
        assert signal.getsignal(signal.SIGINT) != before
    assert signal.getsignal(signal.SIGINT) == before

    def elsewhere():
        with Interrupts():
            seen.append(signal.getsignal(signal.SIGINT))

    seen: list[object] = []
    thread = threading.Thread(target=elsewhere)
    thread.start()
    thread.join()
    assert seen == [before]
