"""A chat's life: what starts, ends, overtakes and waits for what."""

from __future__ import annotations

import pytest
import trio
from doubles import FakeOutbox
from town import ALI, CHAT, SARA, TEXTS, open_town
from trio.testing import MockClock

from triobot.conversations.chat import Chat
from triobot.conversations.chat_actor import ASIDES
from triobot.conversations.mailbox import MAILBOX
from triobot.conversations.questions.buttons import Buttons
from triobot.conversations.routes.filters import command, in_chat, join, leave, message, pressed, text, when
from triobot.conversations.routes.router import Router
from triobot.conversations.routes.routing import Otherwise
from triobot.wire.events import Message


def listing_bot(got: list[object], first: str = "go") -> Router:
    """Takes every text, one by one, and remembers it."""
    bot = Router()

    @bot.interrupt(command("cancel"))
    async def cancel(chat: Chat) -> None:
        got.append(f"cancelled {chat.interrupted is not None}")
        await chat.send("Cancelled.")

    @bot.aside(command("help"))
    async def help_(chat: Chat) -> None:
        got.append("help")
        await chat.send("Help.")

    @bot.conversation(text(first))
    async def listen(chat: Chat) -> None:
        await chat.send("Listening.")
        while True:
            heard = (await chat.receive(message())).content
            got.append(heard)
            if heard == "bye":
                return

    return bot


# --- interrupts


async def test_an_interrupt_ends_the_live_conversation_and_is_the_live_one() -> None:
    """It knows whom it ended."""
    bot = Router()

    @bot.interrupt(command("cancel"))
    async def cancel(chat: Chat) -> None:
        await chat.send(f"ended {(chat.interrupted or 'nothing').rpartition('.')[2]}")
        await chat.send(f"why {await chat.ask('Why?')}")

    @bot.conversation
    async def order(chat: Chat) -> None:
        try:
            await chat.choose("Which?", {1: "One"})
        finally:
            with chat.shield():
                await chat.send("cleaning up")

    async with open_town(bot) as town:
        await town.says("/cancel")
        await town.says("never mind")
        assert town.sent() == ["ended nothing", "Why?", "why never mind"]
        await town.says("hi")
        await town.says("/cancel")
        assert town.sent()[3:] == ["Which?", "cleaning up", "ended order", "Why?"]
        assert len(town.edits()) == 1
        await town.presses("One")
        assert town.outbox.presses[-1] == ("refused", "press1", TEXTS.expired)
        await town.says("no reason")
        assert town.left_over() == {}
        assert town.store.rows == {}


async def test_an_interrupt_of_an_interrupt() -> None:
    """The same one, too."""
    got: list[object] = []
    bot = listing_bot(got)

    @bot.interrupt(command("ask"))
    async def ask(chat: Chat) -> None:
        got.append((chat.interrupted or "").rpartition(".")[2])
        await chat.ask("What?")

    async with open_town(bot) as town:
        await town.says("go")
        for _ in range(3):
            await town.says("/ask")
        await town.says("/cancel")
        assert got == ["listen", "ask", "ask", "cancelled True"]
        assert town.left_over() == {}


async def test_of_two_interrupts_before_the_end_the_last_one_counts() -> None:
    """The live one is still cleaning up; the first interrupt never ran."""
    got: list[object] = []
    bot = Router()

    @bot.interrupt(command("a", "b"))
    async def interrupt(chat: Chat) -> None:
        got.append((chat.event.name, (chat.interrupted or "").rpartition(".")[2]))

    @bot.conversation
    async def order(chat: Chat) -> None:
        with chat.shield():
            await chat.send("held")

    outbox = FakeOutbox()
    held = outbox.hold()
    async with open_town(bot, outbox=outbox) as town:
        await town.says("hi")
        await town.says("/a")
        await town.says("/b")
        held.release()
        await town.rest()
        assert got == [("b", "order")]
        assert town.counts["interrupted"] == 1
        assert town.store.rows == {}


