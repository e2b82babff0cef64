"""Where the CPU of an event goes: ``python -m tests.benchmarks.layers [echo|ask] [--connections N]``.

With ``--statements`` it also tells what each statement of the store's thread takes, the commit's fsync
included; asking for the time takes part of a microsecond each.

The bot is this process, the platform and its users are its child. A timer of the loop's thread looks, each
millisecond of that thread's CPU time, at what it does, and counts it for the package whose code that is. C,
calls of the system included, counts for the code that calls it, and so do attrs' methods; what the store's
thread takes is told by itself. It is a sample: good for shares, and for nothing below a hundredth.
"""

from __future__ import annotations

import argparse
import ctypes
import logging
import os
import signal
import socket
import sqlite3
import statistics
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any, Final
from unittest import mock

import trio

from tests.bars.calls import asking, echoing
from triobot import Bot, Settings
from triobot.base.secrets import Secret

from .load import SECRET, TOKEN, Load, gap_event

BOTS: Final = {"echo": echoing, "ask": asking}
_EVERY: Final = 1_000_000
"""Nanoseconds between two looks."""
_ROUNDS: Final = 4

_WORDS: Final = 5

_seen: Counter[str] = Counter()
_statements: defaultdict[str, list[float]] = defaultdict(list)


class _Timed(sqlite3.Connection):
    """Notes the microseconds of CPU that each statement takes, by its first words."""

    def execute(self, sql: str, parameters: Iterable[Any] = (), /) -> sqlite3.Cursor:  # type: ignore[override]
        began = time.thread_time_ns()
        try:
            return super().execute(sql, parameters)  # type: ignore[arg-type]
        finally:
            self._note(sql, began)

    def executemany(self, sql: str, rows: Iterable[Any], /) -> sqlite3.Cursor:
        began = time.thread_time_ns()
        try:
            return super().executemany(sql, rows)
        finally:
            self._note(sql, began)

    def _note(self, sql: str, began: int) -> None:
        took = (time.thread_time_ns() - began) / 1000
        _statements[" ".join(sql.split()[:_WORDS])].append(took)


def layer_of(frame: FrameType | None) -> str:
    """Return whose code runs: a package or a module of ours, a module of Trio's, or ``rest``."""
    while frame is not None:
        _, _, ours = frame.f_code.co_filename.rpartition("/triobot/")
        _, _, trios = frame.f_code.co_filename.rpartition("/trio/")
        if ours != frame.f_code.co_filename:
            parts = ours.removesuffix(".py").split("/")
            return "/".join(parts[: 1 if parts[0] != "http" else 2])
        if trios != frame.f_code.co_filename:
            return "trio, waiting for sockets" if "io_epoll" in trios else "trio, tasks and scopes"
        frame = frame.f_back
    return "rest"


def _look(_: int, frame: FrameType | None) -> None:
    _seen[layer_of(frame)] += 1


class _Event(ctypes.Structure):
    """What the kernel does when a timer expires: sigevent(3type), here always a signal."""

    _fields_ = (("value", ctypes.c_void_p), ("signal", ctypes.c_int), ("rest", ctypes.c_int * 13))


class _Times(ctypes.Structure):
    """When a timer expires again, and for the first time: itimerspec(3type)."""

    _fields_ = (("again", ctypes.c_long * 2), ("first", ctypes.c_long * 2))


@contextmanager
def _looking() -> Iterator[None]:
    """Look at this thread while the block runs.

    `signal.setitimer` would count what other threads take for whatever this one waits for.
    """
    libc, timer = ctypes.CDLL(None, use_errno=True), ctypes.c_void_p()
    signal.signal(signal.SIGPROF, _look)
    event = _Event(signal=signal.SIGPROF)
    if libc.timer_create(time.CLOCK_THREAD_CPUTIME_ID, ctypes.byref(event), ctypes.byref(timer)):
        raise OSError(ctypes.get_errno(), "there is no timer of a thread's time")
    try:
        times = _Times((0, _EVERY), (0, _EVERY))
        libc.timer_settime(timer, 0, ctypes.byref(times), None)
        yield
    finally:
        libc.timer_delete(timer)


def begin_load(connections: int, events: int) -> tuple[int, int, socket.socket, str]:
    """Start the child; return where to have it go on, where it tells what it has done, and its address."""
    listening = socket.create_server(("127.0.0.1", 0), backlog=256)
    port, (told, tell), (heard, hear) = listening.getsockname()[1], os.pipe(), os.pipe()
    if not os.fork():
        listening.close()
        os.close(hear)  # else the end of the bot would not be heard
        load, first = Load(), 1
        os.write(tell, load.url.encode())
        each = max(1, events // (4 * connections))
        while os.read(heard, 1):
            load.converse([port], gap_event, connections=connections, each=each, first=first)
            first += each
            os.write(tell, b"%d" % (4 * connections * each))
        os._exit(0)
    return hear, told, listening, os.read(told, 100).decode()


def settings_of(url: str, listening: socket.socket, folder: str) -> Settings:
    """Return the settings of a bot that listens there, and stores into this folder."""
    return Settings(
        token=Secret(TOKEN),
        base_url=url,
        webhook_secret=Secret(SECRET),
        store=f"sqlite:{Path(folder) / 'bot.db'}",
        development=False,
        fd=os.dup(listening.fileno()),
    )


async def measure(bot: Bot, connections: int, events: int) -> tuple[float, float]:
    """Return the microseconds of CPU of an event, in the loop's thread and in the others."""
    go, told, listening, url = begin_load(connections, events)

    async def run_round() -> tuple[float, float]:
        whole, own = time.process_time(), time.thread_time()
        os.write(go, b"g")
        done = int(await trio.to_thread.run_sync(os.read, told, 100))
        own = time.thread_time() - own
        return own / done * 1e6, (time.process_time() - whole) / done * 1e6 - own / done * 1e6

    with tempfile.TemporaryDirectory() as folder, listening:
        settings = settings_of(url, listening, folder)
        async with trio.open_nursery() as nursery:
            await nursery.start(partial(bot.serve, settings=settings))
            await run_round()  # it warms up
            _statements.clear()
            with _looking():
                took = [await run_round() for _ in range(_ROUNDS)]
            os.close(go)
            bot.stop()
    return min(took)


def main() -> None:
    """Read the arguments, measure, and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("bot", choices=list(BOTS), nargs="?", default="echo")
    parser.add_argument("--connections", type=int, default=64)
    parser.add_argument("--events", type=int, default=4096)
    parser.add_argument("--statements", action="store_true", help="what each statement takes")
    given = parser.parse_args()
    logging.disable(logging.CRITICAL)
    connect = partial(sqlite3.connect, factory=_Timed) if given.statements else sqlite3.connect
    with mock.patch("triobot.store.file.sqlite3.connect", connect):
        own, others = trio.run(measure, BOTS[given.bot], given.connections, given.events)
    print(f"{given.bot}, {given.connections} connections: {own + others:.0f} us of CPU an event")
    for layer, times in _seen.most_common():
        print(f"{times / _seen.total() * own:7.0f} {times / _seen.total():6.1%}  {layer}")
    print(f"{others:7.0f}         the store's thread")
    events = _ROUNDS * given.events
    for words, took in sorted(_statements.items(), key=lambda one: -sum(one[1])):
        if len(took) >= events / 1000:
            each = f"{len(took) / events:5.2f} an event, {statistics.median(took):4.0f} us each"
            print(f"{sum(took) / events:7.0f}         {each}  {words}")


if __name__ == "__main__":
    main()
