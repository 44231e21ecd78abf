"""A stop that a signal's handler says, wherever it interrupts the thread that waits for it."""

import os
import signal
import threading
import time

from canal_group.programs.stop_signal import StopSignal

#: an event of `threading` is in the way of its own handler within some thousand of them
WAITS = 100_000


def test_a_signal_sets_it_in_the_middle_of_a_wait():
    done = threading.Event()
    before = signal.signal(signal.SIGUSR1, lambda *_: stop.set())
    sender = threading.Thread(target=lambda: [os.kill(os.getpid(), signal.SIGUSR1) for _ in _until(done)])
    try:
        stop = StopSignal()
        sender.start()
        assert stop.wait(10)
        for _ in range(WAITS):
            assert stop.wait(0)
    finally:
        done.set()
        sender.join()
        signal.signal(signal.SIGUSR1, before)


def _until(done):
    while not done.is_set():
        yield time.sleep(0)


def test_a_wait_ends_by_its_time():
    assert not StopSignal().wait(0.01)
