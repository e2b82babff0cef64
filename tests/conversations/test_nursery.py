"""Branches of a conversation: children that ask in turn, steps, and tasks that are none of its own."""

from __future__ import annotations

import re

import pytest
import trio
from doubles import FakeOutbox
from town import TEXTS, open_town
from trio.testing import MockClock

from triobot.conversations.chat import Chat
from triobot.conversations.routes.filters import command, text
from triobot.conversations.routes.router import Router
from triobot.conversations.running.branches import refuse_conversations
from triobot.errors import ConversationEndedError, ForeignTaskError, StepError


async def test_children_use_the_chat_and_end_with_their_block() -> None:
    """Each waits for its own; the parent goes on when all are done."""
    bot = Router()
    got: list[str] = []

    async def listen(chat: Chat, name: str) -> None:
        got.append((await chat.receive(command(name), otherwise="hm")).rest)

    @bot.conversation(text("go"))
    async def both(chat: Chat) -> None:
        async with chat.open_nursery() as nursery:
            nursery.start_soon(listen, chat, "a")
            nursery.start_soon(listen, chat, "b")
        await chat.send("both")

    async with open_town(bot) as town:
        await town.says("go")
        await town.says("/b 2")
        assert town.sent() == []
        await town.says("what?")
        await town.says("/a 1")
        assert town.sent() == ["hm", "both"]
        assert town.left_over() == {}
        assert town.store.rows == {}
    assert got == ["2", "1"]


async def test_the_newest_question_of_two_branches_has_the_answer(autojump_clock: MockClock) -> None:
    """Then the other one."""
    bot = Router()
    got: list[str] = []

    async def ask(chat: Chat, question: str) -> None:
        got.append(f"{question} {await chat.ask(question)}")

    @bot.conversation(text("go"))
    async def both(chat: Chat) -> None:
        async with chat.open_nursery() as nursery:
            nursery.start_soon(ask, chat, "A?")
            await chat.sleep(10)
            nursery.start_soon(ask, chat, "B?")

    async with open_town(bot) as town:
        await town.says("go")
        await trio.sleep(11)
        await town.says("one")
        await town.says("two")
    assert got == ["B? one", "A? two"]


async def test_a_failing_child_cancels_its_siblings_and_fails_the_block() -> None:
    """As in any Trio nursery; what the child had in hand is dealt with, too."""
    bot = Router()

    async def fail(chat: Chat) -> None:
        await chat.receive(command("fail"))
        raise KeyError("child")

    async def sit(chat: Chat) -> None:
        await chat.receive(command("never"))

    @bot.conversation(text("go"))
    async def both(chat: Chat) -> None:
        try:
            async with chat.open_nursery() as nursery:
                nursery.start_soon(sit, chat)
                nursery.start_soon(fail, chat)
        except* KeyError:
            await chat.send("failed")
        await chat.ask("And now?")

    async with open_town(bot) as town:
        await town.says("go")
        await town.says("/fail")
        assert town.sent() == ["failed", "And now?"]
        assert town.store.rows == {}
        await town.says("bye")
        assert town.left_over() == {}


async def test_cancel_ends_all_children() -> None:
    """And the block's own body."""
    bot = Router()

    async def sit(chat: Chat) -> None:
        await chat.receive(command("never"))

    @bot.conversation(text("go"))
    async def both(chat: Chat) -> None:
        async with chat.open_nursery() as nursery:
            nursery.start_soon(sit, chat)
            await chat.receive(command("stop"))
            nursery.cancel()
        await chat.send("stopped")

    async with open_town(bot) as town:
        await town.says("go")
        await town.says("/stop")
        assert town.sent() == ["stopped"]


# --- steps


class NoCar(Exception):
    """An error that the author expects."""


async def test_a_steps_expected_errors_come_back_as_themselves() -> None:
    """All others as StepError, with their name and words."""
    bot = Router()
    seen: list[str] = []

    async def fail(error: Exception) -> None:
        raise error

    @bot.conversation
    async def work(chat: Chat) -> None:
        for error, raises in (
            (NoCar(), NoCar),
            (NoCar(), (KeyError, NoCar)),
            (NoCar("none"), KeyError),
            (OSError("disk"), ()),
        ):
            try:
                await chat.step(fail, error, raises=raises)
            except NoCar:
                seen.append("NoCar")
            except StepError as failure:
                assert failure.__cause__ is None  # live as on replay
                seen.append(str(failure))

    async with open_town(bot) as town:
        await town.says("hi")
        assert town.counts.get("crashed") is None
    assert seen == ["NoCar", "NoCar", "NoCar: none", "OSError: disk"]


