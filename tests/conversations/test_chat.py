"""What the author's handle says, asks and takes, one operation at a time."""

from __future__ import annotations

from decimal import Decimal
from enum import Enum

import attrs
import pytest
import trio
from doubles import FakeOutbox, forbidden
from town import ALI, CHAT, SARA, TEXTS, open_town

from triobot.conversations.chat import Chat
from triobot.conversations.questions.buttons import NO_KEYBOARD, Buttons, Keyboard
from triobot.conversations.routes.filters import command, message, pressed, text
from triobot.conversations.routes.router import Router
from triobot.conversations.routes.routing import Otherwise
from triobot.errors import BadRequestError, DeliveryUnknownError, LocalProtocolError
from triobot.seams.outbox import OnUnknown, Urgency
from triobot.wire.content import Audio, Contact, Descriptor, File, Image, Location, Video, Voice
from triobot.wire.events import Join, Message
from triobot.wire.markup import CallbackButton, InlineKeyboard, Key, LinkButton, ReplyKeyboard
from triobot.wire.operations import DeleteMessage, EditMessage, SendMessage

SHARED = [
    kind(Descriptor.from_object({"path": "https://files.example/1"}))
    for kind in (Image, Video, Audio, Voice, File)
] + [Contact("+989120000000", "Sara"), Location("35.7", "51.4")]


# --- say


async def test_send_edit_and_delete_leave_in_the_order_in_which_they_were_awaited() -> None:
    """With the buttons and keys that were asked for."""
    bot = Router()

    @bot.conversation
    async def say(chat: Chat) -> None:
        sent = await chat.send("one", buttons=Buttons({"k": "Label"}).link("Site", "https://a.example"))
        await chat.send("two", keyboard=Keyboard({"/yes": "Yes"}, contact="Phone", location="Place"))
        await chat.edit(sent, "uno", buttons=Buttons({1: "One"}))
        await chat.edit(sent, "eins")
        await chat.delete(sent)
        await chat.send("three", keyboard=NO_KEYBOARD)

    async with open_town(bot) as town:
        await town.says("hi")
        one, two, first_edit, second_edit, deletion, three = town.operations()
        keys = ((Key("/yes", "Yes"),), (Key("$contact", "Phone"),), (Key("$location", "Place"),))
        rows = ((CallbackButton("Label", "b.sk"),), (LinkButton("Site", "https://a.example"),))
        assert one == SendMessage(CHAT, "one", inline_keyboard=InlineKeyboard(rows))
        assert two == SendMessage(CHAT, "two", reply_keyboard=ReplyKeyboard(keys, once=True))
        id = town.messages()[0][0]
        assert first_edit == EditMessage(CHAT, id, "uno", InlineKeyboard(((CallbackButton("One", "b.i1"),),)))
        assert second_edit == EditMessage(CHAT, id, "eins")
        assert deletion == DeleteMessage(CHAT, id)
        assert three == SendMessage(CHAT, "three", reply_keyboard=ReplyKeyboard(()))
        assert town.outbox.urgencies == [Urgency.REPLY] * 6


async def test_what_is_received_can_be_sent_as_it_is() -> None:
    """The echo bot."""
    bot = Router()

    @bot.conversation(message())
    async def echo(chat: Chat[Message]) -> None:
        await chat.send(chat.event.content)

    async with open_town(bot) as town:
        for content in ["hi", *SHARED]:
            await town.says(content)
        assert town.sent() == ["hi", *SHARED]


async def test_a_send_says_what_to_do_when_nobody_knows_whether_it_arrived() -> None:
    """The error comes back to whoever wants it."""
    bot = Router()
    outcomes: list[str] = []

    @bot.conversation
    async def say(chat: Chat) -> None:
        await chat.send("as usual")
        try:
            await chat.send("carefully", on_unknown="raise")
        except DeliveryUnknownError:
            outcomes.append("unknown")

    outbox = FakeOutbox()
    outbox.fail(DeliveryUnknownError("sendMessage", "lost"), lambda op: op.content == "carefully")
    async with open_town(bot, outbox=outbox) as town:
        await town.says("hi")
    assert outbox.on_unknown == [OnUnknown.RESEND, OnUnknown.RAISE]
    assert outcomes == ["unknown"]


async def test_what_breaks_the_interface_is_refused_before_it_leaves() -> None:
    """It is the program's fault, and the program hears of it."""
    bot = Router()
    refused: list[str] = []

    @bot.conversation
    async def say(chat: Chat) -> None:
        for attempt in (
            lambda: chat.send(""),
            lambda: chat.choose("Which?", {}),
            lambda: chat.sleep(float("nan")),
        ):
            try:
                await attempt()
            except LocalProtocolError as error:
                refused.append(error.field)

    async with open_town(bot) as town:
        await town.says("hi")
        assert refused == ["content", "options", "seconds"]
        assert town.operations() == []


