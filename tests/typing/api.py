"""The author's surface as type checkers see it. Never run: mypy and pyright read it, and complain."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, date, datetime, time
from enum import Enum
from typing import Literal, assert_type

import attrs

from triobot import (
    Bot,
    Buttons,
    Chat,
    ChatId,
    ChatRef,
    Command,
    Contact,
    Content,
    Data,
    File,
    Image,
    Join,
    Key,
    Live,
    Location,
    Match,
    Message,
    Press,
    Room,
    RoomRef,
    Router,
    Scope,
    Sender,
    SenderId,
    Sent,
    Texts,
    formerly,
    provide,
    recorded,
)
from triobot.client import PlatformClient
from triobot.filters import by, command, join, kept, matches, message, pressed, signal, text
from triobot.widgets import JALALI, Menu, calendar, confirm, date_time, menu, multi_select, pager, rating
from triobot.wire.operations import SendMessage, Upload, VerifyPayment
from triobot.wire.results import PaymentState

bot = Bot()


class Size(Enum):
    SMALL = 1
    LARGE = 2


@attrs.frozen
class Details:
    floor: int


@attrs.frozen
class Order:
    size: Size


@bot.conversation
async def questions(chat: Chat) -> None:
    assert_type(await chat.ask("Your name?"), str)
    assert_type(await chat.ask("How many?", int), int)
    assert_type(await chat.ask("Where to?", Location), Location)
    assert_type(await chat.ask("Photo?", Image), Image)
    assert_type(await chat.ask("Phone?", Contact), Contact)
    assert_type(await chat.choose("Size?", {Size.SMALL: "Small", Size.LARGE: "Large"}), Size)
    assert_type(await chat.choose("Sure?", {True: "Yes", False: "No"}), bool)
    assert_type(await chat.choose("Page?", Buttons({1: "1"}) + Buttons({Size.SMALL: "Small"})), int | Size)
    page = await chat.choose("Page?", {1: "1"}, also=text(), into=await chat.send("One moment."))
    assert_type(page, int | Message[str])
    assert_type(await chat.choose("Page?", {1: "1"}, into=Sent(17, 1)), int)
    assert_type(await chat.fill(Details), Details)
    assert_type(await chat.receive(message(File)), Message[File])
    assert_type(await chat.receive(command("stop") | join()), Command | Join)
    assert_type(await chat.receive(text() & ~text("no")), Message[str])
    assert_type(await chat.receive(signal(Order) | signal(Details)), Order | Details)
    assert_type(await chat.send("Hello."), Sent)


@bot.conversation(command("long"))
async def blocks(chat: Chat) -> None:
    with chat.move_on_when(command("stop") | join()) as stop:
        await chat.sleep_until(datetime.now(UTC))
    assert_type(stop, Scope[Command | Join])
    assert_type(stop.event, Command | Join | None)
    with chat.move_on_at(datetime.now(UTC)) as limit:
        name = await chat.ask("Your name?")
    assert_type(limit.event, None)
    assert_type(limit.cancelled_caught, bool)
    with chat.fail_after(10):
        name = await chat.ask("Your name?")
    assert_type(name, str)
    async with chat.live("0 %") as progress:
        assert_type(progress, Live)
        assert_type(progress.sent, Sent)
        progress.show("100 %")
    any_scope: Scope = stop
    any_scope.cancel()


@bot.conversation(command("pay"))
async def money(chat: Chat[Command]) -> None:
    assert_type(chat.event.rest, str)
    assert_type(chat.sender, Sender | None)
    await chat.charge(250_000, "Pizza", item=Order(Size.LARGE))
    either = await chat.charge(250_000, "Pizza", item=Order(Size.LARGE), options={"later": "Not now"})
    assert_type(either, str | None)
    await chat.invoice(250_000, "Pizza", item=1)


@bot.resource
@asynccontextmanager
async def price() -> AsyncGenerator[float]:
    yield 1.5


@bot.conversation(command("price"))
async def priced(chat: Chat) -> None:
    assert_type(chat.use(price), float)
    assert_type(bot.use(price), float)
    async with bot.running(provide(price, 2.5)):
        pass


@recorded(name="shop.Parcel", formerly=("pizza.Parcel",), gone=("colour",))
@attrs.frozen
class Parcel:
    street: str = attrs.field(metadata=formerly("road"))


assert_type(Parcel("Valiasr").street, str)
PARCEL = Key("parcel", Parcel)
recorded(gone=("colour",))(7)  # type: ignore[type-var]  # pyright: ignore[reportArgumentType]


DETAILS = Key("details", Details, upgrade=lambda old: Details(0))
SEEN = Key("seen", int | None, default=None)
STAGE = Key("stage", Literal["new", "old"])
VISITS = Key("visits", tuple[int, ...], default=())
BY_SIZE: Key[dict[Size, list[int | str]]] = Key("by_size", dict[Size, list[int | str]])
assert_type(SEEN, Key[int | None])
assert_type(Key("parcels", list[Parcel | None]), Key[list[Parcel | None]])
WRONG: Key[int | None] = Key("wrong", int | None, default="x")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


@bot.aside(join())
async def remembered(chat: Chat[Join]) -> None:
    assert_type(chat.data[DETAILS], Details)
    assert_type(chat.data[SEEN], int | None)
    assert_type(chat.data[VISITS], tuple[int, ...])
    assert_type(chat.data[STAGE], Literal["new", "old"])
    assert_type(chat.data[BY_SIZE], dict[Size, list[int | str]])
    chat.data[SEEN] = 1
    chat.data[SEEN] = "1"  # type: ignore[misc]  # pyright: ignore[reportArgumentType]
    chat.data[DETAILS] = Details(1)
    chat.data[DETAILS] = 1  # type: ignore[misc]  # pyright: ignore[reportArgumentType]
    del chat.data[DETAILS]


@bot.aside(signal(Order) & ~text("no"))
async def ordered(chat: Chat[Order]) -> None:
    assert_type(chat.event.size, Size)


async def cook(order: Order, minutes: int) -> float:
    return minutes * 1.0


@bot.interrupt(message(File) | message(Image))
async def media(chat: Chat[Message[File | Image]]) -> None:
    assert_type(chat.event.content, File | Image)
    assert_type(await chat.step(cook, Order(Size.SMALL), 20), float)
    await chat.step(cook, Order(Size.SMALL))  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


@bot.aside(pressed())
async def any_press(chat: Chat[Press[str]]) -> None:
    assert_type(chat.event.value, str)


@bot.interrupt(matches(r"(?P<size>\w)", Order).where(lambda match: match.value.size is Size.SMALL))
async def typed(chat: Chat[Match[Order]]) -> None:
    assert_type(chat.event.value.size, Size)
    assert_type(await chat.receive(pressed(Order).where(lambda press: bool(press.value))), Press[Order])
    assert_type(await chat.receive(signal(Order).where(lambda order: bool(order.size))), Order)
    text().where(lambda message: message.value)  # type: ignore[attr-defined]  # pyright: ignore


@bot.aside(pressed(Order))
async def taken(chat: Chat[Press[Order]]) -> None:
    assert_type(chat.event.value.size, Size)
    buttons = Buttons({Size.SMALL: "Small"}) + Buttons({0: "None"})
    sent = await chat.send("Size?", buttons=buttons)
    assert_type(await chat.receive(buttons.pressed(sent)), Press[Size | int])


# A plain Chat fits every filter; a chat of another event does not.
@bot.interrupt(command("help"))
async def plain(chat: Chat) -> None: ...


@bot.interrupt(command("wrong"))  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
async def wrong(chat: Chat[Join]) -> None: ...


COUNT = Key("count", int, default=0)
CART = Key("cart", dict[int, int], default={})
SEATS = Key("seats", frozenset[int], default=frozenset())


# What a line needs of a value may be less than its key has; what is written is all of it.
async def reads(chat: Chat) -> None:
    chat.data[CART] = {**chat.data[CART], 1: 2}
    sorted(await chat.shared.get(SEATS))
    dict(await chat.shared.get(CART))
    len(await chat.shared.get(SEATS))
    await chat.send(f"{await chat.shared.get(COUNT)}")
    await chat.send(str(await chat.shared.get(COUNT)))
    print(max(chat.data[COUNT], 1), sum(chat.data[CART].values()))
    for seat in sorted(chat.data[SEATS]):
        assert_type(seat, int)
    assert_type(await chat.to(7).get(SEATS), frozenset[int])
    print(dict(chat.data[CART]), [*chat.data[SEATS]], COUNT in chat.data)
    less: Iterable[object] = chat.data[SEATS]
    more: set[int] = chat.data[SEATS]  # type: ignore[index]  # pyright: ignore[reportAssignmentType]
    print(less, more)


async def wrong_writes(chat: Chat) -> None:
    chat.data[COUNT] = "x"  # type: ignore[misc]  # pyright: ignore[reportArgumentType]
    chat.data[CART] = {"x": 1}  # type: ignore[misc]  # pyright: ignore[reportArgumentType]
    await chat.shared.set(COUNT, "x")  # type: ignore[misc]  # pyright: ignore[reportArgumentType]
    await chat.shared.set(SEATS, {1})  # type: ignore[misc]  # pyright: ignore[reportArgumentType]
    await chat.shared.update(COUNT, added, "x")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


def added(count: int, more: int) -> int:
    return count + more


@bot.room(signal(Order))
async def kitchen(room: Room[Order]) -> None:
    assert_type(room.event, Order)
    assert_type(room.to(kitchen), RoomRef)
    assert_type(room.to(kitchen, 7), RoomRef)
    await room.to(kitchen, "today").send("No.")  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue]
    await room.continue_as(kitchen)


@bot.room(signal(Order), name="any", formerly=["every"], version=2)
async def any_room(room: Room) -> None:
    await room.to(17).start(kitchen)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


@bot.room(signal(Order))  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
async def wrong_room(room: Room[Join]) -> None: ...


@bot.room(signal(Order))  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
async def no_room(chat: Chat[Order]) -> None: ...


async def serves_both(room: Room) -> None:
    """What needs no screen takes a room; a chat is one."""
    assert_type(room.to(17), ChatRef)
    assert_type(await room.person(SenderId(17)).get(COUNT), int)
    assert_type(await room.shared.update(COUNT, added, 1), int)
    await room.send("No.")  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue]


async def outside(content: Content) -> None:
    door = bot.to(17)
    assert_type(door, ChatRef)
    assert_type(await door.send(content), Sent)
    assert_type(await bot.upload(File.open("a.pdf")), File)
    assert_type(await door.get(DETAILS), Details)
    await door.set(DETAILS, Details(3))
    assert_type(await door.update(COUNT, added, 3), int)
    assert_type(await bot.shared.update(COUNT, lambda count: count + 1), int)
    assert_type(bot.person(SenderId(3)), RoomRef)
    await bot.shared.send("No.")  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue]
    await door.update(COUNT, added, "3")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    await door.update(COUNT, str.upper)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    broadcast = bot.broadcast("news")
    assert_type(await broadcast.start("News.", DETAILS, buttons=Buttons({1: "One"})), bool)
    await broadcast.start(Image.open("news.jpg"), [1, 2])
    assert_type((await broadcast.status()).sent, int)
    assert_type([left async for left in broadcast.gone()], list[ChatId])
    async for chat_id, details in bot.each(DETAILS):
        assert_type(chat_id, ChatId)
        assert_type(details, Details)


async def client_alone(platform: PlatformClient) -> None:
    """The operation says what its result is."""
    assert_type(await platform.perform(SendMessage(17, "hello")), Sent)
    assert_type(await platform.perform(VerifyPayment(17, "1000000000000000")), PaymentState)
    await platform.perform(Upload.of(File.open("a.pdf")))


# --- other chats, and what code starts


@bot.aside
async def remind(chat: Chat, order: int, days: float = 3) -> None:
    assert_type(chat.event, object)


@bot.aside(name="reminder", formerly=("pizza.remind",))
async def named(chat: Chat, order: int) -> None:
    assert_type(chat.event, object)
    await chat.start(named, 7)
    await chat.start(named, "7")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


@bot.interrupt(command("stop"), name="stop", formerly=["pizza.stop"])
async def named_interrupt(chat: Chat[Command]) -> None: ...


@bot.conversation(command("loop"), per="sender", version=2)
async def looping(chat: Chat[Command], rounds: int = 0) -> None:
    assert_type(chat.to(17), ChatRef)
    assert_type(await chat.to(17).send("Hello."), Sent)
    assert_type(await chat.to("17").get(DETAILS), Details)
    assert_type(await chat.start(remind, 7, key="order-7"), bool)
    assert_type(await chat.start(remind, 7, 1.5), bool)
    assert_type(await chat.to(17).start(plain), bool)
    assert_type(await chat.stop(remind, key="order-7"), bool)
    assert_type(await bot.to(17).start(remind, 7), bool)
    await chat.start(remind, "7")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    await chat.start(remind)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    await bot.to(17).start(remind, "7")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    # A route that insists on an event can't be started without one.
    await chat.start(taken)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    await chat.to(17).start(media)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    # It can go on as one that takes its own.
    if rounds > 5:
        await chat.continue_as(taken)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    if rounds > 4:
        await chat.continue_as(looping, "x")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    if rounds > 3:
        name: str = await chat.continue_as(plain)
        print(name)
    await chat.continue_as(looping, rounds + 1)


bot.conversation(per="everybody")  # type: ignore[call-overload]  # pyright: ignore[reportArgumentType, reportCallIssue]


@bot.conversation(per="sender")
async def members(chat: Chat) -> None:
    await looping(chat)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    await plain(chat)


def in_their_language(data: Data) -> Texts:
    assert_type(data[DETAILS], Details)
    data[DETAILS] = Details(1)  # type: ignore[index]  # pyright: ignore[reportIndexIssue]
    return Texts.persian()


Bot(texts=in_their_language)
Bot(texts=Texts.english())
Bot(texts=lambda data: "Sorry")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
by("sara")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


async def widgets(chat: Chat[Message[str]], into: Sent) -> None:
    """Widgets give what their options are."""
    assert_type(await confirm(chat, "?", into=into), bool)
    assert_type(await rating(chat, "?"), int)
    assert_type(await pager(chat, "?", {Size.SMALL: "Small"}), Size)
    assert_type(await multi_select(chat, "?", {Size.SMALL: "Small"}, chosen=[Size.SMALL]), Sequence[Size])
    assert_type(await menu(chat, Menu("?", {1: "One"}, [Menu("Two", {2: "Two"})])), int)
    today = chat.now().date()
    assert_type(await calendar(chat, "?", first=today, last=today, system=JALALI), date)
    when = await date_time(chat, "?", lambda day: [time(9)], first=today, last=today, tz=UTC)
    assert_type(when, datetime)


ADMIN = Key("admin", bool, default=False)
for_admins = Router(when=kept(ADMIN) & kept(COUNT, lambda count: count > 3))
WORDS = Key("words", list[str], default=[])
for_words = Router(when=kept(WORDS) & kept(WORDS, lambda words: len(words) > 3))
bot.ignore(text() & kept(COUNT, lambda count: count.upper()))  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue]
