"""Counts an event's calls in the event loop's thread, with the calls of Trio and of C functions.

A bot listens, stores into an SQLite file, and is profiled by cProfile. The profile begins when each chat has
got one answer, so that neither the start nor a first message counts. From then on, every call counts until
all events are handled.

Meanwhile, no other thread runs, so the count doesn't depend on the speed of the disk or of a busy machine.
The platform acts, without being profiled, whenever the loop is idle. Once all events are answered, the users
post their next events together. Each commit runs at once in the loop's thread. With each act of the platform,
the loop's clock advances by a millisecond.
"""

from __future__ import annotations

import cProfile
import logging
import os
import pstats
import random
import socket
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias
from unittest import mock

import outcome
import trio

from tests.benchmarks.load import SECRET, TOKEN, Load, gap_event
from triobot import Bot, Chat, Settings
from triobot.base.secrets import Secret
from triobot.store.worker_thread import WorkerThread

Kind: TypeAlias = Literal["echo", "ask"]

CONNECTIONS: Final = 64
_CHATS: Final = 4 * CONNECTIONS

echoing: Bot = Bot()
asking: Bot = Bot()


@echoing.conversation
async def echo(chat: Chat) -> None:
    """Say what was said, and end."""
    await chat.send(chat.event.content)  # type: ignore[attr-defined]


@asking.conversation
async def ask(chat: Chat) -> None:
    """Say what was said, for ever."""
    text = chat.event.content  # type: ignore[attr-defined]
    while True:
        text = await chat.ask(text)


class _InStep(trio.abc.Clock):
    """A clock that has the platform act when the loop is idle.

    Attributes:
        acts: what the platform does; None while nothing is counted.
    """

    def __init__(self) -> None:
        self.acts: Callable[[], None] | None = None
        self._ahead = 0.0
        self._stands_at = 0.0

    def start_clock(self) -> None:
        pass

    def current_time(self) -> float:
        return self._stands_at if self.acts is not None else time.perf_counter() + self._ahead

    def begin(self, acts: Callable[[], None]) -> None:
        self._stands_at, self.acts = self.current_time(), acts

    def end(self) -> None:
        self.acts, self._ahead = None, self._stands_at - time.perf_counter()

    def deadline_to_sleep_time(self, deadline: float) -> float:
        if self.acts is None:
            return deadline - self.current_time()
        self._stands_at += 0.001
        self.acts()
        return 0.0


def count_calls(kind: Kind, events: int = 3072) -> float:
    """Count the calls of an event, on average.

    It profiles this process, so it is for a process of its own.

    Args:
        kind: ``echo``: a conversation for each event, which says the text and ends. ``ask``: a turn of
            ``while True: text = await chat.ask(text)``.
        events: how many are counted, in whole rounds of 256 chats.
    """
    logging.disable(logging.CRITICAL)
    rounds = max(1, events // _CHATS)
    profile, clock = cProfile.Profile(), _InStep()
    # Trio runs ready tasks in a random order. The fixed seed makes this order the same in each run.
    with mock.patch("trio._core._run._r", random.Random(0)):
        trio.run(_count, {"echo": echoing, "ask": asking}[kind], rounds, profile, clock, clock=clock)
    calls: int = pstats.Stats(profile).total_calls  # type: ignore[attr-defined]
    return calls / (rounds * _CHATS)


async def _count(bot: Bot, rounds: int, profile: cProfile.Profile, clock: _InStep) -> None:
    load = Load()
    with tempfile.TemporaryDirectory() as folder, socket.create_server(("127.0.0.1", 0), backlog=256) as made:
        settings = Settings(
            token=Secret(TOKEN),
            base_url=load.url,
            webhook_secret=Secret(SECRET),
            store=f"sqlite:{Path(folder) / 'bot.db'}",
            development=False,
            fd=os.dup(made.fileno()),
        )
        port = int(made.getsockname()[1])
        begin = partial(load.begin, [port], gap_event, connections=CONNECTIONS)
        async with trio.open_nursery() as nursery:
            await nursery.start(partial(bot.serve, settings=settings))
            await trio.to_thread.run_sync(
                partial(load.converse, [port], gap_event, connections=CONNECTIONS, each=1, first=1)
            )
            await _profile(load, begin, rounds, profile, clock)
            bot.stop()
        load.close()


async def _profile(load: Load, begin: Any, rounds: int, profile: cProfile.Profile, clock: _InStep) -> None:
    def commit(thread: WorkerThread, work: Callable[[], object]) -> None:
        profile.disable()
        thread._answers.put(outcome.capture(work))
        thread.wake()
        profile.enable()

    def act() -> None:
        profile.disable()
        if not load.turn(0) and not post():
            over.set()
        else:
            profile.enable()

    def post() -> bool:
        ready, idle[:] = list(idle), []
        for user in ready:
            following[user](user)
        return load.run.done < whole

    over, idle = trio.Event(), list[Any]()
    users, whole = begin(each=rounds, first=2)
    following = {user: user.ready for user in users}
    for user in users:
        user.ready = idle.append
    with mock.patch.object(WorkerThread, "begin", commit):
        clock.begin(act)
        profile.enable()
        await over.wait()
        clock.end()
        profile.disable()
    for user in users:
        user.close()
