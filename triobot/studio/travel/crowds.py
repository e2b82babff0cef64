"""A simulated crowd beside the real bot: starts the process with the random people, and reads the results."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import aclosing, suppress
from typing import Final, cast, final

import trio

from ...base.lines import lines_of
from ...emulator.views import JsonObject
from ...wire.rules import JsonValue
from ..errors import TravelError
from .children import start_child

_LONGEST: Final = 256 * 1024 * 1024


@final
class CrowdProcess:
    """The process that simulates a crowd of random people; one crowd at a time.

    Args:
        command: command line of the process; the descriptor of its socket is appended.
        environ: complete environment of the process.
        bot: ``MODULE:BOT``.
        tell: called after each change of the crowd's state.
        nursery: returns the nursery for the task that reads a crowd's results.
    """

    def __init__(
        self,
        command: Sequence[str],
        environ: Mapping[str, str],
        bot: str,
        tell: Callable[[], None],
        nursery: Callable[[], trio.Nursery],
    ) -> None:
        self._command = command
        self._environ = environ
        self._bot = bot
        self._tell = tell
        self._nursery = nursery
        self._crowd: JsonObject = {"state": "none"}
        self._failing: Sequence[Sequence[JsonObject]] = ()
        self._scope = trio.CancelScope()

    def crowd(self) -> JsonObject:
        return self._crowd

    def let_in(self, plan: Mapping[str, JsonValue]) -> None:
        """Start a crowd with a second instance of the bot, beside the real bot.

        Raises:
            TravelError: a crowd is running, or the nursery isn't open yet.
        """
        if self._crowd["state"] == "runs":
            raise TravelError("a crowd is there: wait for its end, or send it home", refused=True)
        nursery = self._nursery()
        self._scope = trio.CancelScope()
        self._failing = ()
        self._say({"state": "runs", "plan": dict(plan), "part": 0.0})
        nursery.start_soon(self._accompany, dict(plan))

    def send_home(self) -> None:
        """Stop the crowd, if a crowd runs."""
        self._scope.cancel()

    def failing(self) -> tuple[Sequence[Sequence[JsonObject]], Sequence[JsonObject]]:
        """Return the journals of the chat with the broken promise, and the simulated kills and restarts.

        Raises:
            TravelError: no promise was broken, or the chat's journals were not kept.
        """
        if not self._failing:
            raise TravelError("nothing is kept of where a promise was broken", refused=True)
        kills = cast("list[int]", cast("JsonObject", self._crowd["first"])["kills"])
        marks: list[JsonObject] = [{"t": at, "what": what} for at in kills for what in ("kill", "restart")]
        return self._failing, marks

    async def _accompany(self, plan: JsonObject) -> None:
        with self._scope:
            try:
                result = await self._process({"bot": self._bot, "plan": plan})
            except TravelError as error:
                return self._say({"state": "failed", "plan": plan, "failed": str(error)})
            self._failing = cast("Sequence[Sequence[JsonObject]]", result.pop("journals", ()))
            state = "failed" if result["failed"] else "broke" if result["broken"] else "held"
            return self._say({"state": state, "plan": plan, "opens": bool(self._failing), **result})
        return self._say({"state": "stopped", "plan": plan})

    def _say(self, crowd: JsonObject) -> None:
        self._crowd = crowd
        self._tell()

    async def _process(self, asked: JsonObject) -> JsonObject:
        """Run a crowd in a process, and return the last line that the process sent.

        Raises:
            TravelError: the process failed; the error contains the reason.
        """
        process, line = await start_child(self._command, self._environ)
        last: JsonObject = {}
        try:
            # The process may end before it has read the plan, or in the middle of a line.
            with suppress(trio.BrokenResourceError):
                async with line, aclosing(lines_of(line, _LONGEST)) as lines:
                    await line.send_all(json.dumps(asked).encode() + b"\n")
                    async for text in lines:
                        last = json.loads(text)
                        if "part" in last:
                            self._say({**self._crowd, **last})
        finally:
            with trio.CancelScope(shield=True):  # the wait is short, because the process is killed
                process.kill()
                await process.wait()
        if "again" in last:
            return last
        if "error" in last:
            raise TravelError(str(last["error"]))
        raise TravelError("the crowd's process ended before the crowd did")
