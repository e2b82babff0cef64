"""What kills the program is found out, and parked; everybody else goes on.

A process that dies is a cancelled run whose later writes are forgotten, as with ``kill -9``.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TypeAlias

import pytest
import trio
from doubles import EPOCH, FakeOutbox, FakeStore
from town import TEXTS, Town, start
from trio.testing import MockClock

from triobot.conversations.chat import Chat
from triobot.conversations.revival import build
from triobot.conversations.revival.care import CRASHES, LIVED
from triobot.conversations.routes.filters import command, message, text, when
from triobot.conversations.routes.router import Router
from triobot.journals import ConversationRow, TakeInHand
from triobot.seams import KeepRaw, Write
from triobot.store.retention import RETENTION
from triobot.wire.events import Event, Message
from triobot.wire.ids import ChatId

GUILTY, INNOCENT = 1, 2


class DyingStore(FakeStore):
    """A store that outlives its processes."""

    def __init__(self) -> None:
        super().__init__(latency=0.001)
        self.dead = False
        self.raw: list[KeepRaw] = []
        self.counted = 0

    async def commit(self, *writes: Write) -> None:
        if self.dead:
            await trio.sleep_forever()
        self.raw += [write for write in writes if isinstance(write, KeepRaw)]
        self.counted += sum(isinstance(write, TakeInHand) for write in writes)
        await super().commit(*writes)

    def reopen(self, *, cleanly: bool = False) -> None:
        """As the next process finds it."""
        if cleanly:
            self._memory.close()
        else:
            self._memory.crashed()
        self._opening = self._memory.open(EPOCH + int(trio.current_time() * 1000), RETENTION)
        self.dead = False

    def rows_of(self, chat: int) -> Sequence[ConversationRow]:
        """What it keeps of a chat's conversations."""
        return self.journals.conversations(ChatId(chat))


class Killed(BaseException):
    """The process ends in the middle of a call."""


class Processes:
    """A bot's processes, one after another, on one store."""

    def __init__(self, router: Router) -> None:
        self.store = DyingStore()
        self.router = router
        self.reread()
        self.deaths = 0
        self._dies = trio.Event()

    def reread(self) -> None:
        """The bot has another route."""
        self.town = Town(self.router, FakeOutbox(), self.store, TEXTS, username=None)

    def dies(self) -> None:
        """The process is no more: called by a bot's code in place of what would really kill it."""
        self.store.dead = True
        self._dies.set()
        self.deaths += 1

    async def lives(self, do: Callable[[], Awaitable[object]] | None = None, *, within: float = 100) -> bool:
        """Run a process for some seconds; whether it survived them."""
        self._dies = trio.Event()
        self.town.new_dispatcher()
        try:
            async with trio.open_nursery() as nursery:
                run = await start(nursery, self.town)
                if do is not None:
                    await do()
                with trio.move_on_after(within):
                    await self._dies.wait()
                await run.cut()
        except* Killed:
            pass
        died = self._dies.is_set()
        await trio.sleep(1)
        self.store.reopen(cleanly=not died)
        return not died

    async def until_one_survives(self) -> int:
        """Start it again and again, as a supervisor does; how often it took."""
        for attempt in range(1, 12):
            if await self.lives():
                return attempt
        raise AssertionError("it never survives")


def two_bots_in_one(die: Callable[[], None]) -> tuple[Router, dict[int, list[str]]]:
    """Its guilty chat kills in the way that it is told; the others count what they hear."""
    bot, heard = Router(), dict[int, list[str]]()

    async def dying() -> None:
        die()
        await trio.sleep_forever()

    def hear(chat: Chat, words: object) -> None:
        heard.setdefault(chat.id, []).append(str(words))

    @bot.interrupt(command("cancel"))
    async def cancel(chat: Chat) -> None:
        hear(chat, "cancelled")

    @bot.aside(command("help"))
    async def help_(chat: Chat) -> None:
        hear(chat, "help")
        await chat.send("Help.")

    @bot.aside(command("fatal_help"))
    async def fatal_help(chat: Chat) -> None:
        await dying()

    @bot.conversation(text("fatal start"))
    async def fatal_start(chat: Chat) -> None:
        await dying()

    @bot.conversation(text("fatal step"))
    async def fatal_step(chat: Chat) -> None:
        await chat.send("Working.")
        await chat.step(dying)

    @bot.conversation(text("fatal word"))
    async def fatal_word(chat: Chat) -> None:
        await chat.ask("Word?")
        await dying()

    @bot.conversation(text("fatal sleep"))
    async def fatal_sleep(chat: Chat) -> None:
        await chat.sleep(5)
        await dying()

    @bot.conversation(text("fatal timeout"))
    async def fatal_timeout(chat: Chat) -> None:
        with chat.move_on_after(5):
            await chat.receive(text("never"))
        await dying()

    @bot.conversation(text("fatal end"))
    async def fatal_end(chat: Chat) -> None:
        try:
            await chat.receive(text("never"))
        finally:
            if not chat._conversation.house.cut:
                die()

    @bot.conversation(text("slow"))
    async def slow(chat: Chat) -> None:
        hear(chat, "slow")
        await chat.step(trio.sleep, 30)
        hear(chat, "done")

    @bot.conversation(message())
    async def listen(chat: Chat[Message]) -> None:
        hear(chat, chat.event.content)
        while True:
            hear(chat, (await chat.receive(text())).content)

    return bot, heard


