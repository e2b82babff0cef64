"""The routing table against an oracle: of all that could take an event, who has it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from town import ALI, CHAT, REZA, SARA

from tests.samples import examples
from triobot.conversations.calls.signals import Signal
from triobot.conversations.routes.declarations import Ignored, Route, RouteKind, Table
from triobot.conversations.routes.filters import Filter, Setting
from triobot.conversations.routes.routing import (
    ROWS,
    Case,
    Decision,
    Drop,
    Expire,
    Give,
    Otherwise,
    Queue,
    Seat,
    Start,
    Unfit,
    Wait,
    Watch,
    decide,
    jump,
)
from triobot.conversations.running_set import RunningSet
from triobot.wire.events import Event, Join, Leave, Message, Press, Submission, UnknownEvent

TOKENS = ("qaaaaaaaa", "qbbbbbbbb")
OWNERS = (None, ALI.id, SARA.id)


@attrs.frozen
class Taker:
    """A wait or a block: whose, since when, and what it does.

    Attributes:
        sees: its own look takes the event; `also` is a question's second look.
        says: what becomes of the rest: "hint", "drop" or "keep".
    """

    owner: int | None
    aside: bool
    opened: int
    sees: bool = False
    also: bool = False
    question: bool = False
    token: str = ""
    parked: bool = False
    says: str = "hint"
    block: bool = False


@attrs.frozen
class World:
    """A chat, and a table: which of its kinds of routes would take the event."""

    event: Any
    routes: frozenset[str]
    live: frozenset[int | None]
    takers: tuple[Taker, ...]
    signals: bool
    kept: bool


@st.composite
def worlds(draw: st.DrawFn) -> World:
    sender = draw(st.sampled_from((None, REZA, ALI, SARA)))
    kind = draw(
        st.sampled_from(("text", "press", "old", "lasting", "form", "join", "leave", "unknown", "signal"))
    )
    event = {
        "text": Message(CHAT, "hi", sender),
        "press": Press(CHAT, f"{TOKENS[0]}.sx", 1, "c1", sender),
        "old": Press(CHAT, "qzzzzzzzz.sx", 1, "c1", sender),
        "lasting": Press(CHAT, "b.sx", 1, "c1", sender),
        "form": Submission(CHAT, (("a", "b"),), 1, None, sender),
        "join": Join(CHAT, sender),
        "leave": Leave(CHAT, sender),
        "unknown": UnknownEvent(CHAT, "sticker", sender=sender),
        "signal": Signal(CHAT, 7),
    }[kind]
    live = draw(st.frozensets(st.sampled_from(OWNERS)))
    opened = iter(draw(st.permutations(range(1, 9))))
    takers = []
    for _ in range(draw(st.integers(0, 5))):
        aside = draw(st.booleans()) or not live
        owner = None if aside else draw(st.sampled_from(sorted(live, key=str)))
        question = draw(st.booleans())
        takers.append(
            Taker(
                owner,
                aside,
                next(opened),
                draw(st.booleans()),
                draw(st.booleans()) and question,
                question,
                draw(st.sampled_from(TOKENS)) if question else "",
                draw(st.booleans()),
                draw(st.sampled_from(("hint", "drop", "keep"))),
                draw(st.integers(0, 3)) == 0,
            )
        )
    names = st.sampled_from(("ignore", "interrupt", "aside", "conversation"))
    return World(
        event, draw(st.frozensets(names)), live, tuple(takers), draw(st.booleans()), draw(st.booleans())
    )


# --- the code


@attrs.frozen
class Owned:
    """The one fact of a conversation that the places of a chat look at here."""

    owner: int | None


@attrs.define(eq=False)
class Runner:
    """What the places of a chat look at of a conversation."""

    facts: Owned
    seat: Seat = attrs.Factory(Seat)


async def nothing(chat: object) -> None:
    """A route's coroutine."""


def look(world: World, *, yes: bool) -> Callable[[Event, Setting], object | None]:
    """Only what names signals sees one."""
    seen = yes and (world.signals or not isinstance(world.event, Signal))
    return lambda event, setting: event if seen else None