@pytest.mark.parametrize("waiting", [True, False])
async def test_an_interrupt_overtakes_what_was_queued_and_drops_it(waiting: bool) -> None:
    """What comes after it is its own, in order, however close behind it comes."""
    got: list[object] = []
    bot = Router()

    @bot.interrupt(command("cancel"))
    async def cancel(chat: Chat) -> None:
        for _ in range(2):
            got.append(await chat.ask("And now?"))

    @bot.conversation(text("go"))
    async def work(chat: Chat) -> None:
        if waiting:
            got.append((await chat.receive(text("x"))).content)
        await chat.send("busy")

    outbox = FakeOutbox()
    outbox.hold(lambda op: op.content == "busy")
    async with open_town(bot, outbox=outbox) as town:
        await town.says("go")
        for words in ("a", "x", "b") if not waiting else ("a",):
            await town.says(words)
        await town.says("/cancel", wait=False)
        for words in ("x", "after", "and after"):
            await town.says(words, wait=False)
        await town.rest()
        await town.says("more")
        assert got == ["x", "after"]
        assert town.counts.get("interrupted", 0) == (0 if waiting else 3)
        assert town.store.rows == {}


async def test_an_event_that_a_dying_question_was_given_goes_to_the_interrupt() -> None:
    """Interrupt and answer come in one moment, in this order."""
    got: list[object] = []
    bot = Router()

    @bot.interrupt(command("cancel"))
    async def cancel(chat: Chat) -> None:
        got.append(f"cancel got {(await chat.receive(text())).content}")

    @bot.conversation(text("go"))
    async def work(chat: Chat) -> None:
        got.append(f"work got {await chat.ask('What?')}")

    async with open_town(bot) as town:
        await town.says("go")
        await town.says("/cancel", wait=False)
        await town.says("this")
        assert got == ["cancel got this"]


async def test_an_event_that_was_taken_before_the_interrupt_is_not_the_interrupts() -> None:
    """Answer and interrupt in one moment, in this order: the answer is dropped or handled, never both."""
    got: list[object] = []
    bot = Router()

    @bot.interrupt(command("cancel"))
    async def cancel(chat: Chat) -> None:
        got.append(f"cancel got {await chat.ask('Why?')}")

    @bot.conversation(text("go"))
    async def work(chat: Chat) -> None:
        got.append(f"work got {await chat.ask('What?')}")
        await chat.sleep(1000)

    async with open_town(bot) as town:
        await town.says("go")
        await town.says("this", wait=False)
        await town.says("/cancel", wait=False)
        await town.says("that")
        assert got[-1] == "cancel got that"
        assert got[:-1] in ([], ["work got this"])
        assert town.store.rows == {}


# --- asides


async def test_an_aside_runs_beside_the_live_one_and_leaves_it_alone() -> None:
    """Its question comes first while it is the newest; then the live one goes on."""
    got: list[object] = []
    bot = Router()

    @bot.aside(command("rate"))
    async def rate(chat: Chat) -> None:
        got.append(await chat.ask("How many stars?", int))

    @bot.conversation
    async def order(chat: Chat) -> None:
        got.append(await chat.ask("Name?"))

    async with open_town(bot) as town:
        await town.says("hi")
        await town.says("/rate")
        await town.says("5")
        await town.says("Ali")
        assert town.sent() == ["Name?", "How many stars?"]
        assert got == [5, "Ali"]
        assert town.left_over() == {}


async def test_an_interrupt_leaves_asides_alone() -> None:
    """It ends the live one."""
    got: list[object] = []
    bot = listing_bot(got)

    @bot.aside(command("wait"))
    async def wait(chat: Chat) -> None:
        got.append((await chat.receive(command("done"))).name)

    async with open_town(bot) as town:
        await town.says("/wait")
        await town.says("go")
        await town.says("/cancel")
        await town.says("/done")
        assert got == ["cancelled True", "done"]
        assert town.left_over() == {}


async def test_an_aside_cannot_start_while_too_many_run_and_blocks_nobody() -> None:
    """It starts when one ends; everything else goes on meanwhile."""
    bot = Router()
    got: list[object] = []

    @bot.aside(command("remind"))
    async def remind(chat: Chat) -> None:
        got.append(f"begun {chat.event.rest}")
        await chat.receive(command(f"end{chat.event.rest}"))
        got.append(f"ended {chat.event.rest}")

    @bot.conversation
    async def talk(chat: Chat) -> None:
        while True:
            got.append(await chat.ask("Yes?", by=SARA.id))

    async with open_town(bot) as town:
        for number in range(ASIDES + 3):
            await town.says(f"/remind {number}")
        assert len(got) == ASIDES
        assert town.counts["aside_waits"] == 3
        del got[:]
        await town.says("hello", sender=SARA)
        await town.says("world", sender=SARA)
        assert got == ["world"]
        await town.says("/end3")
        await town.says("/end0")
        assert got[1:] == ["ended 3", f"begun {ASIDES}", "ended 0", f"begun {ASIDES + 1}"]
        assert town.store.rows.keys() == {ASIDES + 3}  # the last reminder waits for its turn


