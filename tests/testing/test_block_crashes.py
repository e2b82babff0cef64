"""A block that is on its way out takes nothing more, whoever ended it, and after a restart as before one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
import trio

from triobot import Bot, Chat, Otherwise
from triobot.filters import command, text
from triobot.seams.inbox import InboxRow
from triobot.testing import drive
from triobot.testing.driving import DrivenWorld
from triobot.testing.process import CrashableStore
from triobot.wire.ids import ChatId

LONG = 100


async def slow() -> None:
    await trio.sleep(LONG)


async def happens(world: DrivenWorld, how: str, bot: Bot, chat_id: ChatId) -> None:
    await world.waits(seconds=1)
    if how == "leaves memory":
        assert bot._work is not None
        dispatcher = bot._work.dispatcher
        if (life := dispatcher.chats.actors.get(chat_id)) is not None and life.can_evict:
            dispatcher.chats.evict(life)
            dispatcher.chats.recall(chat_id)
    elif how == "restarts":
        await world.restarts()
    elif how == "crashes":
        await world.crashes()
    await world.waits(seconds=1)


async def lived(bot: Bot, first: Sequence[str], how: str, then: Sequence[str], last: str) -> list[str]:
    """What the bot said; something happens after the first words, and in another run after the next ones."""
    async with drive(bot, replay_check=False) as world:
        sara = world.user("Sara")
        await sara.joins()
        for word in first:
            await sara.says(word)
            await world.waits(seconds=1)
        await happens(world, how, bot, ChatId(sara.chat_id))
        for word in then:
            await sara.says(word)
        await happens(world, last, bot, ChatId(sara.chat_id))
        await world.waits(seconds=3 * LONG)
        await sara.says("end")
        await world.waits(seconds=1)
        assert bot.statistics().store.inbox == 0
        return [seen.text for seen in await sara.history() if seen.from_bot]


happenings = pytest.mark.parametrize(
    ("how", "last"),
    [
        ("nothing", "nothing"),
        ("leaves memory", "crashes"),
        ("restarts", "nothing"),
        ("crashes", "restarts"),
        ("nothing", "crashes"),
    ],
)


async def tell_all(chat: Chat) -> None:
    while True:
        await chat.send(f"got {(await chat.receive(text())).content}")


def ended_by_an_event(*, step: bool) -> Bot:
    bot = Bot()

    @bot.conversation(command("go"))
    async def work(chat: Chat) -> None:
        with chat.move_on_when(text()) as block:
            with chat.shield():
                await (chat.step(slow) if step else chat.sleep(LONG))
            await chat.ask("never")
        assert block.event is not None
        await chat.send(f"block {block.event.content}")
        await tell_all(chat)

    return bot


@pytest.mark.parametrize("step", [False, True], ids=["sleep", "step"])
@happenings
async def test_a_block_that_an_event_has_ended(
    autojump_clock: object, step: bool, how: str, last: str
) -> None:
    """What comes while a shield holds up its end is for whoever waits next."""
    said = await lived(ended_by_an_event(step=step), ["/go", "b1"], how, ["a5", "a6"], last)

    assert said == ["block b1", "got a5", "got a6", "got end"]


@happenings
async def test_two_blocks_that_events_have_ended(autojump_clock: object, how: str, last: str) -> None:
    """The inner one never felt its event, for the outer one ended around it; each has its own."""
    bot = Bot()

    @bot.conversation(command("go"))
    async def work(chat: Chat) -> None:
        with chat.move_on_when(text()) as outer:
            with chat.move_on_when(text()) as inner:
                with chat.shield():
                    await chat.step(slow)
                await chat.ask("never")
            await chat.send("never")
        assert inner.event is not None and outer.event is not None
        await chat.send(f"inner {inner.event.content}, outer {outer.event.content}")
        await chat.sleep(LONG)
        await tell_all(chat)

    said = await lived(bot, ["/go", "b1"], how, ["a5", "a6"], last)
    assert said == ["inner b1, outer a5", "got a6", "got end"]


@happenings
@pytest.mark.parametrize("ended", ["deadline", "time of day", "cancel", "nursery", "event", "interrupt"])
async def test_a_block_within_one_that_has_ended(
    autojump_clock: object, ended: str, how: str, last: str
) -> None:
    """Whatever ended the one around it."""
    bot = Bot()

    async def inside(chat: Chat) -> None:
        with chat.move_on_when(text("a5", "a6", "end")) as block:
            with chat.shield():
                await chat.sleep(LONG)
            await chat.ask("never")
        await chat.send(f"never {block}")

    @bot.interrupt(command("stop"))
    async def stop(chat: Chat) -> None:
        assert chat.interrupted is not None
        await chat.send("interrupted")
        await tell_all(chat)

    @bot.conversation(command("go"))
    async def work(chat: Chat) -> None:
        match ended:
            case "deadline":
                with chat.move_on_after(1):
                    await inside(chat)
            case "time of day":
                with chat.move_on_at(chat.now()):
                    await inside(chat)
            case "cancel":
                with chat.cancel_scope() as scope:
                    async with chat.open_nursery() as nursery:
                        nursery.start_soon(inside, chat)
                        await chat.sleep(1)
                        scope.cancel()
            case "nursery":
                async with chat.open_nursery() as nursery:
                    nursery.start_soon(inside, chat)
                    await chat.sleep(1)
                    nursery.cancel()
            case "event":
                with chat.move_on_when(text("b1")):
                    await inside(chat)
            case _:
                await inside(chat)
        await chat.send("over")
        await tell_all(chat)

    first = ["/go", *{"event": ["b1"], "interrupt": ["/stop"]}.get(ended, [])]
    said = await lived(bot, first, how, ["a5", "a6"], last)
    if ended == "interrupt":
        # What comes after an interrupt is for it.
        assert said == ["interrupted", "got a5", "got a6", "got end"]
    else:
        assert said == ["over", "got a5", "got a6", "got end"]


@happenings
async def test_a_block_that_another_one_ends_first(autojump_clock: object, how: str, last: str) -> None:
    """The event that was to end the inner block is for the wait behind a shield in that block."""
    bot = Bot()

    @bot.conversation(command("go"))
    async def work(chat: Chat) -> None:
        await chat.sleep(1.5)
        with chat.cancel_scope() as outer, chat.move_on_when(text()) as inner:
            outer.cancel()
            with chat.shield():
                await chat.sleep(LONG)
                await chat.send(f"behind the shield {(await chat.receive(text())).content}")
        assert inner.event is None
        await tell_all(chat)

    said = await lived(bot, ["/go", "b1"], how, ["a5", "a6"], last)
    assert said == ["behind the shield b1", "got a5", "got a6", "got end"]


@happenings
async def test_a_block_that_came_to_its_own_end(autojump_clock: object, how: str, last: str) -> None:
    """What was to end it is its own all the same: no interrupt begins with that, and nothing else is lost."""
    bot = Bot()

    @bot.interrupt(command("stop"))
    async def stop(chat: Chat) -> None:
        await chat.send("stopped")
        await tell_all(chat)

    @bot.conversation(command("go"))
    async def work(chat: Chat) -> None:
        with chat.move_on_when(command("stop")) as block, chat.shield():
            await chat.sleep(LONG)
        assert block.event is not None
        assert not block.cancelled_caught
        await tell_all(chat)

    said = await lived(bot, ["/go", "a1", "/stop"], how, ["a5"], last)
    assert said == ["got a1", "got a5", "got end"]


@pytest.mark.parametrize("gone", [False, True], ids=["in memory", "out of memory"])
async def test_two_events_that_come_at_once(autojump_clock: object, gone: bool) -> None:
    """The first one ends the inner block, although the second, for the outer, comes before that is felt."""
    bot = Bot()

    @bot.conversation(command("go"))
    async def work(chat: Chat) -> None:
        with chat.move_on_when(text("b1")) as outer:
            with chat.move_on_when(text("a1")) as inner:
                await chat.receive(command("never"))
            await chat.sleep(LONG)
        assert inner.event is not None and outer.event is not None
        await chat.send(f"inner {inner.event.content}, outer {outer.event.content}")
        await tell_all(chat)

    async with drive(bot) as world:
        sara = world.user("Sara")
        await sara.joins()
        await sara.says("/go")
        await happens(world, "nothing", bot, ChatId(sara.chat_id))
        if gone:
            assert bot._work is not None
            life = bot._work.dispatcher.chats.actors.get(ChatId(sara.chat_id))
            assert life is not None
            bot._work.dispatcher.chats.evict(life)
        await sara.says("a1")
        await sara.says("b1")
        await sara.sees("inner a1, outer b1")


@pytest.mark.parametrize("how", ["nothing", "restarts", "crashes"])
async def test_what_waits_for_a_conversation_is_not_for_an_aside(autojump_clock: object, how: str) -> None:
    """An aside that opened a block and a question since then has not seen it; nor after a restart."""
    bot = Bot()

    @bot.aside(command("y"))
    async def beside(chat: Chat) -> None:
        with chat.move_on_when(text("a1", "more")) as block:
            await chat.receive(text("a1", "never"))
        assert block.event is not None
        await chat.send(f"aside {block.event.content}")

    @bot.conversation(command("go"))
    async def work(chat: Chat) -> None:
        await chat.sleep(LONG)
        await tell_all(chat)

    async with drive(bot) as world:
        sara = world.user("Sara")
        await sara.joins()
        for words in ("/go", "a1", "/y"):
            await sara.says(words)
            await world.waits(seconds=1)
        await happens(world, how, bot, ChatId(sara.chat_id))
        await sara.says("more")
        await sara.sees("aside more")
        await world.waits(seconds=LONG)
        await sara.sees("got a1")


@pytest.mark.parametrize("then", ["a wait", "a block", "nothing"])
@happenings
async def test_an_event_of_a_block_that_ended_otherwise(
    autojump_clock: object, then: str, how: str, last: str
) -> None:
    """Once the block has been left, its event is nobody else's, however often the conversation comes back."""
    bot = Bot()

    @bot.conversation(command("go"))
    async def work(chat: Chat) -> None:
        with chat.move_on_after(1), chat.move_on_when(text()) as kept, chat.shield():
            await chat.step(slow)
        assert kept.event is not None
        await chat.send(f"left with {kept.event.content}")
        await chat.sleep(2 * LONG)
        if then == "a wait":
            await chat.send(f"got {(await chat.receive(text())).content}")
        elif then == "a block":
            with chat.move_on_when(text()) as block:
                await chat.ask("Well?")
            assert block.event is not None
            await chat.send(f"block {block.event.content}")
        await chat.sleep(LONG)

    @bot.conversation(text())
    async def other(chat: Chat) -> None:
        await chat.send(f"other {getattr(chat.event, 'content', None)}")

    async with drive(bot, replay_check=False) as world:
        sara = world.user("Sara")
        await sara.joins()
        await sara.says("/go")
        await sara.says("b1")
        await world.waits(seconds=LONG + 10)
        await happens(world, how, bot, ChatId(sara.chat_id))
        await world.waits(seconds=2 * LONG)
        await happens(world, last, bot, ChatId(sara.chat_id))
        await world.waits(seconds=2 * LONG)
        await sara.says("end")
        await world.waits(seconds=1)
        said = [seen.text for seen in await sara.history() if seen.from_bot]
        assert bot.statistics().store.inbox == 0

    whose = {"a wait": ["got end"], "a block": ["Well?", "block end"], "nothing": ["other end"]}
    assert said == ["left with b1", *whose[then]]


