"""Probes, seen from their parent: processes that load the bot so that it tells which lines it reaches.

What this run has reached is found by running its journals again, dry, under the present code, whenever that
is asked: the bot's own process knows nothing of it, and what was reached before a kill or a save counts.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing, suppress
from typing import Final, cast, final

import attrs
import trio

from ..emulator.exchange import TravelError
from ..emulator.views import JsonObject
from ..frozen import guarded
from ..lines import lines_of
from ..wire.rules import JsonValue

SILENCE: Final = 30.0
"""Seconds without a word after which a probe that runs journals is killed."""
_LONGEST: Final = 256 * 1024 * 1024

Hear = Callable[[JsonObject], None]


@final
@guarded
class FileReached:
    """What was reached of a file.

    Attributes:
        lines: first line, last line and state of each statement: 0 not reached, 1 reached, 2 in a step.
    """

    path: str
    name: str
    text: str = attrs.field(repr=False)
    lines: Sequence[tuple[int, int, int]] = attrs.field(repr=False)

    @property
    def statements(self) -> int:
        """Return how many there are of which something is known."""
        return sum(state != 2 for _, _, state in self.lines)

    @property
    def reached(self) -> int:
        """Return how many were reached."""
        return sum(state == 1 for _, _, state in self.lines)


@final
class Probes:
    """Tells what was reached; `emulator.exchange.Coverage` describes it.

    Args:
        command: starts a probe; the descriptor that it is to write to is added.
        environ: all of its variables.
        bot: ``MODULE:BOT``.
        journals: reads what has happened since the start, as an operator is told journals; not too many.
        tell: called when something is new of a crowd.
    """

    def __init__(
        self,
        command: Sequence[str],
        environ: Mapping[str, str],
        bot: str,
        journals: Callable[[], Awaitable[Sequence[Sequence[JsonObject]]]],
        tell: Callable[[], None],
    ) -> None:
        self._command = command
        self._environ = environ
        self._bot = bot
        self._journals = journals
        self._tell = tell
        self._run: dict[str, FileReached] = {}
        self._conversations: int | None = None
        self._looking = trio.Lock()
        self._nursery: trio.Nursery | None = None
        self._crowd: JsonObject = {"state": "none"}
        self._of_crowd: dict[str, FileReached] = {}
        self._failing: Sequence[Sequence[JsonObject]] = ()
        self._scope = trio.CancelScope()

    async def run(self) -> None:
        """Keep crowds until cancelled."""
        try:
            async with trio.open_nursery() as nursery:
                self._nursery = nursery
                await trio.sleep_forever()
        finally:
            self._nursery = None

    # --- lines

    async def look(self) -> None:
        """Find out what this run has reached by now.

        Raises:
            TravelError: it can't be found out; says why.
        """
        async with self._looking:
            journals = await self._journals()
            asked: JsonObject = {"bot": self._bot, "journals": [list[JsonValue](one) for one in journals]}
            told = await self._probe(asked, silence=SILENCE)
            self._run = _files(told)
            self._conversations = cast("int", told["conversations"])

    def files(self) -> JsonObject:
        """Tell of each file how much of it was reached."""
        return {
            "conversations": self._conversations,
            "files": [
                {
                    "file": number,
                    "name": one.name,
                    "path": path,
                    "run": _much(self._run.get(path)),
                    "crowd": _much(self._of_crowd.get(path)),
                }
                for number, (path, one) in enumerate(self._both().items())
            ],
        }

    def file(self, number: int) -> JsonObject:
        """Tell of one file which lines were reached.

        Raises:
            TravelError: there is none of this number.
        """
        files = list(self._both().items())
        if not 0 <= number < len(files):
            raise TravelError("there is no such file")
        path, one = files[number]
        run, crowd = (_states(of.get(path), one) for of in (self._run, self._of_crowd))
        rows = zip(one.lines, run, crowd, strict=True)
        told: list[JsonValue] = [[first, last, mine, theirs] for (first, last, _), mine, theirs in rows]
        is_older = path in self._of_crowd and self._of_crowd[path].text != one.text
        return {"name": one.name, "text": one.text, "lines": told, "older_crowd": is_older}

    def _both(self) -> dict[str, FileReached]:
        return {**self._of_crowd, **self._run}

    # --- the crowd

    def crowd(self) -> JsonObject:
        """Tell how the crowd is."""
        return self._crowd

    def let_in(self, plan: Mapping[str, JsonValue]) -> None:
        """Let a crowd use the bot, beside the real one.

        Raises:
            TravelError: one is there.
        """
        if self._nursery is None or self._crowd["state"] == "runs":
            raise TravelError("a crowd is there: wait for its end, or send it home")
        self._scope = trio.CancelScope()
        self._failing = ()
        self._say({"state": "runs", "plan": dict(plan), "part": 0.0})
        self._nursery.start_soon(self._accompany, dict(plan))

    def send_home(self) -> None:
        """End the crowd; nothing happens if there is none."""
        self._scope.cancel()

    def failing(self) -> tuple[Sequence[Sequence[JsonObject]], Sequence[JsonObject]]:
        """Return the journals of the chat where the crowd broke a promise, and when there was a kill.

        Raises:
            TravelError: there are none.
        """
        if not self._failing:
            raise TravelError("nothing is kept of where a promise was broken")
        kills = cast("list[int]", cast("JsonObject", self._crowd["first"])["kills"])
        marks: list[JsonObject] = [{"t": at, "what": what} for at in kills for what in ("kill", "restart")]
        return self._failing, marks

    async def _accompany(self, plan: JsonObject) -> None:
        def hear(told: JsonObject) -> None:
            if "part" in told:
                self._say({**self._crowd, **told})

        with self._scope:
            try:
                told = await self._probe({"bot": self._bot, "plan": plan}, hear)
            except TravelError as error:
                return self._say({"state": "failed", "plan": plan, "failed": str(error)})
            self._of_crowd = _files(told)
            self._failing = cast("Sequence[Sequence[JsonObject]]", told.pop("journals", ()))
            del told["files"]
            state = "failed" if told["failed"] else "broke" if told["broken"] else "held"
            return self._say({"state": state, "plan": plan, "opens": bool(self._failing), **told})
        return self._say({"state": "stopped", "plan": plan})

    def _say(self, crowd: JsonObject) -> None:
        self._crowd = crowd
        self._tell()

    # --- processes

    async def _probe(
        self, asked: JsonObject, hear: Hear | None = None, *, silence: float = float("inf")
    ) -> JsonObject:
        """Run a probe, and return its last word.

        Raises:
            TravelError: it failed, says why; or was silent for too long.
        """
        if not hasattr(socket, "AF_UNIX"):
            raise TravelError("this needs Linux or macOS, where a process is handed an open pipe")
        said, said_of_child = os.pipe()
        try:
            process = await trio.lowlevel.open_process(
                [*self._command, str(said_of_child)],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                pass_fds=[said_of_child],
                env=self._environ,
                start_new_session=True,
            )
        except BaseException:
            os.close(said)
            raise
        finally:
            os.close(said_of_child)
        last: JsonObject = {}
        try:
            async with trio.lowlevel.FdStream(said) as stream, trio.open_nursery() as nursery:
                nursery.start_soon(_ask, process, json.dumps(asked).encode())
                nursery.cancel_scope.deadline = trio.current_time() + silence
                async with aclosing(lines_of(stream, _LONGEST)) as lines:
                    async for line in lines:
                        nursery.cancel_scope.deadline = trio.current_time() + silence
                        last = json.loads(line)
                        if hear is not None:
                            hear(last)
                nursery.cancel_scope.cancel()
        finally:
            with trio.CancelScope(shield=True):  # it is killed: this is short
                process.kill()
                await process.wait()
        if "files" in last:
            return last
        if "error" in last:
            raise TravelError(str(last["error"]))
        raise TravelError("the process in which the code was run again ended, or didn't come to its end")


def _much(one: FileReached | None) -> JsonValue:
    return None if one is None else {"reached": one.reached, "of": one.statements}


def _states(found: FileReached | None, shown: FileReached) -> list[int | None]:
    """Return the states of the statements that are shown; None where they aren't known, or of other code."""
    if found is None or found.text != shown.text:
        return [None] * len(shown.lines)
    return [state for _, _, state in found.lines]


async def _ask(process: trio.Process, asked: bytes) -> None:
    assert process.stdin is not None
    # One that ends without reading says why, or nothing can.
    with suppress(trio.BrokenResourceError, trio.ClosedResourceError):
        await process.stdin.send_all(asked)
        await process.stdin.aclose()


def _files(told: JsonObject) -> dict[str, FileReached]:
    files = cast("list[JsonObject]", told["files"])
    found = (FileReached(str(one["path"]), str(one["name"]), str(one["text"]), _lines(one)) for one in files)
    return {one.path: one for one in found}


def _lines(file: JsonObject) -> list[tuple[int, int, int]]:
    return [(first, last, state) for first, last, state in cast("list[list[int]]", file["lines"])]