async def test_what_an_aside_gave_back_is_routed_again(autojump_clock: MockClock) -> None:
    """Its block ended in the moment in which it was given the event."""
    got: list[object] = []
    bot = Router()

    @bot.aside(command("aside"))
    async def aside(chat: Chat) -> None:
        with chat.move_on_after(10):
            got.append(f"aside got {await chat.ask('For the aside?')}")

    @bot.conversation(text("x"))
    async def talk(chat: Chat) -> None:
        got.append("conversation")

    outbox = FakeOutbox()
    outbox.hold(lambda op: op.content == "For the aside?")
    async with open_town(bot, outbox=outbox) as town:
        await town.says("/aside")
        await town.says("x")
        assert got == []
        await trio.sleep(11)
        assert got == ["conversation"]
        assert town.store.rows == {}
        assert town.left_over() == {}


# --- leave and join


async def test_leaving_a_private_chat_ends_everything_then_tells_the_aside() -> None:
    """What was queued is dropped; nothing is edited or apologized for."""
    got: list[object] = []
    bot = Router()

    @bot.aside(leave())
    async def goodbye(chat: Chat) -> None:
        got.append("left")

    @bot.aside(command("aside"))
    async def aside(chat: Chat) -> None:
        await chat.choose("Which?", {1: "One"})

    @bot.conversation
    async def order(chat: Chat) -> None:
        try:
            await chat.send("busy")
        finally:
            got.append("ended")

    outbox = FakeOutbox()
    outbox.hold(lambda op: op.content == "busy")
    async with open_town(bot, outbox=outbox) as town:
        await town.says("hi")
        await town.says("/aside")
        await town.says("more")
        await town.leaves()
        assert sorted(map(str, got)) == ["ended", "left"]
        assert outbox.dropped == [CHAT]
        assert town.edits() == []
        assert town.counts["left"] == 1
        assert town.store.rows == {}
        assert town.left_over() == {}


async def test_whoever_comes_back_at_once_is_welcome() -> None:
    """A join in the same moment as the leave starts afresh."""
    bot = Router()

    @bot.conversation
    async def order(chat: Chat) -> None:
        await chat.ask("Name?")

    async with open_town(bot) as town:
        await town.says("hi")
        await town.leaves(wait=False)
        await town.joins()
        assert town.sent() == ["Name?", "Name?"]


async def test_a_member_who_leaves_a_group_ends_nothing() -> None:
    """The conversation is the group's."""
    got: list[object] = []
    bot = Router()

    @bot.aside(leave())
    async def goodbye(chat: Chat) -> None:
        got.append("left")

    @bot.conversation
    async def quiz(chat: Chat) -> None:
        got.append(await chat.ask("Capital?"))

    async with open_town(bot) as town:
        await town.says("hi", sender=ALI)
        await town.joins(sender=SARA)
        await town.leaves(sender=ALI)
        await town.says("Tehran", sender=SARA)
        assert got == ["left", "Tehran"]
        assert town.outbox.dropped == []


async def test_a_join_while_something_is_live_is_nobodys_message() -> None:
    """No hint is due to it."""
    bot = Router()

    @bot.conversation(join())
    async def welcome(chat: Chat) -> None:
        await chat.ask("Name?")

    async with open_town(bot) as town:
        await town.joins()
        await town.joins()
        assert town.sent() == ["Name?"]
        assert town.counts["unasked"] == 1


async def test_a_leave_starts_no_conversation() -> None:
    """Nor does a stale button, a callback, or an event of an unknown type."""
    bot = Router()

    @bot.conversation
    async def order(chat: Chat) -> None:
        await chat.send("hi", buttons=Buttons({1: "Lasting"}))

    async with open_town(bot) as town:
        await town.leaves()
        await town.pays(ref_id="1234567890123456")
        assert town.operations() == []
        await town.says("hi")
        await town.presses("Lasting")
        assert town.sent() == ["hi"]
        assert town.outbox.presses == [("refused", "press1", TEXTS.expired)]
        assert town.left_over() == {}


