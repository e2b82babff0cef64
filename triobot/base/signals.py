"""The signals that stop a process, and a receiver for them."""

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
"""Stop signals that the process has received. The handler adds a signal even while the event loop is blocked.
"""


def ending_signals() -> list[signal.Signals]:
    """List the signals on which the process stops in an orderly way: Ctrl-C, SIGTERM, and the closing
    of the terminal window.
    """
    endings = [signal.SIGINT, signal.SIGTERM]
    for name in ("SIGHUP", "SIGBREAK"):  # SIGBREAK: Windows
        ending: signal.Signals | None = getattr(signal, name, None)
        # nohup makes a process ignore SIGHUP, so that the process outlives the window.
        if ending is not None and signal.getsignal(ending) is not signal.SIG_IGN:
            endings.append(ending)
    return endings


def _as_it_is() -> Callable[[], None]:
    """Return a function that restores the terminal's current settings, since a line editor may change
    them.
    """
    try:
        import termios

        before = termios.tcgetattr(sys.stdin)
    except Exception:  # there is no terminal
        return lambda: None
    return partial(termios.tcsetattr, sys.stdin, termios.TCSANOW, before)


@contextmanager
def hearing_signals(most: int) -> Generator[AsyncIterator[int]]:
    """Receive the stop signals while the block runs. The `most`-th signal ends the process at once.

    Code that never awaits blocks the event loop, which then can't receive signals. So a Python signal handler
    counts the signals: Python calls this handler even in the middle of such code.
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
        # Shell and system may both send SIGHUP when a window is closed, so SIGHUP counts only as the first
        # signal.
        to_the_loop = cast("Callable[[int, FrameType | None], None]", signal.getsignal(signal.SIGINT))
        for number in ending_signals():
            signal.signal(number, hear)
        yield signals
