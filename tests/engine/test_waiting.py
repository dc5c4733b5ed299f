from __future__ import annotations

import signal

import pytest

from penstock.engine.waiting import Backoff, StopFlag


@pytest.mark.slow
def test_a_signal_handler_may_stop_it_in_the_middle_of_a_wait():
    """A hundred times: if the flag had a lock, the thread that the handler interrupts would hold it
    in one of these.
    """
    asked = StopFlag()
    signal.signal(signal.SIGALRM, lambda *_: asked.set())
    try:
        for _ in range(100):
            asked._flag = False
            signal.setitimer(signal.ITIMER_REAL, 0.001)
            assert asked.wait(20)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, signal.SIG_DFL)


def test_pauses_begin_anew_after_a_success():
    backoff = Backoff(1.0, 30.0)
    assert [backoff.next_pause() for _ in range(7)] == [1, 2, 4, 8, 16, 30, 30]
    backoff.reset()
    assert backoff.next_pause() == 1
