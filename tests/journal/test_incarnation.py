"""Conversations as folds over their journals, case by case."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from triobot.errors import ForeignTaskError, NonDurableCancelError, StepError
from triobot.journal.incarnation import (
    ContinuesAs,
    Crashed,
    End,
    Evicted,
    Incarnation,
    Returned,
    Stuck,
    WasInterrupted,
)
from triobot.journal.nursery import Nursery
from triobot.journal.records import Done, Fired, Start

from .listworld import Dead, Disk, ListWorld, People, wall

Main = Callable[[Incarnation, ListWorld], Awaitable[object]]


class Lives:
    """One conversation, through as many incarnations as a test likes."""

    def __init__(self, *events: tuple[int, str], hurry: bool = False) -> None:
        self.hurry = hurry  # an interrupt comes before the first line
        self.disk = Disk()
        self.people = People([(1_000_000 + at, text) for at, text in events])

    async def live(self, main: Main, *, seconds: int = 10**6, version: int = 1, killed: bool = False) -> End:
        """Let it live until its end, or for so long; then it is evicted, or its process is killed."""
        async with trio.open_nursery() as nursery:
            world = ListWorld(self.disk, self.people, nursery, crash_at=None, race=None)
            fresh = not self.disk.journal
            journal = [Start(wall(), "fn", version, "seed")] if fresh else self.disk.records()
            self.chat = Incarnation(world, journal, self.disk.rows_read(), begun=() if fresh else None)
            world.incarnation = self.chat
            self.world = world
            if self.hurry and fresh:
                self.chat.interrupt(stamp=wall())
            nursery.start_soon(world.feed)
            nursery.start_soon(world.keep_flushing)

            async def kill() -> None:
                await trio.sleep(seconds)
                await wait_all_tasks_blocked()
                world.dead = killed
                self.chat.evict()

            nursery.start_soon(kill)
            end = await self.chat.run(lambda: main(self.chat, world))
            with suppress(Dead):
                await world.flush()
            nursery.cancel_scope.cancel()
        assert not world.problems
        return end

    @property
    def seen(self) -> list[str]:
        return [text for _, text in self.people.seen]


async def say(chat: Incarnation, world: ListWorld, text: str) -> int:
    branch = chat.current()
    id = f"{branch.path}{branch.count + 1}"

    async def body() -> int:
        return await world.send(id, text)

    return await chat.effect("send", body, text, lane="chat")


@pytest.fixture
def autojump_clock() -> MockClock:
    return MockClock(autojump_threshold=0)


async def test_it_goes_on_where_it_was(autojump_clock: MockClock) -> None:
    """Variables, loops and what was said are there again, and nothing is said twice."""
    lives = Lives((10, "a1"), (20, "a2"), (30, "a3"))

    async def sums(chat: Incarnation, world: ListWorld) -> None:
        total = 0
        for _ in range(3):
            total += int(str(await chat.wait("receive", ""))[1:])
            await say(chat, world, f"{total} so far")

    assert isinstance(await lives.live(sums, seconds=25), Evicted)
    assert isinstance(await lives.live(sums), Returned)
    assert lives.seen == ["1 so far", "3 so far", "6 so far"]
    assert lives.people.repeats == 0


async def test_a_deadline_goes_on_while_nobody_lives(autojump_clock: MockClock) -> None:
    """It is an absolute time."""
    lives = Lives()

    async def waits(chat: Incarnation, world: ListWorld) -> None:
        with chat.scope(seconds=0.1) as limit:
            await chat.wait("receive", "")
        await say(chat, world, f"{limit.cancelled_caught} at {chat.now()}")

    await lives.live(waits, seconds=40)
    await trio.sleep(30)
    await lives.live(waits)

    assert lives.seen == ["True at 1000100"]


async def test_an_overdue_deadline_waits_for_what_is_said_first(autojump_clock: MockClock) -> None:
    """A question that is asked again after a crash is seen before its time is over."""
    lives = Lives()

    async def asks(chat: Incarnation, world: ListWorld) -> None:
        with chat.scope(seconds=0.1):
            await chat.effect("slow", lambda: trio.sleep(60))
            await say(chat, world, "a question")
            await chat.wait("receive", "")
        await say(chat, world, "too late")

    await lives.live(asks, seconds=30)
    await trio.sleep(1000)
    await lives.live(asks)

    assert lives.seen == ["a question", "too late"]


@pytest.mark.parametrize("how", ["it hangs", "it is done"])
async def test_what_is_done_again_has_a_minute_before_an_old_deadline(
    autojump_clock: MockClock, how: str
) -> None:
    """A body that never ends doesn't keep a block from ending for ever."""
    lives, deaths = Lives(), 0  # a second of Trio's clock is a millisecond of the world's

    async def body() -> None:
        if deaths == 0 or how == "it hangs":
            await trio.sleep_forever()

    async def works(chat: Incarnation, world: ListWorld) -> None:
        with chat.scope(seconds=0.01) as limit:
            await chat.effect("step", body)
        await say(chat, world, f"{limit.cancelled_caught} at {chat.now()}")

    await lives.live(works, seconds=5)
    deaths = 1
    await trio.sleep(1000)
    await lives.live(works, seconds=100_000)

    assert lives.seen == ["True at 1061005" if how == "it hangs" else "False at 1001005"]


