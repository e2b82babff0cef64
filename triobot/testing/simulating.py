"""`simulate`: a crowd of random people, a failing platform and kills of the process, in virtual time.

The seed determines all acts, so a simulation that breaks a promise can be repeated. At the end, after an hour
and a half without faults, these promises are checked:

* each event that was answered 200 has been handled: the inbox contains only signals that wait;
* each press has been answered, so that no button seems to wait for ever;
* all alarms are explained by the platform's faults or by people's acts;
* no money was captured more than once.

For a repeatable simulation, Trio's scheduler and the speed of threads must not add randomness of their own.
"""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Awaitable, Callable, Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from hashlib import sha256
from importlib import import_module
from typing import Final, TypeAlias, TypeVar, cast, final
from unittest.mock import patch

import attrs
import trio
from quart_trio import QuartTrio
from typing_extensions import TypeVarTuple, Unpack

from ..base.frozen import guarded
from ..conversations.routes.router import Hook, table_of
from ..conversations.running.hooks import counting
from ..conversations.texts import Texts
from ..emulator.chats import ChatMessage, PlatformChat
from ..emulator.exchange import Exchange
from ..emulator.faults import EventFault, Fault
from ..emulator.person import AppError, Person
from ..emulator.telling import describe_chat
from ..emulator.world import ImpossibleActError
from ..runtime.bot import Bot
from ..seams.resources import Provided
from ..wire.content import Contact, Content, Image, Location
from ..wire.forms import Checkbox, Form, Radio, Select, Submit
from ..wire.ids import ChatId
from ..wire.markup import CallbackButton, PayButton
from ..wire.operations import OPERATIONS
from .driving import DrivenWorld, drive
from .promises import (
    BrokenPromise,
    Circumstances,
    broken_in_the_end,
    broken_so_far,
    in_words,
    journals_of,
    kept_by,
)

# Hours without faults at the end, in which retries, backoff and messages to people are completed.
_QUIET_HOURS: Final = 1.5
_WALLET: Final = 1_000_000
# Number of times that the platform posts an event. An event that the platform gave up would look like an
# event that the bot lost.
_ATTEMPTS: Final = 10_000
# Paths of all requests except answers to presses. Answers never fail here: the bot doesn't retry an answer,
# since a late answer is useless.
_FAILING: Final = tuple(kind.path for kind in OPERATIONS if kind.traits.lane != "answer")
_WORDS: Final = (
    "hi",
    "yes",
    "no",
    "2",
    "17",
    "۱۲",
    "Sara",
    "سلام",
    "/start",
    "/help",
    "/cancel",
    "back",
    "a@example.com",
    "09120000000",
    "x" * 300,
    "می‌خواهم",
    "😀",
)
# An image of one pixel.
_PIXEL: Final = bytes.fromhex(
    "89504e470d0a1a0a0000000d49484452000000010000000108060000001f15c489"
    "0000000d49444154789c6360f8cfc000000301010018dd8db00000000049454e44ae426082"
)
# Most payments succeed; the others get one of the interface's error codes (section 2.4).
_CODES: Final = (*(None for _ in range(10)), 1000, 1001, 1002, 1003, 1004)
_LOOKS_BACK: Final = 3
_NUMBERS: Final = ("2", "17")
_GIVES_UP: Final = 0.01
"""Probability that a person answers a question with a command. With 0.5, no simulated order was ever paid.
"""
_WANTED: Final = {
    getattr(texts, field.name): field.name
    for texts in (Texts.english(), Texts.persian())
    for field in attrs.fields(Texts)
    if field.name.startswith("want_")
}
"""The bot's replies to a wrong kind of answer; for each reply, the kind of content that people then send."""
_PRESSED: Final = ("want_choice", "want_form", "want_payment")
_CONTENTS: Final[Mapping[str, Sequence[Content]]] = {
    "want_text": _WORDS,
    "want_number": _NUMBERS,
    "want_location": (Location("35.7", "51.4"),),
    "want_contact": (Contact("+989120000000", "Reza"),),
    "want_image": (Image.from_bytes(_PIXEL, "me.png"),),
}
_USUAL: Final = {"want_text": 70, "want_location": 15, "want_contact": 10, "want_image": 5}

Impulse: TypeAlias = Callable[[Person], Awaitable[None]]
"""The next act of a random person."""

