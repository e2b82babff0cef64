"""Where an event goes: one table, tried from the top; the first row that takes the event has it.

The table is `ROWS`. Rows that jump go ahead of what is queued. A block that opens looks at what is queued,
too. "Live" is the conversation whose turn an event is: that of its sender, where there is one, else the
chat's. A sender's conversation sees nothing of what others do.

A signal is never unasked: where an event would be dropped, or told to be unfit, it waits in the mailbox for a
later wait, whether or not a conversation lives; asides look there for signals, too.

Two things don't walk the table. Payments' callbacks go to the ledger. What
code asks for goes where it says: a route that it starts to its place, as soon as that is free.

A leave in a private chat ends whatever runs there before it walks the table, a member's leave that member's
conversation.

A wait is what a conversation at rest would take, and what becomes of the rest. It is open from before its
question is sent. What it is given lies in the run's mailbox until the task parks; only then does a record
take it. Until then it can be given back. A watch is what would end an open block.

Pure: it looks and says; whoever asks acts. A route's or a block's filter that fails is told to
`failed` and takes nothing; a wait's is that wait's business.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Iterable, Sequence
from enum import Enum
from typing import Final, TypeAlias, cast, final

import attrs
import trio

from ...base.authors import contained
from ...base.frozen import frozen
from ...engine import LEFT
from ...engine.core import is_cut
from ...engine.records import Id
from ...wire.events import Event, Leave, Message, Press, Submission
from ...wire.ids import SenderId
from ..codec import CODEC
from ..doors.calls import Call, Halt, Order, Place, asked_of, is_signal
from .declarations import Route, RouteKind, Table
from .filters import Filter, Setting, as_command, is_payment

UNHEARD: Final = "signal_dropped"
"""As what a signal counts that has come to a room and begins nothing there."""
KIND: Final = "receive"
"""As what a wait is recorded."""


class Otherwise(Enum):
    """What to do with an event that doesn't fit the open wait."""

    DROP = "drop"
    """Count and forget it."""

    KEEP = "keep"
    """Leave it in the mailbox for a later wait."""


OtherwisePolicy: TypeAlias = str | Otherwise
"""A text to say, or one of `Otherwise`."""


@final
@frozen
class PrivateHint:
    """A text to say while the chat is a private one, and nothing once it is a group.

    A chat becomes a group while a question is open, so what it is can be asked only when an event comes. Then
    the journal has the answer for every later run; asked at the question's beginning, it would differ.
    """

    text: str = attrs.field(repr=False)


@final
@frozen
class Delivery:
    """An event on its way to a conversation, with its place in the inbox and the time of its arrival.

    Attributes:
        group: its chat was known as a group then.
    """

    seq: int
    event: Event
    at: int = 0
    group: bool = False


@final
@frozen
class Taken:
    """The wait took this event, as this value."""

    delivery: Delivery
    value: object = attrs.field(repr=False)


@final
@frozen
class Unfit:
    """A message came that doesn't fit; the conversation says so, in its own order."""

    delivery: Delivery


@final
@frozen
class Broken:
    """The wait's filter failed on this event; the error is raised in the conversation that waits."""

    delivery: Delivery
    error: Exception = attrs.field(repr=False)


Answer: TypeAlias = Taken | Unfit | Broken


def _nothing(event: Event, setting: Setting) -> None:
    """Take nothing."""