@pytest.mark.parametrize("killed", range(1, 16))
async def test_leaving_two_nested_nurseries_after_an_expiry(autojump_clock: MockClock, killed: int) -> None:
    """A scope expires, then a branch leaves two nurseries: it keeps the turn until it has parked again."""
    lives = Lives((200, "a"), (300, "b"))

    async def forever(chat: Incarnation) -> None:
        await chat.wait("receive", "never")

    async def inner(chat: Incarnation, world: ListWorld, log: list[str]) -> None:
        with chat.scope(seconds=0.1):
            async with chat.open_nursery() as first:
                first.start_soon(forever, chat)
                async with chat.open_nursery() as second:
                    second.start_soon(forever, chat)
                    second.start_soon(forever, chat)
                    await forever(chat)
        log.append("left")
        log.append(str(await chat.wait("receive", "a")))
        await say(chat, world, f"inner {log}")

    async def main(chat: Incarnation, world: ListWorld) -> None:
        log: list[str] = []
        async with chat.open_nursery() as nursery:
            nursery.start_soon(inner, chat, world, log)
            with chat.scope(seconds=0.1):
                await chat.wait("receive", "never")
            log.append("main")
            log.append(str(await chat.wait("receive", "b")))
        await say(chat, world, f"{log}")

    await lives.live(main, seconds=killed * 25)
    for _ in range(3):
        assert isinstance(await lives.live(main), Returned)
        lives.disk.journal = lives.disk.journal[:-1]

    assert lives.seen == ["inner ['main', 'left', 'a']", "['main', 'left', 'a', 'b']"]


async def test_a_result_is_a_copy(autojump_clock: MockClock) -> None:
    """What a step gives back later changes nothing: live as on replay it is what was recorded."""
    lives, kept = Lives(), [1]

    async def body() -> list[int]:
        return kept

    async def main(chat: Incarnation, world: ListWorld) -> None:
        got = await chat.effect("step", body)
        kept.append(2)
        await say(chat, world, str(got))

    await lives.live(main)

    assert lives.seen == ["[1]"]


async def test_errors_are_the_same_live_and_on_replay(autojump_clock: MockClock) -> None:
    """What no record holds is a StepError from the first moment."""
    lives, caught = Lives((10, "a")), []

    class Own(Exception):
        pass

    async def fail(error: Exception) -> None:
        raise error

    async def main(chat: Incarnation, world: ListWorld) -> None:
        for error, raises in ((KeyError("k"), ()), (Own(3), ()), (Own(3), (Own,))):
            try:
                await chat.effect("step", lambda error=error: fail(error), raises=raises)
            except Exception as failure:
                caught.append((type(failure), failure.args))
        await chat.wait("receive", "")

    await lives.live(main, seconds=5)
    await lives.live(main)

    live = [(KeyError, ("k",)), (StepError, ("Own", "3")), (Own, (3,))]
    assert caught == live + live


async def test_an_interrupt_lets_it_say_goodbye_under_a_shield_only(autojump_clock: MockClock) -> None:
    """Unshielded cleanup never sends."""
    lives = Lives((10, "!"))

    async def main(chat: Incarnation, world: ListWorld) -> None:
        try:
            await chat.wait("receive", "a")
        finally:
            try:
                with chat.scope(shield=True):
                    await say(chat, world, "bye")
            finally:
                await say(chat, world, "never")

    assert isinstance(await lives.live(main), WasInterrupted)
    assert lives.seen == ["bye"]


async def test_an_interrupt_before_the_first_line_is_felt_at_the_first_operation(
    autojump_clock: MockClock,
) -> None:
    """And again on replay, although that operation begins there as if nobody had interrupted."""
    lives = Lives(hurry=True)

    async def main(chat: Incarnation, world: ListWorld) -> None:
        await say(chat, world, "hello")

    assert isinstance(await lives.live(main), WasInterrupted)
    assert isinstance(await lives.live(main), WasInterrupted)
    assert lives.seen == []


