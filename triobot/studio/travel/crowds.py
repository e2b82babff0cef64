"""A crowd beside the bot, seen from its parent: a process in which random people use it."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import aclosing, suppress
from typing import Final, cast, final

import trio

from ...base.lines import lines_of
from ...emulator.exchange import TravelError
from ...emulator.views import JsonObject
from ...wire.rules import JsonValue
from .children import start_child

_LONGEST: Final = 256 * 1024 * 1024

Hear = Callable[[JsonObject], None]


@final
class CrowdProcess:
    """Lets a crowd in; `emulator.exchange.Crowds` describes it.

    Args:
        command: starts the process; the descriptor that it is to write to is added.
        environ: all of its variables.
        bot: ``MODULE:BOT``.
        tell: called when something is new of a crowd.
    """

    def __init__(
        self, command: Sequence[str], environ: Mapping[str, str], bot: str, tell: Callable[[], None]
    ) -> None:
        self._command = command
        self._environ = environ
        self._bot = bot
        self._tell = tell
        self._nursery: trio.Nursery | None = None
        self._crowd: JsonObject = {"state": "none"}
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
                told = await self._process({"bot": self._bot, "plan": plan}, hear)
            except TravelError as error:
                return self._say({"state": "failed", "plan": plan, "failed": str(error)})
            self._failing = cast("Sequence[Sequence[JsonObject]]", told.pop("journals", ()))
            state = "failed" if told["failed"] else "broke" if told["broken"] else "held"
            return self._say({"state": state, "plan": plan, "opens": bool(self._failing), **told})
        return self._say({"state": "stopped", "plan": plan})

    def _say(self, crowd: JsonObject) -> None:
        self._crowd = crowd
        self._tell()

    async def _process(self, asked: JsonObject, hear: Hear) -> JsonObject:
        """Run a crowd in a process, and return its last word.

        Raises:
            TravelError: it failed; says why.
        """
        process, line = await start_child(self._command, self._environ)
        last: JsonObject = {}
        try:
            # It may end before it has read, or in the middle of a line.
            with suppress(trio.BrokenResourceError):
                async with line, aclosing(lines_of(line, _LONGEST)) as lines:
                    await line.send_all(json.dumps(asked).encode() + b"\n")
                    async for told in lines:
                        last = json.loads(told)
                        hear(last)
        finally:
            with trio.CancelScope(shield=True):  # it is killed: this is short
                process.kill()
                await process.wait()
        if "again" in last:
            return last
        if "error" in last:
            raise TravelError(str(last["error"]))
        raise TravelError("the crowd's process ended before the crowd did")
