"""The examples, killed: after each single act, after every act, and at each write of the store.

What people see then is what they see without a kill, but for messages that came twice, since nobody could
know whether they had been sent.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Container, Generator, Sequence
from contextlib import contextmanager
from types import ModuleType
from typing import Any, Final, TypeAlias, final

import attrs
import pytest
import trio

from tests.samples import EVERY
from triobot import Location, provide
from triobot.emulator.person import Person, Seen
from triobot.errors import ConfigError, StoreFullError
from triobot.seams.inbox import Acceptance, Arrival
from triobot.seams.writes import Write
from triobot.testing import drive
from triobot.testing.driving import DrivenWorld
from triobot.testing.process import Crashable, CrashableStore

Example: TypeAlias = Callable[[str], ModuleType]
Said: TypeAlias = tuple[str, str]
LATER: Final = (0, 40)


@attrs.define
class Scene:
    """A world in which each act may be followed by a kill.

    Attributes:
        kills: after which acts, by number; None: after every one.
        later: how many steps of the scheduler after that.
        acts: how many there have been.
        heard: what has been seen, even if it was changed later.
    """

    world: DrivenWorld
    module: ModuleType
    kills: frozenset[int] | None = frozenset()
    later: int = 0
    acts: int = 0
    killed: int = 0
    heard: set[str] = attrs.field(factory=set[str])

    async def act(self, act: Awaitable[object]) -> None:
        """Let somebody do or see something; then the process may die."""
        if isinstance(seen := await act, Seen):
            self.heard.add(seen.text)
        if self.kills is None or self.acts in self.kills:
            self.killed += 1
            for _ in range(self.later):
                await trio.lowlevel.checkpoint()
            await self.world.crashes()
        self.acts += 1


@final
class Deaths:
    """Lets the process die at a write of its store.

    Args:
        durable: what it dies at has become durable.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *, durable: bool) -> None:
        self._durable = durable
        self._left = -1
        self._died = trio.Event()
        deaths, accept, commit = self, CrashableStore.accept, CrashableStore.commit

        async def dying_accept(store: CrashableStore, arrival: Arrival, **more: Any) -> Acceptance:
            with deaths.at_a_write(store):
                return await accept(store, arrival, **more)

        async def dying_commit(store: CrashableStore, *writes: Write) -> None:
            with deaths.at_a_write(store):
                await commit(store, *writes)

        monkeypatch.setattr(CrashableStore, "accept", dying_accept)
        monkeypatch.setattr(CrashableStore, "commit", dying_commit)

    def arm(self, number: int) -> None:
        """Die at this write, counted from now."""
        self._left, self._died = number, trio.Event()

    @property
    def happened(self) -> bool:
        """Whether there were so many writes."""
        return self._died.is_set()

    @contextmanager
    def at_a_write(self, store: CrashableStore) -> Generator[None]:
        """Around a write: die before or after it, if it is the one."""
        mortal: Crashable = vars(store)["_mortal"]
        self._left -= not mortal.dead
        now = self._left == -1 and not mortal.dead
        if now and not self._durable:
            mortal.die()
        try:
            yield
        finally:
            # Also where a write of a dead process is refused: an event that was taken before it was stored.
            if now:
                mortal.die()
                self._died.set()

    async def bring_back(self, world: DrivenWorld) -> None:
        """Start it again."""
        await self._died.wait()
        await world.crashes()


Play: TypeAlias = Callable[[Scene], Awaitable[None]]


async def play_quiz(scene: Scene) -> None:
    act, sara = scene.act, scene.world.user("Sara")
    await act(sara.joins())
    await act(sara.sees("Which planet is the largest?"))
    await act(sara.presses("Jupiter"))
    await act(sara.sees("How many strings has a tar?"))
    await act(scene.world.waits(seconds=scene.module.EACH))
    await act(sara.sees("Time is up for this one."))
    await act(sara.sees("Which one is not a fruit?"))
    await act(sara.presses("Potato"))
    await act(sara.sees("2 of 3 right."))


async def play_pizza(scene: Scene) -> None:
    act, sara = scene.act, scene.world.user("Sara", wallet=100_000)
    await act(sara.joins())
    await act(sara.sees("Your name?"))
    await act(sara.says("Sara"))
    await act(sara.sees("Size?"))
    await act(sara.presses("Large"))
    await act(sara.sees("Where to?"))
    await act(sara.says("at home"))
    await act(sara.sees("Please share a location."))
    await act(sara.shares_location())
    await act(sara.sees("How do we find you?"))
    await act(sara.submits({"floor": "3", "doorbell": "Ahmadi"}))
    await act(sara.sees("A large pizza"))
    await act(scene.world.waits(minutes=10))
    await act(sara.sees("Too slow, come back any time."))


