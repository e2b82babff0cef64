"""The routing table, row by row and against every pair of rows that could both take an event."""

from __future__ import annotations

from itertools import combinations

import attrs
import pytest

from triobot.conversations.routes.filters import Filter, Setting
from triobot.conversations.routes.router import Ignored, Route, RouteKind, Table
from triobot.conversations.routes.routing import (
    Broken,
    Case,
    Decision,
    Delivery,
    Drop,
    Expire,
    Give,
    Otherwise,
    Queue,
    Start,
    Taken,
    Unfit,
    Wait,
    Watch,
    decide,
    offer,
    token_of,
    unfit,
)
from triobot.wire.events import (
    Event,
    InvoiceCallback,
    Join,
    Leave,
    Message,
    PayCallback,
    Press,
    Sender,
    Submission,
    UnknownEvent,
)

CHAT = 5
TOKEN = "qabcdefgh"
OTHER_TOKEN = "qzzzzzzzz"
SETTING = Setting("bot", False)
MESSAGE = Message(CHAT, "hi", Sender(71))
QUESTION_PRESS = Press(CHAT, f"{TOKEN}.sx", 1, "c1")
OLD_PRESS = Press(CHAT, f"{OTHER_TOKEN}.sx", 1, "c1")
LASTING_PRESS = Press(CHAT, "b.sx", 1, "c1")
FORM = Submission(CHAT, (("a", "b"),), 1)
PAY = PayCallback(CHAT, "abc")
INVOICE = InvoiceCallback(CHAT, "inv1")
JOIN, LEAVE, UNKNOWN = Join(CHAT), Leave(CHAT), UnknownEvent(CHAT, "sticker")
EVERYTHING = (
    MESSAGE,
    QUESTION_PRESS,
    OLD_PRESS,
    LASTING_PRESS,
    FORM,
    PAY,
    INVOICE,
    JOIN,
    LEAVE,
    UNKNOWN,
)
ORDINARY = tuple(event for event in EVERYTHING if event not in (PAY, INVOICE))

ANY: Filter[Event] = Filter(lambda event, _: event, "any")
NONE: Filter[Event] = Filter(lambda event, _: None, "none")


def raising(event: Event, setting: Setting) -> Event:
    raise KeyError("author")


BAD: Filter[Event] = Filter(raising, "bad")


async def nothing(chat: object) -> None:
    """A route's coroutine."""


def route(kind: RouteKind, taken: Filter[Event] = ANY) -> Route:
    return Route(kind, nothing, taken, kind.value)


def a_wait(
    taken: Filter[Event] = ANY,
    otherwise: str | Otherwise = "hint",
    *,
    question: bool = False,
    parked: bool = False,
    token: str = "",
) -> Wait:
    wait = Wait(taken.look, otherwise, question, token)
    if parked:
        wait.rests = True
    return wait


def a_watch(taken: Filter[Event] = ANY) -> Watch:
    return Watch(taken.look, taken.name)


@attrs.frozen
class World:
    """Everything that `decide` looks at."""

    ignored: Filter[Event] | None = None
    interrupt: Filter[Event] | None = None
    aside: Filter[Event] | None = None
    conversation: Filter[Event] | None = None
    waits: tuple[Wait, ...] = ()
    live: tuple[Wait, ...] | None = None
    watches: tuple[Watch, ...] = ()

    def decide(self, event: Event) -> Decision:
        table = Table(
            ignored=() if self.ignored is None else (Ignored(self.ignored),),
            interrupts=(route(RouteKind.INTERRUPT, self.interrupt),) if self.interrupt is not None else (),
            asides=(route(RouteKind.ASIDE, self.aside),) if self.aside is not None else (),
            conversations=(route(RouteKind.CONVERSATION, self.conversation),)
            if self.conversation is not None
            else (),
        )
        waits, live, watches = self.waits, self.live, self.watches
        return decide(Case(event, SETTING, table, self._failed, waits, live, watches))

    @staticmethod
    def _failed(name: str, error: Exception) -> None:
        failures.append((name, error))


failures: list[tuple[str, Exception]] = []


# --- every pair of takers, in the order of the table


def name_of(decision: Decision) -> str:
    """Which row of the table a decision came from."""
    match decision:
        case Drop("ignored"):
            return "ignored"
        case Give(Watch()):
            return "block"
        case Start(Route(kind=kind)):
            return kind.value
        case Give(Wait() as wait, Taken()):
            return "question" if wait.question else "wait"
        case Queue():
            return "mailbox"
        case Give(Wait(), Unfit()) | Drop("unasked"):
            return "unasked"
        case Expire() | Drop("not_asked"):
            return "expired"
        case _:
            return "nobody"


