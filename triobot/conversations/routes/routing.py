"""Routing: a table decides where an event goes. The first row that takes the event decides.

The table is `ROWS`. Rows with `jumps` take an event before the chat's queued events. A newly opened block is
also offered the queued events. "Live" means the live conversation of the event's sender, if there is one,
else the chat's live conversation. A sender's conversation gets no events of other senders.

A chat drops no signal as unexpected. Where another event would be dropped or answered with a hint, a signal
waits in the mailbox for a later wait, even if there is no live conversation. Asides get signals from the
mailbox, too. A room without a run drops a signal that starts no run.

Two kinds of events skip the table. A payment's callback goes to the ledger. A call names a position in the
chat, such as the live conversation's: the called route starts as soon as the position is free.

A leave in a private chat ends all conversations of the chat before the leave goes through the table. A
member's leave ends that member's conversation.

A wait has the filter of a waiting conversation, and the conversation's policy for other events. A wait opens
before the question is sent. The wait keeps its events until the task waits; then a record takes one of these
events. An event that no record has taken can be routed again. A watch has the filter for the events that end
an open block.

Pure: functions return decisions, and callers act. If a filter of a route or block fails, `failed` is called,
and the filter takes nothing. If a wait's filter fails, the error is raised in the wait's conversation.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import Enum
from typing import Final, TypeAlias, cast, final

import attrs
import trio

from ...base.authors import contained
from ...base.frozen import frozen
from ...engine import LEFT
from ...engine.core import is_cut
from ...engine.records import Id
from ...seams.journals import RunKind
from ...seams.money import PaymentGoods
from ...wire.events import Event, Leave, Message, Press, Submission
from ...wire.ids import RefId, SenderId
from ..calls.signals import Call, Halt, Order, Place, asked_of, is_signal, room_of
from ..codec import CODEC
from .declarations import Route, RouteKind, Table
from .filters import Filter, Setting, as_command, is_payment

UNHEARD: Final = "signal_dropped"
"""Name of the counter of signals that a room without a run drops."""
KIND: Final = "receive"
"""Kind of a wait's records."""


class Otherwise(Enum):
    """Policy for an event that doesn't fit the open wait."""

    DROP = "drop"
    """Drop and count the event."""

    KEEP = "keep"
    """Leave the event in the mailbox for a later wait."""


OtherwisePolicy: TypeAlias = str | Otherwise
"""A text that is sent as a hint, or a member of `Otherwise`."""


@final
class PrivateHint(str):
    """Hint for events that don't fit, sent in private chats only.

    A chat may become a group while a question is open, so the chat's kind is checked when an event arrives.
    The journal has the decision, so a replay decides the same. A check at the question's start could differ
    on replay.
    """

    __slots__ = ()


@final
@frozen
class Delivery:
    """Event for a conversation, with its inbox row and its time of arrival.

    Attributes:
        group: whether the chat was known as a group when the event arrived.
    """

    seq: int
    event: Event
    at: int = 0
    group: bool = False


@final
@frozen
class Taken:
    """Answer for an event that a wait or block takes, with the value that the filter made."""

    value: object = attrs.field(repr=False)


@final
@frozen
class Unfit:
    """Answer for a message that doesn't fit a wait: the conversation sends the hint after earlier sends."""


@final
@frozen
class Broken:
    """Answer for an event on which a wait's filter failed; the error is raised in the conversation."""

    error: Exception = attrs.field(repr=False)


Answer: TypeAlias = Taken | Unfit | Broken


def _nothing(event: Event, setting: Setting) -> None: ...