FATAL = {
    "start": ["fatal start"],
    "aside": ["hello", "/fatal_help"],
    "step": ["fatal step"],
    "event": ["fatal word", "boom"],
    "sleep": ["fatal sleep"],
    "timeout": ["fatal timeout"],
    "interrupt": ["fatal end", "/cancel"],
}


World: TypeAlias = tuple[Processes, dict[int, list[str]]]


@pytest.fixture
def processes() -> World:
    made: list[Processes] = []
    bot, heard = two_bots_in_one(lambda: made[0].dies())
    made.append(Processes(bot))
    return made[0], heard


@pytest.mark.parametrize("way", FATAL)
async def test_who_kills_is_parked_and_the_others_go_on(
    way: str, processes: World, autojump_clock: MockClock
) -> None:
    """Also those that were at work, that had something waiting, or that share the chat with it."""
    there, heard = processes
    town, store = there.town, there.store

    async def talk() -> None:
        for chat in range(10, 15):
            await town.says("hello", chat)
        await town.says("slow", 20)
        await town.says("hello", 21, wait=False)
        for said in FATAL[way]:
            await town.says(said, GUILTY, wait=False)
            await trio.sleep(1)
        for chat in range(10, 15):
            await town.says("more", chat, wait=False)
        await town.says("late", 30, wait=False)
        await trio.sleep(10)

    assert not await there.lives(talk)
    await there.until_one_survives()

    assert there.deaths <= CRASHES + 2
    (said,) = {alarm.text for alarm in town.alarms if alarm.kind == "conversation_parked"}
    assert "each time the program died" in said
    for chat in range(10, 15):
        assert list(dict.fromkeys(heard[chat])) == ["hello", "more"]
        assert all(row.parked_because is None and row.in_hand == 0 for row in store.rows_of(chat))
    assert heard[20][-1] == "done"
    assert list(dict.fromkeys(heard[30])) == ["late"]
    assert {alarm.kind for alarm in town.alarms} == {"crash_loop", "conversation_parked"}
    kept = [row for row in store.rows.values() if row.chat_id != GUILTY]
    assert kept == []
    # The user isn't locked out by it, and this code doesn't try it again.
    assert await there.lives(lambda: town.says("/cancel", GUILTY))
    assert heard[GUILTY][-1] == "cancelled"


