"""The bot's process under ``triobot dev``.

The parent (`triobot.studio.supervisor`) starts this module by ``python -m``, with the arguments
``MODULE:BOT PLACE AHEAD``. PLACE is the descriptor of the listening socket. On Windows, processes can't
inherit sockets: there, PLACE is ``:PORT``, which the process binds. All output of the bot goes to the error
output.

All settings come from the environment that the parent built. Token, platform and store in the bot's file are
for production, and are ignored. The process ends when its standard input ends, and so never outlives a killed
parent.

The process's clocks may be ahead of real time. AHEAD is the clocks' lead at the start, in milliseconds. To
change the lead, the parent sends the new number as a line to the standard input. The process sends three
kinds of lines to the standard output. ``ready`` means that the process takes events. After each change of
the lead, the process does the work that became due, then sends the new number back. A JSON object contains
the causes of a conversation's failure, such as a step's error.
"""

from __future__ import annotations

import json
import logging
import os
import signal
import socket
import sys
import time
from collections.abc import AsyncGenerator
from contextlib import aclosing
from functools import partial
from typing import Final, final

import attrs
import trio

from ...base.authors import leaves
from ...base.clock import steady_time
from ...base.lines import lines_of
from ...cli import set_up_streams
from ...cli.loading import load_bot
from ...cli.terminal import report, set_up_logging
from ...cli.tracebacks import authors_words
from ...errors import ConfigError, TriobotError
from ...runtime.bot import Bot, tell_failures
from ...runtime.settings import Settings, read_environment
from ...wire.ids import ChatId

log: Final = logging.getLogger("triobot")

# Grace period of the bot in seconds; short, so that a reload is quick.
GRACE: Final = 2.0
LONGEST_LINE: Final = 4_000
LONGEST_SAID: Final = 1 << 20
_LONGEST_WORDS: Final = 20_000
HANDS_ON: Final = hasattr(socket, "AF_UNIX")
"""Whether descriptors can be inherited by a process on this system."""
_OUTPUT, _ERROR_OUTPUT = 1, 2
# Seconds to wait until due work has begun. A wait for requests in flight takes at most `_MOMENTS` times as
# long.
_MOMENT: Final = 0.01
_MOMENTS: Final = 200
# Days for which the store keeps conversations that ended normally, for inspection.
_KEEP_ENDED: Final = 7


_HEAD: Final = "Traceback (most recent call last):\n"


def main() -> None:
    """Run the bot until SIGTERM, or until the parent is gone."""
    target, place, ahead = sys.argv[1:]
    said = _own_output()
    set_up_streams()
    set_up_logging(variables=True)
    try:
        bot = load_bot(target)
        settings = attrs.evolve(
            read_environment(os.environ),
            fd=None if place.startswith(":") else int(place),
            port=int(place.removeprefix(":")),
            grace=GRACE,
            development=True,
            log_tracebacks=True,
            keep_ended=_KEEP_ENDED,
        )
        _tell_ignored(bot, settings)
        tell_failures(bot, partial(_tell_failure, said))
        clock = HurriedClock(int(ahead))
        trio.run(_run, bot, settings, said, clock, clock=clock)
    except ConfigError as error:
        if (cause := error.__cause__) is not None:
            print(authors_words(cause).removeprefix(_HEAD), file=sys.stderr)
        sys.exit(report(error, debug=False))
    except BaseException as error:
        sys.exit(report(error, debug=not _is_ours(error)))


def _own_output() -> int:
    """Return a duplicate of the standard output, and redirect the standard output to the error output."""
    said = os.dup(_OUTPUT)
    os.dup2(_ERROR_OUTPUT, _OUTPUT)
    return said


async def _from_parent() -> AsyncGenerator[bytes]:
    """Yield the parent's input from the standard input, until its end."""
    # The process ends without waiting for this thread.
    while chunk := await trio.to_thread.run_sync(os.read, 0, LONGEST_LINE, abandon_on_cancel=True):
        yield chunk