@final
@attrs.define(eq=False)
class Wait:
    """One open wait. It opens before its question is sent, so that a fast answer is not missed.

    Attributes:
        look: what it takes, and as what.
        otherwise: what becomes of the rest.
        question: it has buttons or a form of its own, which come before every other wait.
        token: what its buttons carry; empty without buttons.
        also: what a question takes besides its own buttons, as any wait does.
        since: the time of the turn in which it opened, which a revival doesn't change: the newest goes first.
        most: so many events it takes before it has to be opened again.
        opened: its conversation's number, and one that grows with each opening in the chat; of those of one
            time that of the youngest conversation goes first, and of these the last, after a restart, too.
        owner: whose conversation waits; None when it is the chat's. It takes nothing of anybody else's.
        keys: tells the keys of its buttons from others; `shown` those that are on the screen, which a deploy
            may have changed.
        rests: its task waits for nothing else.
        around: the scopes around it then.
        when_resting: called each time that it comes to rest.
        ready: what it was given and has not taken, by row; with `most` of them a wait is closed. A payment's
            news has row 0.
    """

    look: Callable[[Event, Setting], object | None] = attrs.field(repr=False)
    otherwise: OtherwisePolicy | PrivateHint = attrs.field(repr=False)
    question: bool = False
    token: str = attrs.field(default="", repr=False)
    also: Callable[[Event, Setting], object | None] | None = attrs.field(default=None, repr=False)
    opened: tuple[int, int] = (0, 0)
    since: int = attrs.field(default=0, kw_only=True)
    owner: SenderId | None = attrs.field(default=None, kw_only=True)
    most: int = attrs.field(default=1, kw_only=True)
    keys: str = attrs.field(default="", init=False)
    shown: str = attrs.field(default="", init=False)
    rests: bool = attrs.field(default=False, init=False)
    around: Sequence[trio.CancelScope] = attrs.field(default=(), init=False, repr=False)
    when_resting: Callable[[], None] | None = attrs.field(default=None, init=False, repr=False)
    ready: dict[int, Answer] = attrs.field(factory=dict[int, "Answer"], init=False)

    @property
    def hint(self) -> str:
        """Return what is said of an event that doesn't fit."""
        return self.otherwise.text if isinstance(self.otherwise, PrivateHint) else str(self.otherwise)

    @property
    def open(self) -> bool:
        """Whether it can still take an event."""
        return len(self.ready) < self.most

    @property
    def resting(self) -> bool:
        """Whether its task waits for nothing else, and nothing has come, nor cut it short."""
        return self.rests and not self.ready and not is_cut(self.around)

    def give(self, answer: Answer) -> None:
        """Give the wait this, which its run is brought next; see `Conversation.give`."""
        self.ready[answer.delivery.seq] = answer

    def let_go(self, seq: int) -> Answer | None:
        """Return what the wait was given with this row, if it was, and forget it."""
        return self.ready.pop(seq, None)

    def let_all_go(self) -> Sequence[Answer]:
        """Return all that the wait was given, and forget it."""
        given, self.ready = list(self.ready.values()), {}
        return given

    def hear_no_more(self) -> None:
        """Take only what it is given from here on: its buttons are over, and what comes waits for others."""
        self.look, self.also, self.otherwise = _nothing, None, Otherwise.KEEP
        self.question, self.token = False, ""

    def __call__(self, delivery: Delivery) -> object:
        """Return what is recorded of an event that it was given; `LEFT` for any other.

        So a wait is itself the filter that its operation has.
        """
        answer = self.ready.get(delivery.seq)
        if answer is None:
            return LEFT
        told = (delivery.event, delivery.seq, delivery.at)
        match answer:
            case Taken(_, value):
                return (*told, (value,))
            case Unfit():
                return (*told, None)
            case Broken(_, error):
                return (*told, None, CODEC.node_of_error(error))