async def test_typing_is_shown_while_the_block_runs() -> None:
    """And ends with it."""
    bot = Router()

    @bot.conversation
    async def work(chat: Chat) -> None:
        async with chat.typing():
            await chat.ask("Go on?")

    async with open_town(bot) as town:
        await town.says("hi")
        assert town.outbox.typing_now == {CHAT: 1}
        await town.says("yes")
        assert town.outbox.typing_now == {CHAT: 0}


async def test_who_we_are_talking_to() -> None:
    """The event that started it, its sender, and a repr without content."""
    bot = Router()
    seen: list[object] = []

    @bot.conversation(text("secret"))
    async def look(chat: Chat[Message[str]]) -> None:
        seen.extend([chat.id, chat.event, chat.sender, chat.interrupted])
        assert "secret" not in repr(chat)

    async with open_town(bot) as town:
        await town.says("secret", sender=SARA)
    assert seen == [CHAT, Message(CHAT, "secret", SARA), SARA, None]


# --- ask


@pytest.mark.parametrize(
    ("kind", "wrong", "right", "value"),
    [
        (int, ["many", "1_2", "1.5", "", "--1"], "۱۲", 12),
        (int, [], " -7 ", -7),
        (float, ["nan", "inf", "1e5", "1,5"], "۱۲٫۵", 12.5),
        (float, [], "٣", 3.0),
        (Decimal, ["nan", "1e5", "1,5", "1_2"], "۱٬۲۵۰٫۵۰", Decimal("1250.50")),
    ],
)
async def test_numbers_are_read_in_peoples_digits(
    kind: type[int] | type[float] | type[Decimal], wrong: list[str], right: str, value: float | Decimal
) -> None:
    """What is no number asks again."""
    bot = Router()
    got: list[float | Decimal] = []

    @bot.conversation
    async def ask(chat: Chat) -> None:
        got.append(await chat.ask("How many?", kind))

    async with open_town(bot) as town:
        await town.says("hi")
        for words in wrong:
            await town.says(words or " ")
        assert town.sent() == ["How many?"] + [TEXTS.want_number] * len(wrong)
        await town.says(right)
    assert got == [value]
    assert [type(number) for number in got] == [kind]


async def test_a_parsers_reason_is_told_and_asked_again() -> None:
    """A parser may be any function of text; without words, the usual hint."""
    bot = Router()
    got: list[str] = []

    def day(words: str) -> str:
        if words == "?":
            raise ValueError
        if words not in ("mon", "tue"):
            raise ValueError("mon or tue")
        return words.upper()

    @bot.conversation
    async def ask(chat: Chat) -> None:
        got.append(await chat.ask("Day?", day))

    async with open_town(bot) as town:
        await town.says("hi")
        await town.says("sunday")
        await town.says("?")
        await town.says("tue")
        assert town.sent() == ["Day?", "mon or tue", TEXTS.want_text]
    assert got == ["TUE"]


async def test_a_parser_that_breaks_ends_the_conversation() -> None:
    """A text can't be mistaken in that way: the parser is."""
    bot = Router()

    def broken(words: str) -> str:
        raise AttributeError(words)

    @bot.conversation
    async def ask(chat: Chat) -> None:
        await chat.ask("Day?", broken)

    async with open_town(bot) as town:
        await town.says("hi")
        await town.says("mon")
        assert town.sent() == ["Day?", TEXTS.apology]
        assert town.counts["crashed"] == 1


@pytest.mark.parametrize("content", SHARED, ids=lambda content: type(content).__name__)
async def test_each_class_of_content_can_be_asked_for(content: object) -> None:
    """Anything else gets the hint for that class."""
    bot = Router()
    got: list[object] = []
    kind = type(content)

    @bot.conversation
    async def ask(chat: Chat) -> None:
        got.append(await chat.ask("Which?", kind))

    async with open_town(bot) as town:
        await town.says("hi")
        await town.says("words")
        for other in SHARED:
            if type(other) is not kind:
                await town.says(other)
        assert got == []
        await town.says(content)
        hint = getattr(TEXTS, f"want_{kind.__name__.lower()}")
        assert town.sent() == ["Which?"] + [hint] * len(SHARED)
    assert got == [content]