# --- hints and groups


async def test_in_a_group_nobody_is_told_off() -> None:
    """Chatter is dropped without a word, unless the author says otherwise."""
    bot = Router()

    @bot.conversation
    async def quiz(chat: Chat) -> None:
        await chat.choose("Which?", {1: "One"})
        await chat.choose("Which now?", {1: "One"}, otherwise="Press, please.")

    async with open_town(bot) as town:
        await town.says("hi", sender=ALI)
        await town.says("hm", sender=ALI)  # what looks like a private chat yet
        assert town.sent() == ["Which?", TEXTS.want_choice]
        await town.says("hm", sender=SARA)
        await town.says("hm", sender=ALI)
        assert town.sent()[2:] == []
        await town.presses("One")
        await town.says("hm", sender=SARA)
        assert town.sent()[2:] == ["Which now?", "Press, please."]
        await town.presses("One")
        await town.says("again", sender=SARA)
        await town.says("hm", sender=SARA)
        assert town.sent()[4:] == ["Which?"]


@pytest.mark.parametrize("otherwise", [Otherwise.DROP, ""])
async def test_a_question_may_drop_the_rest(otherwise: str | Otherwise) -> None:
    """The empty text says nothing."""
    bot = Router()

    @bot.conversation
    async def ask(chat: Chat) -> None:
        await chat.choose("Which?", {1: "One"}, otherwise=otherwise)

    async with open_town(bot) as town:
        await town.says("hi")
        await town.says("one")
        assert town.sent() == ["Which?"]
        assert town.counts["unasked"] == 1


# --- buttons


async def test_a_double_click_answers_once_and_says_nothing() -> None:
    """Whether the second comes at once, later, or after the end; another button hears that it is over."""
    bot = Router()
    got: list[object] = []

    @bot.conversation
    async def order(chat: Chat) -> None:
        got.append(await chat.choose("One?", {"a": "A", "b": "B"}))
        got.append(await chat.choose("Two?", {"a": "A2", "b": "B2"}))

    async with open_town(bot) as town:
        await town.says("hi")
        await town.presses("A", times=2)
        await town.presses("A")
        await town.presses("B")
        assert got == ["a"]
        await town.presses("B2", times=2)
        await town.presses("A2")
        assert got == ["a", "b"]
        refused = [said for what, _, said in town.outbox.presses if what == "refused"]
        over = "This has expired."  # another button is no double click
        assert refused == ["", "", over, "", over]
        assert town.left_over() == {}


async def test_an_old_button_answers_no_new_question() -> None:
    """Even with the same key; it is told that it is over, unless its question was answered."""
    bot = Router()
    got: list[object] = []

    @bot.interrupt(command("again"))
    async def order(chat: Chat) -> None:
        got.append(await chat.choose("Sure?", {True: "Yes"}))

    async with open_town(bot) as town:
        await town.says("/again")
        old = town.messages()[-1][0]
        await town.says("/again")
        await town.presses("Yes", on=old)
        assert town.outbox.presses == [("refused", "press1", TEXTS.expired)]
        assert got == []
        await town.presses("Yes")
        assert got == [True]


async def test_somebody_elses_press_is_refused_without_a_word() -> None:
    """The button hasn't expired; it wasn't theirs."""
    bot = Router()
    got: list[object] = []

    @bot.conversation
    async def order(chat: Chat) -> None:
        got.append(await chat.choose("Which?", {1: "One"}, by=ALI.id))

    async with open_town(bot) as town:
        await town.says("hi")
        await town.presses("One", sender=SARA)
        await town.presses("One", sender=None)
        assert town.outbox.presses == [("refused", "press1", ""), ("refused", "press2", "")]
        assert got == []
        await town.presses("One", sender=ALI)
        assert got == [1]


async def test_a_press_while_its_question_is_being_sent_is_its_answer() -> None:
    """The user was faster than the platform's answer."""
    bot = Router()
    got: list[object] = []

    @bot.conversation
    async def order(chat: Chat) -> None:
        got.append(await chat.choose("Which?", {1: "One"}))

    outbox = FakeOutbox()
    held = outbox.hold()
    async with open_town(bot, outbox=outbox) as town:
        await town.says("hi")
        outbox.message_ids.append((1, outbox.left[-1]))
        await town.presses("One")
        assert got == []
        held.release()
        await town.rest()
        assert got == [1]
        assert len(town.edits()) == 1


