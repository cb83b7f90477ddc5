"""A signal is noted while somebody listens, and does what it always did afterwards."""

import signal
import threading

import pytest

from offpiste.run.stopping import stop_on_signals


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_is_noted_and_the_handlers_from_before_come_back(number: signal.Signals) -> None:
    before = {each: signal.getsignal(each) for each in (signal.SIGTERM, signal.SIGINT)}
    with stop_on_signals() as stop:
        noted = [stop.number]
        signal.raise_signal(number)
        noted.append(stop.number)
    assert noted == [None, number]
    assert {each: signal.getsignal(each) for each in before} == before


def test_the_second_interrupt_counts_at_once() -> None:
    with stop_on_signals() as stop:
        signal.raise_signal(signal.SIGINT)
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
    assert stop.number == signal.SIGINT


def test_an_interrupt_after_sigterm_waits_for_the_checkpoint_and_the_next_one_does_not() -> None:
    with stop_on_signals():
        signal.raise_signal(signal.SIGTERM)
        signal.raise_signal(signal.SIGINT)
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)


def test_a_block_within_another_has_its_signal_and_leaves_its_handlers() -> None:
    with stop_on_signals() as outer:
        signal.raise_signal(signal.SIGTERM)
        with stop_on_signals() as inner:
            assert inner.number == signal.SIGTERM
        assert signal.getsignal(signal.SIGTERM) is outer is inner


def test_outside_the_main_thread_signals_are_left_alone() -> None:
    before = signal.getsignal(signal.SIGTERM)
    seen = []

    def listen() -> None:
        with stop_on_signals() as stop:
            seen.append((stop.number, signal.getsignal(signal.SIGTERM)))

    thread = threading.Thread(target=listen)
    thread.start()
    thread.join()
    assert seen == [(None, before)]