@pytest.mark.parametrize("how", ["nothing", "crashes", "restarts"])
@pytest.mark.parametrize("cut", ["in the step", "after it"])
@pytest.mark.parametrize("then", ["drain", "blocks", "a wait"])
async def test_a_turn_that_runs_once_more_finds_what_waited(
    autojump_clock: object, then: str, cut: str, how: str
) -> None:
    """The outer block is opened first, and takes the first event; so it does when that turn is torn."""
    bot, died = Bot(), trio.Event()

    @bot.conversation(command("go"))
    async def work(chat: Chat) -> None:
        await chat.step(slow)
        if not died.is_set():
            await trio.sleep(LONG)  # the process dies in here
        if then == "drain":
            for event in chat.drain():
                await chat.send(f"drained {getattr(event, 'content', None)}")
        elif then == "a wait":
            await chat.send(f"got {(await chat.receive(text('b2'))).content}")
        else:
            with chat.move_on_when(text()) as outer:
                with chat.move_on_when(text()) as inner:
                    await chat.ask("never")
                await chat.send(f"never {inner.event}")
            assert outer.event is not None
            await chat.send(f"outer {outer.event.content}")
        await chat.send("then")
        await tell_all(chat)

    async with drive(bot, replay_check=False) as world:
        sara = world.user("Sara")
        await sara.joins()
        await sara.says("/go")
        await sara.says("b1")
        await sara.says("b2")
        await world.waits(seconds=LONG / 2 if cut == "in the step" else LONG + LONG / 2)
        died.set()
        await happens(world, how, bot, ChatId(sara.chat_id))
        await world.waits(seconds=3 * LONG)
        await sara.says("end")
        await world.waits(seconds=1)
        assert bot.statistics().store.inbox == 0
        said = [seen.text for seen in await sara.history() if seen.from_bot]

    assert (
        said
        == {
            "drain": ["drained b1", "drained b2", "then", "got end"],
            "blocks": ["outer b1", "then", "got b2", "got end"],
            "a wait": ["got b2", "then", "got b1", "got end"],
        }[then]
    )


