"""What kills the program is found out, and parked; everybody else goes on.

A process that dies is a cancelled run whose later writes are forgotten, as with ``kill -9``.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Awaitable, Callable, Iterator, Sequence
from types import SimpleNamespace
from typing import Any, TypeAlias

import attrs
import pytest
import trio
from doubles import FakeOutbox, FakeStore
from town import TEXTS, Town, start
from trio.testing import MockClock, active_thread_count

from triobot.conversations.chat import Chat
from triobot.conversations.revival import crash_counts
from triobot.conversations.revival.crash_counts import BETWEEN_RETRIES, CRASHES, DEATHS, FIRST_RETRY, LIVED
from triobot.conversations.routes.filters import command, message, text, when
from triobot.conversations.routes.router import Router
from triobot.conversations.running.lines import frames_of
from triobot.seams.journals import ConversationRow, ParkConversation, TakeInHand
from triobot.seams.writes import KeepRaw, WorkSlots, Write
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

    def __setitem__(self, slot: int, number: int) -> None:
        if not self.dead:
            self.store.at_work[slot] = number

    @property
    def at_work(self) -> WorkSlots:
        """What a dead process notes is not noted."""
        return self

    def reopen(self, *, cleanly: bool = False) -> None:
        """As the next process finds it."""
        super().reopen(cleanly=cleanly)
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
        self.noted: tuple[int, ...] = ()
        self.unanswered: list[tuple[str, int]] = []
        self._dies = trio.Event()

    def reread(self) -> None:
        """The bot has another route."""
        self.town = Town(self.router, FakeOutbox(), self.store, TEXTS, username=None)

    def dies(self) -> None:
        """The process is no more: called by a bot's code in place of what would really kill it."""
        self.store.dead = True
        self.noted = self.store.memory.notes.at_work_left()
        self._dies.set()
        self.deaths += 1

    async def lives(self, do: Callable[[], Awaitable[object]] | None = None, *, within: float = 100) -> bool:
        """Run a process for some seconds; whether it survived them."""
        self._dies = trio.Event()
        self.town.new_dispatcher()
        try:
            async with trio.open_nursery() as nursery:
                run = await start(nursery, self.town)
                unanswered, self.unanswered = self.unanswered, []
                for words, chat in unanswered:
                    await self.says(words, chat)
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

    async def says(self, words: str, chat: int) -> None:
        """Somebody writes; what a process that dies doesn't answer is delivered again to the next."""
        if not self.store.dead:
            async with trio.open_nursery() as platform:

                async def hang_up() -> None:
                    await self._dies.wait()
                    platform.cancel_scope.cancel()

                platform.start_soon(hang_up)
                await self.town.says(words, chat, wait=False)
                platform.cancel_scope.cancel()
                return
        self.unanswered.append((words, chat))

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
            if not chat._operations.shared.work.cut:
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
async def processes() -> World:
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
        await there.says("hello", 21)
        for said in FATAL[way]:
            await there.says(said, GUILTY)
            await trio.sleep(1)
        for chat in range(10, 15):
            await there.says("more", chat)
        await there.says("late", 30)
        await trio.sleep(10)

    assert not await there.lives(talk)
    await there.until_one_survives()

    assert there.deaths == CRASHES
    said = next(alarm.text for alarm in town.alarms if alarm.kind == "conversation_parked")
    assert "at work each of the 3 times that the program died" in said
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