@final
@attrs.define(eq=False)
class Wait:
    """A wait of a conversation. The wait opens before its question is sent, so that no fast answer is missed.

    Attributes:
        look: the wait's filter.
        otherwise: policy for other events.
        question: whether the wait has buttons or a form of its own; such waits are tried before all others.
        token: token of the wait's buttons; empty without buttons.
        also: additional filter of a question, tried like the filter of a wait without buttons.
        since: time of the turn that opened the wait, the same after a revival; newer waits are tried first.
        most: number of unread events that the wait can have; then the wait takes no further event.
        opened: number of the conversation, and a number that grows with each opening in the chat. Among waits
            with the same `since`, larger pairs are tried first, also after a restart.
        owner: sender whose conversation waits; None for the chat's conversation. The wait takes no events of
            other senders.
        keys: digest of the keys of the question's buttons.
        shown: digest of the keys on the screen; an older build may have shown these keys.
        rests: whether the task now waits for an event of this wait.
        around: scopes around the waiting task.
        when_resting: called whenever the task begins to wait.
        ready: unread events that the wait was given, by inbox row; the wait is closed while there are `most`
            of them. An event about a payment has row 0.
    """

    look: Callable[[Event, Setting], object | None] = attrs.field(repr=False)
    otherwise: OtherwisePolicy = attrs.field(repr=False)
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
    ready: dict[int, tuple[Delivery, Answer]] = attrs.field(
        factory=dict[int, "tuple[Delivery, Answer]"], init=False
    )

    @property
    def open(self) -> bool:
        """Whether the wait can take another event."""
        return len(self.ready) < self.most

    @property
    def resting(self) -> bool:
        """Whether the task waits for an event, has no event yet, and is not cancelled."""
        return self.rests and not self.ready and not is_cut(self.around)

    def give(self, delivery: Delivery, answer: Answer) -> None:
        """Store an event for the wait. `Conversation.give` then passes the event to the run."""
        self.ready[delivery.seq] = delivery, answer

    def let_go(self, seq: int) -> bool:
        """Remove the wait's unread event of inbox row `seq`; return whether the wait had this event."""
        return self.ready.pop(seq, None) is not None

    def let_all_go(self) -> Sequence[Delivery]:
        """Remove and return all unread events."""
        given, self.ready = [delivery for delivery, _ in self.ready.values()], {}
        return given

    def hear_no_more(self) -> None:
        """Take no more events, because the question is over. New events are kept for other waits."""
        self.look, self.also, self.otherwise = _nothing, None, Otherwise.KEEP
        self.question, self.token = False, ""

    def __call__(self, delivery: Delivery) -> object:
        """Return the value to record for an event that the wait was given; `LEFT` for any other event.

        The engine calls the wait as the filter of the wait's operation.
        """
        given = self.ready.get(delivery.seq)
        if given is None:
            return LEFT
        delivered = (delivery.event, delivery.seq, delivery.at)
        match given[1]:
            case Taken(value):
                return (*delivered, (value,))
            case Unfit():
                return (*delivered, None)
            case Broken(error):
                return (*delivered, None, CODEC.node_of_error(error))


@final
@attrs.define(eq=False)
class Watch:
    """Filter that ends an open block; tried before all waits, even while the conversation is busy.

    Attributes:
        look: the filter.
        name: name of the filter, for logs.
        since, opened, owner: as for a wait.
        scope: id of the block.
        cut: whether the block is already ending, according to the journal; the same after a restart.
        taken: the event that ends the block, and the answer for this event; a watch takes only one event.
    """

    look: Callable[[Event, Setting], object | None] = attrs.field(repr=False)
    name: str
    opened: tuple[int, int] = (0, 0)
    since: int = attrs.field(default=0, kw_only=True)
    owner: SenderId | None = attrs.field(default=None, kw_only=True)
    scope: Id = attrs.field(default="", init=False)
    cut: Callable[[], bool] = attrs.field(default=lambda: False, kw_only=True, repr=False)
    taken: tuple[Delivery, Answer] | None = attrs.field(default=None, init=False)

    @property
    def open(self) -> bool:
        """Whether an event can still end the block."""
        return self.taken is None and not self.cut()

    def give(self, delivery: Delivery, answer: Answer) -> None:
        """Store the event that ends the block. `Conversation.give` then passes the event to the run."""
        self.taken = delivery, answer

    def __call__(self, delivery: Delivery) -> object:
        """Return the value to record for the event that ends the block; `LEFT` for any other event."""
        if self.taken is None or self.taken[0].seq != delivery.seq or type(self.taken[1]) is not Taken:
            return LEFT
        return (delivery.event, delivery.seq, delivery.at, (self.taken[1].value,))


