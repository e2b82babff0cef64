"""The reload of ``triobot dev``: what is saved is tried on the open conversations before the bot takes it.

Where one doesn't fit the new code any more, the reload is held: the process goes on with the code that it
has, and takes events as ever, until it is decided what becomes of each such conversation. What is saved
meanwhile is tried in its turn. Whoever restarts the process has it take the new code all the same.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Final, Literal, TypeAlias, cast, final

import attrs
import trio

from ..emulator.exchange import TravelError
from ..emulator.views import JsonObject
from ..travel.parting import worded
from ..travel.twins import Twins
from ..wire.rules import JsonValue
from .supervisor import BotSupervisor

Way: TypeAlias = Literal["wait", "end"]

_TOLD: Final = 5
_READS: Final = 10.0
"""Seconds for which a save waits until the journals are read."""
_TRIES: Final = 20.0
"""Seconds for which it waits until they have run under the new code."""
_LOOKS: Final = 1.0
_SOONEST: Final = 0.1


@final
@attrs.define(eq=False)
class Holding:
    """A conversation that holds the reload.

    Attributes:
        parting: where the new code parts from it, see `travel.parting.first_parting`.
        way: what was chosen for it.
    """

    parting: JsonObject
    way: Way | None = None

    @property
    def conversation(self) -> int:
        """Return its number."""
        return cast("int", self.parting["conversation"])


@final
class HeldReload:
    """Has the bot take new code, once no conversation holds that back; see `emulator.exchange.Reload`.

    Args:
        wait_news: returns once more has happened on the platform than this often; and how often that is.
        tell: called when something is new.
    """

    def __init__(
        self,
        twins: Twins,
        bot: BotSupervisor,
        wait_news: Callable[[int], Awaitable[int]],
        tell: Callable[[], None],
    ) -> None:
        self._twins = twins
        self._bot = bot
        self._wait_news = wait_news
        self._tell = tell
        self._held: list[Holding] = []
        # Their end is ordered; the process that carries it out may be the next one.
        self._ending: set[int] = set()
        self._starts = 0
        self._saved = trio.Event()
        self._trying = trio.CancelScope()

    # --- what people see and do

    def view(self) -> Sequence[JsonValue]:
        """Tell of each conversation that holds the reload: where the new code parts from it; its ``way``."""
        return [{**held.parting, "way": held.way, "can_wait": self._runs} for held in self._held]

    async def choose(self, chat_id: int, conversation: int, way: str) -> None:
        """Wait until a conversation ends, or end it.

        Raises:
            TravelError: it doesn't hold the reload, or that can't be done.
        """
        held = next((one for one in self._held if one.conversation == conversation), None)
        if held is None or held.parting["chat_id"] != chat_id:
            raise TravelError("this conversation doesn't hold the reload: it has ended, or was decided on")
        match way:
            case "wait" if not self._runs:
                raise TravelError("the bot's process is down: nothing ends by itself", refused=True)
            case "wait":
                held.way = "wait"
                await trio.lowlevel.checkpoint()
            case "end":
                await self._twins.end(conversation)
                held.way = "end"
                self._ending.add(conversation)
                # What people do from now on is the new code's.
                self._bot.keep_events(keep=all(one.way == "end" for one in self._held))
            case _:
                raise TravelError("'way' must be wait or end", refused=True)
        self._tell()

    @property
    def _runs(self) -> bool:
        return self._bot.view()["phase"] == "running"

    # --- its life

    def saved(self) -> None:
        """Note that there is new code."""
        self._twins.changed()
        self._saved.set()
        self._trying.cancel()

    async def run(self) -> None:
        """Bring what is saved to the bot, until cancelled."""
        while True:
            await self._saved.wait()
            self._saved = trio.Event()
            with trio.CancelScope() as self._trying:
                try:
                    await self._bring()
                finally:
                    self._bot.keep_events(keep=False)

    async def _bring(self) -> None:
        while await self._is_held():
            if not await self._decided():
                return
        self._bot.restart()
        self._took()

    def _took(self) -> None:
        self._twins.took()
        self._held = []
        self._ending.clear()
        self._tell()

    async def _is_held(self) -> bool:
        """Try the new code on what is open, and say what came of it."""
        journals: list[Sequence[JsonObject]] = []
        with trio.move_on_after(_READS):
            journals = await self._twins.journals_now()
        if not (journals or self._held):
            return False
        fits, texts, parts = 0, 0, list[JsonObject]()
        with trio.move_on_after(_TRIES) as trying:
            try:
                fits, texts, parts = await self._twins.compare(journals)
            except TravelError:
                # The process itself says why it can't be loaded; while it runs what it has, that is kept.
                if self._held:
                    self._bot.say("the new code can't be loaded, and the reload stays held")
                return bool(self._held)
        if trying.cancelled_caught:
            self._bot.say(f"the open chats took more than {_TRIES:g} s: the new code is taken untried")
        self._say(fits, texts, parts)
        self._hold([one for one in parts if one["breaks"] and one["conversation"] not in self._ending])
        if self._held:
            self._bot.keep_events(keep=False)
        return bool(self._held)

    def _say(self, fits: int, texts: int, parts: Sequence[JsonObject]) -> None:
        for one in parts[:_TOLD]:
            self._bot.say(f"the new code parts from chat {one['chat_id']} ({one['route']}) {worded(one)}")
        if len(parts) > _TOLD:
            self._bot.say(f"the new code parts from {len(parts) - _TOLD} conversations more")
        if fits and (texts or parts):
            self._bot.say(
                f"{fits} go on with the new code, {texts} of their messages would be worded differently now"
            )

    def _hold(self, parts: Sequence[JsonObject]) -> None:
        ways: dict[int, Way | None] = {held.conversation: held.way for held in self._held}
        self._held = [Holding(one, ways.get(cast("int", one["conversation"]))) for one in parts]
        self._starts = cast("int", self._bot.view()["starts"])
        if self._held:
            chats = ", ".join(str(chat) for chat in sorted({cast("int", one["chat_id"]) for one in parts}))
            self._bot.say(
                f"the reload is held for chat {chats}: the page offers to wait, to end it, or to restart"
            )
        self._tell()

    async def _decided(self) -> bool:
        """Wait until none holds the reload any more; False if the new code was taken in spite of all."""
        heard = 0
        while self._held:
            with trio.move_on_after(_LOOKS):
                heard = await self._wait_news(heard)
            if self._bot.view()["starts"] != self._starts:
                self._took()
                return False
            over = [held for held in self._held if await self._is_over(held)]
            if over:
                self._held = [held for held in self._held if held not in over]
                self._tell()
            await trio.sleep(_SOONEST)
        self._bot.keep_events(keep=True)
        return True

    async def _is_over(self, held: Holding) -> bool:
        if held.way == "end" and not self._runs:
            return True  # the next process ends it before it runs its code
        try:
            return not await self._twins.is_open(held.conversation)
        except TravelError:
            return False  # the store can't be read just now
