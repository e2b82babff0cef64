"""Reload of ``triobot dev``: try saved code on the open conversations, then restart the bot with this code.

A conversation that doesn't fit the new code delays the reload: the process keeps the old code and takes
events as before until a person decides about each such conversation. Code that is saved before the decision
is tried, too. A restart of the process loads the newest code without these decisions.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal, TypeAlias, cast, final

import attrs
import trio

from ...cli.exported import read_exported
from ...emulator.exchange import Exchange
from ...emulator.views import JsonObject
from ...wire.rules import JsonValue
from ..errors import TravelError
from ..stored_journals import StoredJournals
from ..supervisor import BotSupervisor
from ..travel.parting import worded
from ..travel.same_answers import Replacement, replacement_of
from ..travel.taking import show_instead
from ..travel.twins import Twins

Way: TypeAlias = Literal["wait", "end", "take"]

_MOST: Final = 5
_READS: Final = 10.0
"""Limit in seconds for reading the journals after a save."""
_TRIES: Final = 20.0
"""Limit in seconds for replaying the journals under the new code after a save."""
_WRITES: Final = 20.0
"""Limit in seconds for writing the replacements of conversations after a save."""
_LOOKS: Final = 1.0
_SOONEST: Final = 0.1


@final
@attrs.define(eq=False)
class PartedConversation:
    """A conversation that delays the reload.

    Attributes:
        parting: where the new code and the journal differ, see `travel.parting.parting_of`.
        way: the decision about the conversation; None until a person decides.
        taking: the replacement for the conversation, and the journal that supplied the replacement's answers.
    """

    parting: JsonObject
    way: Way | None = None
    taking: tuple[Replacement, Sequence[JsonObject]] | None = attrs.field(default=None, repr=False)

    @property
    def conversation(self) -> int:
        return cast("int", self.parting["conversation"])

    @property
    def chat_id(self) -> int:
        """Number of the conversation's chat or room."""
        return cast("int", self.parting["chat_id"])

    def undecided(self) -> None:
        """Clear the decision for this conversation."""
        self.way = self.taking = None


