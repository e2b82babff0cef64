"""Probes, seen from their parent: processes that load the bot so that it tells which lines it reaches.

What this run has reached is found by running its journals again, dry, under the present code, whenever that
is asked: the bot's own process knows nothing of it, and what was reached before a kill or a save counts.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Mapping, Sequence
from contextlib import aclosing, suppress
from typing import Final, Protocol, cast, final

import attrs
import trio

from ..emulator.exchange import TravelError
from ..emulator.views import JsonObject
from ..lines import lines_of
from ..wire.rules import JsonValue

SILENCE: Final = 30.0
"""Seconds without a word after which a probe that runs journals is killed."""
_LONGEST: Final = 256 * 1024 * 1024

Hear = Callable[[JsonObject], None]


class RunJournals(Protocol):
    """Where the journals of this run are read."""

    async def of_this_run(self) -> Sequence[Sequence[JsonObject]]:
        """Return what has happened since the start, as an operator is told journals; not too many."""
        ...


@final
@attrs.frozen
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
    """

    def __init__(
        self, command: Sequence[str], environ: Mapping[str, str], bot: str, journals: RunJournals
    ) -> None:
        self._command = command
        self._environ = environ
        self._bot = bot
        self._journals = journals
        self._run: dict[str, FileReached] = {}
        self._conversations: int | None = None
        self._looking = trio.Lock()

    async def look(self) -> None:
        """Find out what this run has reached by now.

        Raises:
            TravelError: it can't be found out; says why.
        """
        async with self._looking:
            journals = await self._journals.of_this_run()
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
                    "path": one.path,
                    "run": {"reached": one.reached, "of": one.statements},
                }
                for number, one in enumerate(self._run.values())
            ],
        }

    def file(self, number: int) -> JsonObject:
        """Tell of one file which lines were reached.

        Raises:
            TravelError: there is none of this number.
        """
        files = list(self._run.values())
        if not 0 <= number < len(files):
            raise TravelError("there is no such file")
        one = files[number]
        return {"name": one.name, "text": one.text, "lines": [[*line] for line in one.lines]}

    async def _probe(
        self, asked: JsonObject, hear: Hear | None = None, *, silence: float = float("inf")
    ) -> JsonObject:
        """Run a probe, and return its last word.

        Raises:
            TravelError: it failed, says why; or was silent for too long.
        """
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