_NONE: Final[Mapping[RefId, Callable[[PaymentGoods], None]]] = {}


@final
@attrs.define(eq=False, repr=False)
class Seat:
    """Open waits, watched blocks and unfinished charges of one conversation; a chat routes events by seats.

    Attributes:
        waits: the branches' open waits.
        watches: open blocks that an event may end.
        awaited: charges that wait until an aside has delivered the goods, by payment. Each value is the
            function to call with the aside's result.
        parked: whether the conversation is parked: no code runs until the code is corrected or an interrupt
            ends the conversation.
    """

    waits: list[Wait] = attrs.field(factory=list[Wait])
    watches: Sequence[Watch] = ()
    awaited: Mapping[RefId, Callable[[PaymentGoods], None]] = _NONE
    parked: bool = False


TOKEN_BYTES: Final = 5
"""Number of random bytes of a question's token."""
QUESTION: Final = "q"
"""First character of the token of a question that is answered by one tap."""
BOARD: Final = "w"
"""First character of the token of a board's questions."""
_QUESTION: Final = re.compile(r"[qw][a-z2-7]{8}\.", re.ASCII)


FilterFailed: TypeAlias = Callable[[str, Exception], None]
"""Called with a filter's name and the error that the filter raised."""


def question_token(drawn: bytes, front: str) -> str:
    """Return the token for a question's random bytes."""
    return front + base64.b32encode(drawn).decode().lower()


def token_of(event: Event) -> str | None:
    """Return the token of the question whose button was pressed, or None."""
    if isinstance(event, Press) and isinstance(event.value, str) and _QUESTION.match(event.value):
        return event.value[:9]
    return None


@final
@frozen
class Drop:
    """Decision to drop the event, and to count it under the word `why`.

    Attributes:
        say: text that answers the event, at most once a minute.
    """

    why: str
    say: str = ""


@final
@frozen
class Start:
    """Decision to start the route, with the value that its filter made.

    Attributes:
        call: the call by which code starts the route; None if an event starts the route.
        interrupted: name of the route that was ended; None if not known yet.
    """

    route: Route
    value: object = attrs.field(repr=False)
    call: Call | None = attrs.field(default=None, repr=False)
    interrupted: str | None = None


def kind_of(route: Route, *, beside: bool) -> RunKind:
    """Return the kind for the stored row: `aside` if the conversation is an aside, else the route's kind.

    A job's run always has the route's kind.
    """
    return "aside" if beside and route.job is None else route.kind.value


def is_beside(start: Start) -> bool:
    """Whether the started conversation is an aside."""
    if start.call is not None and start.call.place is not Place.OWN:
        return start.call.place is Place.BESIDE
    return start.route.kind is RouteKind.ASIDE


def interrupts(start: Start) -> bool:
    """Whether the start ends the live conversation."""
    own = start.call is None or start.call.place is Place.OWN
    return start.interrupted is not None or (own and start.route.kind is RouteKind.INTERRUPT)


@final
@frozen
class Give:
    """Decision to pass `answer` to a wait, or to an open block, which then ends.

    Only a payment's callback may go to a closed wait.
    """

    taker: Wait | Watch
    answer: Answer


@final
@frozen
class Queue:
    """Decision to put the event into the mailbox, for a later wait."""


@final
@frozen
class Expire:
    """Decision that a press or a form came too late: its question is over."""


Decision: TypeAlias = Drop | Start | Give | Queue | Expire | Halt | Order