T = TypeVar("T")
Ts = TypeVarTuple("Ts")


@final
@guarded(kw_only=True)
class Plan:
    """Parameters of a simulation: duration, people and faults.

    Attributes:
        seed: seed of all random numbers: the same seed gives the same simulation.
        chats: number of people, each with a private chat.
        groups: number of groups; each person is a member of at most two.
        hours: virtual hours.
        crashes: number of kills of the process.
        faults: approximate percentage of the platform's answers and deliveries that go wrong.
    """

    seed: int = 0
    chats: int = 100
    groups: int = 0
    hours: float = 24.0
    crashes: int = 10
    faults: float = 3.0


@final
@guarded(kw_only=True)
class SimulationResult:
    """Result of a simulation.

    Attributes:
        acts: number of people's acts.
        events: number of events that the bot answered 200.
        messages: number of messages that the bot sent.
        faults: number of the platform's faults, by kind.
        routes: number of conversations that began, for each route of the bot.
        kept: descriptions of the promises that were kept.
        broken: descriptions of the broken promises; empty if all promises were kept.
        digest: digest of everything that people saw, for comparing two runs.
    """

    plan: Plan
    acts: int
    events: int
    messages: int
    faults: Mapping[str, int]
    routes: Mapping[str, int]
    kept: Sequence[str]
    broken: Sequence[str]
    digest: str


async def simulate(
    bot: Bot,
    plan: Plan,
    *provided: Provided,
    app: QuartTrio | None = None,
    progress: Callable[[float], None] = lambda part: None,
) -> SimulationResult:
    """Run a crowd of random people against the bot, and check the bot's promises.

    Needs virtual time, as `drive` does. During the simulation, Trio's scheduler and the global `random` are
    seeded, and functions that the bot passes to `trio.to_thread` run at once in the loop's own thread.

    Args:
        progress: called with the fraction of the simulated time that has passed, from 0 to 1.
    """
    return await simulate_until(None, bot, plan, *provided, app=app, progress=progress)


@final
@attrs.define(kw_only=True)
class FirstBroken:
    """The first broken promise of a simulation; see `simulate_until`.

    Attributes:
        promise: the violation; None while no promise is broken.
        journals: journals of the violation's chat, in the operator's format. The first journal belongs to the
            conversation that broke the promise.
        person: name of the person, if the violation's chat is a private chat; else "".
        events: newest events, each as the time in wall milliseconds and the person who acted.
        kills: kills of the process before the violation, in wall milliseconds.
    """

    promise: BrokenPromise | None = None
    journals: Sequence[Sequence[Mapping[str, object]]] = ()
    person: str = ""
    events: Sequence[tuple[int, str]] = ()
    kills: Sequence[int] = ()


async def simulate_until(
    found: FirstBroken | None,
    bot: Bot,
    plan: Plan,
    *provided: Provided,
    app: QuartTrio | None = None,
    progress: Callable[[float], None] = lambda part: None,
) -> SimulationResult:
    """Simulate as `simulate` does, and end soon after a violation that can't be repaired.

    Until the violation, everything happens as in `simulate`, because the checks draw no random numbers.

    Args:
        found: receives the violation that ended the simulation, or else the first violation that the final
            checks find. None: the simulation runs to its end.
    """
    begun: Counter[str] = Counter()
    chance = random.Random(plan.seed)
    with seeded(plan.seed), without_threads(), _hooked(bot, counting(begun)):
        async with drive(bot, *provided, app=app, seed=plan.seed, attempts=_ATTEMPTS) as world:
            groups = [await world.group(name=f"Group {number}") for number in range(plan.groups)]
            crowd = _Crowd(world, plan, groups, words_of(bot))

            def goes_on() -> bool:
                return found is None or not any(broken_so_far(world, crowd.circumstances()))

            async with trio.open_nursery() as nursery:
                nursery.start_soon(_tell, plan, progress, goes_on, nursery.cancel_scope)
                for number in range(plan.chats):
                    nursery.start_soon(crowd.live, number, f"{plan.seed}:{number}")
                nursery.start_soon(crowd.break_things, random.Random(chance.random()))
                nursery.start_soon(crowd.kill, random.Random(chance.random()))
            world.faults.clear()
            if whole := goes_on():
                await world.waits(hours=_QUIET_HOURS)
                broken = await broken_in_the_end(bot, world, crowd.circumstances())
            else:
                broken = list(broken_so_far(world, crowd.circumstances()))
            if found is not None and broken:
                await _look_at(bot, world, crowd, broken[0], found)
            faults = Counter({"outage": len(crowd.outages)}) + world.faults.used
            world.alarms.clear()
            chats = list(world.exchange.world.chats())
            return SimulationResult(
                plan=plan,
                acts=crowd.acts,
                events=world.answered[200],
                messages=sum(entry.author is None for chat in chats for entry in chat.entries.values()),
                faults=dict(faults.most_common()),
                routes={route.name: begun[route.name] for route in table_of(bot).routes},
                # After an early end, nothing is known about the promises that are checked at the end only.
                kept=kept_by(broken) if whole else [],
                broken=in_words(broken),
                digest=sha256((await _shown(world, groups)).encode()).hexdigest()[:12],
            )