async def test_other_code_gets_a_try(
    processes: World, autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One, and it costs one death if it is no better; if it is, the conversation goes on where it was."""
    there, _ = processes
    town, store = there.town, there.store
    await there.lives(lambda: town.says("fatal step", GUILTY))
    await there.until_one_survives()
    deaths = there.deaths
    monkeypatch.setattr(build, "current_build", lambda: "build other")
    assert not await there.lives(lambda: town.says("hm", GUILTY))
    await there.until_one_survives()
    assert there.deaths == deaths + 1

    monkeypatch.setattr(build, "current_build", lambda: "build mended")
    monkeypatch.setattr(there, "dies", lambda: None)
    assert await there.lives(lambda: town.says("hm", GUILTY))
    (row,) = store.rows_of(GUILTY)
    assert (row.parked_because, row.in_hand) == (None, 0)


async def test_who_kills_when_it_is_replayed(autojump_clock: MockClock) -> None:
    """It rests, and something comes for it: its replay eats all memory."""
    made: list[Processes] = []
    runs: list[int] = []
    bot = Router()

    @bot.conversation
    async def grow(chat: Chat) -> None:
        if chat.id == GUILTY:
            runs.append(1)
            if len(runs) > 1:
                made[0].dies()
                await trio.sleep_forever()
        while True:
            await chat.send((await chat.receive(text())).content)

    there = Processes(bot)
    made.append(there)
    town = there.town

    async def talk() -> None:
        await town.says("hi", GUILTY)
        await town.says("hi", INNOCENT)

    assert await there.lives(talk)

    async def more() -> None:
        await town.says("more", GUILTY)
        await town.says("more", INNOCENT)

    assert not await there.lives(more)
    await there.until_one_survives()
    assert there.deaths <= CRASHES + 2
    assert town.sent(INNOCENT) == ["more"]
    assert there.store.rows_of(GUILTY)[0].parked_because


async def test_an_event_whose_filter_never_returns_is_put_away(autojump_clock: MockClock) -> None:
    """There is nobody to park; it is kept where an operator can look at it."""
    made: list[Processes] = []
    bot = Router()

    def matches(event: Event) -> bool:
        if isinstance(event, Message) and event.content == "aaaaaaaaaaa!":
            made[0].dies()
            raise Killed
        return True

    @bot.conversation(when(matches))
    async def listen(chat: Chat) -> None:
        await chat.send("Listening.")
        while True:
            await chat.send((await chat.receive(text())).content)

    there = Processes(bot)
    made.append(there)
    town, store = there.town, there.store

    async def talk() -> None:
        await town.says("hi", INNOCENT)
        await town.says("more", INNOCENT, wait=False)
        await town.says("aaaaaaaaaaa!", GUILTY, wait=False)
        await town.says("again", INNOCENT, wait=False)

    assert not await there.lives(talk)
    await there.until_one_survives()
    assert there.deaths <= CRASHES + 2
    assert [raw.reason for raw in store.raw] == ["kills the program"]
    assert store.rows == {}
    assert town.sent(INNOCENT)[-1] == "again"
    (said,) = {alarm.text for alarm in town.alarms if alarm.key != "start"}
    assert f"of chat {GUILTY} was put away" in said
    assert "aaa" not in said


def a_step_of(seconds: float) -> Processes:
    """A bot that is at work for so long, and then rests."""
    bot = Router()

    @bot.conversation
    async def works(chat: Chat) -> None:
        await chat.step(trio.sleep, seconds)
        await chat.receive(text())

    return Processes(bot)


async def test_who_was_only_there_is_not_to_blame(autojump_clock: MockClock) -> None:
    """A step of hours is in hand at every unclean end; a process that has lived for long clears it."""
    there = a_step_of(24 * 3600)

    async def killed_later() -> None:
        await trio.sleep(LIVED + 1)
        there.dies()

    await there.lives(lambda: there.town.says("work", INNOCENT))
    for _ in range(5):
        assert not await there.lives(killed_later, within=2 * LIVED)
    assert there.store.counted > 0
    (row,) = there.store.rows_of(INNOCENT)
    assert (row.parked_because, row.in_hand) == (None, 0)


@pytest.mark.parametrize("careful", [False, True])
@pytest.mark.parametrize("within", [10, *(n / 2000 for n in range(16))])
async def test_who_is_cut_by_an_ordinary_stop_is_not_to_blame(
    autojump_clock: MockClock, within: float, careful: bool
) -> None:
    """However soon it comes: the process didn't die of whoever was in hand, nor of who was about to be."""
    there = a_step_of(24 * 3600)

    async def killed_soon() -> None:
        await trio.sleep(0.1)
        there.dies()

    await there.lives(lambda: there.town.says("work", INNOCENT), within=1)
    counts: list[int] = []
    for _ in range(2 if careful else 5):
        assert not await there.lives(killed_soon)
        if careful:  # in which it was in hand indeed, and that counts
            assert not await there.lives(killed_soon)
        (row,) = there.store.rows_of(INNOCENT)
        before = row.in_hand
        assert await there.lives(within=within)
        (row,) = there.store.rows_of(INNOCENT)
        counts.append(row.in_hand - before)
        assert row.parked_because is None
    assert max(counts) <= 0


@pytest.mark.parametrize("within", [n / 2000 for n in range(16)])
async def test_an_event_is_not_to_blame_for_an_ordinary_stop(
    autojump_clock: MockClock, within: float
) -> None:
    """While a filter is about to look at it."""
    bot = Router()

    @bot.conversation
    async def listen(chat: Chat) -> None:
        await chat.send("Listening.")

    there = Processes(bot)

    async def killed_at_once() -> None:
        await there.town.says("hi", INNOCENT, wait=False)
        there.dies()

    for _ in range(2):
        assert not await there.lives(killed_at_once)
    assert await there.lives(within=within)
    assert not await there.store.setting("routing")


async def test_who_came_to_rest_before_an_ordinary_stop_counts_anew(autojump_clock: MockClock) -> None:
    """What it was counted for before is over then, and doesn't come back."""
    there = a_step_of(60)

    async def killed_soon() -> None:
        await trio.sleep(0.1)
        there.dies()

    await there.lives(lambda: there.town.says("work", INNOCENT), within=1)
    for _ in range(2):
        assert not await there.lives(killed_soon)
    (row,) = there.store.rows_of(INNOCENT)
    assert row.in_hand == 1
    assert await there.lives(within=100)
    (row,) = there.store.rows_of(INNOCENT)
    assert (row.in_hand, row.unfinished) == (0, False)


async def test_a_program_that_does_not_die_counts_nothing(
    processes: World, autojump_clock: MockClock
) -> None:
    """Care costs nothing then; and after one unclean end only who was at work is counted."""
    there, heard = processes

    async def talk() -> None:
        for chat in range(10, 15):
            await there.town.says("hello", chat)
        await there.town.says("slow", 20)

    assert await there.lives(talk, within=10)
    assert await there.lives(talk, within=10)
    assert there.store.counted == 0

    async def dies() -> None:
        await there.town.says("slow", 21)
        await trio.sleep(1)
        there.dies()

    assert not await there.lives(dies)
    assert await there.lives(within=100)
    assert there.store.counted == 2
    assert heard[21] == ["slow", "slow", "done"]