@final
@frozen
class Case:
    """An event, with the filters, waits and blocks that may take the event.

    Attributes:
        failed: called for filters that raise.
        waits: the waits of all the chat's conversations: the sender's waits first, newer waits before older.
        live: the waits of the live conversation (not of asides); None without a live conversation.
        watches: the open blocks, of all conversations, that an event may end; in the order of waits.
        kept: returns whether a parked conversation may be waiting for a press, form or message that nothing
            else takes.
    """

    event: Event
    setting: Setting
    table: Table
    failed: FilterFailed
    waits: Sequence[Wait] = ()
    live: Sequence[Wait] | None = None
    watches: Sequence[Watch] = ()
    kept: Callable[[Event], bool] = lambda event: False


def known(table: Table, event: Event | None) -> Event | None:
    """Return the event; None if the bot lacks the route that a call names, or the room of a signal.

    A call is returned with the route's current name.
    """
    if event is None or (asked := asked_of(event)) is None or isinstance(asked, Order):
        room = room_of(event)
        return event if room is None or table.in_room(room[0]).conversations else None
    route = table.named(asked.name)
    if route is None or route.name == asked.name:
        return None if route is None else event
    # The wire's type has no calls; chats pass calls on like events.
    return cast("Event", attrs.evolve(asked, name=route.name))


def decide(case: Case) -> Decision:
    """Decide where an event goes."""
    if (asked := asked_of(case.event)) is not None:
        return _asked(asked, case)
    if is_payment(case.event):
        # No author's filter gets the event: a filter that takes anything could swallow a payment.
        charges = (wait for wait in case.waits if wait.question)
        return _first(case.event, case.setting, charges) or Drop("payment_without_charge")
    rows = ROWS if case.waits or case.watches or case.live is not None else _AT_REST
    return _walk(case, rows) or Drop("nobody")


def jump(case: Case) -> Drop | Start | Give | Halt | Order | None:
    """Decide about an event ahead of the chat's queued events; return None if the event must queue."""
    if (asked := asked_of(case.event)) is not None:
        decision = _asked(asked, case)
        if isinstance(decision, Start) and not (is_beside(decision) or interrupts(decision)):
            return None
        return None if isinstance(decision, Queue) else decision
    return cast("Drop | Start | Give | None", _walk(case, [row for row in ROWS if row.jumps]))


def _walk(case: Case, rows: Iterable[Row]) -> Decision | None:
    for row in rows:
        if (found := row.take(case)) is not None:
            return found
    return None


def _asked(asked: Call | Halt | Order, case: Case) -> Start | Queue | Halt | Order:
    """Decide about a call: start the route if the call's position is free, else queue the call.

    Stops and orders are never queued.
    """
    if not isinstance(asked, Call):
        return asked
    route = case.table.named(asked.name)
    if route is None:
        return Queue()
    start = Start(route, asked.value, asked)
    return start if is_beside(start) or interrupts(start) or case.live is None else Queue()


# --- the rows


def _ignored(case: Case) -> Decision | None:
    for ignored in case.table.ignored:
        if _look(ignored.filter, case.event, case.setting, case.failed) is not None:
            return Drop("ignored", ignored.say)
    return None


def end(case: Case) -> Give | None:
    """Return the decision to end an open block with the event, if a block's filter takes the event.

    A block that opens later tries the event itself.
    """
    for watch in case.watches:
        if not watch.open or not concerns(case.event, watch.owner):
            continue
        if (value := _look(watch, case.event, case.setting, case.failed)) is not None:
            return Give(watch, Taken(value))
    return None


def _question(case: Case) -> Decision | None:
    questions = [wait for wait in case.waits if wait.question and wait.open]
    return _first(case.event, case.setting, questions) if questions else None


def _newest_wait(case: Case) -> Decision | None:
    return _first(case.event, case.setting, [wait for wait in case.waits if wait.open], also=True)


def _parked(case: Case) -> Decision | None:
    # A press of a lasting button may start a conversation. If not, the row "parked aside" queues the press.
    asks = token_of(case.event) is not None or isinstance(case.event, Submission)
    return _parked_aside(case) if asks else None


def _parked_aside(case: Case) -> Decision | None:
    return Queue() if case.kept(case.event) else None