async def test_lasting_buttons_start_routes_long_after() -> None:
    """With what was put in, and their message."""
    bot = Router()
    got: list[object] = []

    @bot.aside(pressed())
    async def take(chat: Chat) -> None:
        got.append((chat.event.value, chat.event.on.id))
        await chat.answer("Taken.")

    @bot.conversation
    async def order(chat: Chat) -> None:
        await chat.send("An order", buttons=Buttons({"take": "Take"}))

    async with open_town(bot) as town:
        await town.says("hi")
        assert town.left_over() == {}
        id = town.messages()[-1][0]
        taken = await town.presses("Take")
        assert got == [("b.stake", id)]
        assert town.outbox.presses == [("taken", taken, ""), ("answered", taken, "Taken.")]


# --- the mailbox


async def test_what_is_typed_ahead_answers_later_questions_in_order() -> None:
    """One answer each."""
    bot = Router()
    got: list[object] = []

    @bot.conversation
    async def order(chat: Chat) -> None:
        await chat.send("busy")
        for question in ("Name?", "Age?", "City?"):
            got.append(await chat.ask(question))

    outbox = FakeOutbox()
    held = outbox.hold(lambda op: op.content == "busy")
    async with open_town(bot, outbox=outbox) as town:
        await town.says("hi")
        for words in ("Ali", "30", "Tehran", "extra"):
            await town.says(words)
        held.release()
        await town.rest()
        # The extra one was left at the end, and started it again.
        assert town.sent() == ["busy", "Name?", "Age?", "City?", "busy", "Name?"]
    assert got == ["Ali", "30", "Tehran"]


async def test_what_does_not_fit_the_parked_question_is_dealt_with_then() -> None:
    """Not before: it may fit the next."""
    bot = Router()
    got: list[object] = []

    @bot.conversation
    async def order(chat: Chat) -> None:
        await chat.send("busy")
        got.append(await chat.ask("Age?", int))
        got.append((await chat.receive(join())).sender)

    outbox = FakeOutbox()
    held = outbox.hold(lambda op: op.content == "busy")
    async with open_town(bot, outbox=outbox) as town:
        await town.says("hi")
        await town.says("30")
        await town.joins(sender=ALI)
        await town.says("late")
        held.release()
        await town.rest()
        assert got == [30, ALI]
        assert town.counts.get("unasked") is None


async def test_a_full_mailbox_leaves_the_rest_in_the_inbox_in_order() -> None:
    """And what jumps, jumps."""
    got: list[object] = []
    bot = listing_bot(got)
    outbox = FakeOutbox()
    held = outbox.hold(lambda op: op.content == "Listening.")
    many = [str(number) for number in range(MAILBOX * 3)]
    async with open_town(bot, outbox=outbox) as town:
        await town.rest()
        await town.says("go")
        for words in many[:20]:
            await town.says(words)
        await town.says("/help")
        assert got == ["help"]
        for words in many[20:]:
            await town.says(words)
        assert len(town.store.rows) == 1 + len(many)  # "/help" is over, and "go" has begun with its row
        held.release()
        await town.rest()
        assert got == ["help", *many]
        assert town.counts.get("unasked") is None
        await town.says("bye")
        assert town.left_over() == {}
        assert town.store.rows == {}


async def test_an_interrupt_overtakes_what_is_in_the_inbox_and_drops_it() -> None:
    """In the inbox as in the mailbox; what comes after it is its own."""
    got: list[object] = []
    bot = Router()

    @bot.interrupt(command("cancel"))
    async def cancel(chat: Chat) -> None:
        got.append(await chat.ask("Why?"))

    @bot.conversation
    async def busy(chat: Chat) -> None:
        await chat.send("busy")

    outbox = FakeOutbox()
    outbox.hold(lambda op: op.content == "busy")
    async with open_town(bot, outbox=outbox) as town:
        await town.says("hi")
        for number in range(MAILBOX * 2):
            await town.says(str(number))
        await town.says("/cancel", wait=False)
        await town.says("because")
        assert got == ["because"]
        assert town.counts["interrupted"] == MAILBOX * 2
        assert town.store.rows == {}
        assert town.left_over() == {}