@final
class HeldReload:
    """Restarts the bot with new code once no conversation delays the reload.

    Args:
        journals: access to the store, where replacements are written.
        exchange: the platform, which shows the chats to their people.
    """

    def __init__(
        self, twins: Twins, bot: BotSupervisor, journals: StoredJournals, exchange: Exchange
    ) -> None:
        self._twins = twins
        self._bot = bot
        self._journals = journals
        self._exchange = exchange
        twins.may_take = self._may_take
        twins.why_not_take = self._why_not_now
        self._held: list[PartedConversation] = []
        # Conversations that a person ordered to end. Some of these conversations end only in the next
        # process.
        self._ending: set[int] = set()
        self._starts = 0
        # Whether the loop runs only to replace a parked conversation: no new code was saved.
        self._at_once = False
        # The error with which the newest code failed to load; empty if the code loaded. After such an error,
        # the conversations in `_held` were tried under earlier code only.
        self._broken = ""
        self._saved = trio.Event()
        self._trying = trio.CancelScope()

    # --- the page's view and commands

    def view(self) -> Sequence[JsonValue]:
        """Return the conversations that delay the reload as JSON, each with its difference and decision."""
        if self._at_once or self._bot.view()["starts"] != self._starts:  # a restart loaded the new code
            return []
        now: JsonObject = {"can_wait": self._runs, "broken": self._broken}
        return [{**held.parting, **now, "way": held.way} for held in self._held]

    async def choose(self, chat_id: int, conversation: int, way: str) -> None:
        """Store the decision `way` about a conversation: ``wait`` for the conversation's end, or ``end`` the
        conversation now.

        Raises:
            TravelError: the conversation doesn't delay the reload, or the decision can't be carried out.
        """
        held = self._find(conversation)
        if held is None or held.chat_id != chat_id:
            raise TravelError("this conversation doesn't hold the reload: it has ended, or was decided on")
        match way:
            case "wait" if not self._runs:
                raise TravelError("the bot's process is down: nothing ends by itself", refused=True)
            case "wait":
                held.way, held.taking = "wait", None
                await trio.lowlevel.checkpoint()
            case "end":
                await self._journals.end(conversation)
                held.way, held.taking = "end", None
                self._ending.add(conversation)
            case _:
                raise TravelError("'way' must be wait or end", refused=True)
        self._chosen()

    async def take(self, branch: str) -> None:
        """Replace a conversation by a branch in which new code got the same answers; then load the new code.

        The replacement waits for the decisions about all other conversations that delay the reload. A parked
        conversation doesn't delay the reload, and is replaced at once.

        Raises:
            TravelError: the branch is gone, or can't replace the conversation.
        """
        origin = self._twins.origin(branch)
        instead = replacement_of(await self._twins.replacement(branch))
        if not self._may_take(origin[0]):
            raise TravelError(
                "this conversation neither holds the reload nor is parked, or others hold it: decide on them",
                refused=True,
            )
        if (why := await self._why_not(instead, origin)) is not None:
            raise TravelError(why, refused=True)
        held = self._find(instead.conversation)
        if held is None:
            held = PartedConversation(origin[0])
            self._held.append(held)
            self._at_once = True
            self._saved.set()
        held.way, held.taking = "take", (instead, origin)
        self._chosen()

    def _may_take(self, row: JsonObject) -> bool:
        """Whether the conversation delays the reload, or is parked and no conversation delays the reload."""
        if self._held:
            return self._find(cast("int", row["conversation"])) is not None
        return row["parked_because"] is not None

    async def _why_not_now(self, branch: str) -> str | None:
        """Return why the branch can't replace its conversation now; None if it can."""
        origin = self._twins.origin(branch)
        try:
            return await self._why_not(replacement_of(await self._twins.replacement(branch)), origin)
        except TravelError as error:
            return str(error)

    async def _why_not(self, instead: Replacement, origin: Sequence[JsonObject]) -> str | None:
        """Return why the conversation can't be replaced; None if it can."""
        if _records(await self._journals.journal(instead.conversation)) != _records(origin):
            return "the chat has gone on since: give the same answers once more"
        chat_id = cast("int", origin[0]["chat_id"])
        if instead.asks_money or await self._journals.has_payments(chat_id, instead.conversation):
            return "money was asked for in it, and no money is moved: wait until it ends, or end it"
        if instead.at > self._exchange.clock.now():
            return "more time has passed in the branch than for the bot: put the clock forward first"
        return None

    def _find(self, conversation: int) -> PartedConversation | None:
        return next((held for held in self._held if held.conversation == conversation), None)

    def _chosen(self) -> None:
        # If each held conversation is to be ended or replaced now, keep events for the new code from now on.
        self._bot.keep_events(keep=all(held.way in ("end", "take") for held in self._held))
        self._exchange.tell()

    @property
    def _runs(self) -> bool:
        return self._bot.view()["phase"] == "running"

    # --- running

    def saved(self) -> None:
        """Report that code was saved: `run` tries this code on the open conversations."""
        self._twins.pool.changed()
        self._at_once = False
        for held in self._held:
            if held.taking is not None:  # the replacement comes from older code
                held.undecided()
        self._saved.set()
        self._trying.cancel()

    async def run(self) -> None:
        """Until cancelled, try saved code, and restart the bot once no conversation delays the reload."""
        while True:
            await self._saved.wait()
            self._saved = trio.Event()
            with trio.CancelScope() as self._trying:
                try:
                    await self._bring()
                finally:
                    self._bot.keep_events(keep=False)

    async def _bring(self) -> None:
        while True:
            if not self._at_once:
                await self._try()
            self._at_once = False
            if all(held.taking is not None for held in self._held):
                if await self._put_instead():
                    break
            elif not await self._decided():
                return
        self._bot.restart()
        self._took()

    def _took(self) -> None:
        self._held = []
        self._ending.clear()
        self._exchange.tell()

    async def _put_instead(self) -> bool:
        """Write all replacements while the process is down, and return whether all were written."""
        if not self._held:
            return True
        await self._bot.wait_down()
        for held in self._held:
            assert held.taking is not None
            try:
                why = await self._why_not(*held.taking)
            except TravelError as error:
                why = str(error)
            if why is not None:
                self._bot.say(f"chat {held.chat_id} keeps its place: {why}")
                held.undecided()
        if any(held.taking is None for held in self._held):
            self._exchange.tell()
            return False
        # Shielded, because store and platform must change together, even if code is saved again now.
        with trio.CancelScope(shield=True, deadline=trio.current_time() + _WRITES) as writing:
            for held in [*self._held]:
                assert held.taking is not None
                instead, origin = held.taking
                try:
                    await self._journals.put(instead, held.chat_id)
                except TravelError as error:
                    self._bot.say(f"chat {held.chat_id} keeps its place: {error}")
                    held.undecided()
                    return False
                now = self._exchange.clock.now()
                show_instead(self._exchange.world, read_exported(origin), instead, now)
                self._held.remove(held)
                self._bot.say(f"chat {held.chat_id} goes on with the new code, which was given its answers")
        return not writing.cancelled_caught

    async def _try(self) -> None:
        """Try the new code on the open conversations, and print the result."""
        journals: list[Sequence[JsonObject]] = []
        with trio.move_on_after(_READS):
            journals = await self._twins.journals_now()
        if not (journals or self._held):
            return
        fits, parts = 0, list[JsonObject]()
        texts: Sequence[str] = ()
        with trio.move_on_after(_TRIES) as trying:
            try:
                fits, texts, parts = await self._twins.compare(journals)
                self._broken = ""
            except TravelError as error:
                # If `_held` is empty, the caller restarts the bot, and the new process prints this error.
                if self._held:
                    self._broken = str(error)
                    self._bot.say("the new code can't be loaded, and the reload stays held")
                    self._exchange.tell()
                return
        if trying.cancelled_caught:
            self._bot.say(f"the open chats took more than {_TRIES:g} s: the new code is taken untried")
        self._say(fits, texts, parts)
        self._hold([one for one in parts if one["conversation"] not in self._ending])

    def _say(self, fits: int, texts: Sequence[str], parts: Sequence[JsonObject]) -> None:
        for one in parts[:_MOST]:
            self._bot.say(f"the new code parts from chat {one['chat_id']} ({one['route']}) {worded(one)}")
        if len(parts) > _MOST:
            self._bot.say(f"the new code parts from {len(parts) - _MOST} conversations more")
        if fits and (texts or parts):
            shown = [*texts[:_MOST], *([f"{len(texts) - _MOST} more"] if len(texts) > _MOST else [])]
            words = f" Reworded: {'; '.join(shown)}" if shown else ""
            self._bot.say(f"{fits} {'chat goes' if fits == 1 else 'chats go'} on.{words}")

    def _hold(self, parts: Sequence[JsonObject]) -> None:
        known = {held.conversation: held for held in self._held}
        self._held = [known.get(cast("int", one["conversation"]), PartedConversation(one)) for one in parts]
        for held, one in zip(self._held, parts, strict=True):
            held.parting = one
        self._starts = cast("int", self._bot.view()["starts"])
        if any(held.way is None for held in self._held):
            self._bot.keep_events(keep=False)
            chats = ", ".join(str(chat) for chat in sorted({cast("int", one["chat_id"]) for one in parts}))
            self._bot.say(
                f"the reload is held for chat {chats}; on the page, give the new code the same answers, wait"
                " until the conversation ends, end it, or restart with it as it is"
            )
        self._exchange.tell()

    async def _decided(self) -> bool:
        """Wait until each conversation that delays the reload has ended, or has a replacement.

        Returns False if a restart has loaded the new code.
        """
        heard = 0
        while any(held.taking is None for held in self._held):
            with trio.move_on_after(_LOOKS):
                heard = await self._exchange.wait_news(heard)
            if self._bot.view()["starts"] != self._starts:
                self._took()
                return False
            over = [held for held in self._held if await self._is_over(held)]
            if over:
                self._held = [held for held in self._held if held not in over]
                self._exchange.tell()
            await trio.sleep(_SOONEST)
        self._bot.keep_events(keep=True)
        return True

    async def _is_over(self, held: PartedConversation) -> bool:
        if held.taking is not None:
            return False  # this conversation delays the reload until its replacement is written
        if held.way == "end" and not self._runs:
            return True  # the next process ends this conversation without running its code
        try:
            rows = await self._journals.waiting()
        except TravelError:
            return False  # the store can't be read now
        return all(row["conversation"] != held.conversation for row in rows)


def _records(lines: Sequence[JsonObject]) -> Sequence[JsonValue]:
    return [line["record"] for line in lines if "record" in line]
