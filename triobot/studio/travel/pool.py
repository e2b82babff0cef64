"""The processes of a bot's twins; a twin replays journals, see `twin`.

One twin has loaded the present code, and another twin waits for the next code. A twin that doesn't answer
within `SECONDS` is killed. After a change of the code, the waiting twin loads the new code as soon as a pass
or branch needs this code. The twin with the previous code keeps the open passes until the next change.
"""

from __future__ import annotations

import itertools
import json
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing, suppress
from typing import Any, Final, final

import trio

from ...base.lines import lines_of
from ...emulator.views import JsonObject
from ..errors import TravelError
from .children import start_child

SECONDS: Final = 60.0
"""Seconds within which a twin must answer; after that the twin is killed."""
_LONGEST: Final = 256 * 1024 * 1024
_BUILDS: Final = 4
"""Maximum number of processes with earlier builds, not counting the processes that open passes need."""


@final
class TwinProcess:
    """The process of one twin.

    Attributes:
        dead: whether the process was killed or has ended.
        ended: whether the process has ended, and all its answers were read.
        digests: digests of the author's sources that the twin has loaded.
    """

    def __init__(self, process: trio.Process, line: trio.SocketStream) -> None:
        self.process = process
        self.dead = self.ended = False
        self.digests: frozenset[str] = frozenset()
        self._line = line
        self._numbers = itertools.count(1)
        self._answers: dict[int, trio.MemorySendChannel[Any]] = {}
        self._says = trio.Lock()

    async def ask(self, do: str, **asked: Any) -> Any:
        """Send a request, and return the answer's value.

        Raises:
            TravelError: the twin refused, timed out or has ended.
        """
        number = next(self._numbers)
        answers, answer = trio.open_memory_channel[Any](1)
        self._answers[number] = answers
        try:
            with trio.move_on_after(SECONDS):
                if self.dead:
                    raise trio.EndOfChannel
                async with self._says:
                    await self._line.send_all(json.dumps({"n": number, "do": do, **asked}).encode() + b"\n")
                reply = await answer.receive()
                if "error" in reply:
                    raise TravelError(
                        reply["error"], gone=reply.get("gone", False), refused=reply.get("refused", False)
                    )
                return reply["value"]
        except (trio.EndOfChannel, trio.BrokenResourceError, trio.ClosedResourceError):
            raise TravelError("the process in which this ran has ended: open it again", gone=True) from None
        finally:
            self._answers.pop(number, None)
        self.kill()
        raise TravelError(
            f"no answer within {SECONDS:g} s: the process in which this ran was killed", gone=True
        )

    def kill(self) -> None:
        self.dead = True
        self.process.kill()

    async def close(self) -> None:
        """Kill the process, and wait until it has ended."""
        self.kill()
        with trio.CancelScope(shield=True):  # the wait is short, because the process was killed
            await self._line.aclose()
            await self.process.wait()

    async def hear(self) -> None:
        """Pass the process's answers to the waiting requests, until the process ends."""
        try:
            async with aclosing(lines_of(self._line, _LONGEST)) as lines:
                async for line in lines:
                    reply = json.loads(line)
                    if (channel := self._answers.get(reply["n"])) is not None:
                        channel.send_nowait(reply)
        except (trio.BrokenResourceError, ValueError):  # the process ended, maybe in the middle of a line
            pass
        finally:
            self.dead = True
            for waiting in self._answers.values():
                waiting.close()


@final
class TwinPool:
    """The processes of a bot's twins.

    Args:
        command: command line of a twin; the descriptor of its socket is appended.
        environ: complete environment of the twins.
        bot: ``MODULE:BOT``.
        tell: called after a process has ended.
    """

    def __init__(
        self, command: Sequence[str], environ: Mapping[str, str], bot: str, tell: Callable[[], object]
    ) -> None:
        self._command = command
        self._environ = environ
        self._bot = bot
        self._tell = tell
        self._nursery: trio.Nursery | None = None
        self._waiting: TwinProcess | None = None
        self._taken = trio.lowlevel.ParkingLot()
        # The twins that have loaded code. For the present code, the key is a version number; for an earlier
        # build, the digests of the build's sources. The most recently used build is the last.
        self._loaded: OrderedDict[int | frozenset[str], TwinProcess] = OrderedDict()
        self._loading = trio.Lock()
        self._version = 0

    async def run(
        self,
        wait_up: Callable[[], Awaitable[None]],
        task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
    ) -> None:
        """Keep a waiting twin ready until cancelled.

        Args:
            wait_up: returns once the bot has started, so that the twin's start doesn't slow down the bot's
                start.
        """
        try:
            async with trio.open_nursery() as nursery:
                self._nursery = nursery
                task_status.started()
                await wait_up()
                while True:
                    if self._waiting is None or self._waiting.dead:
                        with suppress(TravelError):
                            self._waiting = await self._start()
                    await self._taken.park()
        finally:
            self._nursery = None

    def changed(self) -> None:
        """Use the new code for the passes and branches that are opened from now on."""
        self._version += 1
        for key, old in self._loaded.items():
            if isinstance(key, int) and key < self._version - 1:
                old.kill()

    def nursery(self) -> trio.Nursery:
        """Return the nursery of the processes; tasks of open passes run in the same nursery.

        Raises:
            TravelError: `run` has not begun, or is over.
        """
        if self._nursery is None:
            raise TravelError("no process for this is there yet")
        return self._nursery

    async def _start(self) -> TwinProcess:
        nursery = self.nursery()
        twin = TwinProcess(*await start_child(self._command, self._environ))
        nursery.start_soon(self._keep, twin)
        return twin

    async def _keep(self, twin: TwinProcess) -> None:
        """Read a twin's answers until the twin ends or the task is cancelled."""
        try:
            await twin.hear()
        finally:
            await twin.close()
            twin.ended = True
            self._loaded = OrderedDict(one for one in self._loaded.items() if one[1] is not twin)
            self._tell()

    async def present(self) -> TwinProcess:
        """Return the twin with the present code; load the code if needed."""
        async with self._loading:
            while (twin := self._loaded.get(self._version)) is None or twin.dead:
                version = self._version  # the code may change while the twin loads it
                self._loaded[version] = await self._load()
            return twin

    async def _load(self, **sources: Any) -> TwinProcess:
        """Load the bot in the waiting twin, from the present files or from `sources`."""
        twin, self._waiting = self._waiting, None
        if twin is None or twin.dead:
            twin = await self._start()
        self._taken.unpark_all()
        try:
            twin.digests = frozenset(await twin.ask("load", bot=self._bot, **sources))
        except BaseException:
            twin.kill()
            raise
        return twin

    async def build(
        self, digests: frozenset[str], code: Sequence[JsonObject], needed: Sequence[TwinProcess] = ()
    ) -> TwinProcess:
        """Return the twin with an earlier build.

        Of the other twins with earlier builds, `needed` and the `_BUILDS` most recently used twins stay. The
        remaining ones are killed.
        """
        async with self._loading:
            if (twin := self._loaded.get(digests)) is None or twin.dead:
                sources = [[one["name"], one["text"]] for one in code if one.get("source") in digests]
                twin = self._loaded[digests] = await self._load(sources=sources)
            self._loaded.move_to_end(digests)
            builds = [old for key, old in self._loaded.items() if not isinstance(key, int)]
            for old in [old for old in builds if old is not twin and old not in needed][:-_BUILDS]:
                old.kill()
            return twin