async def test_a_chat_operation_in_a_step_is_refused_with_the_line() -> None:
    """Whatever errors the step expects, this one is the author's."""
    bot = Router()
    seen: list[str] = []

    @bot.conversation
    async def work(chat: Chat) -> None:
        async def say() -> None:
            await chat.send("from inside")

        async def say_from_a_child() -> None:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(chat.send, "from a child")

        for step in (say, say_from_a_child):
            try:
                await chat.step(step)
            except* ForeignTaskError as group:
                seen.extend(str(error) for error in group.exceptions)
            except* StepError:
                seen.append("StepError")
        await chat.send("done")

    async with open_town(bot) as town:
        await town.says("hi")
        assert town.sent() == ["done"]
    assert re.fullmatch(r".*/test_nursery\.py:\d+: a chat operation inside a step.*", seen[0])


async def test_a_foreign_task_is_refused_with_the_line() -> None:
    """Also through the context managers of the standard library."""
    bot = Router()
    seen: list[str] = []

    @bot.conversation
    async def work(chat: Chat) -> None:
        async def send() -> None:
            await chat.send("from nowhere")

        async def type_() -> None:
            async with chat.typing():
                pass

        async def branch() -> None:
            async with chat.open_nursery():
                pass

        async def scope() -> None:
            with chat.move_on_after(1):
                pass

        async def drain() -> None:
            chat.drain()

        for attempt in (send, type_, branch, scope, drain):
            try:
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(attempt)
            except* ForeignTaskError as group:
                seen.append(str(group.exceptions[0]))

    async with open_town(bot) as town:
        await town.says("hi")
        assert town.sent() == []
    assert len(seen) == 5
    for words in seen:
        assert re.fullmatch(r".*/test_nursery\.py:\d+: a chat operation from a task that .*", words)


async def test_a_chat_that_outlives_its_conversation_is_refused() -> None:
    """With the line of whoever used it."""
    bot = Router()
    kept: list[Chat] = []

    @bot.conversation
    async def leak(chat: Chat) -> None:
        kept.append(chat)

    async with open_town(bot) as town:
        await town.says("hi")
        with pytest.raises(ConversationEndedError, match=r"test_nursery\.py:\d+"):
            await kept[0].send("too late")
        with pytest.raises(ConversationEndedError):
            kept[0].drain()
        assert town.sent() == []


async def test_a_conversations_code_is_refused_other_doors(autojump_clock: MockClock) -> None:
    """The dispatcher knows whose task it is, also a child's; what a step does is its own affair."""
    bot = Router()
    seen: list[str] = []

    async def child() -> None:
        try:
            refuse_conversations("bot.to()", "chat.to()")
        except ForeignTaskError as error:
            seen.append(str(error))

    @bot.conversation
    async def work(chat: Chat) -> None:
        await child()
        await chat.step(child)
        async with chat.open_nursery() as nursery:
            nursery.start_soon(child)

    async with open_town(bot) as town:
        refuse_conversations("bot.to()", "chat.to()")
        await town.says("hi")
    assert len(seen) == 2
    assert "test_nursery.py" in seen[0]
    assert "bot.to() inside a conversation" in seen[0]


async def test_branches_speak_in_the_order_in_which_they_awaited() -> None:
    """One lane a chat, whoever speaks."""
    bot = Router()

    async def speak(chat: Chat, words: str) -> None:
        await chat.receive(command(words))
        await chat.send(words)

    @bot.conversation(text("go"))
    async def both(chat: Chat) -> None:
        async with chat.open_nursery() as nursery:
            for words in ("a", "b", "c"):
                nursery.start_soon(speak, chat, words)

    outbox = FakeOutbox()
    held = outbox.hold()
    async with open_town(bot, outbox=outbox) as town:
        await town.says("go")
        for words in ("/c", "/a", "/b"):
            await town.says(words)
        held.release()
        await town.rest()
        assert town.sent() == ["c", "a", "b"]
        assert TEXTS.want_text not in town.sent()
