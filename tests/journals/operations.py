"""The bot whose journals are recorded, and what people do in each of its scenes.

**What is recorded is never edited**: journals belong to the code that wrote them, and a test compares both.
Whatever is new, an operation, an argument, another way through an old one, gets a function of its own, and
``python -m tests.journals.record`` adds its journals to the corpus of the version to come.

A scene is a function that ``/its_name`` starts, and lists of acts, ten seconds apart: a text is said, other
content is sent, and the classes below are the rest.
"""

from __future__ import annotations

import enum
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, date, time, timedelta, timezone
from typing import Annotated, Any, Literal, TypeAlias

import attrs
import trio

from triobot import (
    NO_KEYBOARD,
    Audio,
    Bot,
    Buttons,
    Chat,
    ChatChannel,
    ChatEvent,
    Contact,
    Field,
    File,
    Image,
    Key,
    Keyboard,
    Location,
    Otherwise,
    Paid,
    Retry,
    Room,
    Router,
    Texts,
    Tick,
    Video,
    Voice,
    widgets,
)
from triobot.errors import PaymentDeclinedError, PaymentExpiredError, StepError
from triobot.filters import command, leave, message, paid, signal, text

# Journals have fingerprints of what was said, and the runtime's own words may be improved.
WORDS = {one.name: f"({one.name})" for one in attrs.fields(Texts)}
LABELLED = {one: f"({one} {{label}})" for one in ("required", "not_a_number", "not_an_option")}
bot = Bot(texts=Texts(**WORDS | LABELLED))


# --- what people do


@attrs.frozen
class Press:
    """Press a button, as soon as there is one of this label."""

    label: str


@attrs.frozen
class Fill:
    """Fill in the newest form."""

    values: Mapping[str, str]


@attrs.frozen
class Pay:
    """Pay the newest button or invoice."""

    code: int | None = None
    invoice: bool = False


@attrs.frozen
class TopUp:
    """Put rials into the wallet."""

    rials: int


@attrs.frozen
class Wait:
    """Do nothing for so many seconds more."""

    seconds: float


@attrs.frozen
class Leave:
    """Leave the chat."""


@attrs.frozen
class Join:
    """Join the chat."""


@attrs.frozen
class Other:
    """Have another person do something: Ali in the chat 6, Reza in the chat 8."""

    name: str
    act: Any


Shared: TypeAlias = Image | Video | Audio | Voice | File | Contact | Location
Act: TypeAlias = str | Press | Fill | Pay | TopUp | Wait | Leave | Join | Other | Shared


@attrs.frozen
class Scene:
    """One way through a function.

    Attributes:
        acts: what Sara does, after ``/name``.
        wallet: hers, in rials.
        group: it is in a group of hers and Ali's, and not in her chat.
    """

    name: str
    fn: Callable[..., Any]
    acts: Sequence[Act]
    wallet: int = 0
    group: bool = False


SCENES: dict[str, Scene] = {}


Declare: TypeAlias = Callable[[Callable[..., Any]], Callable[..., Any]]


def scene(*acts: Act, how: str = "", wallet: int = 0, group: bool = False, router: Router = bot) -> Declare:
    """Declare one way through the function below, as a conversation unless it is declared already."""

    def declare(fn: Callable[..., Any]) -> Callable[..., Any]:
        name = f"{fn.__name__}, {how}" if how else fn.__name__
        if not any(known.fn is fn for known in SCENES.values()):
            router.conversation(command(fn.__name__), name=fn.__name__)(fn)
        assert name not in SCENES, name
        SCENES[name] = Scene(name, fn, acts, wallet, group)
        return fn

    return declare


def refused(wrong: Callable[[int], Act], *right: Act) -> Declare:
    """Declare three ways through the function below: none, one and four answers are refused, then it goes on.

    Args:
        wrong: makes the answers that are refused, of their numbers: what is said twice is another thing.
    """

    def declare(fn: Callable[..., Any]) -> Callable[..., Any]:
        for many in (0, 1, 4):
            scene(*map(wrong, range(many)), *right, how=f"{many} refused")(fn)
        return fn

    return declare