@final
@attrs.define(eq=False)
class Watch:
    """What would end an open block; asked before all waits, even while its conversation is busy.

    Attributes:
        look: what ends it, and as what.
        name: the filter's, for the log.
        since, opened: as a wait's.
        owner: as a wait's.
        scope: the block's own number.
        cut: whether the block is on its way out, as its journal knows; after a restart, too.
        taken: what is to end it; it takes one event only.
    """

    look: Callable[[Event, Setting], object | None] = attrs.field(repr=False)
    name: str
    opened: tuple[int, int] = (0, 0)
    since: int = attrs.field(default=0, kw_only=True)
    owner: SenderId | None = attrs.field(default=None, kw_only=True)
    scope: Id = attrs.field(default="", init=False)
    cut: Callable[[], bool] = attrs.field(default=lambda: False, kw_only=True, repr=False)
    taken: Answer | None = attrs.field(default=None, init=False)

    @property
    def open(self) -> bool:
        """Return whether an event can still end it."""
        return self.taken is None and not self.cut()

    def give(self, answer: Answer) -> None:
        """End the block with this, which its run is brought next; see `Conversation.give`."""
        self.taken = answer

    def __call__(self, delivery: Delivery) -> object:
        """Return what is recorded of the event that is to end it; `LEFT` for any other."""
        if type(self.taken) is not Taken or self.taken.delivery.seq != delivery.seq:
            return LEFT
        return (delivery.event, delivery.seq, delivery.at, (self.taken.value,))


TOKEN_BYTES: Final = 5
"""What the token of a question is drawn from."""
QUESTION: Final = "q"
"""In front of the token of a question that one tap answers."""
BOARD: Final = "w"
"""In front of the token of questions that one message asks in turn."""
_QUESTION: Final = re.compile(r"[qw][a-z2-7]{8}\.", re.ASCII)


FilterFailed: TypeAlias = Callable[[str, Exception], None]
"""Told the name of a filter, and the error that it raised."""


def question_token(drawn: bytes, front: str) -> str:
    """Return the token of a question that has drawn these bytes."""
    return front + base64.b32encode(drawn).decode().lower()


def token_of(event: Event) -> str | None:
    """The token of the question whose button was pressed, or None."""
    if isinstance(event, Press) and isinstance(event.value, str) and _QUESTION.match(event.value):
        return event.value[:9]
    return None


@final
@frozen
class Drop:
    """Forget it, and count it under this word.

    Attributes:
        say: what the chat hears of it, once a minute at most.
    """

    why: str
    say: str = ""


@final
@frozen
class Start:
    """Start this route with this value.

    Attributes:
        call: what code asked for, if it did.
        interrupted: the name of what it has ended; None where that isn't known yet.
    """

    route: Route
    value: object = attrs.field(repr=False)
    call: Call | None = attrs.field(default=None, repr=False)
    interrupted: str | None = None


def is_beside(start: Start) -> bool:
    """Return whether it takes the place of an aside."""
    if start.call is not None and start.call.place is not Place.OWN:
        return start.call.place is Place.BESIDE
    return start.route.kind is RouteKind.ASIDE


def interrupts(start: Start) -> bool:
    """Return whether it ends the live conversation."""
    own = start.call is None or start.call.place is Place.OWN
    return own and start.route.kind is RouteKind.INTERRUPT


@final
@frozen
class Give:
    """Wake this wait with this value. Only a payment's callback is given to a wait that isn't open."""

    wait: Wait
    value: object = attrs.field(repr=False)


@final
@frozen
class End:
    """End this block with this value."""

    watch: Watch
    value: object = attrs.field(repr=False)


@final
@frozen
class Break:
    """Wake this wait: its filter failed."""

    wait: Wait
    error: Exception = attrs.field(repr=False)


@final
@frozen
class Tell:
    """Wake this wait: something came that doesn't fit."""

    wait: Wait


@final
@frozen
class Queue:
    """Into the mailbox, for a later wait."""


@final
@frozen
class Expire:
    """A press or a form of a question that is over."""


Decision: TypeAlias = Drop | Start | End | Give | Break | Tell | Queue | Expire | Halt | Order


@final
@frozen
class Case:
    """An event, and all that may take it.

    Attributes:
        failed: told of filters that raise.
        waits: the waits of all conversations of the chat, the sender's first, newest first.
        live: those of the live conversation (asides don't count), or None if there is none.
        watches: the open blocks that an event may end, of all conversations, in the order of waits.
        kept: says of a press, a form or a message that nobody else takes whether a conversation that can't go
            on just now may wait for it.
    """

    event: Event
    setting: Setting
    table: Table
    failed: FilterFailed
    waits: Sequence[Wait] = ()
    live: Sequence[Wait] | None = None
    watches: Sequence[Watch] = ()
    kept: Callable[[Event], bool] = lambda event: False