@contextmanager
def _hooked(bot: Bot, hook: Hook) -> Generator[None]:
    """Add a hook around all routes of a bot while the block runs."""
    hooks = bot._hooks  # pyright: ignore[reportPrivateUsage]
    hooks.append(hook)
    try:
        yield
    finally:
        hooks.remove(hook)


def words_of(bot: Bot) -> Sequence[str]:
    """Return the commands and texts that the bot's routes wait for, in a fixed order."""
    table = table_of(bot)
    routes = (*table.interrupts, *table.asides, *table.conversations)
    return sorted({word for route in routes for word in route.filter.words})


async def _shown(world: DrivenWorld, groups: Sequence[ChatId]) -> str:
    """Return the transcripts of all private chats and of `groups`, as one text."""
    platform = world.exchange.world
    lines = (line for group in groups for line in describe_chat(platform, platform.chat(group)))
    return "\n".join((await world.transcript(), *lines))


async def _tell(
    plan: Plan, progress: Callable[[float], None], goes_on: Callable[[], bool], scope: trio.CancelScope
) -> None:
    for step in range(100):
        progress(step / 100)
        await trio.sleep(plan.hours * 36)
        if not goes_on():
            scope.cancel()
            return
    progress(1.0)


async def _look_at(
    bot: Bot, world: DrivenWorld, crowd: _Crowd, promise: BrokenPromise, found: FirstBroken
) -> None:
    """Record the circumstances of a violation in `found`."""
    # The simulation may have ended between a kill and the next start.
    await world._process.start()  # pyright: ignore[reportPrivateUsage]
    found.promise, found.kills = promise, list(crowd.kills)
    found.journals = await journals_of(bot, promise)
    chat_id = found.journals[0][0]["chat_id"] if found.journals else promise.chat_id
    owners = {user.chat_id: user.name for user in world.exchange.world.people}
    found.person = owners.get(cast("ChatId", chat_id), "")
    found.events = [
        (one.at, one.event.sender.name if one.event.sender else owners.get(one.event.chat_id, ""))
        for one in world.exchange.pusher.deliveries.settled()
    ]


