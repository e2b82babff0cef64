"""Runs random conversations through a whole bot that is killed: ``python -m tests.chaos.fuzz --seeds 1000``.

A run uses all parts of the bot: dispatcher, mailbox, journal, store, outbox and payments. There are three
modes. *equal*: people must see the same messages as without a kill, except for repetitions. *wild*: people
interrupt, leave, pay and come back in the same instant, and the process dies at any moment. Then two runs may
differ. But no operation has two texts, no message is repeated more often than the process died, no alarm is
raised, every accepted event is handled, the goods of each captured payment are given, and no person is locked
out. *every*: like *wild*, and the programs make all calls that an author's code can make.
"""

from __future__ import annotations

import argparse
import logging
import random
import re
import sys
import traceback
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Generator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from types import MappingProxyType
from typing import Any, Final, TypeAlias, final

import attrs
import trio

from triobot import Bot
from triobot.conversations.workload import EarlyEvent, Workload
from triobot.emulator.chats import ChatMessage, Shown
from triobot.emulator.person import AppError, Person
from triobot.emulator.world import ImpossibleActError
from triobot.errors import ConfigError, StoreFullError
from triobot.seams.inbox import Acceptance, Arrival, InboxRow
from triobot.seams.writes import Accept, Write
from triobot.testing import drive, run
from triobot.testing.driving import DrivenWorld
from triobot.testing.process import Crashable, CrashableStore, DrivenProcess
from triobot.testing.simulating import seeded
from triobot.wire.decode import decode_event
from triobot.wire.encode import event_key
from triobot.wire.ids import MessageId
from triobot.wire.markup import CallbackButton
from triobot.wire.platform_side import Body

from .talks import Ping, make_bot

try:
    from triobot.conversations.early import EarlyDoor
except ModuleNotFoundError:  # the module can be deleted
    EarlyDoor = None  # type: ignore[assignment,misc]

Act: TypeAlias = str
Burst: TypeAlias = tuple[float, Sequence[Act]]

OTHERS: Final = 24
"""Undisturbed runs that are looked at before a difference counts."""

MOST_STEPS: Final = 80
"""Steps of the scheduler by which a kill follows an act, and an event another that comes in its instant."""

_UNIQUE: Final = re.compile(r"^(?P<operation>.*#\d+): ")


@final
@attrs.frozen
class Kill:
    """When the process dies: at a write of its store, or after an act.

    Attributes:
        write: at this write, counted from its start; None: after an act.
        durable: that write is durable.
        stops: it doesn't die then, but stops as a deploy does.
        burst: after this burst of acts,
        steps: and so many steps of the scheduler.
    """

    write: int | None = None
    durable: bool = False
    stops: bool = False
    burst: int = -1
    steps: int = 0


@final
@attrs.frozen
class Seen:
    """What came of a run; `before`: how much the bot had said before each burst."""

    by_bot: Sequence[str]
    kills: int
    writes: int
    problems: Sequence[str]
    came: Sequence[float] = ()
    given_out: Sequence[float] = ()
    before: Sequence[int] = ()

    def until(self, burst: int) -> Seen:
        """What the bot had said before this burst."""
        return attrs.evolve(self, by_bot=self.by_bot[: self.before[burst]])


def bursts_of(seed: int, *, wild: bool) -> Sequence[Burst]:
    """What people do in a program's life: seconds to wait, and what is done then at once."""
    r = random.Random(f"bursts {seed}")
    found: list[Burst] = [(0, ["join"])]
    number = 0

    def word() -> Act:
        nonlocal number
        number += 1
        return f"{r.choice('ab')}{number}"

    for _ in range(r.randrange(3, 14)):
        acts: list[Act] = [word() for _ in range(r.choice((1, 1, 1, 2, 3)))]
        special = r.random()
        if wild:
            acts += r.choices(["/x", "/y", "leave", "join", "ping", "Yes", "pay", word()], k=r.randrange(4))
            r.shuffle(acts)
        elif special < 0.1:
            acts = ["/x"]
        elif special < 0.2:
            acts = ["/y"]
        elif special < 0.25:
            acts = ["leave"]
        elif special < 0.35:
            acts = ["ping"]
        elif special < 0.55:
            acts = ["Yes"]
        # In the wild mode, some pauses are so short that the bot still handles the previous acts.
        pause = r.randrange(1, 3_000_000) / 1000
        found.append((r.choice((0, 0.001, 1, pause)) if wild else pause, acts))
    return found