def decide(case: Case, *, jumped: bool = False) -> Decision:
    """Say where an event goes.

    Args:
        jumped: the first rows were tried when it came (`jump`): routes' filters run once.
    """
    if (asked := asked_of(case.event)) is not None:
        return _asked(asked, case)
    if is_payment(case.event):
        # Not an author's filter: one that takes anything would swallow somebody's money.
        charges = (wait for wait in case.waits if wait.question)
        return _first(case.event, case.setting, charges) or Drop("payment_without_charge")
    rows = ROWS if case.waits or case.watches or case.live is not None else _AT_REST
    return _walk(case, [row for row in rows if not row.once] if jumped else rows) or Drop("nobody")


def jump(case: Case) -> Drop | Start | End | Halt | Order | None:
    """Say whether an event goes ahead of what waits in the chat, and where to: the table's first rows."""
    if (asked := asked_of(case.event)) is not None:
        decision = _asked(asked, case)
        if isinstance(decision, Start) and not (is_beside(decision) or interrupts(decision)):
            return None
        return None if isinstance(decision, Queue) else decision
    return cast("Drop | Start | End | None", _walk(case, [row for row in ROWS if row.jumps]))


def _walk(case: Case, rows: Iterable[Row]) -> Decision | None:
    for row in rows:
        if (found := row.take(case)) is not None:
            return found
    return None


def _asked(asked: Call | Halt | Order, case: Case) -> Start | Queue | Halt | Order:
    """Where a call goes: to its place, once that is free. What stops a run, or orders something, is done."""
    if not isinstance(asked, Call):
        return asked
    route = case.table.named(asked.name)
    if route is None:
        return Queue()
    start = Start(route, asked.value, asked)
    return start if is_beside(start) or interrupts(start) or case.live is None else Queue()


# --- the rows


def _ignored(case: Case) -> Decision | None:
    case.setting.asked.taker = None
    for ignored in case.table.ignored:
        if _look(ignored.filter, case.event, case.setting, case.failed) is not None:
            return Drop("ignored", ignored.say)
    return None


def end(case: Case) -> End | None:
    """Say which open block an event ends: one that opens later is asked again."""
    for watch in case.watches:
        if not watch.open or not concerns(case.event, watch.owner):
            continue
        case.setting.asked.taker = watch
        if (value := _look(watch, case.event, case.setting, case.failed)) is not None:
            return End(watch, value)
    return None


def _question(case: Case) -> Decision | None:
    questions = [wait for wait in case.waits if wait.question and wait.open]
    return _first(case.event, case.setting, questions) if questions else None


def _newest_wait(case: Case) -> Decision | None:
    return _first(case.event, case.setting, [wait for wait in case.waits if wait.open], also=True)


def _parked(case: Case) -> Decision | None:
    return None if isinstance(case.event, Message) else _parked_aside(case)


def _parked_aside(case: Case) -> Decision | None:
    return Queue() if case.kept(case.event) else None


def _question_over(case: Case) -> Decision | None:
    if token_of(case.event) is not None or isinstance(case.event, Submission):
        return _over(case.event, case.waits)
    return None


def _live(case: Case) -> Decision | None:
    return None if case.live is None else _unasked(case.event, case.setting, case.live)


def begins(case: Case) -> Start | None:
    """The conversation that an event would start if nothing went on in the chat."""
    return None if type(case.event) is Leave else _started(case, case.table.conversations)


def _nobody(case: Case) -> Decision | None:
    if is_signal(case.event):
        return Drop(UNHEARD) if case.table.of_room else Queue()
    return Expire() if isinstance(case.event, Press) else Drop("nobody")