@final
class _Crowd:
    """The simulated people, and the faults around them."""

    def __init__(
        self, world: DrivenWorld, plan: Plan, groups: Sequence[ChatId], words: Sequence[str]
    ) -> None:
        self._world = world
        self._plan = plan
        self._groups = groups
        self._words = words
        self._until = trio.current_time() + plan.hours * 3600
        self.acts = 0
        self.faults = 0
        self.outages: list[tuple[int, int]] = []
        self.left: dict[ChatId, list[int]] = {}
        self.kills: list[int] = []

    def circumstances(self) -> Circumstances:
        return Circumstances(outages=self.outages, left=self.left, faults=self.faults > 0)

    @property
    def _exchange(self) -> Exchange:
        return self._world.exchange

    async def live(self, number: int, seed: str) -> None:
        """Act as one person for the whole time: bursts of acts, some seconds apart."""
        chance = random.Random(seed)
        person = self._world.user(
            f"Person {number}", wallet=chance.choice((0, _WALLET, _WALLET, _WALLET)), coin=100
        )
        # Each person is in two groups at most, so that some people share a group, but most people share none.
        mine = chance.sample(self._groups, min(len(self._groups), 2)) if self._groups else []
        places = [person, *(person.at(group) for group in mine)]
        inside = set[ChatId]()
        while True:
            await trio.sleep(chance.expovariate(1 / (self._plan.hours * 3600 / 4)))
            for _ in range(chance.randint(1, 32)):
                if trio.current_time() >= self._until:
                    return
                # The screen may have changed since the person chose.
                place = places[0] if len(places) == 1 else chance.choice(places)
                with suppress(AppError, ImpossibleActError):
                    await self._act(place, chance, inside)
                self.acts += 1
                await trio.sleep(chance.choice((0.1, 1, 3, 10, 60)) * chance.random())

    async def _act(self, person: Person, chance: random.Random, inside: set[ChatId]) -> None:
        """Do one act of a person in one chat; `inside` contains the chats that the person has joined."""
        if person.chat_id not in inside:
            await person.joins()
            inside.add(person.chat_id)
            return
        if chance.random() < 0.02:
            self.left.setdefault(person.chat_id, []).append(self._exchange.clock.now())
            await person.leaves()
            inside.discard(person.chat_id)
            return
        platform = self._exchange.world
        unpaid = any(bill.kind == "invoice" and bill.chat_id == person.chat_id for bill in platform.bills)
        wanted = impulse(platform.chat(person.chat_id), chance, invoice=unpaid, words=self._words)
        await wanted(person)

    async def break_things(self, chance: random.Random) -> None:
        """From time to time plan as many faults as `Plan.faults` sets, and rarely an outage."""
        if not self._plan.faults:
            return
        while trio.current_time() < self._until:
            await trio.sleep(chance.expovariate(1 / 30))
            # Replace the unused faults: otherwise, faults of rare operations would accumulate.
            self._world.faults.clear()
            for _ in range(math.ceil(self._plan.faults)):
                self._world.faults.add(_fault(chance))
                self.faults += 1
            if chance.random() < 0.005:
                seconds, now = chance.uniform(1, 300), self._exchange.clock.now()
                self.outages.append((now - 10_000, now + round(seconds * 1000) + 10_000))
                self._world.refuses(seconds=seconds)

    async def kill(self, chance: random.Random) -> None:
        """Kill the process at random times."""
        moments = sorted(chance.uniform(0, self._plan.hours * 3600) for _ in range(self._plan.crashes))
        began = self._until - self._plan.hours * 3600
        for moment in moments:
            await trio.sleep_until(began + moment)
            for _ in range(chance.randint(0, 20)):
                await trio.lowlevel.checkpoint()
            self.kills.append(self._exchange.clock.now())
            await self._world.crashes()


# --- people's acts, chosen from the screen


def impulse(chat: PlatformChat, chance: random.Random, *, invoice: bool, words: Sequence[str]) -> Impulse:
    """Choose the next act of a person who looks at this chat.

    Args:
        invoice: whether there is an invoice that could be paid.
        words: words that the bot waits for, such as its commands. If no question asks for a text, half of the
            person's texts are such words.
    """
    if invoice and chance.random() < 0.5:
        return _paying(None, chance)
    entries = list(chat.entries.values())[-20:]
    from_bot = [entry for entry in entries if entry.author is None and not entry.deleted]
    offered = [entry for entry in from_bot if entry.form is not None or any(entry.buttons())]
    newest = entries[-1] if entries else None
    wanted = _WANTED.get(str(newest.content), "") if newest is not None and newest in from_bot else ""
    # A person whom the bot asked for a text seldom presses older buttons.
    at_hand = newest not in from_bot or wanted in _PRESSED or newest in offered[-1:]
    if offered and chance.random() < (0.8 if at_hand else 0.2):
        # Choose mostly the newest message with buttons, sometimes an older message, whose buttons should be
        # gone.
        entry = offered[-1] if chance.random() < 0.9 else chance.choice(offered[-_LOOKS_BACK:])
        if (answer := _answer(entry, chance)) is not None:
            return answer
    if chat.reply_keyboard is not None and chance.random() < 0.8:
        keys = [key.label for row in chat.reply_keyboard.rows for key in row]
        if keys:
            return _pressing(chance.choice(keys))
    # A question may still be open although the newest message isn't the bot's. A person who was asked a
    # question seldom gives up.
    is_asked = any(entry in from_bot for entry in entries[-_LOOKS_BACK:])
    if words and chance.random() < (_GIVES_UP if is_asked else 0.5):
        return _saying(chance.choice(words))
    return _saying(_content(chance, wanted))


