"""An author's error ends its conversation and nothing else, and is told without a word of its content."""

from __future__ import annotations

import asyncio
import importlib
import logging
import re
import signal
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import cast

import attrs
import pytest
import trio
from doubles import FakeOutbox, FakeStore, forbidden
from town import CHAT, TEXTS, Town, open_town, start
from trio.testing import MockClock

from triobot import Bot
from triobot.conversations.chat import Chat
from triobot.conversations.data import Key
from triobot.conversations.routes.filters import Command, command, message, text, when
from triobot.conversations.routes.router import Router
from triobot.conversations.texts import Texts
from triobot.errors import ForbiddenError, NotDeliveredError
from triobot.testing import drive
from triobot.wire.events import Event, Message
from triobot.wire.ids import ChatId

SECRET = "my PIN is 4321"
ASYNCIOS = "asyncio's code doesn't run on Trio as it is; the docs' page libraries.md has the ways"


def lines_of(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]


async def reads_the_text(chat: Chat) -> None:
    await chat.send(chat.event.text)  # type: ignore[attr-defined]  # pyright: ignore[reportUnknownMemberType]


async def sends_markup(chat: Chat) -> None:
    await chat.send("Hi", reply_markup={})  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]


async def reads_what_followed(chat: Chat) -> None:
    await chat.send(Command(ChatId(5), "ban", "Ali").args)  # type: ignore[attr-defined]  # pyright: ignore


async def reads_a_message_of_the_chat(chat: Chat) -> None:
    await chat.send(chat.message)  # type: ignore[attr-defined]  # pyright: ignore


async def edits_what_was_sent(chat: Chat) -> None:
    await (await chat.send("Hi")).edit_text("Ho")  # type: ignore[attr-defined]  # pyright: ignore


async def keeps_a_state(chat: Chat) -> None:
    chat.user_data["name"] = "Ali"  # type: ignore[attr-defined]  # pyright: ignore


async def replies_to_a_message(chat: Chat) -> None:
    await chat.event.reply("Hi")  # type: ignore[attr-defined]  # pyright: ignore


async def replies_in_a_chat(chat: Chat) -> None:
    await chat.send_message("Hi")  # type: ignore[attr-defined]  # pyright: ignore


async def reads_a_first_name(chat: Chat) -> None:
    assert chat.sender is not None
    await chat.send(chat.sender.first_name)  # type: ignore[attr-defined]  # pyright: ignore


async def formats(chat: Chat) -> None:
    await chat.send("<b>Hi</b>", parse_mode="HTML")  # type: ignore[call-arg]  # pyright: ignore


async def asks_with_a_timeout(chat: Chat) -> None:
    await chat.ask("Hi", timeout=5)  # type: ignore[call-overload]  # pyright: ignore[reportCallIssue]


async def awaits_asyncio(chat: Chat) -> None:
    await asyncio.sleep(1)


async def awaits_asyncio_in_a_step(chat: Chat) -> None:
    await chat.step(asyncio.sleep, 1)


async def yields_to_asyncio_in_a_step(chat: Chat) -> None:
    await chat.step(asyncio.sleep, 0)


async def reads_a_name_of_nobody(chat: Chat) -> None:
    await chat.send(chat.event.colour)  # type: ignore[attr-defined]  # pyright: ignore[reportUnknownMemberType]