# --- say

OTHER = 6
"""Ali's chat."""


@scene()
async def send(chat: Chat) -> None:
    await chat.send("One")
    await chat.send("Two")


@scene()
async def send_kinds(chat: Chat) -> None:
    await chat.send(Location(35.7, 51.4, "here"))
    await chat.send(Contact("+989120000000", "Sara"))
    await chat.send(Image.from_bytes(b"picture", "picture.png", caption="A picture"))
    await chat.send(File.from_bytes(b"text", "text.txt"))
    await chat.send("Done")


@scene(Press("Yes"))
async def send_keyboards(chat: Chat) -> None:
    answers = Buttons({"y": "Yes", "n": "No"}, columns=2).link("More", "https://example.org/")
    sent = await chat.send("Well?", buttons=answers, on_unknown="raise")
    press = await chat.receive(answers.pressed(sent))
    await chat.send(
        f"{press.value}", keyboard=Keyboard({"a": "A", "b": "B"}, contact="My number", once=False)
    )
    await chat.send("Gone", keyboard=NO_KEYBOARD)


@scene("more")
async def edit_and_delete(chat: Chat) -> None:
    sent = await chat.send("One", buttons=Buttons({"y": "Yes"}))
    other = await chat.send("Two")
    await chat.receive(text())
    await chat.edit(sent, "One, changed", buttons=Buttons({"n": "No"}))
    await chat.edit(sent, buttons=Buttons({"m": "Maybe"}))
    await chat.delete(other)
    await chat.send("Done")


@scene(Press("One"), Press("Two"), "end")
async def answer(chat: Chat) -> None:
    buttons = Buttons({1: "One", 2: "Two"})
    sent = await chat.send("Press", buttons=buttons)
    for _ in range(2):
        press = await chat.receive(buttons.pressed(sent))
        await chat.answer(f"Number {press.value}", alert=press.value == 2)
    await chat.receive(text())
    await chat.send("Done")


@scene("end")
async def typing(chat: Chat) -> None:
    async with chat.typing():
        await chat.sleep(12)
    await chat.receive(text())
    await chat.send("Done")


@scene("end")
async def live(chat: Chat) -> None:
    async with chat.live("0 %") as progress:
        for done in (50, 100):
            await chat.sleep(3)
            progress.show(f"{done} %")
        await chat.sleep(3)
    await chat.receive(text())
    await chat.send(progress.text)


@scene(Press("Stop"), "end")
async def live_stopped(chat: Chat) -> None:
    stop = Buttons({"stop": "Stop"})
    async with chat.live("Working", buttons=stop) as progress:
        with chat.move_on_when(stop.pressed(progress.sent)):
            await chat.step(show_some, progress.show)
            await chat.sleep(60)
    await chat.receive(text())
    await chat.send("Stopped" if progress.text else "?")


async def show_some(show: Callable[[str], None]) -> None:
    await trio.sleep(2)
    show("Some")


# --- ask


@refused(lambda n: Location(35.7, 51.4 + n, "here"), "Sara")
async def ask_text(chat: Chat) -> None:
    name = await chat.ask("Name?")
    await chat.send(f"Hello {name}")


@refused(lambda n: f"many{n}", "3")
async def ask_number(chat: Chat) -> None:
    count = await chat.ask("How many?", int)
    await chat.send(f"{count} then")


@refused(lambda n: f"much{n}", "3.5")
async def ask_float(chat: Chat) -> None:
    amount = await chat.ask("How much?", float)
    await chat.send(f"{amount} then")


def even(said: str) -> int:
    number = int(said)
    if number % 2:
        raise ValueError("An even number, please.")
    return number


@refused(lambda n: f"{2 * n + 1}", "4")
async def ask_parsed(chat: Chat) -> None:
    number = await chat.ask("How many?", even, keyboard=Keyboard({"2": "Two", "4": "Four"}))
    await chat.send(f"{number} then")


@refused(lambda n: f"here{n}", Location(35.7, 51.4, "here"))
async def ask_location(chat: Chat) -> None:
    place = await chat.ask("Where?", Location)
    await chat.send(f"{place.desc} then")