def _answer(entry: ChatMessage, chance: random.Random) -> Impulse | None:
    buttons = list(entry.buttons())
    if entry.form is not None and (not buttons or chance.random() < 0.5):
        values = _filled(entry.form, chance)
        return lambda person: person.submits(values, within=0)
    button = chance.choice(buttons) if buttons else None
    match button:
        case CallbackButton(text=text):
            return _pressing(text, times=2 if chance.random() < 0.1 else 1)
        case PayButton(text=text):
            return _paying(text, chance)
        case _:
            return None


def _saying(content: Content) -> Impulse:
    return lambda person: person.says(content)


def _pressing(label: str, times: int = 1) -> Impulse:
    return lambda person: person.presses(label, times=times, within=0)


def _paying(label: str | None, chance: random.Random) -> Impulse:
    code = chance.choice(_CODES)
    # After these codes not even the person can know whether the money was taken.
    taken = code in (1001, 1004) and chance.random() < 0.3
    return lambda person: person.pays(label, code=code, taken=taken, invoice=label is None, within=0)


def _filled(form: Form, chance: random.Random) -> Mapping[str, str]:
    values: dict[str, str] = {}
    for field in form.fields:
        match field:
            case Submit():
                pass
            case Radio(options=options) | Select(options=options):
                if options and chance.random() < 0.9:
                    values[field.name] = chance.choice(options)[0]
            case Checkbox():
                values[field.name] = chance.choice(("", "true"))
            case _:
                # With random words alone, a form with a number field would nearly always be refused.
                values[field.name] = chance.choice(_NUMBERS if chance.random() < 0.5 else _WORDS)
    return values


def _content(chance: random.Random, wanted: str) -> Content:
    if wanted not in _CONTENTS or chance.random() < 0.2:
        [wanted] = chance.choices(list(_USUAL), list(_USUAL.values()))
    return chance.choice(_CONTENTS[wanted])


# --- faults


def _fault(chance: random.Random) -> Fault | EventFault:
    kind, operation = chance.randrange(8), chance.choice(_FAILING)
    match kind:
        case 0:
            return Fault(operation=operation, status=500, times=chance.randint(1, 3))
        case 1:
            return Fault(operation=operation, status=429, times=1)
        case 2:
            return Fault(operation=operation, drop="before", times=1)
        case 3:
            return Fault(operation=operation, drop="after", times=1)
        case 4:
            return Fault(operation=operation, latency=chance.uniform(0.1, 40), times=1)
        case 5:
            return EventFault(delay=chance.uniform(0.1, 20), times=1)
        case 6:
            return EventFault(duplicates=1, times=1)
        case _:
            return EventFault(behind=True, times=1)


@contextmanager
def seeded(seed: int | str) -> Generator[None]:
    """Seed Trio's scheduler and the global `random` while the block runs; restore both states afterwards.

    May be entered around `trio.run`, or within it.
    """
    # The outbox's pauses use the random numbers of the module `random`. Trio shuffles ready tasks with random
    # numbers of its own, which can be seeded for exactly this use (as by pytest-trio and hypothesis), but
    # have no public name.
    run = vars(import_module("trio._core._run"))
    shuffler: random.Random = run["_r"]
    before, shuffling, allowed = (
        random.getstate(),
        shuffler.getstate(),
        run["_ALLOW_DETERMINISTIC_SCHEDULING"],
    )
    random.seed(seed)
    run["_ALLOW_DETERMINISTIC_SCHEDULING"] = True
    shuffler.seed(seed)
    try:
        yield
    finally:
        random.setstate(before)
        shuffler.setstate(shuffling)
        run["_ALLOW_DETERMINISTIC_SCHEDULING"] = allowed


@contextmanager
def without_threads() -> Generator[None]:
    """Run `trio.to_thread` functions in the loop's own thread, because threads end in a random order.

    Virtual time stands still while a thread works, so the functions delay nothing in the loop's thread.
    """
    with patch.object(trio.to_thread, "run_sync", _run_here):
        yield


async def _run_here(
    sync_fn: Callable[[Unpack[Ts]], T],
    *args: *Ts,
    thread_name: str | None = None,
    abandon_on_cancel: bool = False,
    limiter: object = None,
) -> T:
    await trio.lowlevel.checkpoint()
    return sync_fn(*args)