def code(world: World, *, only_jump: bool = False) -> str:
    """What the code says, in the oracle's words."""

    def filters(kind: str) -> tuple[Filter[Any], ...]:
        return (Filter(look(world, yes=True), kind, True),) if kind in world.routes else ()

    def routes(kind: str) -> tuple[Route, ...]:
        return tuple(Route(RouteKind(kind), nothing, taken, kind) for taken in filters(kind))

    table = Table(
        tuple(map(Ignored, filters("ignore"))), routes("interrupt"), routes("aside"), routes("conversation")
    )
    running: Any = RunningSet(table)
    runners = {owner: Runner(Owned(owner)) for owner in world.live}
    running.live.update(runners)
    beside = Runner(Owned(None))
    running.asides = [beside]
    marks: dict[int, Taker] = {}
    policies = {"hint": "No.", "drop": Otherwise.DROP, "keep": Otherwise.KEEP}
    for taker in world.takers:
        runner = beside if taker.aside else runners[taker.owner]
        if taker.block:
            watch = Watch(look(world, yes=taker.sees), "block", taker.opened, owner=taker.owner)
            marks[id(watch)] = taker
            runner.seat.watches = [*runner.seat.watches, watch]
            continue
        wait = Wait(
            look(world, yes=taker.sees),
            policies[taker.says],
            taker.question,
            taker.token,
            also=look(world, yes=taker.also),
            opened=taker.opened,
            owner=taker.owner,
        )
        wait.rests = taker.parked
        marks[id(wait)] = taker
        runner.seat.waits.append(wait)
    waits, live = running.waits(world.event)
    watches = running.watches(world.event)
    failed: Any = pytest.fail
    if only_jump:
        case = Case(world.event, Setting(), table, failed, watches=watches)
        found: Decision | None = jump(case)
    else:
        kept = world.kept and isinstance(world.event, Press | Submission)
        case = Case(world.event, Setting(), table, failed, waits, live, watches, lambda _: kept)
        found = decide(case)
    match found:
        case None:
            return "later"
        case Start(route, _):
            return route.name
        case Give(Watch() as watch):
            return f"block {marks[id(watch)].opened}"
        case Give(wait, answer):
            return f"{'tell' if isinstance(answer, Unfit) else 'wait'} {marks[id(wait)].opened}"
        case Drop(why):
            return "ignore" if why == "ignored" else why
        case Queue():
            return "queue"
        case Expire():
            return "expired"
        case _:
            raise AssertionError(found)


# --- the oracle: a list of everybody who wants it, each with a rank; the smallest has it


def oracle(world: World, *, only_jump: bool = False) -> str:
    event, sender = world.event, world.event.sender
    told = isinstance(event, Signal)
    can_see = world.signals or not told
    wanted: list[tuple[int, bool, int, str]] = []

    def is_mine(taker: Taker) -> bool:
        return sender is not None and taker.owner == sender.id

    def may_see(taker: Taker) -> bool:
        if taker.owner is None or told or is_mine(taker):
            return True
        return sender is None and isinstance(event, Press | Submission)

    ranks = {"ignore": 1, "interrupt": 3, "aside": 4, "conversation": 10}
    whose = sender.id if sender is not None and sender.id in world.live else None
    leaving = isinstance(event, Leave) and whose is not None
    if leaving:
        whose = None
    for name in world.routes:
        deaf = name == "conversation" and (isinstance(event, Leave) or whose in world.live)
        if can_see and not deaf:
            wanted.append((ranks[name], True, 0, name))
    for taker in world.takers:
        if not may_see(taker):
            continue
        newest = (not is_mine(taker), -taker.opened)
        if taker.block:
            if taker.sees and can_see:
                wanted.append((2, *newest, f"block {taker.opened}"))
        elif leaving and is_mine(taker):
            continue
        elif can_see:
            if taker.question and taker.sees:
                wanted.append((5, *newest, f"wait {taker.opened}"))
            if taker.sees or taker.also:
                wanted.append((6, *newest, f"wait {taker.opened}"))
    if only_jump:
        wanted = [want for want in wanted if want[0] <= 4]
        return min(wanted)[-1] if wanted else "later"

    waits = [t for t in world.takers if not t.block and not (leaving and is_mine(t))]
    pressed_token = isinstance(event, Press) and event.value.startswith("q")
    over = "expired"
    if pressed_token and any(event.value.startswith(t.token) for t in waits if t.token):
        over = "not_asked"
    if world.kept and isinstance(event, Press | Submission):
        wanted.append((7, True, 0, "queue"))
    if pressed_token or isinstance(event, Submission):
        wanted.append((8, True, 0, over))
    if whose in world.live:
        parked = [t for t in waits if not t.aside and t.owner == whose and t.parked]
        parked.sort(key=lambda t: -t.opened)
        if not parked or told or parked[0].says == "keep":
            wanted.append((9, True, 0, "queue"))
        elif isinstance(event, Press):
            wanted.append((9, True, 0, "expired"))
        elif isinstance(event, Message) and parked[0].says == "hint":
            wanted.append((9, True, 0, f"tell {parked[0].opened}"))
        else:
            wanted.append((9, True, 0, "unasked"))
    wanted.append((11, True, 0, "queue" if told else "expired" if isinstance(event, Press) else "nobody"))
    return min(wanted)[-1]


@settings(max_examples=examples(200), deadline=None)
@given(worlds())
def test_everybody_who_wants_an_event_and_who_has_it(world: World) -> None:
    """When it comes, and when only what can't wait is asked."""
    assert code(world) == oracle(world)
    assert code(world, only_jump=True) == oracle(world, only_jump=True)


def test_the_table_says_what_it_is() -> None:
    """The rows that jump come first; names are their own."""
    names = [row.name for row in ROWS]
    assert names == [
        "ignore",
        "block",
        "interrupt",
        "aside",
        "question",
        "wait",
        "parked",
        "over",
        "live",
        "conversation",
        "parked aside",
        "nobody",
    ]
    assert [row.name for row in ROWS if row.jumps] == names[:4]