@refused(lambda n: f"me{n}", Contact("+989120000000", "Sara"))
async def ask_contact(chat: Chat) -> None:
    contact = await chat.ask("Who?", Contact)
    await chat.send(f"{contact.name} then")


@refused(lambda n: f"this{n}", Image.from_bytes(b"picture", "picture.png", caption="A picture"))
async def ask_image(chat: Chat) -> None:
    image = await chat.ask("Your picture?", Image)
    await chat.send(attrs.evolve(image, caption="Yours"))


@scene(
    "no",
    Video.from_bytes(b"video", "video.mp4"),
    "no, too",
    Audio.from_bytes(b"audio", "audio.mp3"),
    Voice.from_bytes(b"voice", "voice.ogg"),
    File.from_bytes(b"file", "file.txt"),
)
async def ask_media(chat: Chat) -> None:
    await chat.ask("Video?", Video)
    await chat.ask("Audio?", Audio)
    await chat.ask("Voice?", Voice)
    await chat.ask("File?", File)
    await chat.send("Done")


@scene(Location(35.7, 51.4, "here"), "Sara", Location(35.8, 51.4, "there"), "five", "5")
async def ask_otherwise(chat: Chat) -> None:
    name = await chat.ask("Name?", otherwise="A name, please.")
    age = await chat.ask("Age?", int, otherwise=Otherwise.KEEP)
    place = await chat.receive(message(Location))
    await chat.send(f"{name} {age} {place.content.desc}")


@scene(Other("Ali", "not you"), "Sara", group=True)
async def ask_by(chat: Chat) -> None:
    who = chat.sender
    assert who is not None
    name = await chat.ask("Name?", by=who.id)
    await chat.send(f"Hello {name}")


@refused(lambda n: f"Small{n}", Press("Small"))
async def choose(chat: Chat) -> None:
    size = await chat.choose("Size?", {"s": "Small", "l": "Large"})
    await chat.send(f"Size {size}")


@scene("small", "no", Other("Ali", Press("Tea")), Press("Tea"), group=True)
async def choose_more(chat: Chat) -> None:
    who = chat.sender
    assert who is not None
    shown = await chat.send("One moment")
    size = await chat.choose("Size?", {"s": "Small", "l": "Large"}, also=text("small"), into=shown)
    what = await chat.choose(
        "What?", Buttons({1: "Pizza", 2: "Tea"}, columns=2), by=who.id, otherwise="Press, please."
    )
    await chat.send(f"{getattr(size, 'content', size)} {what}")


@scene(Press("more"), Other("Ali", Press("less")), Press("more"), Press("Done"), group=True)
async def board(chat: Chat) -> None:
    who = chat.sender
    assert who is not None
    number, shown = 0, await chat.send("One moment")
    with chat.board(into=shown, by=who.id, otherwise="Press, please.") as turns:
        while by := await turns.choose(f"{number}?", {1: "more", -1: "less", 0: "Done"}):
            number += by
    await chat.send(f"{number}")


class Crust(enum.Enum):
    """An option of a form."""

    THIN = "thin"
    THICK = "thick"


@attrs.frozen
class Address:
    """A form."""

    street: Annotated[str, Field("Street")]
    number: Annotated[int, Field("Number")]


@attrs.frozen
class Order:
    """A form with a field of each kind."""

    name: str
    notes: Annotated[str, Field(kind="textarea")]
    crust: Crust
    size: Literal["small", "large"]
    spicy: bool = False


@refused(
    lambda n: Fill({"street": "Valiasr", "number": "x" * (n + 1)}), Fill({"street": "Valiasr", "number": "5"})
)
async def fill(chat: Chat) -> None:
    address = await chat.fill(Address, "Where?")
    await chat.send(f"{address.street} {address.number}")


@scene("what?", Fill({"name": "Sara", "notes": "none", "crust": "THICK", "size": "large", "spicy": "true"}))
async def fill_more(chat: Chat) -> None:
    order = await chat.fill(
        Order,
        labels={"name": "Your name"},
        prefill=Order("Sara", "", Crust.THIN, "small"),
        otherwise="Fill it in, please.",
    )
    await chat.send(f"{order.name} {order.crust.value} {order.size} {order.spicy}")