async def test_a_question_may_come_with_keys() -> None:
    """What arrives is the key, whatever its label."""
    bot = Router()
    got: list[str] = []

    @bot.conversation
    async def ask(chat: Chat) -> None:
        got.append(await chat.ask("Sure?", keyboard=Keyboard({"/yes": "Yes!", "/no": "No."}, columns=2)))

    async with open_town(bot) as town:
        await town.says("hi")
        assert town.newest().reply_keyboard == ReplyKeyboard(
            (((Key("/yes", "Yes!")), Key("/no", "No.")),), once=True
        )
        await town.says("/yes")
    assert got == ["/yes"]


async def test_only_the_person_who_was_asked_answers() -> None:
    """In a group others go on talking, and nobody is told off."""
    bot = Router()
    got: list[str] = []

    @bot.conversation
    async def ask(chat: Chat) -> None:
        got.append(await chat.ask("Name?", by=ALI.id))

    async with open_town(bot) as town:
        await town.says("hi", sender=SARA)
        await town.says("I'm Sara", sender=SARA)
        await town.says("nobody", sender=None)
        await town.says("I'm Ali", sender=ALI)
    assert got == ["I'm Ali"]


# --- choose


class Size(Enum):
    """A key."""

    SMALL = "s"
    LARGE = "l"


@attrs.frozen
class Slot:
    """A key with fields."""

    day: int
    hour: str


@pytest.mark.parametrize(
    ("options", "label", "key"),
    [
        ({"s": "Small", "l": "Large"}, "Large", "l"),
        ({1: "One", 2: "Two"}, "Two", 2),
        ({True: "Yes", False: "No"}, "No", False),
        ({Size.SMALL: "Small", Size.LARGE: "Large"}, "Small", Size.SMALL),
        ({Slot(1, "9:00"): "Mon", Slot(2, "9:00"): "Tue"}, "Tue", Slot(2, "9:00")),
        (Buttons({1: "One"}) + Buttons({"1": "one", True: "yes"}), "yes", True),
        (Buttons({"b": "Back"}).link("Site", "https://a.example"), "Back", "b"),
    ],
)
async def test_keys_of_any_type_come_back_as_they_went(options: object, label: str, key: object) -> None:
    """The key itself, not an equal one of another type; and the buttons go."""
    bot = Router()
    got: list[object] = []

    @bot.conversation
    async def choose(chat: Chat) -> None:
        got.append(await chat.choose("Which?", options))

    async with open_town(bot) as town:
        await town.says("hi")
        id = town.messages()[-1][0]
        press = await town.presses(label)
        assert got == [key]
        assert type(got[0]) is type(key)
        assert town.edits() == [EditMessage(CHAT, id, "Which?")]
        assert town.outbox.presses == [("taken", press, "")]


async def test_two_enums_may_have_members_of_one_name() -> None:
    """A key carries its class."""

    class Colour(Enum):
        SMALL = "tiny red"

    bot = Router()
    got: list[object] = []

    @bot.conversation
    async def choose(chat: Chat) -> None:
        got.append(await chat.choose("?", Buttons({Size.SMALL: "Size"}) + Buttons({Colour.SMALL: "Colour"})))

    async with open_town(bot) as town:
        for label in ("Size", "Colour"):
            await town.says("hi")
            await town.presses(label)
    assert got == [Size.SMALL, Colour.SMALL]


async def test_what_is_typed_beside_the_buttons_gets_a_hint() -> None:
    """In a private chat."""
    bot = Router()

    @bot.conversation
    async def choose(chat: Chat) -> None:
        await chat.choose("Which?", {1: "One"})

    async with open_town(bot) as town:
        await town.says("hi")
        await town.says("one")
        assert town.sent() == ["Which?", TEXTS.want_choice]
        await town.presses("One")
        assert town.sent() == ["Which?", TEXTS.want_choice]
        assert town.left_over() == {}


async def test_a_press_is_answered_by_the_author_or_at_the_next_operation() -> None:
    """Once, either way."""
    bot = Router()
    answers: list[bool] = []

    @bot.conversation
    async def choose(chat: Chat) -> None:
        answers.append(await chat.answer("nothing to answer"))
        await chat.choose("One?", {1: "One"})
        answers.append(await chat.answer("Good.", alert=True))
        answers.append(await chat.answer("Too many."))
        await chat.choose("Two?", {1: "Two"})
        await chat.send("Thanks.")
        answers.append(await chat.answer("Too late."))

    async with open_town(bot) as town:
        await town.says("hi")
        first = await town.presses("One")
        second = await town.presses("Two")
        assert town.outbox.presses == [
            ("taken", first, ""),
            ("alerted", first, "Good."),
            ("taken", second, ""),
            ("due", second, ""),
        ]
    assert answers == [False, True, False, False]