def _started(case: Case, routes: Iterable[Route]) -> Start | None:
    case.setting.asked.taker = None
    for route in routes:
        if (value := _look(route.filter, case.event, case.setting, case.failed)) is not None:
            return Start(route, value)
    return None


@final
@frozen
class Row:
    """One row of the table.

    Attributes:
        name: of who takes the event.
        take: the decision, or None: the next row is asked.
        jumps: it goes ahead of what is queued, and doesn't wait for its turn.
        once: it is not asked again when the event's turn comes.
        within: it asks conversations that are there.
    """

    name: str
    take: Callable[[Case], Decision | None] = attrs.field(repr=False)
    jumps: bool = False
    once: bool = False
    within: bool = False


ROWS: Final[tuple[Row, ...]] = (
    Row("ignore", _ignored, jumps=True, once=True),
    Row("block", end, jumps=True, within=True),
    Row("interrupt", lambda case: _started(case, case.table.interrupts), jumps=True, once=True),
    Row("aside", lambda case: _started(case, case.table.asides), jumps=True, once=True),
    Row("question", _question, within=True),
    Row("wait", _newest_wait, within=True),
    Row("parked", _parked),
    Row("over", _question_over),
    Row("live", _live, within=True),
    Row("conversation", begins),
    Row("parked aside", _parked_aside),
    Row("nobody", _nobody),
)
"""Who is asked, in this order."""

_AT_REST: Final = tuple(row for row in ROWS if not row.within)


def afresh(case: Case) -> Start | None:
    """The conversation that a command would start if nothing went on in the chat."""
    return None if as_command(case.event, case.setting) is None else begins(case)


def offer(event: Event, setting: Setting, wait: Wait) -> Give | Break | None:
    """Say whether one wait takes an event."""
    return _first(event, setting, (wait,), also=True)


def unfit(event: Event, setting: Setting, wait: Wait) -> Decision:
    """Decide what becomes of an event that a wait doesn't take: only a message is worth a word."""
    if wait.otherwise is Otherwise.KEEP or is_signal(event):
        return Queue()
    if isinstance(event, Press | Submission):
        return _over(event, (wait,))
    silent = setting.group if isinstance(wait.otherwise, PrivateHint) else wait.otherwise is Otherwise.DROP
    if silent or not isinstance(event, Message):
        return Drop("unasked")
    return Tell(wait)


def concerns(event: Event, owner: SenderId | None) -> bool:
    """Whether a conversation of this owner may see an event: nobody's business is that of others.

    Where the platform doesn't tell who pressed a button, the button itself does.
    """
    if owner is None or is_signal(event) or is_payment(event):
        return True
    sender = event.sender
    return sender.id == owner if sender is not None else isinstance(event, Press | Submission)


def _first(
    event: Event, setting: Setting, waits: Iterable[Wait], *, also: bool = False
) -> Give | Break | None:
    for wait in waits:
        if not concerns(event, wait.owner):
            continue
        setting.asked.taker = wait
        try:
            value = wait.look(event, setting)
            if value is None and also and wait.also is not None:
                value = wait.also(event, setting)
        except BaseException as error:
            if wait.open:
                return Break(wait, contained(error))
        else:
            if value is not None:
                return Give(wait, value)
    return None


def _look(
    taken: Filter[object] | Watch, event: Event, setting: Setting, failed: FilterFailed
) -> object | None:
    try:
        return taken.look(event, setting)
    except BaseException as error:
        failed(taken.name, contained(error))
        return None


def _over(event: Event, waits: Iterable[Wait]) -> Drop | Expire:
    token = token_of(event)
    if token is not None and any(wait.token == token for wait in waits):
        return Drop("not_asked")
    return Expire()


def _unasked(event: Event, setting: Setting, waits: Iterable[Wait]) -> Decision:
    """What becomes of an event that the live conversation did not ask for."""
    resting = next((wait for wait in waits if wait.resting), None)
    return Queue() if resting is None else unfit(event, setting, resting)