# --- money


@attrs.frozen
class Pizza:
    """What is sold."""

    size: str


@bot.aside(paid(Pizza), name="give_pizza")
async def give_pizza(chat: Chat[Paid[Pizza]]) -> None:
    baked = await chat.step(double, 4)
    await chat.send(f"A {chat.event.item.size} pizza, {baked} slices")


@scene(Pay(), wallet=500_000, how="0 refused")
@scene(Pay(), TopUp(500_000), Pay(), how="1 refused")
@scene(*[Pay()] * 4, TopUp(500_000), Pay(), how="4 refused")
async def charge(chat: Chat) -> None:
    await chat.charge(200_000, "A pizza", item=Pizza("large"))
    await chat.send("Thank you")


@scene("how?", Press("Cash"))
async def charge_options(chat: Chat) -> None:
    got = await chat.charge(
        200_000,
        "A pizza",
        item=Pizza("large"),
        options={"cash": "Cash", "no": "No"},
        currency="coin",
        late="refund",
        otherwise="Pay, or press.",
    )
    await chat.send(f"Not paid: {got}")


@scene(Pay(code=1002), wallet=500_000)
async def charge_declined(chat: Chat) -> None:
    try:
        await chat.charge(200_000, "A pizza", item=Pizza("large"))
    except PaymentDeclinedError:
        await chat.send("Declined")


@scene(Wait(100))
async def charge_expired(chat: Chat) -> None:
    try:
        await chat.charge(200_000, "A pizza", item=Pizza("large"), expires=60)
    except PaymentExpiredError:
        await chat.send("Too late")


@scene(Wait(400))
async def invoice_expired(chat: Chat) -> None:
    try:
        await chat.invoice(200_000, "A pizza", item=Pizza("large"), expires=300)
    except PaymentExpiredError:
        await chat.send("Too late")


@scene(Pay(invoice=True), wallet=500_000, how="0 refused")
@scene(*[Pay(invoice=True, code=1004)] * 4, Pay(invoice=True), wallet=500_000, how="4 refused")
@scene(Pay(invoice=True, code=1004), "and?", Pay(invoice=True), wallet=500_000, how="1 refused")
async def invoice(chat: Chat) -> None:
    await chat.invoice(
        300_000, "Two pizzas", item=Pizza("two"), expires=7200, late="deliver", otherwise="Pay, please."
    )
    await chat.send("Thank you")


# --- hear


@scene("one", Location(35.7, 51.4, "here"), "two")
async def receive(chat: Chat) -> None:
    one = await chat.receive(text())
    two = await chat.receive(text(), otherwise="Words, please.")
    await chat.send(f"{one.content} {two.content}")


@scene("one", "two", "three", "end")
async def drain(chat: Chat) -> None:
    await chat.sleep(35)
    heard = chat.drain()
    await chat.receive(text())
    await chat.send(f"{len(heard)} heard")


# --- steps


async def double(number: int) -> int:
    await trio.lowlevel.checkpoint()
    return 2 * number


async def fail(kind: str) -> int:
    await trio.lowlevel.checkpoint()
    raise LookupError(kind) if kind == "raises" else OSError(kind)


@scene()
async def step(chat: Chat) -> None:
    first = await chat.step(double, 4)
    second = await chat.step(double, first)
    await chat.send(f"{second}")


@scene()
async def step_fails(chat: Chat) -> None:
    for kind in ("raises", "other"):
        try:
            await chat.step(fail, kind, raises=LookupError)
        except LookupError as error:
            await chat.send(f"Known: {error}")
        except StepError as error:
            await chat.send(f"Unknown: {error.kind}")


@scene(Wait(30))
async def step_again(chat: Chat) -> None:
    try:
        await chat.step(fail, "raises", retry=Retry(times=3, after=2, on=LookupError))
    except StepError as error:
        await chat.send(f"Three times: {error.kind}")


# --- in the place of clocks and dice