async def play_survey(scene: Scene) -> None:
    act, sara = scene.act, scene.world.user("Sara")
    await act(sara.joins())
    await act(sara.sees("Three questions at most."))
    await act(sara.sees("How was it?"))
    await act(sara.presses("★★"))
    await act(sara.sees("What went wrong?"))
    await act(sara.presses("« Back"))
    await act(sara.sees("How was it?"))
    await act(sara.presses("★"))
    await act(sara.sees("What went wrong?"))
    await act(scene.world.waits(days=1))
    await act(sara.sees("Still there? We go on where you stopped."))
    await act(sara.sees("What went wrong?"))
    await act(sara.says("Too long"))
    await act(sara.sees("Where do you live?"))
    await act(sara.says("Shiraz"))
    await act(sara.sees("Thank you!"))


async def tell(scene: Scene, sara: Person, update: object, key: str) -> None:
    """As the fleet does, until it is heard."""
    while True:
        try:
            await scene.module.tell(sara.chat_id, update, key)
        except (StoreFullError, ConfigError):
            await trio.sleep(1)
        else:
            return


async def play_taxi(scene: Scene) -> None:
    act, sara, taxi = scene.act, scene.world.user("Sara"), scene.module
    await act(sara.joins())
    await act(sara.sees("Where are you?"))
    await act(sara.shares_location())
    await act(sara.sees("Where to?"))
    # Another place: an event that is the same as the last one within seconds is taken for its repetition.
    await act(sara.says(Location("35.7", "51.4", "airport")))
    await act(sara.sees("80,000 rials"))
    await act(sara.presses("Cash"))
    await act(sara.says("Hurry!"))
    await act(sara.sees("Looking for a driver..."))
    await act(tell(scene, sara, taxi.Driver("Reza", "12-345"), "driver-1"))
    await act(sara.sees("Reza is coming, 12-345."))
    await act(sara.sees("The driver is on the way."))
    await act(tell(scene, sara, taxi.Moved(4), "moved-1"))
    # What a live message shows meanwhile may be lost with the process; its last text is not.
    scene.heard.add("4 min away")
    await act(tell(scene, sara, taxi.Arrived(), "arrived-1"))
    await act(sara.sees("The car is here. How was it?"))
    await act(sara.presses("★★★★★"))
    await act(sara.sees("Thank you!"))


async def play_shop(scene: Scene) -> None:
    act, sara = scene.act, scene.world.user("Sara")
    await act(sara.joins())
    await act(sara.sees("One moment."))
    await act(sara.sees("7 items, page 1; write to search. In the cart: 0"))
    await act(sara.presses("Bread, 20,000"))
    await act(sara.sees("7 items, page 1; write to search. In the cart: 1"))
    await act(sara.presses("»"))
    await act(sara.sees("7 items, page 2; write to search. In the cart: 1"))
    await act(sara.says("gs"))
    await act(sara.sees("2 items, page 1; write to search. In the cart: 1"))
    await act(sara.presses("Eggs, 50,000"))
    await act(sara.sees("2 items, page 1; write to search. In the cart: 2"))
    await act(sara.says("/leave"))
    await act(sara.sees("Come back any time."))


async def play_desk(scene: Scene) -> None:
    act, world = scene.act, scene.world
    reza, mina, sara = world.user("Reza"), world.user("Mina"), world.user("Sara")
    for operator in (reza, mina):
        await act(operator.joins())
        await act(operator.sees("Questions come here. /on and /off say whether to you."))
        await act(operator.says("/on"))
        await act(operator.sees("You are on duty."))
    await act(sara.joins())
    await act(sara.sees("How can we help?"))
    await act(sara.says("My order is late."))
    for operator in (reza, mina):
        await act(operator.sees("My order is late."))
    await act(sara.says("Hello?"))
    await act(sara.sees("Somebody will be here soon."))
    await act(reza.presses("Take"))
    await act(sara.sees("Here we are. /end ends the talk."))
    await act(reza.sees("It is yours. /end ends the talk."))
    await act(mina.presses("Take"))
    await act(mina.sees("Somebody else was faster."))
    await act(reza.says("Which order?"))
    await act(sara.sees("Which order?"))
    await act(sara.says(Location("35.7", "51.3", "here")))
    await act(reza.sees(Location))
    await act(sara.says("/end"))
    await act(sara.sees("The talk is over."))
    await act(reza.sees("The talk is over."))


PLAYS: Final[dict[str, Play]] = {
    "quiz": play_quiz,
    "pizza": play_pizza,
    "survey": play_survey,
    "taxi": play_taxi,
    "shop": play_shop,
    "desk": play_desk,
}


