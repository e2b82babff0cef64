"""Says which signals bring a process to rest, and hears them."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import AsyncIterator, Callable, Generator
from contextlib import contextmanager, suppress
from functools import partial
from types import FrameType
from typing import Final, cast

import trio

HEARD: Final[list[int]] = []
"""The ending signals that came to this process; a loop that has no turn hears of none."""


def ending_signals() -> list[signal.Signals]:
    """List the signals that end it in order: Ctrl-C, a polite kill, the closing of the terminal's window."""
    endings = [signal.SIGINT, signal.SIGTERM]
    for name in ("SIGHUP", "SIGBREAK"):  # Windows has the second
        ending: signal.Signals | None = getattr(signal, name, None)
        # Who said nohup wants it to outlive the window.
        if ending is not None and signal.getsignal(ending) is not signal.SIG_IGN:
            endings.append(ending)
    return endings


def _as_it_is() -> Callable[[], None]:
    """Return what leaves the terminal as it is now: a line that is being edited has no echo."""
    try:
        import termios

        before = termios.tcgetattr(sys.stdin)
    except Exception:  # there is none
        return lambda: None
    return partial(termios.tcsetattr, sys.stdin, termios.TCSANOW, before)


@contextmanager
def hearing_signals(most: int) -> Generator[AsyncIterator[int]]:
    """Hear the signals that end the process while the block runs; so many of them end it, whatever it does.

    A bot that spins leaves the loop no turn to hear one, but Python calls a handler between two of its lines.
    """
    heard, leave_terminal = 0, _as_it_is()
    HEARD.clear()

    def hear(number: int, frame: FrameType | None) -> None:
        nonlocal heard
        HEARD.append(number)
        heard += number != getattr(signal, "SIGHUP", None) or not heard
        if heard >= most:
            with suppress(Exception):
                leave_terminal()
            os._exit(128 + number)
        to_the_loop(number, frame)

    with trio.open_signal_receiver(*ending_signals()) as signals:
        # Of a window that is closed both the shell and the system tell.
        to_the_loop = cast("Callable[[int, FrameType | None], None]", signal.getsignal(signal.SIGINT))
        for number in ending_signals():
            signal.signal(number, hear)
        yield signals