def _tell_ignored(bot: Bot, ours: Settings) -> None:
    """Log which of the bot's own settings are ignored: the bot may behave differently in production."""
    try:
        theirs = bot.settings()
    except ConfigError:
        return  # settings for production may be invalid on this machine
    plain = Settings()
    found = [
        name
        for name in attrs.fields_dict(Settings)
        if name != "env" and getattr(theirs, name) not in (getattr(ours, name), getattr(plain, name))
    ]
    if theirs.env != ours.env:
        found.append(f"all of {theirs.env}...")
    if found:
        log.info("for production, and not used here: the bot's own settings (%s)", ", ".join(found))


def _is_ours(error: BaseException) -> bool:
    if isinstance(error, BaseExceptionGroup):
        return error.split(TriobotError)[1] is None  # pyright: ignore[reportUnknownMemberType]
    return isinstance(error, TriobotError | KeyboardInterrupt)


def _tell_failure(said: int, error: Exception, name: str, chat_id: ChatId, reference: str) -> None:
    """Send the parent an error's causes, with frames and variables, which the journal doesn't contain."""
    causes = [one.__cause__ for one in leaves(error)]
    if reference and any(causes):
        words = [one and authors_words(one, variables=True)[:_LONGEST_WORDS] for one in causes]
        failure = {"what": "failure", "conversation": int(reference), "steps": words}
        os.write(said, json.dumps(failure).encode() + b"\n")


async def _run(bot: Bot, settings: Settings, said: int, clock: HurriedClock) -> None:
    with trio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
        async with trio.open_nursery() as nursery:

            async def watch_signals() -> None:
                stopping = False
                async for _ in signals:
                    if stopping:
                        nursery.cancel_scope.cancel()
                        return
                    stopping = True
                    bot.stop()

            async def hear_parent() -> None:
                async with (
                    aclosing(_from_parent()) as parent,
                    aclosing(lines_of(parent, LONGEST_LINE)) as lines,
                ):
                    async for line in lines:
                        await _let_pass(bot, clock, int(line) - clock.ahead)
                        os.write(said, line)
                bot.stop()

            async def serve(*, task_status: trio.TaskStatus[object] = trio.TASK_STATUS_IGNORED) -> None:
                await bot.serve(settings=settings, clock=clock, task_status=task_status)
                nursery.cancel_scope.cancel()

            nursery.start_soon(watch_signals)
            nursery.start_soon(hear_parent)
            await nursery.start(serve)
            os.write(said, b"ready\n")


async def _let_pass(bot: Bot, clock: HurriedClock, milliseconds: int) -> None:
    """Put the clocks forward once no request is in flight, since a request in flight would time out.

    After the change, wait for the requests that the due work sends.
    """
    await _settled(bot)
    clock.hurry(milliseconds)
    await trio.sleep(_MOMENT)
    await _settled(bot)


async def _settled(bot: Bot) -> None:
    for _ in range(_MOMENTS):
        if not _is_sending(bot):
            return
        await trio.sleep(_MOMENT)


def _is_sending(bot: Bot) -> bool:
    try:
        return bot.statistics().outbox.in_flight > 0
    except ConfigError:
        return False  # the bot isn't running yet, or has stopped


@final
class HurriedClock(trio.abc.Clock):
    """Trio clock and wall clock that can be put forward: deadlines and sleeps follow the skipped time.

    Args:
        ahead: initial lead over real time, in milliseconds.
    """

    def __init__(self, ahead: int = 0) -> None:
        self._ahead = ahead

    @property
    def ahead(self) -> int:
        """Lead over real time, in milliseconds."""
        return self._ahead

    def hurry(self, milliseconds: int) -> None:
        """Put the clock forward. Call only in a task of the Trio loop that uses this clock."""
        self._ahead += milliseconds

    def start_clock(self) -> None:
        """Do nothing: the clock already runs."""

    def current_time(self) -> float:
        """Seconds since an arbitrary moment."""
        return time.perf_counter() + self._ahead / 1000

    def now(self) -> int:
        """Return wall milliseconds."""
        return time.time_ns() // 1_000_000 + self._ahead

    def steady(self) -> int:
        """Return milliseconds since an arbitrary moment, skipped time included."""
        return steady_time() + self._ahead

    def deadline_to_sleep_time(self, deadline: float) -> float:
        """Return the seconds that the loop may sleep until `deadline`."""
        return deadline - self.current_time()


if __name__ == "__main__":
    main()