async def test_a_death_before_the_parking_is_stored_gives_no_further_try(
    processes: World, autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another conversation kills the process just then."""
    there, _ = processes
    await there.lives(lambda: there.town.says("fatal step", GUILTY))
    while there.deaths < CRASHES:
        assert not await there.lives()
    commit = there.store.commit

    async def dies_at_parking(*writes: Write) -> None:
        if not there.store.dead and any(
            isinstance(write, ParkConversation) and write.because for write in writes
        ):
            there.dies()
        await commit(*writes)

    with monkeypatch.context() as patch:
        patch.setattr(there.store, "commit", dies_at_parking)
        assert not await there.lives()
    (row,) = there.store.rows_of(GUILTY)
    assert row.parked_because is None
    assert await there.lives()
    assert there.deaths == CRASHES + 1
    (row,) = there.store.rows_of(GUILTY)
    assert row.parked_because is not None


async def test_other_code_gets_a_try(
    processes: World, autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One, and it costs one death if it is no better; if it is, the conversation goes on where it was."""
    there, _ = processes
    town, store = there.town, there.store
    await there.lives(lambda: town.says("fatal step", GUILTY))
    await there.until_one_survives()
    deaths = there.deaths
    monkeypatch.setattr(crash_counts.CrashCounts, "build", "build other")
    assert not await there.lives(lambda: town.says("hm", GUILTY))
    await there.until_one_survives()
    assert there.deaths == deaths + 1

    monkeypatch.setattr(crash_counts.CrashCounts, "build", "build mended")
    monkeypatch.setattr(there, "dies", lambda: None)
    assert await there.lives(lambda: town.says("hm", GUILTY))
    (row,) = store.rows_of(GUILTY)
    assert row.parked_because is None


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
    assert there.deaths == CRASHES
    assert town.sent(INNOCENT) == ["more"]
    assert there.store.rows_of(GUILTY)[0].parked_because


@pytest.fixture
def killing() -> Iterator[None]:
    """What a signal's handler raises is no failure of the code in which it is raised."""

    def kill(number: int, frame: object) -> None:
        raise Killed

    before = signal.signal(signal.SIGUSR1, kill)
    yield
    signal.signal(signal.SIGUSR1, before)


@pytest.mark.usefixtures("killing")
async def test_an_event_whose_filter_never_returns_is_put_away(autojump_clock: MockClock) -> None:
    """There is nobody to park; it is kept where an operator can look at it."""
    made: list[Processes] = []
    bot = Router()

    def matches(event: Event) -> bool:
        if isinstance(event, Message) and event.content == "aaaaaaaaaaa!":
            made[0].dies()
            signal.raise_signal(signal.SIGUSR1)
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
    assert there.deaths == CRASHES
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


@pytest.mark.parametrize("after", [0.1, 10, LIVED + 1])
async def test_who_was_only_there_is_not_to_blame(autojump_clock: MockClock, after: float) -> None:
    """A step of hours is under way at every kill, however soon after the start: it waits, and can't kill."""
    there = a_step_of(24 * 3600)

    async def killed() -> None:
        await trio.sleep(after)
        there.dies()

    await there.lives(lambda: there.town.says("work", INNOCENT))
    for _ in range(6):
        assert not await there.lives(killed, within=2 * LIVED)
    assert there.store.counted == 0
    (row,) = there.store.rows_of(INNOCENT)
    assert (row.parked_because, row.in_hand) == (None, 0)
    loops = [alarm.text for alarm in there.town.alarms]
    assert all("no conversation's code was at work" in loop for loop in loops)
    assert bool(loops) is (after < LIVED)


async def test_nobody_waits_for_the_guilty(processes: World, autojump_clock: MockClock) -> None:
    """While it is being found out who kills, everybody else is answered as ever."""
    there, _ = processes
    town = there.town

    async def talk() -> None:
        await town.says("hello", 10)
        await town.says("fatal step", GUILTY, wait=False)

    assert not await there.lives(talk)
    for _ in range(CRASHES - 1):
        assert not await there.lives()
    assert await there.lives(lambda: town.says("more", 10), within=1)
    assert there.deaths == CRASHES


async def test_who_works_in_a_thread_when_it_is_killed_is_counted(autojump_clock: MockClock) -> None:
    """The loop runs somebody else then, or nobody: what the thread does may be what kills."""
    bot, seqs = Router(), list[int]()
    ends = threading.Event()

    @bot.conversation(text("thread"))
    async def works(chat: Chat) -> None:
        await chat.step(trio.to_thread.run_sync, ends.wait)

    @bot.conversation(text("nested"))
    async def nested(chat: Chat) -> None:
        await chat.step(in_nursery)

    async def in_nursery() -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(trio.to_thread.run_sync, ends.wait)

    there = Processes(bot)

    async def talk() -> None:
        for chat, words in enumerate(("thread", "nested")):
            seqs.append(await there.town.says(words, 20 + chat, wait=False))
        while active_thread_count() < 2:
            await trio.sleep(0.01)
        there.dies()
        ends.set()

    assert not await there.lives(talk)
    assert sorted(number for number in there.noted if number) == seqs


async def test_what_was_parked_by_count_is_tried_again(
    processes: World, autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By itself, in a run that lives: after an hour, then at distances that double; a try costs one kill."""
    there, _ = processes
    await there.lives(lambda: there.town.says("fatal step", GUILTY))
    await there.until_one_survives()
    assert there.deaths == CRASHES
    for tries in range(3):
        before = trio.current_time()
        assert not await there.lives(within=1e6)
        distance = FIRST_RETRY / 1000 * 2**tries
        assert distance <= trio.current_time() - before + 400 <= distance + BETWEEN_RETRIES + 800
        assert there.deaths == CRASHES + tries + 1
    monkeypatch.setattr(there, "dies", lambda: None)
    assert await there.lives(within=8 * FIRST_RETRY / 1000 + 100)
    (row,) = there.store.rows_of(GUILTY)
    assert row.parked_because is None
    assert there.deaths == CRASHES + 3


async def test_what_is_imported_late_keeps_nobody_from_a_try(
    processes: World, autojump_clock: MockClock
) -> None:
    """The running code has another number then; the process is the one that has parked it, as before."""
    there, _ = processes

    async def imports_late() -> None:
        await trio.sleep(1)
        crashes: Any = there.town.dispatcher.crashes
        crashes._services = attrs.evolve(crashes._services, code=SimpleNamespace(build=7))

    await there.lives(lambda: there.town.says("fatal step", GUILTY))
    await there.until_one_survives()
    assert not await there.lives(imports_late, within=1e6)
    assert there.deaths == CRASHES + 1


async def test_an_order_tries_at_once_what_was_parked_by_count(
    processes: World, autojump_clock: MockClock
) -> None:
    """Even in the process that found it at work at the last kill."""
    there, _ = processes

    async def order_once_parked() -> None:
        await trio.sleep(5)
        rows = there.store.rows_of(GUILTY)
        if rows and rows[0].parked_because is not None:
            assert await there.town.dispatcher.chat_calls.order(rows[0], end=False)

    await there.lives(lambda: there.town.says("fatal step", GUILTY))
    while there.deaths < CRASHES:
        assert not await there.lives(order_once_parked)
    assert not await there.lives(order_once_parked)
    assert there.deaths == CRASHES + 1


async def test_a_program_that_does_not_die_counts_nothing(
    processes: World, autojump_clock: MockClock
) -> None:
    """Care costs no commit; and after an unclean end only who was at work is counted."""
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
    assert there.store.counted == 0
    assert heard[21] == ["slow", "slow", "done"]


async def test_a_task_that_has_ended_is_nowhere() -> None:
    """An instrument sees each task once more after its last step, with every version of Trio."""
    seen: list[int] = []

    class AfterSteps(trio.abc.Instrument):
        def after_task_step(self, task: trio.lowlevel.Task) -> None:
            if task.name == "ending":
                seen.append(len(frames_of(task)))

    async def end() -> None:
        await trio.lowlevel.checkpoint()

    instrument = AfterSteps()
    trio.lowlevel.add_instrument(instrument)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(end, name="ending")
    trio.lowlevel.remove_instrument(instrument)

    assert seen[0] > 0
    assert seen[-1] == 0


@pytest.mark.parametrize("told", [False, True])
async def test_who_is_restarted_by_hand_is_in_no_crash_loop(autojump_clock: MockClock, told: bool) -> None:
    """Killed while nobody's code was at work; or told to stop, and killed when that took long."""
    there = a_step_of(24 * 3600)

    async def killed() -> None:
        await trio.sleep(10)
        if told:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(there.town.dispatcher.drain)
                await trio.sleep(1)
                there.dies()
                nursery.cancel_scope.cancel()
        there.dies()

    await there.lives(lambda: there.town.says("work", INNOCENT))
    for _ in range(8 if told else DEATHS - 1):
        assert not await there.lives(killed)
    assert await there.lives(within=2 * LIVED)
    for _ in range(DEATHS - 1):
        assert not await there.lives(killed)
    assert there.town.alarms == []


async def test_code_that_kills_is_a_crash_loop_from_the_third_death_on(
    processes: World, autojump_clock: MockClock
) -> None:
    """Before that, it may have been a person."""
    there, _ = processes
    await there.lives(lambda: there.town.says("fatal step", GUILTY))
    for deaths in range(1, CRASHES):
        assert there.deaths == deaths
        assert not await there.lives()
        assert "crash_loop" not in {alarm.kind for alarm in there.town.alarms}
    await there.until_one_survives()
    assert "died 3 times in a row" in next(one.text for one in there.town.alarms if one.kind == "crash_loop")


async def test_what_is_no_number_of_a_row_is_nobody_s(autojump_clock: MockClock) -> None:
    """The lock file is damaged: the process starts, and blames nobody."""
    there = a_step_of(0)

    async def die() -> None:
        for slot, number in enumerate((-5, -(2**62), 7, 2**62)):
            there.store.at_work[slot] = number
        there.dies()

    assert not await there.lives(die)
    assert await there.lives()
    assert there.town.alarms == []