@pytest.mark.parametrize("how", ["nothing", "crashes", "restarts"])
async def test_branches_that_begin_once_more_find_what_waited(
    autojump_clock: object, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    """The turn is over when the last of them waits, however long the store reads meanwhile."""
    bot, died = Bot(), trio.Event()

    async def slowly(store: CrashableStore, *args: Any, **kwargs: Any) -> Sequence[InboxRow]:
        await trio.sleep(0.1)
        return await store._inner.pending(*args, **kwargs)

    async def hears(chat: Chat, number: int, heard: dict[int, object]) -> None:
        with chat.move_on_after(LONG):
            heard[number] = (await chat.receive(text())).content

    @bot.conversation(command("go"))
    async def work(chat: Chat) -> None:
        heard = dict[int, object]()
        await chat.step(slow)
        if not died.is_set():
            await trio.sleep(LONG)  # the process dies in here
        async with chat.open_nursery() as nursery:
            for number in range(8):
                nursery.start_soon(hears, chat, number, heard)
        await chat.send(f"heard {sorted(heard.items())}")

    monkeypatch.setattr(CrashableStore, "pending", slowly, raising=False)
    async with drive(bot, replay_check=False) as world:
        sara = world.user("Sara")
        await sara.joins()
        for word in ("/go", "b1", "b2"):
            await sara.says(word)
        await world.waits(seconds=LONG + LONG / 2)
        died.set()
        await happens(world, how, bot, ChatId(sara.chat_id))
        await world.waits(seconds=3 * LONG)
        assert bot.statistics().store.inbox == 0
        said = [seen.text for seen in await sara.history() if seen.from_bot]

    assert said == ["heard [(0, 'b1'), (1, 'b2')]"]


@pytest.mark.parametrize("how", ["nothing", "crashes", "restarts"])
async def test_a_first_turn_that_runs_once_more_finds_what_waited_and_no_more(
    autojump_clock: object, how: str
) -> None:
    """What came while it lasted comes after it: that ends the block that is opened last."""
    bot, died = Bot(), trio.Event()

    @bot.conversation(command("never"))
    async def then(chat: Chat) -> None:
        if not died.is_set():
            await trio.sleep(LONG)  # the process dies in here
        drained = [getattr(event, "content", None) for event in chat.drain()]
        with chat.move_on_when(text()) as outer:
            with chat.move_on_when(text()) as inner:
                await chat.receive(command("never"))
            assert inner.event is not None
            inside = inner.event.content
            await chat.receive(command("never"))
        assert outer.event is not None
        await chat.send(f"drained {drained}, inner {inside}, outer {outer.event.content}")

    @bot.conversation(command("go"))
    async def work(chat: Chat) -> None:
        await chat.receive(text("on"), otherwise=Otherwise.KEEP)
        await chat.continue_as(then)

    async with drive(bot, replay_check=False) as world:
        sara = world.user("Sara")
        await sara.joins()
        for word in ("/go", "a1", "on", "b2"):
            await sara.says(word)
            await world.waits(seconds=1)
        died.set()
        await happens(world, how, bot, ChatId(sara.chat_id))
        await world.waits(seconds=2 * LONG)
        for word in ("c3", "d4"):
            await sara.says(word)
            await world.waits(seconds=1)
        said = [seen.text for seen in await sara.history() if seen.from_bot]

    # Without a crash it goes on only now, and b2 waits already.
    drained, first, second = ("['a1', 'b2']", "c3", "d4") if how == "nothing" else ("['a1']", "b2", "c3")
    assert said == [f"drained {drained}, inner {first}, outer {second}"]
