"""How many instructions an event takes: ``python -m tests.benchmarks.instructions [echo|ask|receive]``.

valgrind runs the bot and counts them, without the kernel's, for the loop's thread and the store's. So the
figure hardly varies and no load disturbs it, but a processor takes more time for some than for others. With
``--top N`` it names the C functions that take most of the loop's, by themselves or with all that they call:
that shows what a count of calls hides, such as class patterns that don't match, or arguments by name.
"""

from __future__ import annotations

import argparse
import logging
import os
import re
import subprocess
import sys
import tempfile
from functools import partial
from pathlib import Path
from typing import Final

import trio

from tests.bars.calls import asking, echoing
from triobot import Bot, Chat
from triobot.filters import text
from triobot.runtime.serve import Server, rarely_collected, serve_together

from .layers import begin_load, settings_of

receiving: Final = Bot()
BOTS: Final = {"echo": echoing, "ask": asking, "receive": receiving}
_LEAST: Final = 5_000
"""Instructions of an event, of a thread that is shown."""


@receiving.conversation
async def receive(chat: Chat) -> None:
    """Say what was said, for ever, as one that takes whole messages does."""
    await chat.send(chat.event.content)  # type: ignore[attr-defined]
    while True:
        message = await chat.receive(text())
        await chat.send(message.content)


def _count(on: bool) -> None:
    subprocess.run(
        ["callgrind_control", "-i", "on" if on else "off", str(os.getpid())], check=True, capture_output=True
    )


async def _run(bot: Bot, connections: int, events: int, server: Server) -> None:
    """Run the bot under valgrind: one round warms it up, the next is counted."""
    go, told, listening, url = begin_load(connections, events)
    with tempfile.TemporaryDirectory() as folder, listening, rarely_collected():
        settings = settings_of(url, listening, folder)
        async with trio.open_nursery() as nursery:
            await nursery.start(partial(serve_together, [(bot, settings)], server=server))
            for counted in (False, True):
                if counted:
                    _count(True)
                os.write(go, b"g")
                done = int(await trio.to_thread.run_sync(os.read, told, 100))
            _count(False)
            os.close(go)
            bot.stop()
    print(f"{os.getpid()} {done}", flush=True)


def _functions(file: Path, events: int, most: int, *, inclusive: bool) -> list[str]:
    """Return the functions that take most of a thread's instructions, each with those of an event."""
    command = ["callgrind_annotate", f"--inclusive={'yes' if inclusive else 'no'}", str(file)]
    told = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    rows = re.findall(r"^ *([\d,]+) \([ \d.]+%\)  \S*?([^/\s:]+:\S+)", told, re.MULTILINE)
    return [f"{int(count.replace(',', '')) / events:9.0f}  {name}" for count, name in rows[:most]]


def main() -> None:
    """Read the arguments, count, and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("bot", choices=list(BOTS), nargs="?", default="echo")
    parser.add_argument("--connections", type=int, default=64)
    parser.add_argument("--events", type=int, default=2048)
    parser.add_argument("--top", type=int, default=0)
    parser.add_argument("--server", choices=("triobot", "hypercorn"), default="triobot", help="which listens")
    parser.add_argument("--counted", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.counted:
        logging.disable(logging.CRITICAL)
        trio.run(_run, BOTS[given.bot], given.connections, given.events, given.server)
        return
    with tempfile.TemporaryDirectory() as folder:
        tool = ["valgrind", "--tool=callgrind", "--instr-atstart=no", "--separate-threads=yes"]
        child = [sys.executable, "-m", "tests.benchmarks.instructions", "--counted", given.bot]
        size = [
            "--connections",
            str(given.connections),
            "--events",
            str(given.events),
            "--server",
            given.server,
        ]
        command = [*tool, f"--callgrind-out-file={folder}/%p", *child, *size]
        told = subprocess.run(command, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL).stdout
        process, events = map(int, told.split())
        print(f"{given.bot}, {given.connections} connections: instructions of an event")
        for file in sorted(Path(folder).glob(f"{process}-*")):
            found = re.search(r"^totals: (\d+)", file.read_text(), re.MULTILINE)
            each = int(found[1]) / events if found is not None else 0
            if each >= _LEAST:
                loop = file.name.endswith("-01")
                print(f"{each:9.0f}  {'the loop' if loop else 'the store'}")
                for inclusive in (False, True) if given.top and loop else ():
                    print("with what they call:" if inclusive else "by themselves:")
                    print("\n".join(_functions(file, events, given.top, inclusive=inclusive)))


if __name__ == "__main__":
    main()