@scene("more", "end")
async def draws(chat: Chat) -> None:
    await chat.send(f"{chat.random().randrange(1000)} {chat.uuid()} {chat.now():%H:%M:%S}")
    await chat.receive(text())
    new = chat.patched("new words")
    await chat.send(f"{chat.random().randrange(1000)} {chat.uuid()} {chat.now():%H:%M:%S} {new}")
    await chat.receive(text())
    await chat.send(f"{chat.random().randrange(1000)} {chat.patched('new words')}")


# --- blocks


@scene("one", "two", Wait(60))
async def blocks(chat: Chat) -> None:
    with chat.move_on_after(15) as first:
        await chat.ask("One?")
        await chat.receive(text("never"))
    with chat.move_on_after(60) as second:
        await chat.ask("Two?")
    with chat.move_on_at(chat.now() + timedelta(seconds=5)) as third:
        await chat.sleep(60)
    try:
        with chat.fail_after(5):
            await chat.ask("Three?")
    except trio.TooSlowError:
        await chat.send("Too slow")
    ended = [scope.cancelled_caught for scope in (first, second, third)]
    await chat.send(f"{ended}")


@scene("one", "back", "end")
async def move_on_when(chat: Chat) -> None:
    with chat.move_on_when(text("back")) as back:
        await chat.ask("One?")
        await chat.choose("Two?", {"a": "A", "b": "B"})
    await chat.ask(f"Ended by {getattr(back.event, 'content', None)}. More?")
    await chat.send("Done")


@scene("one", "two")
async def cancel_and_shield(chat: Chat) -> None:
    with chat.cancel_scope() as scope:
        await chat.ask("One?")
        scope.cancel()
        await chat.ask("Never?")
    with chat.move_on_after(5) as outer:
        with chat.shield():
            await chat.sleep(8)
            await chat.send("Shielded")
        await chat.sleep(60)
    await chat.send(f"{scope.cancelled_caught} {outer.cancelled_caught}")


@scene(Wait(60))
async def sleep(chat: Chat) -> None:
    await chat.sleep(5)
    await chat.send("Five")
    await chat.sleep_until(chat.now() + timedelta(seconds=30))
    await chat.send("Thirty more")
    await chat.sleep(5)
    await chat.send("Done")


@scene("one", "two", "three", Press("End"))
async def nursery(chat: Chat) -> None:
    heard: list[str] = []
    stop, values = chat.open_event(), chat.open_channel(str, 1)

    async def hear(asked: ChatEvent) -> None:
        while len(heard) < 3:
            heard.append((await chat.receive(text())).content)
            await values.send(heard[-1])
        values.close()
        asked.set()

    async def tell(given: ChatChannel[str]) -> None:
        while True:
            try:
                word = await given.receive()
            except trio.EndOfChannel:
                break
            await chat.send(f"Heard {word}")

    async def tick() -> None:
        while True:
            await chat.sleep(12)
            await chat.send("Tick")

    async with chat.open_nursery() as children:
        children.start_soon(hear, stop)
        children.start_soon(tell, values)
        children.start_soon(tick)
        await stop.wait()
        await chat.choose("All?", {"e": "End"})
        children.cancel()
    numbers = chat.open_channel(int, 2)
    numbers.send_nowait(1)
    await chat.send(f"{stop.is_set()} {heard}")


# --- what is kept

VISITS = Key("visits", int, default=0)
NAME = Key("name", str)
ASKED = Key("asked", int, default=0)


@scene("one", "two")
async def data(chat: Chat) -> None:
    chat.data[VISITS] = chat.data[VISITS] + 1
    await chat.ask("One?")
    known = NAME in chat.data
    chat.data[NAME] = "Sara"
    await chat.send(f"{chat.data[VISITS]} {known} {chat.data[NAME]}")
    await chat.ask("Two?")
    del chat.data[NAME]
    chat.data[VISITS] += 1
    await chat.send(f"{chat.data[VISITS]} {NAME in chat.data}")


# --- other places


def more(old: int, by: int) -> int:
    return old + by


