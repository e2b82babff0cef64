"""Broadcasts through a whole bot: `Bot.broadcast`, its audiences, and a stop in the middle."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest
import trio

from tests.bot.rig import Chats, make_bot, say
from tests.loopback import PATIENCE
from triobot import Bot, BroadcastStatus, Buttons, Chat, Key
from triobot.cli.consulting import ask_bot
from triobot.errors import ConfigError, ForeignTaskError, LocalProtocolError, StoreAwayError
from triobot.filters import command
from triobot.seams.broadcasts import AddReceivers, OpenBroadcast, TurnBroadcast
from triobot.store import Store
from triobot.store.table_store import ReadBroadcasts
from triobot.testing import drive

SUBSCRIBED = Key("subscribed", bool)


def quiet(chats: Chats, **rest: str) -> Bot:
    """A bot that says nothing by itself."""
    bot = make_bot(chats, **rest)

    @bot.conversation(command("never"))
    async def never(chat: Chat) -> None: ...

    return bot


async def over(bot: Bot, key: str) -> BroadcastStatus:
    with trio.fail_after(PATIENCE):
        while not (status := await bot.broadcast(key).status()).over:
            await trio.sleep(0.01)
    return status


async def test_everybody_who_has_a_key_is_told() -> None:
    chats = Chats()
    bot = quiet(chats)
    async with bot.running():
        for chat in (3, 1, 2):
            await bot.to(chat).set(SUBSCRIBED, True)
        assert (await bot.broadcast("k").status()).state == "none"
        assert await bot.broadcast("k").start("hello", SUBSCRIBED, buttons=Buttons({"y": "Yes"}))
        assert not await bot.broadcast("k").start("hello", SUBSCRIBED)
        assert await over(bot, "k") == BroadcastStatus("done", 3, sent=3)
        assert [chat async for chat in bot.broadcast("k").gone()] == []
        assert not await bot.broadcast("k").stop()
    assert chats.texts == {1: ["hello"], 2: ["hello"], 3: ["hello"]}
    with pytest.raises(ConfigError, match="running"):
        bot.broadcast("k")


async def test_a_generator_of_the_authors_is_closed_whatever_happens() -> None:
    bot, closed = quiet(Chats()), 0

    async def cursor(*chats: Any) -> AsyncGenerator[Any]:
        nonlocal closed
        try:
            for chat in chats:
                await trio.lowlevel.checkpoint()
                yield chat
        finally:
            closed += 1

    async with bot.running():
        assert await bot.broadcast("a").start("hello", cursor(1, 2, 3))
        assert not await bot.broadcast("a").start("hello", cursor(1, 2, 3))
        with pytest.raises(LocalProtocolError, match="chat_id"):
            await bot.broadcast("b").start("hello", cursor(1, "nobody", 3))
        assert (await over(bot, "a")).sent == 3
        while (await bot.broadcast("b").status()).state != "none":
            await trio.sleep(0.01)
    assert closed == 2  # the second generator was never started


@pytest.mark.parametrize(("key", "content"), [("", "hello"), ("k", ""), ("a\nb", "hello"), ("k", object())])
async def test_what_cannot_be_told_is_refused_at_once(key: str, content: Any) -> None:
    bot = quiet(Chats())
    async with bot.running() as intake:
        with pytest.raises(LocalProtocolError):
            await bot.broadcast(key).start(content, [1, 2])
        await bot.broadcast("after it").start("hello", [])
        await over(bot, "after it")
        assert [job.key for job in await intake.store.broadcasts.all()] == ["after it"]


async def test_a_conversation_is_refused_the_door_and_a_step_is_not() -> None:
    chats = Chats()
    bot = make_bot(chats)

    @bot.conversation
    async def tell(chat: Chat) -> None:
        outside = bots[0]
        with pytest.raises(ForeignTaskError, match=r"test_bot_broadcast\.py:\d+: bot\.broadcast\(\)"):
            bot.broadcast("k")
        with pytest.raises(ForeignTaskError, match=r"Broadcast\.start\(\)"):
            await outside.start("hello", [8])

        async def step() -> bool:
            return await bot.broadcast("k").start("hello", [8])

        await chat.send(f"{await chat.step(step)} {await chat.step(step)}")

    async with bot.running() as intake:
        bots = [bot.broadcast("k")]
        await say(intake, 7, "hi")
        await chats.wait_for(7, "True False")
        await chats.wait_for(8, "hello")


async def test_what_a_conversation_says_to_everybody_is_started_once(autojump_clock: object) -> None:
    """Whenever its process dies; what it was told of it is recorded."""
    bot = Bot()

    async def those() -> AsyncGenerator[int]:
        async for chat_id, _ in bot.each(SUBSCRIBED):
            yield chat_id

    @bot.aside(command("subscribe"))
    async def subscribe(chat: Chat) -> None:
        chat.data[SUBSCRIBED] = True

    @bot.conversation(command("tell"))
    async def tell(chat: Chat) -> None:
        news = chat.broadcast(f"news {chat.uuid()}")
        for audience in (SUBSCRIBED, those()):
            await chat.ask("Ready?")
            begun = await news.start("It is out.", audience)
            await chat.send(f"{begun} {(await news.status()).total}")
        await chat.ask("Stop?")
        await chat.send(f"{await news.stop()}")

    async with drive(bot) as world:
        people = [world.user(name) for name in ("Ali", "Sara", "Mina")]
        for person in people:
            await person.joins()
            await person.says("/subscribe")
        boss = world.user("Boss")
        await boss.joins()
        await boss.says("/tell")
        for shown in ("True 3", "False 3"):
            await boss.sees("Ready?")
            await world.crashes()
            await boss.says("yes")
            await world.crashes()
            await boss.sees(shown)
        await world.crashes()
        await boss.says("yes")
        await boss.sees("False")
        for person in people:
            assert [seen.text for seen in await person.history() if seen.from_bot] == ["It is out."]


async def test_what_fails_in_an_audience_is_told_to_the_conversation() -> None:
    chats = Chats()
    bot = make_bot(chats)

    async def broken() -> AsyncGenerator[int]:
        yield 8
        raise ValueError("the database is gone")

    @bot.conversation
    async def tell(chat: Chat) -> None:
        news = chat.broadcast("k")
        with pytest.raises(LocalProtocolError, match="content"):
            await news.start("", [8])
        with pytest.raises(ValueError, match="the database is gone"):
            await news.start("hello", broken())
        with pytest.raises(ForeignTaskError, match=r"test_bot_broadcast\.py:\d+: Broadcast\.gone\(\)"):
            news.gone()
        await chat.send(f"{await news.start('hello', [8])}")

    async with bot.running() as intake:
        await say(intake, 7, "hi")
        await chats.wait_for(7, "True")
        await chats.wait_for(8, "hello")


@pytest.mark.parametrize("away", ["broadcast", "keyed", OpenBroadcast, AddReceivers, TurnBroadcast])
async def test_a_database_that_is_away_keeps_a_conversation_waiting(
    away: Any, autojump_clock: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever is asked of it then; the audience is read once."""
    asked, bot = 0, Bot()

    @bot.conversation(command("tell"))
    async def tell(chat: Chat) -> None:
        chat.data[SUBSCRIBED] = True
        await chat.send(f"{await chat.broadcast('k').start('It is out.', SUBSCRIBED)}")

    of, name = {"broadcast": (ReadBroadcasts, "get"), "keyed": (Store, "keyed")}.get(away, (Store, "commit"))
    do = getattr(of, name)

    async def ask(store: object, *given: Any, **named: Any) -> Any:
        nonlocal asked
        if (isinstance(away, str) or isinstance(given[0], away)) and (asked := asked + 1) < 3:
            raise StoreAwayError("away")
        return await do(store, *given, **named)

    async with drive(bot) as world:
        sara = world.user("Sara")
        await sara.joins()
        monkeypatch.setattr(of, name, ask)
        await sara.says("/tell")
        await world.waits(seconds=10)
        said = [seen.text for seen in await sara.history() if seen.from_bot]
        assert (asked > 2, sorted(said)) == (True, ["It is out.", "True"])