@pytest.mark.parametrize(
    ("slip", "hint"),
    [
        (reads_the_text, "AttributeError at .*: what is called text elsewhere is called content here"),
        (reads_what_followed, "AttributeError at .*: what is called args elsewhere is called rest here"),
        (reads_a_message_of_the_chat, "AttributeError at .*: what is called message .* called event here"),
        (edits_what_was_sent, "AttributeError at .*: what is called edit_text .* called chat.edit here"),
        (keeps_a_state, "AttributeError at .*: what is called user_data .* called chat.data here"),
        (sends_markup, "TypeError at .*: what is reply_markup= elsewhere is called buttons=.* here"),
        (
            replies_to_a_message,
            "AttributeError at .*: what is called reply elsewhere is called chat.send here",
        ),
        (replies_in_a_chat, "AttributeError at .*: what is called send_message .* chat.send here"),
        (reads_a_first_name, "AttributeError at .*: what is called first_name elsewhere is called name here"),
        (formats, "TypeError at .*: what is parse_mode= elsewhere is left out, .* here"),
        (
            asks_with_a_timeout,
            r"TypeError at .*: what is timeout= .*, with chat.move_on_after\(seconds\) here",
        ),
        (awaits_asyncio, f"RuntimeError at .*: {ASYNCIOS}"),
        (awaits_asyncio_in_a_step, f"StepError at .*: {ASYNCIOS}"),
        (yields_to_asyncio_in_a_step, f"StepError at .*: {ASYNCIOS}"),
        (reads_a_name_of_nobody, r"AttributeError at .*/test_failures\.py:\d+"),
    ],
)
async def test_a_name_of_other_frameworks_is_told_with_its_own(
    slip: Callable[[Chat], Awaitable[None]], hint: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Beside the author's line, as asyncio's code is told with its page; other errors have the line only."""
    bot = Router()
    bot.conversation(slip)
    async with open_town(bot) as town:
        await town.says("hi")
    (line,) = lines_of(caplog)
    assert re.fullmatch(rf"conversation .* failed: {hint}", line)


async def test_a_filter_is_told_how_it_is_called_here(caplog: pytest.LogCaptureFixture) -> None:
    """A condition reads the same names."""
    bot = Router()

    @bot.conversation(when(lambda event: event.text == "hi"))  # type: ignore[attr-defined]  # pyright: ignore
    async def order(chat: Chat) -> None: ...

    async with open_town(bot) as town:
        await town.says("hi")
    assert lines_of(caplog)[0].endswith("what is called text elsewhere is called content here")


async def test_an_error_ends_its_conversation_only(caplog: pytest.LogCaptureFixture) -> None:
    """One apology, one log line with the author's line, one alarm; other chats go on."""
    caplog.set_level(logging.DEBUG)
    bot = Router()

    @bot.conversation
    async def order(chat: Chat) -> None:
        answer = await chat.ask("PIN?")
        if chat.id == CHAT:
            raise ValueError(answer)
        await chat.send("Thanks.")

    async with open_town(bot) as town:
        await town.says("hi")
        await town.says("hi", 6)
        await town.says(SECRET)
        await town.says(SECRET, 6)
        assert town.sent() == ["PIN?", TEXTS.apology]
        assert town.sent(6) == ["PIN?", "Thanks."]
        assert town.counts["crashed"] == 1
        assert town.left_over() == {}
        assert town.store.rows == {}
        (alarm,) = town.alarms
    (line,) = lines_of(caplog)
    assert re.fullmatch(
        r"conversation test_failures\..*\.order \(reference \d+\) of chat 5 failed:"
        r" ValueError at .*/test_failures\.py:\d+",
        line,
    )
    assert alarm.kind == "conversation_crashed"
    assert SECRET not in caplog.text + repr(town.alarms)
    await trio.lowlevel.checkpoint()


async def test_an_author_s_mistake_says_what_is_wrong(caplog: pytest.LogCaptureFixture) -> None:
    """To whoever reads the log, and to whoever only gets the alarm; and not what the value was."""
    bot, kept = Router(), Key("kept", str)

    @bot.conversation
    async def order(chat: Chat) -> None:
        if chat.id == CHAT:
            await chat.choose("Size?", {})
        chat.data[kept] = cast("str", {SECRET})

    async with open_town(bot) as town:
        await town.says("hi")
        await town.says("hi", 6)
        texts = [alarm.text for alarm in town.alarms]
    assert "a choice needs at least one option" in texts[0]
    assert "Key('kept') holds another class" in texts[1]
    assert all(what in caplog.text for what in ("at least one option", "holds another class"))
    assert SECRET not in caplog.text + repr(town.alarms)


async def test_a_chat_that_is_apologized_to_is_not_locked() -> None:
    """The apology keeps its place in the lane; what is said meanwhile starts afresh behind it."""
    bot = Router()

    @bot.conversation
    async def order(chat: Chat) -> None:
        await chat.ask("PIN?")
        raise ValueError

    outbox = FakeOutbox()
    async with open_town(bot, outbox=outbox) as town:
        await town.says("hi")
        held = outbox.hold()
        await town.says("4321")
        assert town.sent() == ["PIN?", TEXTS.apology]
        await town.says("hello?")
        assert len(town.dispatcher.tasks.running) == 2
        held.release()
        await town.rest()
        assert town.sent() == ["PIN?", TEXTS.apology, "PIN?"]


async def test_several_errors_are_several_lines_and_one_apology(caplog: pytest.LogCaptureFixture) -> None:
    """From a group within a group."""
    bot = Router()

    async def fail(error: Exception) -> None:
        raise error

    @bot.conversation
    async def order(chat: Chat) -> None:
        async with chat.open_nursery() as nursery:
            nursery.start_soon(fail, KeyError("a"))
            nursery.start_soon(fail, ExceptionGroup("inner", [IndexError("b"), forbidden()]))

    async with open_town(bot) as town:
        await town.says("hi")
        assert town.sent() == [TEXTS.apology]
        assert town.counts["crashed"] == 1
    assert sorted(re.findall(r"failed: (\w+)", "\n".join(lines_of(caplog)))) == [
        "ForbiddenError",
        "IndexError",
        "KeyError",
    ]


async def test_an_error_beside_a_cancellation_is_still_an_error(caplog: pytest.LogCaptureFixture) -> None:
    """A child fails while an interrupt cancels its conversation."""
    bot = Router()

    @bot.interrupt(command("cancel"))
    async def cancel(chat: Chat) -> None:
        await chat.send("Cancelled.")

    async def fail_at_the_end(chat: Chat) -> None:
        try:
            await chat.sleep(1000)
        finally:
            raise KeyError(SECRET)

    @bot.conversation
    async def order(chat: Chat) -> None:
        async with chat.open_nursery() as nursery:
            nursery.start_soon(fail_at_the_end, chat)
            await chat.ask("Name?")

    async with open_town(bot) as town:
        await town.says("hi")
        await town.says("/cancel")
        assert town.sent() == ["Name?", "Cancelled."]
        assert town.counts["crashed"] == 1
        assert town.left_over() == {}
        assert town.store.rows == {}
    assert "KeyError" in caplog.text
    assert SECRET not in caplog.text


@pytest.mark.parametrize("where", ["send", "group", "apology"])
async def test_a_user_who_left_is_no_crash(where: str, caplog: pytest.LogCaptureFixture) -> None:
    """403 of one chat ends its conversation quietly."""
    bot = Router()

    @bot.conversation
    async def order(chat: Chat) -> None:
        if where == "apology":
            raise KeyError
        if where == "send":
            await chat.send("hi")
        async with chat.open_nursery() as nursery:
            nursery.start_soon(chat.send, "a")
            nursery.start_soon(chat.send, "b")

    outbox = FakeOutbox()
    outbox.fail(forbidden())
    async with open_town(bot, outbox=outbox) as town:
        await town.says("hi")
        assert TEXTS.apology not in town.sent() or where == "apology"
        assert town.counts.get("gone") == (None if where == "apology" else 1)
        assert town.counts.get("crashed") == (1 if where == "apology" else None)
        assert town.left_over() == {}
        assert town.store.rows == {}
    if where != "apology":
        assert caplog.records == []


@pytest.mark.parametrize("restarts", [False, True])
@pytest.mark.parametrize("other", [False, True])
async def test_a_refusal_that_is_raised_later_counts_as_it_did(
    restarts: bool, other: bool, autojump_clock: MockClock
) -> None:
    """It was caught, and slept over: a restart in between changes nothing."""
    bot = Router()

    @bot.conversation
    async def order(chat: Chat) -> None:
        try:
            await (chat.to(6) if other else chat).send("hi")
        except ForbiddenError:
            await chat.sleep(600)
            raise

    outbox, store = FakeOutbox(), FakeStore()
    outbox.fail(forbidden(), times=1)
    async with open_town(bot, outbox=outbox, store=store) as town:
        await town.says("hi")
        if not restarts:
            await trio.sleep(700)
    async with open_town(bot, outbox=outbox, store=store) as later:
        await trio.sleep(700)
    ended = later if restarts else town
    assert ended.counts.get("gone") == (None if other else 1)
    assert [alarm.kind for alarm in ended.alarms] == (["conversation_crashed"] if other else [])
    assert (TEXTS.apology in ended.sent()) is other


async def test_somebody_else_who_left_is_no_reason_for_silence() -> None:
    """A conversation that writes to another chat fails like any other when that is refused."""
    bot = Router()

    @bot.conversation
    async def tell(chat: Chat) -> None:
        await chat.to(6).send("hi")

    outbox = FakeOutbox()
    outbox.fail(forbidden())
    async with open_town(bot, outbox=outbox) as town:
        await town.says("tell the other one")
        assert town.sent() == [TEXTS.apology]
        assert town.counts.get("gone") is None
        assert [alarm.kind for alarm in town.alarms] == ["conversation_crashed"]


async def test_a_bot_may_apologize_in_its_own_words_or_not_at_all() -> None:
    """The empty text says nothing."""
    bot = Router()

    @bot.conversation
    async def order(chat: Chat) -> None:
        raise KeyError

    for words in ("Oops.", ""):
        async with open_town(bot, texts=attrs.evolve(Texts.persian(), apology=words)) as town:
            await town.says("hi")
            assert town.sent() == ([words] if words else [])


async def test_an_apology_that_cannot_be_sent_is_counted() -> None:
    """And the end of it."""
    bot = Router()

    @bot.conversation
    async def order(chat: Chat) -> None:
        raise KeyError

    outbox = FakeOutbox()
    outbox.fail(NotDeliveredError("sendMessage", "down"))
    async with open_town(bot, outbox=outbox) as town:
        await town.says("hi")
        await town.says("hi")
        assert town.counts["crashed"] == 2
        assert town.counts["tidying_failed"] == 2


async def test_what_was_queued_behind_a_crash_is_routed_again() -> None:
    """Each message gets its chance."""
    bot = Router()

    @bot.conversation(text("crash"))
    async def crash(chat: Chat) -> None:
        await chat.send("busy")
        raise KeyError

    @bot.conversation(text("go"))
    async def go(chat: Chat) -> None:
        await chat.send("going")

    outbox = FakeOutbox()
    held = outbox.hold(lambda op: op.content == "busy")
    async with open_town(bot, outbox=outbox) as town:
        await town.says("crash")
        await town.says("go")
        held.release()
        await town.rest()
        assert town.sent() == ["busy", TEXTS.apology, "going"]


async def test_what_a_signal_raises_crosses_the_nursery() -> None:
    """It is not the conversation's, and consumes nothing."""
    bot = Router()

    @bot.conversation
    async def order(chat: Chat) -> None:
        await trio.lowlevel.checkpoint()
        signal.raise_signal(signal.SIGINT)

    store = FakeStore()
    with pytest.RaisesGroup(KeyboardInterrupt, flatten_subgroups=True, allow_unwrapped=True):
        async with open_town(bot, store=store) as town:
            await town.says("hi", wait=False)
            await trio.sleep(1)
    begun = [row.id for row in await store.conversations(CHAT) if row.unfinished]
    assert [*store.rows, *begun] == [1], "it waits in the inbox, or goes on after the next start"
    assert town.sent() == []


# --- filters that raise


def broken(event: Event) -> bool:
    raise KeyError(getattr(event, "content", ""))


@pytest.mark.parametrize("kind", ["ignore", "interrupt", "aside", "conversation"])
async def test_a_routes_filter_that_raises_takes_nothing(kind: str, caplog: pytest.LogCaptureFixture) -> None:
    """It is counted, and logged with its line; the rest of the table goes on."""
    bot = Router()

    async def never(chat: Chat) -> None:
        await chat.send("never")

    if kind == "ignore":
        bot.ignore(message() & when(broken))
    else:
        getattr(bot, kind)(message() & when(broken))(never)

    @bot.conversation
    async def order(chat: Chat) -> None:
        await chat.send("hello")

    async with open_town(bot) as town:
        await town.says(SECRET)
        assert town.sent() == ["hello"]
        assert town.counts["filter_failed"] == 1
        assert town.left_over() == {}
    assert re.search(
        r"filter \(message\(\) & when\(...\)\) failed on an event of chat 5: KeyError at .*_failures\.py:\d+",
        caplog.text,
    )
    assert SECRET not in caplog.text


@pytest.mark.parametrize("queued", [False, True])
async def test_a_waits_filter_that_raises_fails_its_conversation(
    queued: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """Whoever waits with it hears of it, and may handle it."""
    bot = Router()
    caught: list[str] = []

    @bot.conversation(text("go"))
    async def listen(chat: Chat) -> None:
        await chat.send("busy")
        try:
            await chat.receive(message() & when(broken))
        except KeyError as error:
            caught.append(type(error).__name__)
        await chat.receive(message() & when(broken))

    outbox = FakeOutbox()
    held = outbox.hold(lambda op: op.content == "busy")
    async with open_town(bot, outbox=outbox) as town:
        if not queued:
            held.release()
        await town.says("go")
        await town.says(SECRET)
        held.release()
        await town.rest()
        assert caught == ["KeyError"]
        assert len(town.dispatcher.tasks.running) == 1
        await town.says(SECRET)
        assert town.sent() == ["busy", TEXTS.apology]
        assert town.counts["crashed"] == 1
        assert town.left_over() == {}
        assert town.store.rows == {}
    assert re.search(r"failed: KeyError at .*/test_failures\.py:\d+", caplog.text)
    assert SECRET not in caplog.text


async def test_an_error_while_the_program_stops_is_logged(
    caplog: pytest.LogCaptureFixture, autojump_clock: MockClock
) -> None:
    """The user isn't told anything: the conversation has not ended."""
    bot = Router()

    @bot.conversation
    async def order(chat: Chat) -> None:
        try:
            await chat.ask("Name?")
        finally:
            raise KeyError(SECRET)

    store = FakeStore()
    async with trio.open_nursery() as nursery:
        town = Town(bot, FakeOutbox(), store, TEXTS, username=None)
        run = await start(nursery, town)
        await town.says("hi")
        await run.cut()
    assert town.sent() == ["Name?"]
    assert "KeyError" in caplog.text
    assert SECRET not in caplog.text
    assert isinstance(town.accepted[0][1], Message)


async def test_a_task_without_a_line_has_that_of_its_nursery(caplog: pytest.LogCaptureFixture) -> None:
    """Not the one that runs the program; and a line is told once."""
    bot = Router()

    @bot.conversation
    async def talk(chat: Chat) -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(chat.send, "x")

    line = talk.__code__.co_firstlineno + 2  # type: ignore[attr-defined]  # pyright: ignore
    with caplog.at_level(logging.ERROR, "triobot.conversations"):
        async with open_town(bot) as town:
            await town.says("hello")
    [said] = [record.getMessage() for record in caplog.records]
    assert f"{__file__}:{line}" in said or f"{__file__}:{line + 1}" in said
    assert "test_failures.py" in said
    assert "conftest" not in said


async def test_a_line_is_told_once(caplog: pytest.LogCaptureFixture) -> None:
    bot = Router()

    @bot.conversation
    async def talk(chat: Chat) -> None:
        async def plain() -> None:
            await chat.send("x")

        async with trio.open_nursery() as nursery:
            nursery.start_soon(plain)

    with caplog.at_level(logging.ERROR, "triobot.conversations"):
        async with open_town(bot) as town:
            await town.says("hello")
    [said] = [record.getMessage() for record in caplog.records]
    assert said.count(__file__) == 1
    assert said.endswith("start it with chat.open_nursery()")


async def test_a_stop_does_not_wait_for_an_apology() -> None:
    """Nor does a task that has run another conversation before."""
    bot = Router()

    @bot.conversation
    async def order(chat: Chat[Message]) -> None:
        if chat.event.content == "fail":
            raise ValueError
        await chat.send("Thanks.")

    outbox = FakeOutbox()
    async with open_town(bot, outbox=outbox) as town:
        await town.says("hi")
        outbox.hold()
        await town.says("fail")
        assert town.sent() == ["Thanks.", TEXTS.apology]


async def test_a_package_that_ships_routes_is_told_by_its_own_lines(
    autojump_clock: object, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is installed among libraries, and what fails is a function of its own that a route calls."""
    (tmp_path / "shipped_kit").mkdir()
    (tmp_path / "shipped_kit" / "rules.py").write_text(
        'async def checked() -> None:\n    raise ValueError("No.")\n'
    )
    (tmp_path / "shipped_kit" / "__init__.py").write_text(
        "from triobot import Chat, Router\n\nfrom .rules import checked\n\nroutes = Router()\n\n\n"
        "@routes.conversation\nasync def feedback(chat: Chat) -> None:\n    await checked()\n"
    )
    monkeypatch.setattr("triobot.conversations.running.lines._LIBRARIES", (f"{tmp_path}/",))
    monkeypatch.setattr("triobot.conversations.running.lines._HOMES", set())
    monkeypatch.syspath_prepend(tmp_path)
    bot = Bot()
    bot.include(importlib.import_module("shipped_kit").routes)
    async with drive(bot) as world:
        await world.user("Ali").joins()
        await world.waits(seconds=1)
        assert "rules.py:2" in world.takes_alarm("conversation_crashed").text