TAKERS = ("ignored", "block", "interrupt", "aside", "question", "wait", "mailbox", "conversation")


def world_with(*takers: str) -> World:
    world = World()
    waits: list[Wait] = []
    if "question" in takers:
        waits.append(a_wait(question=True))
    if "wait" in takers:
        # Newer than the question: the question comes first all the same.
        waits.insert(0, a_wait())
    return attrs.evolve(
        world,
        ignored=ANY if "ignored" in takers else None,
        interrupt=ANY if "interrupt" in takers else None,
        aside=ANY if "aside" in takers else None,
        conversation=ANY if "conversation" in takers else None,
        waits=tuple(waits),
        live=() if "mailbox" in takers else None,
        watches=(a_watch(),) if "block" in takers else (),
    )


@pytest.mark.parametrize("event", ORDINARY, ids=lambda event: type(event).__name__)
@pytest.mark.parametrize(("first", "second"), list(combinations(TAKERS, 2)))
def test_of_two_takers_the_upper_row_has_the_event(first: str, second: str, event: Event) -> None:
    """For each pair of rows, and each kind of event."""
    expected = first
    over = event in (QUESTION_PRESS, OLD_PRESS, FORM)
    if first == "mailbox" and over:
        expected = "expired"  # a question's button is never kept for another question

    assert expected == name_of(world_with(first, second).decide(event))


@pytest.mark.parametrize("event", EVERYTHING, ids=lambda event: type(event).__name__)
def test_without_takers_nothing_happens(event: Event) -> None:
    """Presses and forms are answered; the rest is counted."""
    expected = {
        MESSAGE: "nobody",
        QUESTION_PRESS: "expired",
        OLD_PRESS: "expired",
        LASTING_PRESS: "expired",
        FORM: "expired",
    }
    assert expected.get(event, "nobody") == name_of(World().decide(event))


def test_a_leave_starts_no_conversation() -> None:
    """Whoever has left gets no messages."""
    assert World(conversation=ANY).decide(LEAVE) == Drop("nobody")
    assert isinstance(World(conversation=ANY).decide(JOIN), Start)


# --- payments


@pytest.mark.parametrize("event", [PAY, INVOICE])
def test_payments_go_to_their_charge_and_never_to_an_authors_filter(event: Event) -> None:
    """Nor do routes that take anything see them."""
    charge, receive = a_wait(question=True), a_wait()
    busy = World(ANY, ANY, ANY, ANY, (receive, charge), (receive, charge))
    assert busy.decide(event) == Give(charge, Taken(event))
    assert World(ANY, ANY, ANY, ANY, (receive,), (receive,)).decide(event) == Drop("payment_without_charge")
    assert World(ANY, ANY, ANY, ANY).decide(event) == Drop("payment_without_charge")


def test_a_payment_waits_at_a_charge_that_is_looking_at_another() -> None:
    """Two taps in one moment: the second is a hint as good as the first."""
    charge = a_wait(question=True)
    charge.give(Delivery(1, PAY), Taken(PAY))
    assert not charge.open
    assert World(waits=(charge,)).decide(PAY) == Give(charge, Taken(PAY))
    assert World(waits=(charge,), live=()).decide(MESSAGE) == Queue()


# --- blocks


def test_the_newest_open_block_that_takes_it_ends() -> None:
    """Those that have been ended, and those that don't take it, are passed over."""
    ended, refusing, taking, older = a_watch(), a_watch(NONE), a_watch(), a_watch()
    ended.give(Delivery(1, MESSAGE), Taken(MESSAGE))
    watches = (ended, refusing, taking, older)
    assert World(watches=watches).decide(MESSAGE) == Give(taking, Taken(MESSAGE))


@pytest.mark.parametrize("event", [PAY, INVOICE])
def test_payments_end_no_block(event: Event) -> None:
    """Nobody else's filter sees them."""
    assert World(watches=(a_watch(),)).decide(event) == Drop("payment_without_charge")


def test_a_blocks_filter_that_raises_takes_nothing_and_is_told() -> None:
    """The rest of the table goes on."""
    failures.clear()
    assert isinstance(World(watches=(a_watch(BAD),), conversation=ANY).decide(MESSAGE), Start)
    assert [name for name, _ in failures] == ["bad"]


# --- waits