@pytest.mark.slow
async def test_a_stop_in_the_middle_goes_on_at_the_next_start(tmp_path: Path) -> None:
    chats = Chats()
    bot = quiet(chats, store=f"sqlite:{tmp_path / 'bot.db'}")
    async with bot.running():
        await bot.broadcast("k").start("hello", range(1, 501))
        while len(chats.texts) < 100:
            await trio.sleep(0.001)
    assert len(chats.texts) < 500
    async with bot.running():
        assert await over(bot, "k") == BroadcastStatus("done", 500, sent=500)
    assert chats.texts == {chat: ["hello"] for chat in range(1, 501)}


async def test_an_operator_asks_the_running_bot(tmp_path: Path) -> None:
    pytest.importorskip("triobot.http")  # without it, a bot has no operator socket
    chats = Chats()
    bot = quiet(chats, store=f"sqlite:{tmp_path / 'bot.db'}")
    answers: list[Any] = []

    async def tell(line: object) -> None:
        await trio.lowlevel.checkpoint()
        answers.append(line)

    async with bot.running():
        await bot.broadcast("news").start("It is out.", [1, 2])
        await over(bot, "news")
        looks: list[dict[str, object]] = [{"ask": "broadcast.status", "key": "news"}]
        for question in [*looks, {"ask": "broadcast.stop", "key": "olds"}]:
            assert await ask_bot(bot.settings(), question, tell)
    # The bot no longer runs, so the command reads the store.
    assert not await ask_bot(bot.settings(), {"ask": "broadcast.list"}, tell)
    assert answers[0]["broadcast"]["total"] == 2
    assert answers[1] == {"stopped": False}
    [listed] = answers[2]["broadcasts"]
    assert (listed["key"], listed["state"], listed["sent"]) == ("news", "done", 2)