@pytest.mark.parametrize("shield", [True, False])
async def test_an_eviction_sends_and_records_nothing(autojump_clock: MockClock, shield: bool) -> None:
    """Not even under a shield, the author's or ours."""
    lives = Lives()

    async def main(chat: Incarnation, world: ListWorld) -> None:
        try:
            with chat.scope(shield=shield), trio.CancelScope(shield=shield):
                await chat.wait("receive", "")
        finally:
            with chat.scope(shield=True), trio.CancelScope(shield=True):
                await say(chat, world, "bye")

    assert isinstance(await lives.live(main, seconds=5), Evicted)
    assert lives.seen == []
    assert len(lives.disk.journal) == 1


async def test_an_eviction_reaches_a_body_under_a_shield_that_is_not_ours(autojump_clock: MockClock) -> None:
    """Whoever stops the program need not wait for what the body waits for."""
    lives = Lives()

    async def main(chat: Incarnation, world: ListWorld) -> None:
        with trio.CancelScope(shield=True):
            await chat.effect("send", trio.sleep_forever, "")

    with trio.fail_after(60):
        assert isinstance(await lives.live(main, seconds=5), Evicted)
    assert len(lives.disk.journal) == 1


async def test_other_code_is_found_out_and_parked(autojump_clock: MockClock) -> None:
    """It gets a cancellation, never an error that it could swallow; the journal stays as it was."""
    lives = Lives((10, "a"))

    async def old(chat: Incarnation, world: ListWorld) -> None:
        await chat.wait("receive", "")
        await chat.wait("receive", "")

    async def new(chat: Incarnation, world: ListWorld) -> None:
        try:
            await chat.sleep(1)
        except Exception:
            await say(chat, world, "swallowed")

    await lives.live(old, seconds=20)
    before = list(lives.disk.journal)
    end = await lives.live(new)

    assert isinstance(end, Stuck)
    assert "receive" in str(end.error)
    assert lives.disk.journal == before
    assert lives.seen == []
    assert isinstance(await lives.live(old, seconds=5), Evicted)


async def test_a_scope_that_is_not_the_chats_is_named(autojump_clock: MockClock) -> None:
    """A restart would not know of it, so it is an error, the same live and on replay."""
    lives = Lives((50, "a"))

    async def main(chat: Incarnation, world: ListWorld) -> None:
        with trio.move_on_after(20):
            try:
                await chat.wait("receive", "never")
            except NonDurableCancelError:
                chat.put_data("named", "yes")
        await chat.wait("receive", "")
        await say(chat, world, chat.data["named"])

    await lives.live(main, seconds=40)
    assert isinstance(await lives.live(main), Returned)
    assert lives.seen == ["yes"]


async def test_a_plain_await_is_cut_and_the_record_says_whose_turn_it_was(
    autojump_clock: MockClock,
) -> None:
    """A deadline doesn't wait for what isn't the chat's, and replay cuts the same turn."""
    lives, slept = Lives((200, "a")), []

    async def main(chat: Incarnation, world: ListWorld) -> None:
        with chat.scope(seconds=0.1) as limit:
            await chat.effect("step", trio.lowlevel.checkpoint)
            try:
                await trio.sleep(10**6)
            finally:
                slept.append(trio.current_time())
        await chat.wait("receive", "")
        await say(chat, world, str(limit.cancelled_caught))

    await lives.live(main, seconds=150)
    await lives.live(main)

    assert lives.seen == ["True"]
    assert slept == [100, 150]
    assert [record.mid for record in lives.disk.records() if isinstance(record, Fired)] == ["2"]


async def test_foreign_tasks_and_steps_are_refused(autojump_clock: MockClock) -> None:
    """A task that the conversation doesn't know can't have an id that replay finds again."""
    lives, refused = Lives(), []

    async def main(chat: Incarnation, world: ListWorld) -> None:
        async def foreign() -> None:
            with pytest.raises(ForeignTaskError):
                await chat.sleep(1)
            refused.append("task")

        async with trio.open_nursery() as nursery:
            nursery.start_soon(foreign)
        with pytest.raises(ForeignTaskError):
            await chat.effect("step", lambda: chat.sleep(1))
        refused.append("step")

    await lives.live(main)

    assert refused == ["task", "step"]


async def test_a_step_that_may_not_repeat_is_told_so_after_a_crash(autojump_clock: MockClock) -> None:
    """Its intent is durable before it begins, and nothing is known of its end."""
    lives, ran = Lives(), []

    async def body() -> None:
        ran.append(1)
        await trio.sleep(100)

    async def main(chat: Incarnation, world: ListWorld) -> None:
        try:
            await chat.effect("send", body, in_doubt=TimeoutError("unknown"))
        except TimeoutError as error:
            await say(chat, world, str(error))

    await lives.live(main, seconds=50)
    await lives.live(main)

    assert (ran, lives.seen) == ([1], ["unknown"])