def test_the_newest_open_wait_that_takes_it_has_it() -> None:
    """Closed ones, and those that don't take it, are passed over."""
    closed, refusing, taking, older = a_wait(), a_wait(NONE), a_wait(), a_wait()
    closed.give(Delivery(1, MESSAGE), Taken(MESSAGE))
    waits = (closed, refusing, taking, older)
    assert World(waits=waits, live=waits).decide(MESSAGE) == Give(taking, Taken(MESSAGE))


@pytest.mark.parametrize(
    ("otherwise", "event", "expected"),
    [
        ("hint", MESSAGE, "Tell"),
        ("hint", JOIN, "unasked"),
        ("hint", UNKNOWN, "unasked"),
        ("hint", LASTING_PRESS, "expired"),
        ("hint", OLD_PRESS, "expired"),
        ("hint", FORM, "expired"),
        (Otherwise.DROP, MESSAGE, "unasked"),
        (Otherwise.DROP, LASTING_PRESS, "expired"),
        (Otherwise.KEEP, MESSAGE, "mailbox"),
        (Otherwise.KEEP, LASTING_PRESS, "mailbox"),
        (Otherwise.KEEP, OLD_PRESS, "expired"),
        (Otherwise.KEEP, FORM, "expired"),
    ],
    ids=repr,
)
def test_what_a_parked_wait_does_with_the_rest(
    otherwise: str | Otherwise, event: Event, expected: str
) -> None:
    """A person's message is worth a word, in a private chat; a button is always answered."""
    parked = a_wait(NONE, otherwise, parked=True)
    decision = World(waits=(parked,), live=(parked,)).decide(event)
    if expected == "Tell":
        assert decision == Give(parked, Unfit())
    else:
        assert expected == name_of(decision)


def test_a_busy_conversation_keeps_what_it_did_not_ask_for() -> None:
    """Its wait is open, but its question is still being sent."""
    sending = a_wait(NONE)
    assert World(waits=(sending,), live=(sending,)).decide(MESSAGE) == Queue()
    assert World(live=()).decide(MESSAGE) == Queue()


def test_an_asides_wait_says_nothing_of_what_it_does_not_take() -> None:
    """Only the live conversation has a say over what nobody takes."""
    parked = a_wait(NONE, parked=True)
    assert World(waits=(parked,)).decide(MESSAGE) == Drop("nobody")
    assert isinstance(World(conversation=ANY, waits=(parked,)).decide(MESSAGE), Start)


def test_a_press_of_an_open_question_by_somebody_else_is_dropped_without_a_word() -> None:
    """It hasn't expired: it wasn't theirs."""
    asked = a_wait(NONE, question=True, token=TOKEN, parked=True)
    assert World(waits=(asked,), live=(asked,)).decide(QUESTION_PRESS) == Drop("not_asked")
    assert unfit(QUESTION_PRESS, SETTING, asked) == Drop("not_asked")
    assert World(waits=(asked,), live=(asked,)).decide(OLD_PRESS) == Expire()


# --- filters that fail


def test_a_routes_filter_that_raises_takes_nothing_and_is_told() -> None:
    """The rest of the table goes on."""
    failures.clear()
    decision = World(ignored=BAD, interrupt=BAD, aside=BAD, conversation=ANY).decide(MESSAGE)
    assert isinstance(decision, Start)
    assert [name for name, _ in failures] == ["bad", "bad", "bad"]
    assert World(conversation=BAD).decide(MESSAGE) == Drop("nobody")


def test_a_waits_filter_that_raises_wakes_its_wait() -> None:
    """Whoever waits with it hears of it."""
    wait = a_wait(BAD)
    decision = World(waits=(wait,), live=(wait,)).decide(MESSAGE)
    offered = offer(MESSAGE, SETTING, wait)
    for found in (decision, offered):
        assert isinstance(found, Give)
        assert isinstance(found.answer, Broken)
        assert isinstance(found.answer.error, KeyError)


# --- tokens


@pytest.mark.parametrize(
    ("value", "token"),
    [
        (f"{TOKEN}.sx", TOKEN),
        (f"{TOKEN}.", TOKEN),
        ("b.sx", None),
        ("qabcdefg.sx", None),
        ("qabcdefgh", None),
        ("qABCDEFGH.sx", None),
        ("qabcdefg1.sx", None),
        ("", None),
    ],
)
def test_only_a_questions_own_buttons_have_a_token(value: str, token: str | None) -> None:
    """Other data is the author's."""
    assert token == token_of(Press(CHAT, value, 1, "c1"))
    assert token_of(MESSAGE) is None