@scene("end")
async def refs(chat: Chat) -> None:
    who = chat.sender
    assert who is not None
    other = chat.to(OTHER)
    sent = await other.send("To Ali", buttons=Buttons({"y": "Yes"}), keyboard=None, on_unknown="raise")
    await other.edit(sent, "To Ali, changed", buttons=Buttons({"n": "No"}))
    await other.delete(sent)
    await other.send("Keys", keyboard=Keyboard({"a": "A"}))
    await other.set(NAME, "Ali")
    name = await other.get(NAME)
    await other.clear(NAME)
    visits = await chat.person(who.id).update(VISITS, more, 2)
    asked = await chat.shared.update(ASKED, more, 1)
    await chat.send(f"{name} {visits} {asked}")
    await chat.receive(text())
    await chat.send("Done")


@scene()
async def places(chat: Chat) -> None:
    visits = await chat.place("day", "2026-03-01").update(VISITS, more, 2)
    await chat.send(f"{visits}")


@attrs.frozen
class Greeting:
    """A signal."""

    word: str


@bot.aside(signal(Greeting), name="greeted")
async def greeted(chat: Chat[Greeting]) -> None:
    await chat.send(f"Greeted: {chat.event.word}")


@scene("end")
async def signals(chat: Chat) -> None:
    await chat.to(OTHER).signal(Greeting("Hello"), key="a key")
    await chat.to(chat.id).signal(Greeting("me"))
    await chat.receive(text())
    await chat.send("Done")


@bot.aside(name="beside")
async def beside(chat: Chat[Any], number: int) -> None:
    await chat.send(f"Beside {number}")


@bot.aside(name="long_beside")
async def long_beside(chat: Chat[Any]) -> None:
    await chat.sleep(3600)


@scene("more", "end")
async def start(chat: Chat) -> None:
    await chat.start(beside, 7)
    await chat.send("Started")
    await chat.receive(text())
    await chat.start(long_beside, key="long")
    await chat.to(OTHER).start(beside, 8, key="other")
    await chat.receive(text())
    await chat.stop(long_beside, key="long")
    await chat.to(OTHER).stop(long_beside, key="other")
    await chat.send("Done")


@scene("one", "two", "end")
async def continue_as(chat: Chat[Any], number: int = 1) -> None:
    word = await chat.ask(f"Number {number}?")
    if number < 3:
        await chat.continue_as(continue_as, number + 1)
    await chat.send(f"{number} {word}")


@scene("end")
async def broadcast(chat: Chat) -> None:
    news = chat.broadcast("news")
    before = await news.status()
    await news.start("News", [OTHER, 8], buttons=Buttons({"y": "Yes"}), on_unknown="resend")
    await chat.receive(text())
    after = await news.status()
    await news.stop()
    await chat.send(f"{before.state} {after.state} {after.sent}")


# --- rooms and jobs


@attrs.frozen
class Move:
    """What a room is told."""

    chat: int
    word: str


@bot.room(signal(Move), name="match")
async def match(room: Room[Move]) -> None:
    first, key = room.event, room.uuid()
    room.data[VISITS] += 1
    await room.to(first.chat).send(f"Room {room.key} begins: {first.word}")
    with room.move_on_after(600):
        second = await room.receive(signal(Move), otherwise=Otherwise.KEEP)
        result = await room.step(double, room.data[VISITS])
        await room.to(second.chat).send(f"{second.word} {result} {str(key)[:4]}")
        await room.sleep(15)
        left = room.drain()
        await room.to(first.chat).send(f"{len(left)} left")
    await room.continue_as(match_over)


@bot.room(signal(Greeting), name="match_over")
async def match_over(room: Room[Any]) -> None:
    await room.to(room.event.chat).send("Over")


@scene("two", "three", "end", Wait(20))
async def rooms(chat: Chat) -> None:
    await chat.to(match, "a7").signal(Move(chat.id, "one"))
    for _ in range(2):
        word = (await chat.receive(text())).content
        await chat.to(match, "a7").signal(Move(chat.id, word))
    await chat.receive(text())
    await chat.send("Done")