async def test_a_leave_overtakes_what_is_in_the_inbox_and_drops_it() -> None:
    """The chat is quiet at once."""
    got: list[object] = []
    bot = listing_bot(got)
    outbox = FakeOutbox()
    outbox.hold()
    async with open_town(bot, outbox=outbox) as town:
        await town.says("go")
        for number in range(MAILBOX * 2):
            await town.says(str(number))
        await town.leaves()
        assert got == []
        assert town.store.rows == {}
        assert town.left_over() == {}


async def test_an_ignored_event_never_jumps() -> None:
    """The table's first row is the first."""
    got: list[object] = []
    bot = listing_bot(got)
    bot.ignore(when(lambda event: isinstance(event, Message) and event.sender == SARA))
    outbox = FakeOutbox()
    outbox.hold()
    async with open_town(bot, outbox=outbox) as town:
        await town.says("go")
        for number in range(MAILBOX * 2):
            await town.says(str(number))
        await town.says("/help", sender=SARA)
        await town.says("/cancel", sender=SARA)
        assert got == []
        assert town.counts["ignored"] == 2


async def test_keeping_never_hides_what_is_waited_for() -> None:
    """However much has been kept before it."""
    bot = Router()
    got: list[object] = []

    @bot.conversation(text("go"))
    async def listen(chat: Chat) -> None:
        await chat.receive(command("now"), otherwise=Otherwise.KEEP)
        got.extend(event.content for event in chat.drain())

    async with open_town(bot) as town:
        await town.says("go")
        many = [str(number) for number in range(MAILBOX * 4)]
        for words in many:
            await town.says(words)
        await town.says("/now")
        assert got == many
        assert town.left_over() == {}
        assert town.store.rows == {}


async def test_an_asides_question_is_heard_while_the_live_one_is_busy(autojump_clock: MockClock) -> None:
    """However much waits for the live one."""
    bot = Router()
    got: list[object] = []

    @bot.aside(command("aside"))
    async def aside(chat: Chat) -> None:
        got.append(await chat.choose("Which?", {1: "One"}))

    @bot.conversation
    async def sleep(chat: Chat) -> None:
        await chat.sleep(1000)
        while True:
            got.append((await chat.receive(text())).content)

    async with open_town(bot) as town:
        await town.says("hi")
        for number in range(MAILBOX * 2):
            await town.says(str(number))
        await town.says("/aside")
        for number in range(MAILBOX * 2, MAILBOX * 3):
            await town.says(str(number))
        await town.presses("One")
        assert got == [1]
        await trio.sleep(1001)
        assert got[1:] == [str(number) for number in range(MAILBOX * 3)]


# --- after the end


async def test_what_is_left_after_a_normal_end_is_routed_again() -> None:
    """From the top, in order: it may start the next one, and answer it."""
    bot = Router()
    got: list[object] = []

    @bot.conversation(command("name"))
    async def name(chat: Chat) -> None:
        await chat.send("busy")

    @bot.conversation(command("age"))
    async def age(chat: Chat) -> None:
        got.append(await chat.ask("Age?", int))

    outbox = FakeOutbox()
    held = outbox.hold()
    async with open_town(bot, outbox=outbox) as town:
        await town.says("/name")
        for words in ("nothing", "/age", "30", "nothing either"):
            await town.says(words)
        held.release()
        await town.rest()
        assert got == [30]
        assert town.counts["nobody"] == 2
        assert town.left_over() == {}
        assert town.store.rows == {}


async def test_chats_do_not_know_of_one_another() -> None:
    """Each has its own conversation."""
    bot = Router()
    got: list[tuple[int, str]] = []

    @bot.conversation(in_chat(1, 2, 3) & message())
    async def ask(chat: Chat) -> None:
        got.append((chat.id, await chat.ask("Name?")))

    async with open_town(bot) as town:
        for chat in (1, 2, 3, 4):
            await town.says("hi", chat)
        for chat in (3, 1, 2, 4):
            await town.says(f"I'm {chat}", chat)
        assert got == [(3, "I'm 3"), (1, "I'm 1"), (2, "I'm 2")]
        assert town.counts["nobody"] == 2
        assert town.left_over() == {}