def _question_over(case: Case) -> Decision | None:
    if token_of(case.event) is not None or isinstance(case.event, Submission):
        return _over(case.event, case.waits)
    return None


def _live(case: Case) -> Decision | None:
    return None if case.live is None else _unasked(case.event, case.setting, case.live)


def begins(case: Case) -> Start | None:
    """Return the conversation that the event would start in a chat without a live conversation."""
    return None if type(case.event) is Leave else _started(case, case.table.conversations)


def _nobody(case: Case) -> Decision | None:
    if is_signal(case.event):
        return Drop(UNHEARD) if case.table.of_room else Queue()
    return Expire() if isinstance(case.event, Press) else Drop("nobody")


def _started(case: Case, routes: Iterable[Route]) -> Start | None:
    for route in routes:
        if (value := _look(route.filter, case.event, case.setting, case.failed)) is not None:
            return Start(route, value)
    return None


@final
@frozen
class Row:
    """Row of the routing table.

    Attributes:
        name: name of the taker.
        take: returns the decision, or None to try the next row.
        jumps: whether the row takes an event before the chat's queued events.
        within: whether the row needs running conversations.
    """

    name: str
    take: Callable[[Case], Decision | None] = attrs.field(repr=False)
    jumps: bool = False
    within: bool = False


ROWS: Final[tuple[Row, ...]] = (
    Row("ignore", _ignored, jumps=True),
    Row("block", end, jumps=True, within=True),
    Row("interrupt", lambda case: _started(case, case.table.interrupts), jumps=True),
    Row("aside", lambda case: _started(case, case.table.asides), jumps=True),
    Row("question", _question, within=True),
    Row("wait", _newest_wait, within=True),
    Row("parked", _parked),
    Row("over", _question_over),
    Row("live", _live, within=True),
    Row("conversation", begins),
    Row("parked aside", _parked_aside),
    Row("nobody", _nobody),
)
"""The rows, in the order in which they are tried."""

_AT_REST: Final = tuple(row for row in ROWS if not row.within)


def afresh(case: Case) -> Start | None:
    """Return the conversation that a command would start in a chat without a live conversation."""
    return None if as_command(case.event, case.setting) is None else begins(case)


def offer(event: Event, setting: Setting, wait: Wait) -> Give | None:
    """Return the decision of a single wait about an event; None if the wait doesn't take the event."""
    return _first(event, setting, (wait,), also=True)


def unfit(event: Event, setting: Setting, wait: Wait) -> Decision:
    """Decide about an event that a wait doesn't take. Only a message is answered with a hint."""
    if wait.otherwise is Otherwise.KEEP or is_signal(event):
        return Queue()
    if isinstance(event, Press | Submission):
        return _over(event, (wait,))
    silent = setting.group if isinstance(wait.otherwise, PrivateHint) else wait.otherwise is Otherwise.DROP
    if silent or not isinstance(event, Message):
        return Drop("unasked")
    return Give(wait, Unfit())


def concerns(event: Event, owner: SenderId | None) -> bool:
    """Whether a conversation of `owner` may get the event: a sender's conversation gets no other's events.

    If the platform doesn't name the sender of a press or form, return True: the callback data or the
    message's id decides.
    """
    if owner is None or is_signal(event) or is_payment(event):
        return True
    sender = event.sender
    return sender.id == owner if sender is not None else isinstance(event, Press | Submission)


def _first(event: Event, setting: Setting, waits: Iterable[Wait], *, also: bool = False) -> Give | None:
    for wait in waits:
        if not concerns(event, wait.owner):
            continue
        try:
            value = wait.look(event, setting)
            if value is None and also and wait.also is not None:
                value = wait.also(event, setting)
        except BaseException as error:
            if wait.open:
                return Give(wait, Broken(contained(error)))
        else:
            if value is not None:
                return Give(wait, Taken(value))
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
    """Decide about an event that the live conversation doesn't wait for."""
    resting = next((wait for wait in waits if wait.resting), None)
    return Queue() if resting is None else unfit(event, setting, resting)
