"""How many calls an event makes in the thread of the loop: those of Trio and of C, too.

A bot listens, stores into an SQLite file, and is profiled by cProfile. The platform and its users are another
thread, which the profile doesn't see. The profile begins when each chat has been answered once, so that
neither a start nor a first message counts; of what is given to each chat after that, every call is counted
until nothing is under way.
"""

from __future__ import annotations

import cProfile
import logging
import os
import pstats
import socket
import tempfile
from functools import partial
from pathlib import Path
from typing import Final, Literal, TypeAlias

import trio

from tests.benchmarks.load import SECRET, TOKEN, Load, gap_event
from triobot import Bot, Chat, Settings
from triobot.base.secrets import Secret

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
    profile = cProfile.Profile()
    trio.run(_count, {"echo": echoing, "ask": asking}[kind], rounds, profile)
    calls: int = pstats.Stats(profile).total_calls  # type: ignore[attr-defined]
    return calls / (rounds * _CHATS)


async def _count(bot: Bot, rounds: int, profile: cProfile.Profile) -> None:
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
        converse = partial(load.converse, [port], gap_event, connections=CONNECTIONS)
        async with trio.open_nursery() as nursery:
            await nursery.start(partial(bot.serve, settings=settings))
            await trio.to_thread.run_sync(partial(converse, each=1, first=1))
            profile.enable()
            await trio.to_thread.run_sync(partial(converse, each=rounds, first=2))
            profile.disable()
            bot.stop()
        load.close()