@bot.every("0 12 * * *", tz=UTC, name="noon")
async def noon(job: Room[Tick]) -> None:
    number = await job.step(double, job.event.due.hour)
    job.data[VISITS] += 1
    await job.to(5).send(f"Noon {number}")


@scene(Wait(3 * 3600), "end")
async def job(chat: Chat) -> None:
    await chat.receive(text())
    await chat.send("Done")


# --- beside and in place of a conversation


@bot.interrupt(command("cancel"), name="cancel")
async def cancel(chat: Chat) -> None:
    await chat.send(f"Cancelled {chat.interrupted}")
    await chat.ask("And now?")
    await chat.send("Done")


@bot.aside(command("help"), name="help_beside")
async def help_beside(chat: Chat) -> None:
    await chat.send("Help")
    await chat.choose("Helped?", {"y": "Yes", "n": "No"})
    await chat.send("Helped")


@scene("Sara", "/cancel", "fine")
async def interrupted(chat: Chat) -> None:
    try:
        await chat.ask("Name?")
        await chat.choose("Size?", {"s": "Small"})
    finally:
        with chat.move_on_after(5), chat.shield():
            await chat.send("Tidied")


@scene("/help", Press("Yes"), "Sara")
async def aside(chat: Chat) -> None:
    name = await chat.ask("Name?")
    await chat.send(f"Hello {name}")


@bot.interrupt(leave(), name="left")
async def left(chat: Chat) -> None:
    await chat.step(double, 1)


@scene("Sara", Leave(), Join(), "hello")
async def leaves(chat: Chat) -> None:
    await chat.ask("Name?")
    await chat.ask("Age?", int)


@bot.conversation(command("own"), per="sender", name="own")
async def own(chat: Chat) -> None:
    word = await chat.ask("Your word?")
    await chat.send(f"Yours is {word}")


@scene("/own", Other("Ali", "/own"), "hers", Other("Ali", "his"), group=True)
async def per_sender(chat: Chat) -> None:
    await chat.send("Each their own")


# --- hooks

hooked = Router()
SPENT = Key("spent", int, default=0)


@hooked.around
async def outer_hook(room: Room, call: Callable[[], Awaitable[None]]) -> None:
    allowed = await room.step(double, 1)
    room.data[SPENT] += allowed
    if isinstance(room, Chat):
        await room.ask("May I?")
    await call()
    if isinstance(room, Chat):
        await room.send(f"It spent {room.data[SPENT]}")


@hooked.around
async def inner_hook(room: Room, call: Callable[[], Awaitable[None]]) -> None:
    with room.move_on_after(25) as scope:
        await call()
    if scope.cancelled_caught and isinstance(room, Chat):
        await room.send("Too slow")


@scene("yes", "Sara", Wait(30), how="too slow", router=hooked)
@scene("yes", "Sara", "x", "3", router=hooked)
async def hooks(chat: Chat) -> None:
    name = await chat.ask("Name?")
    count = await chat.ask("How many?", int)
    await chat.send(f"{name} {count}")


bot.include(hooked)


# --- widgets


@refused(lambda n: f"sure{n}", Press("Yes"))
async def confirm(chat: Chat) -> None:
    sure = await widgets.confirm(chat, "Sure?")
    await chat.send(f"{sure}")


@refused(lambda n: f"good{n}", Press("4 ★"))
async def rating(chat: Chat) -> None:
    stars = await widgets.rating(chat, "How was it?", most=5)
    await chat.send(f"{stars}")


TOWNS = {f"t{number}": f"Town {number}" for number in range(7)}


@refused(lambda n: f"what{n}", Press("»"), Press("»"), Press("«"), Press("Town 4"))
async def pager(chat: Chat) -> None:
    town = await widgets.pager(chat, "Which town?", TOWNS, size=3)
    await chat.send(town)


@refused(
    lambda n: Press("Done"),
    *(Press("☐ Cheese"), Press("☐ Olives"), Press("☐ Ham"), Press("☑ Cheese"), Press("Done")),
)
async def multi_select(chat: Chat) -> None:
    options = {"c": "Cheese", "o": "Olives", "h": "Ham"}
    chosen = await widgets.multi_select(chat, "On top?", options, least=1, most=2, columns=2)
    await chat.send(f"{list(chosen)}")