async def test_an_answer_after_a_second_is_too_late(autojump_clock: trio.testing.MockClock) -> None:
    """The runtime has answered by itself."""
    bot = Router()
    answers: list[bool] = []

    @bot.conversation(pressed())
    async def take(chat: Chat) -> None:
        await trio.sleep(2)
        answers.append(await chat.answer("Good."))

    @bot.conversation
    async def offer(chat: Chat) -> None:
        await chat.send("Take it?", buttons=Buttons({1: "Take"}))

    async with open_town(bot) as town:
        await town.says("hi")
        await town.presses("Take")
        await trio.sleep(3)
    assert answers == [False]


# --- receive and drain


async def test_receive_takes_what_fits_and_drops_the_rest() -> None:
    """Without a word, and counted."""
    bot = Router()
    got: list[object] = []

    @bot.conversation(text("go"))
    async def listen(chat: Chat) -> None:
        got.append(await chat.receive(command("stop")))

    async with open_town(bot) as town:
        await town.says("go")
        await town.says("hm")
        await town.joins()
        await town.says("/stop it")
        assert town.sent() == []
        assert town.counts["unasked"] == 2
    assert [(stop.name, stop.rest) for stop in got] == [("stop", "it")]


async def test_receive_may_say_something_or_keep_the_rest() -> None:
    """What is kept answers a later question, in its order."""
    bot = Router()
    got: list[object] = []

    @bot.conversation(text("go"))
    async def listen(chat: Chat) -> None:
        got.append((await chat.receive(command("one"), otherwise="One first.")).name)
        got.append((await chat.receive(command("two"), otherwise=Otherwise.KEEP)).name)
        got.append(await chat.ask("Then?"))
        got.append([event.content for event in chat.drain()])

    async with open_town(bot) as town:
        await town.says("go")
        await town.says("hm")
        await town.says("/one")
        for words in ("a", "b", "c", "/two"):
            await town.says(words)
        assert town.sent() == ["One first.", "Then?"]
        assert town.store.rows == {}
    assert got == ["one", "two", "a", ["b", "c"]]


async def test_drain_takes_what_was_typed_before_it_was_asked_for() -> None:
    """It never waits, and an aside has no mailbox."""
    bot = Router()
    got: list[object] = []

    @bot.aside(command("aside"))
    async def aside(chat: Chat) -> None:
        got.append(chat.drain())

    @bot.conversation(text("go"))
    async def listen(chat: Chat) -> None:
        await chat.send("wait")
        got.append([getattr(event, "content", event) for event in chat.drain()])
        got.append(chat.drain())

    outbox = FakeOutbox()
    held = outbox.hold()
    async with open_town(bot, outbox=outbox) as town:
        await town.says("go")
        await town.says("early")
        await town.joins()
        await town.says("/aside")
        held.release()
        await town.rest()
        assert town.store.rows == {}
    assert got == [[], ["early", Join(CHAT, ALI)], []]


# --- steps


async def test_a_step_returns_what_its_function_returns() -> None:
    """With its arguments, once."""
    bot = Router()
    calls: list[tuple[int, str]] = []

    async def book(number: int, name: str) -> str:
        calls.append((number, name))
        await trio.lowlevel.checkpoint()
        return name * number

    @bot.conversation
    async def work(chat: Chat) -> None:
        await chat.send(await chat.step(book, 2, "ab"))

    async with open_town(bot) as town:
        await town.says("hi")
        assert town.sent() == ["abab"]
    assert calls == [(2, "ab")]


async def test_a_refused_message_is_the_authors_to_handle() -> None:
    """Errors of the platform are ordinary exceptions."""
    bot = Router()
    seen: list[type[Exception]] = []

    @bot.conversation
    async def say(chat: Chat) -> None:
        for words in ("a", "b"):
            try:
                await chat.send(words)
            except (BadRequestError, Exception) as error:
                seen.append(type(error))

    outbox = FakeOutbox()
    outbox.fail(BadRequestError("sendMessage", 400), times=1)
    outbox.fail(forbidden(), times=1)
    async with open_town(bot, outbox=outbox) as town:
        await town.says("hi")
        assert town.counts.get("crashed") is None
    assert [kind.__name__ for kind in seen] == ["ForbiddenError", "BadRequestError"]


def test_buttons_are_counted_and_none_are_false() -> None:
    none: dict[str, str] = {}
    assert not Buttons(none)
    assert not Buttons(none) + Buttons(none)
    assert len(Buttons({"a": "A", "b": "B", "c": "C"}, columns=2).link("Site", "https://a.example")) == 4