def kills_of(seed: int, bursts: int, writes: int) -> Sequence[Kill]:
    """When it dies."""
    r = random.Random(f"kills {seed}")
    kills: list[Kill] = []
    for _ in range(r.randint(1, 4)):
        if r.random() < 0.6:
            kills.append(Kill(write=r.randrange(max(1, writes)), durable=r.random() < 0.5))
        else:
            kills.append(Kill(burst=r.randrange(bursts), steps=r.randrange(MOST_STEPS)))
    return kills


def _counts(body: Body) -> bool:
    """Tell whether this is none of the events that `Deaths.came` leaves out."""
    event = decode_event(body.content_type, body.data)
    return not event_key(event, body.content_type, body.data)[1]


@final
class Deaths:
    """Lets the process die at writes of its store, and starts it again.

    Attributes:
        came: when each event came into the store, by a row or with what took it; presses and signals, which
            have a key of their own, are not among them.
        given_out: when each was given out to its chat: later, if a stop or a death came in between.
    """

    def __init__(
        self, kills: Sequence[Kill], late: Sequence[float] = (), together: int | None = None
    ) -> None:
        self._at = [kill for kill in kills if kill.write is not None]
        self._late = list(late)
        self.go_on_by(together)
        # Events of one moment are kept until this time, and are then given to the chats together.
        self._looked_at = self._kept_at = -1.0
        self._died = trio.Event()
        self._stops = False
        self.writes = 0
        self.since = 0
        self.kills = 0
        self.came: list[float] = []
        self.given_out: list[float] = []
        self._places: dict[int, int] = {}

    @contextmanager
    def at_a_write(self, store: CrashableStore) -> Generator[None]:
        mortal: Crashable = vars(store)["_mortal"]
        now = bool(self._at) and self._at[0].write == self.since and not mortal.dead
        self.writes += not mortal.dead
        self.since += not mortal.dead
        kill = self._at.pop(0) if now else None
        if kill is not None and not kill.stops:
            self.kills += 1  # counted here, since the process may die during a stop
        if kill is not None and not (kill.durable or kill.stops):
            mortal.die()
        try:
            yield
        finally:
            # Also if a dead process's write is refused: a conversation may get an event before the store.
            if kill is not None:
                self._stops = kill.stops
                if not kill.stops:
                    mortal.die()
                self._died.set()

    @contextmanager
    def watching(self) -> Generator[None]:
        """See every write of the store while the block runs."""
        deaths, take, first_take, busy = (
            self,
            DrivenProcess.take,
            None if EarlyDoor is None else EarlyDoor._take,
            Workload.until_not_too_busy,
        )
        accept, commit = CrashableStore.accept, CrashableStore.commit
        passed_on = CrashableStore.__getattr__

        async def late_take(process: DrivenProcess, body: Body) -> int | None:
            # The delay comes first, because a conversation may get an event before the store.
            late = deaths._late.pop(0) - trio.current_time() if deaths._late and _counts(body) else 0
            if late > 0:
                await trio.sleep(late)
            elif deaths._apart is not None:
                for _ in range(deaths._apart.randrange(MOST_STEPS) * deaths._apart.randrange(2)):
                    await trio.lowlevel.checkpoint()
            deaths._may_keep(late=late > 0)
            return await take(process, body)

        def taken_first(door: EarlyDoor, *given: Any) -> EarlyEvent | None:
            return None if deaths._kept_at == trio.current_time() else first_take(door, *given)

        async def until_all_came(work: Workload) -> None:
            if deaths._kept_at == trio.current_time():
                await trio.sleep(0.001)
            await busy(work)

        async def dying_accept(store: CrashableStore, arrival: Arrival, **more: Any) -> Acceptance:
            with deaths.at_a_write(store):
                accepted = await accept(store, arrival, **more)
            if isinstance(accepted, InboxRow):
                deaths._stored(arrival, accepted.seq)
            return accepted

        async def dying_commit(store: CrashableStore, *writes: Write) -> None:
            with deaths.at_a_write(store):
                await commit(store, *writes)
            for write in writes:
                if isinstance(write, Accept):
                    deaths._stored(write.arrival)

        async def noted(
            read: Callable[..., Awaitable[Sequence[InboxRow]]], **which: int
        ) -> Sequence[InboxRow]:
            rows = await read(**which)
            for place in (deaths._places[row.seq] for row in rows if row.seq in deaths._places):
                deaths.given_out[place] = trio.current_time()
            return rows

        def reading(store: CrashableStore, name: str) -> Any:
            found = passed_on(store, name)
            return partial(noted, found) if name == "backlog" else found

        setattr(DrivenProcess, "take", late_take)  # noqa: B010
        if EarlyDoor is not None:
            setattr(EarlyDoor, "_take", taken_first)  # noqa: B010
        setattr(Workload, "until_not_too_busy", until_all_came)  # noqa: B010
        setattr(CrashableStore, "accept", dying_accept)  # noqa: B010
        setattr(CrashableStore, "commit", dying_commit)  # noqa: B010
        setattr(CrashableStore, "__getattr__", reading)  # noqa: B010
        try:
            yield
        finally:
            setattr(DrivenProcess, "take", take)  # noqa: B010
            if EarlyDoor is not None:
                setattr(EarlyDoor, "_take", first_take)  # noqa: B010
            setattr(Workload, "until_not_too_busy", busy)  # noqa: B010
            setattr(CrashableStore, "accept", accept)  # noqa: B010
            setattr(CrashableStore, "commit", commit)  # noqa: B010
            setattr(CrashableStore, "__getattr__", passed_on)  # noqa: B010

    def _stored(self, arrival: Arrival, seq: int | None = None) -> None:
        if not arrival.once:
            if seq is not None:
                self._places[seq] = len(self.came)
            self.came.append(trio.current_time())
            self.given_out.append(trio.current_time())

    def go_on_by(self, seed: int | None) -> None:
        """Have what comes at once given out at once, or else come a little apart; None: neither."""
        chance, apart = None if seed is None else random.Random(seed), bool(seed and seed // 2 % 2)
        self._together, self._apart = (None, chance) if apart else (chance, None)

    def _may_keep(self, *, late: bool) -> None:
        """Have what comes now given out at once: if it is late, and else at times."""
        now = trio.current_time()
        if self._together is not None and (late or now != self._looked_at):
            self._looked_at = now
            if late or self._together.random() < 0.5:
                self._kept_at = now

    async def bring_back(self, world: DrivenWorld) -> None:
        async with trio.open_nursery() as nursery:
            while True:
                await self._died.wait()
                self._died = trio.Event()
                self.since = 0
                # Not awaited, because a process may die in the middle of its stop.
                nursery.start_soon(world.restarts if self._stops else world.crashes)

    async def kill(self, world: DrivenWorld) -> None:
        self.kills += 1
        self.since = 0
        await world.crashes()


async def live(
    seed: int,
    bursts: Sequence[Burst],
    kills: Sequence[Kill],
    *,
    wild: bool,
    late: Sequence[float] = (),
    together: int | None = None,
    anew: Mapping[int, int] = MappingProxyType({}),
    every: bool = False,
) -> Seen:
    """One run.

    Args:
        anew: by burst, the seed by which Trio's scheduler, and what is given out at once, go from there on.
        every: see `make_bot`.
        late: when what people do comes to the bot, at the earliest.
        together: by this seed, what comes at once is given out at once, as after a start, or a little apart.
    """
    given = set[str]()
    bot = make_bot(seed, given, wild=wild, every=every)
    deaths = Deaths(kills, late, together)
    problems, before = list[str](), list[int]()
    with deaths.watching(), ExitStack() as chances:
        # The platform repeats each post often, so that no event is lost by the platform's fault.
        async with drive(bot, attempts=100) as world, trio.open_nursery() as nursery:
            person = world.user("Sara", wallet=10**9)
            nursery.start_soon(deaths.bring_back, world)
            inside = False
            for number, (pause, acts) in enumerate(bursts):
                await trio.sleep(pause)
                before.append(len(_said(world)))
                if number in anew:
                    chances.enter_context(seeded(anew[number]))
                    deaths.go_on_by(anew[number] if anew[number] % 3 else None)
                for act in acts:
                    inside = await _do(bot, world, person, act, inside=inside, number=number, wild=wild)
                for kill in kills:
                    if kill.burst == number:
                        for _ in range(kill.steps):
                            await trio.lowlevel.checkpoint()
                        await deaths.kill(world)
            await world.waits(days=3)
            if wild:
                problems += await _look(bot, world, person, inside=inside)
            problems += [f"{alarm.kind}: {alarm.text}" for alarm in world.alarms if not _expected(alarm.kind)]
            world.alarms.clear()
            said = _said(world)
            problems += _captured(world, given)
            nursery.cancel_scope.cancel()
    return Seen(said, deaths.kills, deaths.writes, problems, deaths.came, deaths.given_out, before)


def _expected(kind: str) -> bool:
    # If the only person has left, every send is refused, as with a wrong token.
    return kind in ("button_still_live", "outbox_held")


async def _do(
    bot: Bot,
    world: DrivenWorld,
    person: Person,
    act: Act,
    *,
    inside: bool,
    number: int,
    wild: bool = False,
) -> bool:
    with suppress(AppError, ImpossibleActError):
        match act:
            case "join":
                if not inside:
                    await person.joins()
                return True
            case "leave":
                if inside:
                    await person.leaves()
                return False
            case "ping":
                while True:
                    try:
                        await bot.to(person.chat_id).signal(Ping(number), key=f"ping {number}")
                        break
                    except (ConfigError, StoreFullError):
                        await trio.sleep(0.1)
            case "Yes" if wild:
                await person.presses("Yes", within=0)
            case "Yes":
                await _press_once(world, person)
            case "pay":
                await person.pays(within=0)
            case _ if not inside:
                await person.joins()
                await person.says(act)
                return True
            case _:
                await person.says(act)
    return inside


async def _press_once(world: DrivenWorld, person: Person) -> None:
    """Press the newest `Yes`, but never an earlier copy of a question that came twice: the bot doesn't know
    that copy, and leaves its buttons when the question is over.
    """
    last = dict[str, MessageId]()
    for change in world.exchange.world.changes(0):
        if isinstance(change.what, Shown):
            entry = change.what.entry
            last.update({button.data: entry.id for button in _buttons(entry)})
    for entry in world.exchange.world.chat(person.chat_id).in_sight():
        if any(button.text == "Yes" and last[button.data] == entry.id for button in _buttons(entry)):
            return await person._act("press", {"label": "Yes", "message": entry.id})
    return None


def _buttons(entry: ChatMessage) -> Sequence[CallbackButton]:
    return [button for button in entry.buttons() if isinstance(button, CallbackButton)]


async def _look(bot: Bot, world: DrivenWorld, person: Person, *, inside: bool) -> Sequence[str]:
    """Whether somebody can go on who comes back when all is quiet."""
    found: list[str] = []
    if not inside:
        await person.joins()
        await world.waits(minutes=1)
    await person.says("/clear")
    await world.waits(days=3)
    last = [line for line in _said(world) if line == "cleared"]
    if not last:
        found.append("/clear was not heard")
    statistics = bot.statistics()
    kept = statistics.counts.get("signal_kept", 0)
    if (left := statistics.store.inbox) > kept:
        found.append(f"{left} events were never handled")
    return found


def _said(world: DrivenWorld) -> Sequence[str]:
    """All that the bot said; a screen, and so a transcript, shows only the last of it."""
    chats = world.exchange.world.chats()
    entries = [entry for chat in chats for entry in chat.entries.values() if entry.author is None]
    return [entry.content for entry in entries if isinstance(entry.content, str)]


def _captured(world: DrivenWorld, given: Collection[str]) -> Sequence[str]:
    bills = [
        bill for bill in world.exchange.world.bills if any(taking.captured_at for taking in bill.takings)
    ]
    if len(bills) != len(given):
        return [f"{len(bills)} payments were captured, and {len(given)} things given"]
    return []


def compare(calm: Seen, shaken: Seen, *, by_branch: bool = False) -> str | None:
    """The same, but for repeats: at most as many as kills for each of what may be under way at a time.

    The order counts within each conversation: whose turn is first of two of them at once, nothing says.

    Args:
        by_branch: the order counts within each branch only.
    """
    said, wanted = Counter(shaken.by_bot), Counter(calm.by_bot)
    if missing := wanted - said:
        return f"not said: {list(missing)}"
    if new := [line for line in said if line not in wanted]:
        return f"new: {new}"
    if (more := sum((said - wanted).values())) > 2 * shaken.kills:
        return f"{more} repeats in {shaken.kills} kills"
    mine, others = (_apart(seen.by_bot, "#" if by_branch else " ") for seen in (calm, shaken))
    for branch, lines in mine.items():
        left = iter(others[branch])
        if not all(any(line == other for other in left) for line in lines):
            return f"in another order: {branch}"
    return None


def _later(calm: Seen, shaken: Seen) -> bool:
    return any(abs(one - other) > 0.1 for one, other in zip(calm.came, shaken.came, strict=False))


def _apart(said: Sequence[str], by: str) -> Mapping[str, Sequence[str]]:
    found: dict[str, list[str]] = {}
    for line in said:
        found.setdefault(line.partition(by)[0], []).append(line)
    return found


def contradictions(seen: Seen) -> Sequence[str]:
    """Operations with two texts, and too many repeats."""
    found: list[str] = []
    texts: dict[str, str] = {}
    for line in seen.by_bot:
        if match := _UNIQUE.match(line):
            operation = match["operation"]
            if texts.setdefault(operation, line) != line:
                found.append(f"{texts[operation]!r}, then {line!r}")
    repeats = sum(times - 1 for line, times in Counter(seen.by_bot).items() if _UNIQUE.match(line))
    if repeats > 3 * seen.kills:
        found.append(f"{repeats} repeats in {seen.kills} kills")
    return found


def check(
    seed: int,
    *,
    wild: bool,
    shuffle: int = 0,
    explain: bool = False,
    kills: Sequence[Kill] | None = None,
    every: bool = False,
) -> str | None:
    """What is wrong with this seed, if anything.

    Args:
        every: see `make_bot`; only in the wild.
        kills: when it dies, in place of what the seed says.
    """
    bursts = bursts_of(seed, wild=wild)

    def lived(
        kills: Sequence[Kill],
        shuffle: int = shuffle,
        late: Sequence[float] = (),
        *,
        together: int | None = None,
        anew: Mapping[int, int] = MappingProxyType({}),
    ) -> Seen:
        by = partial(live, late=late, together=together, anew=anew, wild=wild, every=every)
        with seeded(f"shuffle {seed} {shuffle}"):
            return run(partial(by, seed, bursts, kills))

    calm = lived(())
    if problems := [*calm.problems, *(contradictions(calm) if wild else ())]:
        return f"without a kill: {problems}"
    kills = kills_of(seed, len(bursts), calm.writes) if kills is None else kills
    shaken = lived(kills)
    if explain:
        _explain(bursts, kills, calm, shaken)
    if problems := [*shaken.problems, *(contradictions(shaken) if wild else ())]:
        return str(problems)
    if wild or (wrong := compare(calm, shaken)) is None:
        return None
    # A kill may have an effect that chance or a slow platform could also have.
    others, by_branch, nearest = [calm], False, _Chance(shuffle)
    for number in range(5 * OTHERS):
        # An event that a dying process refused is posted again a second later, when other branches may wait.
        late = number % 2 == 0
        came = (shaken.came, shaken.came, shaken.given_out)[number // 2 % 3] if late else ()
        if number < OTHERS:
            chance = _Chance(shuffle + number, number if number // 2 % 3 else None)
        else:
            # The result may need several chances. So keep the matching beginning of the nearest run, and draw
            # the rest again.
            chance = nearest.from_burst(number)
        others.append(lived((), chance.shuffle, came, together=chance.together, anew=chance.anew))
        # Trio's scheduler has no fixed order for branches that act at once. If an event came late, other acts
        # may happen at once. In both cases, compare each branch by itself.
        apart = _later(calm, shaken) if late else compare(calm, others[-1]) is not None
        by_branch = by_branch or apart
        if any(compare(other, shaken, by_branch=by_branch) is None for other in others):
            return None
        if (agrees := _agrees(others[-1], shaken)) >= nearest.agrees:
            nearest = attrs.evolve(chance, agrees=agrees)
    return wrong


@final
@attrs.frozen
class _Chance:
    """What decides in an undisturbed run what nothing else does; `agrees`: up to this burst, as it was."""

    shuffle: int
    together: int | None = None
    anew: Mapping[int, int] = attrs.field(factory=dict[int, int])
    agrees: int = 0

    def from_burst(self, number: int) -> _Chance:
        # A difference of two runs may show a little later than its cause.
        burst = random.Random(number).randint(max(0, self.agrees - 2), self.agrees)
        kept = {place: seed for place, seed in self.anew.items() if place < burst}
        return attrs.evolve(self, anew={**kept, burst: number})


def _agrees(other: Seen, shaken: Seen) -> int:
    """Before how many bursts both had said the same."""
    for burst in range(len(shaken.before)):
        if compare(other.until(burst), shaken.until(burst), by_branch=True) is not None:
            return burst - 1
    return len(shaken.before) - 1


def _explain(bursts: Sequence[Burst], kills: Sequence[Kill], calm: Seen, shaken: Seen) -> None:
    import difflib

    print(*bursts, *kills, sep="\n")
    print(*difflib.unified_diff(calm.by_bot, shaken.by_bot, "calm", "shaken", lineterm="", n=100), sep="\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=100)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--mode", choices=["equal", "wild", "every", "both"], default="both")
    parser.add_argument("--shuffles", type=int, default=1, help="orders of Trio's scheduler for each seed")
    parser.add_argument("--explain", action="store_true", help="show both runs")
    arguments = parser.parse_args()
    logging.disable(logging.CRITICAL)
    failures, runs = 0, 0
    modes = {"equal": [False], "wild": [True], "every": [True], "both": [False, True]}[arguments.mode]
    every = arguments.mode == "every"
    for seed in range(arguments.first, arguments.first + arguments.seeds):
        for wild in modes:
            for shuffle in range(arguments.shuffles):
                runs += 1
                try:
                    wrong = check(seed, wild=wild, shuffle=shuffle, explain=arguments.explain, every=every)
                except Exception:
                    wrong = traceback.format_exc()
                if wrong is not None:
                    failures += 1
                    mode = "wild" if wild else "equal"
                    print(f"seed {seed}, {mode}, shuffle {shuffle}: {wrong}", flush=True)
    print(f"{runs} runs, {failures} failures")
    sys.exit(bool(failures))


if __name__ == "__main__":
    main()