async def played(
    module: ModuleType,
    play: Play,
    kills: frozenset[int] | None = frozenset(),
    *,
    later: int = 0,
    deaths: Deaths | None = None,
) -> tuple[Scene, Sequence[str]]:
    """Play once; what everybody saw."""
    around = [provide(module.fleet, module.Fleet())] if hasattr(module, "fleet") else []
    async with drive(module.bot, *around) as world, trio.open_nursery() as nursery:
        scene = Scene(world, module, kills, later)
        if deaths is not None:
            nursery.start_soon(deaths.bring_back, world)
        await play(scene)
        await world.waits(minutes=1)
        shown = plain(await world.transcript())
        nursery.cancel_scope.cancel()
    return scene, shown


def plain(transcript: str) -> Sequence[str]:
    """What was said, by whom; what could be pressed beside it is gone once it is over, or was sent twice."""
    lines = [
        line.split(" <")[0] for line in transcript.splitlines() if not line.startswith("    \N{MIDDLE DOT}")
    ]
    return [re.sub(r"^(bot|   ) #[0-9]+ ", r"\1 ", line) for line in lines]


def check(shown: Sequence[str], expected: Sequence[str], kills: int, heard: Container[str]) -> None:
    """The same, but for repeats: at most as many as kills, and each of something that had been said."""
    assert by_side(shown, "   ") == by_side(expected, "   ")
    said, wanted = by_side(shown, "bot"), by_side(expected, "bot")
    rest, repeats = list(wanted), 0
    for chat, line in said:
        if (chat, line) in rest:
            rest.remove((chat, line))
        else:
            assert (chat, line) in wanted or line[4:] in heard, f"{line!r} is new"
            repeats += 1
    assert not rest, f"{rest} was not said"
    # A conversation may be saying something to several chats at a time.
    assert repeats <= kills * len({chat for chat, _ in wanted}), "too many repeats"
    assert in_order(said, wanted), "\n".join(shown)


def by_side(shown: Sequence[str], side: str) -> list[tuple[str, str]]:
    """The lines of the bot, or of the people, with their chat."""
    chat, lines = "", list[tuple[str, str]]()
    for line in shown:
        if line.startswith("---"):
            chat = line
        elif line.startswith(side):
            lines.append((chat, line))
    return lines


def in_order(said: Sequence[Said], wanted: Sequence[Said]) -> bool:
    """Whether all that was wanted is in what was said, in its order."""
    left = iter(said)
    return all(any(line == other for other in left) for line in wanted)


async def undisturbed(example: Example, name: str) -> tuple[int, Sequence[str]]:
    """How many acts a play has, and what is seen when nobody is killed."""
    scene, shown = await played(example(name), PLAYS[name])
    assert not scene.killed
    return scene.acts, shown


@pytest.mark.slow
@pytest.mark.parametrize("name", PLAYS)
async def test_a_kill_after_any_act_changes_nothing(
    example: Example, name: str, autojump_clock: object, long: bool
) -> None:
    """Right after it, before the bot knows, or a little later, in the middle of the bot's work."""
    acts, expected = await undisturbed(example, name)
    for number in range(0, acts, 1 if long else EVERY):
        later = LATER[number % len(LATER)]
        scene, shown = await played(example(name), PLAYS[name], frozenset((number,)), later=later)
        assert scene.killed == 1
        check(shown, expected, 1, scene.heard)


@pytest.mark.slow
@pytest.mark.parametrize("later", LATER)
@pytest.mark.parametrize("name", PLAYS)
async def test_kills_after_every_act_change_nothing(
    example: Example, name: str, later: int, autojump_clock: object
) -> None:
    acts, expected = await undisturbed(example, name)
    scene, shown = await played(example(name), PLAYS[name], None, later=later)

    assert scene.killed == acts
    check(shown, expected, acts, scene.heard)


@pytest.mark.slow
@pytest.mark.parametrize("durable", [False, True])
@pytest.mark.parametrize("name", PLAYS)
async def test_a_kill_at_any_write_changes_nothing(
    example: Example,
    name: str,
    durable: bool,
    autojump_clock: object,
    monkeypatch: pytest.MonkeyPatch,
    long: bool,
) -> None:
    """Just before a write is durable, and just after, when nobody has been told."""
    _, expected = await undisturbed(example, name)
    deaths = Deaths(monkeypatch, durable=durable)
    number = 0
    while True:
        deaths.arm(number)
        scene, shown = await played(example(name), PLAYS[name], deaths=deaths)
        if not deaths.happened:
            break
        check(shown, expected, 1, scene.heard)
        number += 1 if long else EVERY

    assert number > 10