async def test_swallowed_cancellations_are_reported(autojump_clock: MockClock) -> None:
    """Code that catches everything, for ever, must not take the processor; nor can Python end it."""
    lives, told = Lives(), []

    async def main(chat: Incarnation, world: ListWorld) -> None:
        for _ in range(45):
            try:
                await chat.wait("receive", "")
            except BaseException:
                told.append(1)

    assert isinstance(await lives.live(main, seconds=5), Evicted)
    assert len(told) == 45


async def test_patches_keep_the_old_way_for_the_old(autojump_clock: MockClock) -> None:
    """New code may ask whether it may be new here, and gets the same answer ever after."""
    lives = Lives((10, "a"), (20, "a"), (30, "a"))

    async def old(chat: Incarnation, world: ListWorld) -> None:
        await chat.wait("receive", "")
        await chat.wait("receive", "")

    async def new(chat: Incarnation, world: ListWorld) -> None:
        if chat.patched("sooner"):
            await say(chat, world, "not for the old ones")
        await chat.wait("receive", "")
        await chat.wait("receive", "")
        for _ in range(2):
            if chat.patched("later"):
                await say(chat, world, "new")
        await chat.wait("receive", "")

    await lives.live(old, seconds=15)
    await lives.live(new, seconds=10)
    await lives.live(new)

    assert lives.seen == ["new", "new"]


async def test_it_goes_on_as_another(autojump_clock: MockClock) -> None:
    """What runs for ever would have an endless journal."""
    lives = Lives()

    async def main(chat: Incarnation, world: ListWorld) -> None:
        try:
            chat.continue_as("other", 3)
        except Exception:
            pytest.fail("that must not be caught by accident")

    end = await lives.live(main)

    assert end == ContinuesAs("other", "[1,[3]]")


async def test_an_error_ends_it_and_is_recorded(autojump_clock: MockClock) -> None:
    """As a group, with whatever its branches raised."""
    lives = Lives()

    async def main(chat: Incarnation, world: ListWorld) -> None:
        raise ValueError("oh")

    end = await lives.live(main)

    assert isinstance(end, Crashed)
    assert [str(error) for error in end.error.exceptions] == ["oh"]
    assert "ValueError" in lives.disk.journal[-1]


async def test_what_others_write_is_a_turn(autojump_clock: MockClock) -> None:
    """So that a read on replay gives what it gave."""
    lives, read = Lives((50, "a")), []

    async def main(chat: Incarnation, world: ListWorld) -> None:
        world._nursery.start_soon(write, chat)
        await chat.sleep(0.02)
        read.append(chat.data.get("k"))
        chat.put_data("k", "mine")
        await chat.wait("receive", "")

    async def write(chat: Incarnation) -> None:
        await trio.sleep(10)
        if chat.live:
            chat.put("k", "theirs", stamp=wall())

    await lives.live(main, seconds=40)
    await lives.live(main)

    assert read == ["theirs", "theirs"]
    assert lives.disk.data == {"k": "mine"}


async def test_a_wait_costs_one_record(autojump_clock: MockClock) -> None:
    """And scopes, random draws and the time of day none."""
    lives = Lives((10, "a"))

    async def main(chat: Incarnation, world: ListWorld) -> None:
        with chat.scope(seconds=5), chat.scope():
            chat.random()
            chat.uuid()
            chat.now()
            await chat.wait("receive", "")

    await lives.live(main)

    assert [type(record) for record in lives.disk.records()][1:-1] == [Done]


async def test_what_is_known_outlives_a_kill_in_a_foreign_await(autojump_clock: MockClock) -> None:
    """The turn in which an effect's outcome is taken may last: that outcome is durable all the same."""
    lives, times = Lives(), list[int]()

    async def booked() -> int:
        times.append(1)
        return len(times)

    async def books(chat: Incarnation, world: ListWorld) -> None:
        number = await chat.effect("step", booked)
        await trio.sleep(60)
        await say(chat, world, f"number {number}")

    await lives.live(books, seconds=30, killed=True)
    assert lives.seen == []
    await lives.live(books)

    assert lives.seen == ["number 1"]


async def test_an_eviction_finds_who_waits_for_children_that_have_ended(autojump_clock: MockClock) -> None:
    """The last child is over, but another branch has the turn by now: the block's end is yet to be given."""
    lives = Lives()

    async def has_the_turn() -> None:
        await trio.sleep(60)

    async def ends(outer: Nursery) -> None:
        outer.start_soon(has_the_turn)

    async def inner(chat: Incarnation, outer: Nursery) -> None:
        async with chat.open_nursery() as nursery:
            nursery.start_soon(ends, outer)

    async def main(chat: Incarnation, world: ListWorld) -> None:
        async with chat.open_nursery() as outer:
            outer.start_soon(inner, chat, outer)

    with trio.fail_after(1000):
        assert isinstance(await lives.live(main, seconds=10), Evicted)