@refused(
    lambda n: f"what{n}",
    *(Press("Drinks"), Press("Tea"), Press("« Back"), Press("« Back"), Press("Bread")),
)
async def menu(chat: Chat) -> None:
    tea = widgets.Menu("Tea", {"black": "Black", "green": "Green"})
    drinks = widgets.Menu("Drinks", {"dough": "Dough"}, [tea])
    card = widgets.Menu("What would you like?", {"bread": "Bread"}, [drinks])
    await chat.send(await widgets.menu(chat, card))


@refused(lambda n: Press("·"), Press("Mo"), Press("»"), Press("«"), Press("»"), Press("3"))
async def calendar(chat: Chat) -> None:
    day = await widgets.calendar(
        chat, "Which day?", first=date(2027, 1, 5), last=date(2027, 2, 20), free=lambda day: day.day % 2 == 1
    )
    await chat.send(f"{day}")


@refused(lambda n: f"when{n}", Press("·"), Press("7"), Press("«"), Press("9"), Press("17:00"))
async def date_time(chat: Chat) -> None:
    when = await widgets.date_time(
        chat,
        "When?",
        lambda day: [time(9), time(17)],
        first=date(2027, 1, 5),
        last=date(2027, 1, 20),
        tz=UTC,
    )
    await chat.send(f"{when}")


@scene(
    *(Press("Yes, do"), Press("2 *")),
    *(Other("Ali", Press("Town 1")), Press("Town 1")),
    *(Press("☐ Olives"), Press("That is all")),
    *(Press("Drinks"), Press("Up"), Press("Drinks"), Press("Tea")),
    group=True,
)
async def widgets_more(chat: Chat) -> None:
    who = chat.sender
    assert who is not None
    shown, me = await chat.send("One moment"), who.id
    sure = await widgets.confirm(chat, "Sure?", yes="Yes, do", no="No, don't", into=shown, by=me)
    stars = await widgets.rating(chat, "How was it?", most=3, symbol="*", into=shown, by=me)
    town = await widgets.pager(chat, "Which town?", TOWNS, size=4, columns=2, into=shown, by=me)
    chosen = await widgets.multi_select(
        chat, "On top?", {"c": "Cheese", "o": "Olives"}, chosen="c", done="That is all", into=shown, by=me
    )
    drinks = widgets.Menu("Drinks", {"tea": "Tea"})
    drink = await widgets.menu(chat, widgets.Menu("Card", {}, [drinks]), back="Up", into=shown, by=me)
    await chat.send(f"{sure} {stars} {town} {list(chosen)} {drink}")


@scene(Press("7"), Press("8"), Press("back"), Press("9"), Press("09:00"), group=True)
async def calendar_more(chat: Chat) -> None:
    who = chat.sender
    assert who is not None
    shown, me = await chat.send("One moment"), who.id
    first, last = date(2027, 1, 5), date(2027, 1, 20)
    gregorian = widgets.GREGORIAN
    day = await widgets.calendar(
        chat, "Which day?", first=first, last=last, system=gregorian, into=shown, by=me
    )
    when = await widgets.date_time(
        chat,
        "When?",
        lambda day: [time(9), time(17)],
        first=first,
        last=last,
        tz=UTC,
        system=gregorian,
        columns=1,
        back="back",
        into=shown,
        by=me,
    )
    await chat.send(f"{day} {when}")


# --- resources


@attrs.frozen
class Oven:
    """What a resource opens."""

    async def bake(self, number: int) -> int:
        await trio.lowlevel.checkpoint()
        return 3 * number


@bot.resource
@asynccontextmanager
async def oven() -> AsyncGenerator[Oven]:
    yield Oven()


@scene("end")
async def use(chat: Chat) -> None:
    baked = await chat.step(chat.use(oven).bake, 2)
    await chat.send(f"{baked} at {chat.now(timezone(timedelta(hours=3, minutes=30))):%H:%M}")
    await chat.receive(text())
    await chat.send("Done")
