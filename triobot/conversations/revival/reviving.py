"""Chats come back from the store, and catch up with what waits for them there.

A conversation is replayed until it stands where it stood, then it is live. A chat's events wait until all its
conversations are there, so that each goes to whom it would have gone to. A chat that is behind reads on in
the inbox, a page each, in turn: a chat that is flooded delays no other.

What can't be replayed with this code is *parked*: it keeps its place and its journal, an operator is told,
the user hears one line; an interrupt still ends it, and every start tries it anew: what killed the program
time and again, with other code only, or after a while (`care`).
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Final, cast, final

import attrs
import trio

from ...base.alarm_kinds import Alarm
from ...errors import RecordError, UnreadableRecordError
from ...seams.inbox import InboxRow
from ...seams.journals import ConversationRow, EndConversation, Journal, ParkConversation
from ...seams.patience import await_store
from ...seams.rooms import is_chat, told
from ...seams.values import decode_value
from ...seams.writes import Write
from ...store import Store
from ...wire.events import Event, Join
from ...wire.ids import ChatId
from ..beginnings import Revived
from ..charges.paid import abandon, tell_parked
from ..conversation import Conversation
from ..doors.calls import CALL, ROOM_SIGNAL, SIGNAL, Call, Halt, Order, Signal, stored_call, stored_event
from ..life import ChatLife
from ..routes.declarations import Route, RouteKind
from ..routes.filters import Filter, Setting, is_payment
from ..routes.routing import Delivery, Start
from ..routes.schedules import Tick
from ..shared import Shared
from .care import CRASHES, current_build
from .stored import Stored, opening_of, read_stored, why_unfit

log: Final = logging.getLogger("triobot.conversations")

PAGE: Final = 256
TOGETHER: Final = 16
"""Chats that come back at a time: of a store on a server each one waits for several answers."""
HOLDS_UP: Final = 1.0
"""Seconds for which as many hold up the others: their code may wait for what never comes."""
PROMPT: Final = 1.0
"""Seconds after which a conversation is taken for busy, if nothing of its journal is left."""
HANGS: Final = 60.0
"""Seconds after which it is parked, if something is: what it waits for has come before, and doesn't now."""


async def revive(life: ChatLife, waiting: Sequence[Delivery]) -> None:
    """Bring back whatever is stored of a chat's conversations.

    Args:
        waiting: what waits for the chat.
    """
    store, table, care, code = life.services.store, life.shared.table, life.shared.care, life.services.code
    # Whose mailbox holds what waits comes last: then it is known what the others have of that.
    found = await await_store(partial(store.conversations, life.chat_id))
    rows = sorted(found, key=lambda row: row.kind != "aside")
    if any(row.parked_because is not None for row in rows):
        life.refusals.recall(await await_store(partial(store.data, life.chat_id)))
    healed = list[Conversation]()
    for row in rows:
        route = table.named(row.route)
        journal = await await_store(partial(store.journal, row.id))
        if journal is None:
            continue
        if row.parked_because is not None and await _is_to_end(store, row):
            _place_parked(life, journal, route)
            continue
        because = why_unfit(row, table)
        if route is None or because is not None:
            _park(life, journal, route, because or "")
            continue
        if care.condemns(row):
            because = f"the code of {row.route} was at work each of the {CRASHES} times that the program died"
            _park(life, journal, route, because, error=current_build())
            continue
        try:
            stored = read_stored(journal)
            opening = opening_of(stored, route)
            changed = None if code is None else await code.compare(store, row, stored.records)
        except UnreadableRecordError as error:
            _park(life, journal, route, str(error))
            continue
        if opening is None or not route.durable:
            _end_politely(life, row)
            continue
        conversation = Conversation(life, *opening, row.sender_id, Revived(stored, changed))
        await _follow(conversation, stored)
        life.places.take(conversation)
        if row is rows[-1] and row.parked_because is None and stored.interrupted_by is None:
            life.mailbox.shown = conversation, waiting
        life.work.count("revived")
        life.calls.start(conversation)
        await _stand(conversation)
        if row.parked_because is not None and not conversation.stuck:
            await _heal(store, life, conversation)
            if conversation.beside:
                healed.append(conversation)
    # Whether a message was typed for an aside is known once all live conversations are there.
    for conversation in healed:
        life.heals(conversation, await _waiting(store, life.chat_id))


async def _is_to_end(store: Store, row: ConversationRow) -> bool:
    """Return whether an operator wants this parked conversation to end, without running its code."""
    orders = [waiting.event for waiting in await _waiting(store, row.chat_id)]
    return any(
        isinstance(order, Order) and order.end and order.conversation == row.id
        for order in cast("list[object]", orders)
    )


async def _heal(store: Store, life: ChatLife, conversation: Conversation) -> None:
    """Unpark it; let go what was typed meanwhile, and answers no question that its user has seen."""
    assert conversation.stored is not None
    life.parked_no_more(conversation)
    if not conversation.beside:
        life.heals(conversation, await _waiting(store, life.chat_id))
    row = conversation.stored.row
    conversation.stored = attrs.evolve(conversation.stored, row=attrs.evolve(row, parked_because=None))
    if conversation.writer is not None:
        life.work.commits.add(conversation.writer.freed(row.in_hand))


async def _waiting(store: Store, chat_id: ChatId) -> Sequence[Delivery]:
    """Read what waits in a chat's inbox."""
    waiting, after = list[Delivery](), 0
    while rows := await await_store(partial(store.pending, chat_id, after=after, limit=PAGE)):
        after = rows[-1].seq
        for row in rows:
            if (event := stored_event(row)) is not None:
                waiting.append(Delivery(row.seq, event, row.at))
    return waiting


async def _follow(conversation: Conversation, stored: Stored) -> None:
    """Let an interrupt that was ending it begin with its end, as it would have without the restart."""
    life, seq = conversation.life, stored.interrupted_by
    if seq is None:
        return
    rows = await await_store(partial(life.services.store.pending, life.chat_id, after=seq - 1, limit=1))
    event = stored_event(rows[0]) if rows and rows[0].seq == seq else None
    if event is not None:
        life.follow(conversation, Delivery(seq, event, rows[0].at, rows[0].group))


async def _stand(conversation: Conversation) -> None:
    """Wait until it stands where it stood, as long as it may: nobody gets an event of its chat meanwhile.

    Its code awaits what isn't the chat's once more, which may last, or come no more.
    """
    settled = conversation.settled
    assert settled is not None
    seconds, given = PROMPT, -1
    while True:
        with trio.move_on_after(seconds):
            await settled.wait()
        if not conversation.begun:
            await settled.wait()  # it hasn't begun: the store is slow
        if settled.is_set():
            return
        if not conversation.replaying:
            return
        if given == conversation.run.cursor:
            break  # in a whole minute; a machine that is slow would have come further
        seconds, given = HANGS, conversation.run.cursor
    # A replay that doesn't come to its end: whoever has the turn waits, and not for the chat.
    conversation.give_up("it went on here, and now waits for something that isn't the chat's")
    with trio.move_on_after(PROMPT):
        await settled.wait()


def _end_politely(life: ChatLife, row: ConversationRow) -> None:
    """End, with a word, what wasn't meant to survive the process, or couldn't be written down."""
    said = life.kept.texts.restarted if row.kind != "aside" and is_chat(life.chat_id) else ""
    told = life.shared.tidying.tell(life.chat_id, row.id, said) if said else ()
    life.work.commits.add([EndConversation(row.lease, row.id, life.services.clock.now()), *told])
    abandon(life.shared, life.chat_id, f"{life.chat_id}/{row.id}", row.key)
    life.work.count("not_durable")


def _park(
    life: ChatLife, journal: Journal, route: Route | None, because: str, *, error: str | None = None
) -> None:
    """Keep its place, without running it."""
    park(_place_parked(life, journal, route), because, error=error)


def _place_parked(life: ChatLife, journal: Journal, route: Route | None) -> Conversation:
    row = journal.row
    route = route or _unknown(row)
    # Stands for what it began with, which nothing looks at any more; a room is no chat that anybody joins.
    begun = Join(life.chat_id, None) if is_chat(life.chat_id) else cast("Event", Signal(life.chat_id, None))
    delivery = Delivery(row.id, begun, row.started_at)
    begin = Revived(_readable(journal))
    conversation = Conversation(life, Start(route, None), delivery, row.sender_id, begin)
    conversation.stuck = True
    life.places.take(conversation)
    return conversation


def _readable(journal: Journal) -> Stored:
    """Decode what is stored of a conversation; of a journal that this program can't read only the row."""
    try:
        return read_stored(journal)
    except UnreadableRecordError:
        return Stored(journal.row, ())


def park(conversation: Conversation, because: str, *, error: str | None = None) -> None:
    """Write down that a conversation can't go on, and tell whom it concerns, once."""
    life, stored = conversation.life, conversation.stored
    life.work.count("parked")
    log.error(
        "conversation %s of %s is parked: %s", conversation.route.name, conversation.told_place, because
    )
    todo = "deploy code that can go on with it, or end it"
    if conversation.writer is not None and conversation.writer.lost:
        todo = "start the bot again, and it goes on with what is stored"
    name = conversation.route.name if stored is None else stored.row.route
    life.shared.care.tell_parked(name, conversation.seq, because, todo)
    key = conversation.key if stored is None else stored.row.key
    tell_parked(life.shared, life.chat_id, key)
    writes: list[Write] = []
    if stored is not None:
        row, now = stored.row, conversation.services.clock.now()
        if (row.parked_because, row.error) == (because, error):
            return  # it was before, and since then
        writes.append(ParkConversation(row.lease, row.id, now, because, error))
    elif conversation.writer is None or not conversation.writer.park(because, error):
        return
    new = stored is None or stored.row.parked_because is None
    if (said := life.kept.texts.parked) and new and not conversation.beside and is_chat(life.chat_id):
        writes += [*life.shared.tidying.tell(life.chat_id, conversation.seq, said), life.refusals.regretted()]
    life.work.commits.add(writes)


def _unknown(row: ConversationRow) -> Route:
    async def nothing(_: object) -> None:
        raise AssertionError("a parked conversation doesn't run")

    def never(_: Event, __: Setting) -> None:
        """Return None: no event starts it."""

    return Route(RouteKind(row.kind), nothing, Filter(never, "nothing"), row.route)


# --- reading on


@final
class CatchingUp:
    """Brings chats to where the dispatcher's cursor is.

    Args:
        known: returns an event as this bot knows it: a call with its route's present name; None if there is
            no such route.
        until_not_too_busy: waits while too many conversations are at work.
    """

    def __init__(
        self,
        shared: Shared,
        known: Callable[[Event | None], Event | None],
        until_not_too_busy: Callable[[], Awaitable[None]],
    ) -> None:
        self._shared, self._services, self._work = shared, shared.services, shared.work
        self._known = known
        self._until_not_too_busy = until_not_too_busy
        self._stalled: dict[ChatLife, None] = {}
        self._coming: set[ChatLife] = set()
        self._stall = trio.Event()
        self._back = trio.Event()

    def __len__(self) -> int:
        return len(self._stalled)

    def room(self, life: ChatLife) -> None:
        """Read on for a chat that was behind, and has room again."""
        self._stalled[life] = None
        self._stall.set()

    async def keep_up(self) -> None:
        """Read on for whoever has room again, until cancelled."""
        async with trio.open_nursery() as nursery:
            while True:
                await self._stall.wait()
                self._stall = trio.Event()
                while self._stalled:
                    # A page each, in turn: a chat that is flooded delays no other.
                    life = next(iter(self._stalled))
                    del self._stalled[life]
                    await self._until_not_too_busy()
                    if not life.loading:
                        await self._catch_up(life)
                    elif life not in self._coming:
                        await self._come_back_beside(life, nursery)

    async def _come_back_beside(self, life: ChatLife, nursery: trio.Nursery) -> None:
        """Bring a chat back beside others; if there are many, wait for one, but not for long."""
        self._coming.add(life)
        self._back = trio.Event()
        nursery.start_soon(self._come_back, life)
        if len(self._coming) >= TOGETHER:
            with trio.move_on_after(HOLDS_UP):
                await self._back.wait()

    async def _catch_up(self, life: ChatLife) -> None:
        latest = life.mailbox.latest
        rows: Sequence[InboxRow] = ()
        if life.mailbox.cursor < latest:
            rows = await self._pending(life, life.mailbox.cursor)
        if self._work.stopping or not life.mailbox.behind:
            return
        for row in rows:
            if row.seq > latest:
                break  # the cursor comes to it by itself
            delivery = self._delivery(row, says=row.seq not in life.mailbox.passed)
            if delivery is not None and not life.deliver(delivery):
                return  # until there is room
            life.mailbox.cursor = row.seq
        else:
            if len(rows) == PAGE:
                self.room(life)
                return
        life.mailbox.caught_up(latest)
        if life.mailbox.behind:
            self.room(life)
        elif life.idle:
            life.calls.over(life)

    async def _pending(self, life: ChatLife, after: int) -> Sequence[InboxRow]:
        read = partial(self._services.store.pending, life.chat_id, after=after, limit=PAGE)
        return await await_store(read)

    async def _come_back(self, life: ChatLife) -> None:
        """Bring a chat back from the store; then look at what came for it."""
        try:
            # What the last ones of this chat left behind must be there to be read.
            await self._work.commits.wait_for()
            await await_store(life.kept.load)  # filters may ask for it
            rows = await self._pending(life, life.mailbox.cursor)
            await revive(life, [found for row in rows if (found := self._delivery(row)) is not None])
            life.mailbox.shows_no_more()
            await self._look_at_those_that_waited(life)
            life.loading = False
            if not self._work.stopping:
                self.room(life)
            for conversation in life.places.all():
                conversation.tick()
        finally:
            self._coming.discard(life)
            self._back.set()

    async def _look_at_those_that_waited(self, life: ChatLife) -> None:
        """Deliver what waited, as if it came now; once there is no room, only those jump ahead that can."""
        mailbox, seen, room = life.mailbox, life.mailbox.cursor, True
        while not self._work.stopping and seen < mailbox.latest:
            latest = mailbox.latest
            rows = await self._pending(life, seen)
            for row in rows:
                if row.seq > latest:
                    break
                if (delivery := self._delivery(row, says=room)) is None:
                    continue
                if not room:
                    life.jump(delivery)
                elif life.deliver(delivery):
                    mailbox.cursor = row.seq
                else:
                    room = False
            seen = min(rows[-1].seq, latest) if len(rows) == PAGE else latest
            if room:
                mailbox.cursor = seen

    def _delivery(self, row: InboxRow, *, says: bool = False) -> Delivery | None:
        """Return the event of a row; None for the ledger's, and for one that can't be read.

        Args:
            says: deal with the latter.
        """
        event = self._known(stored_event(row))
        if event is None and says:
            unreadable(self._shared, row)
        # The ledger has a payment's row, since that was routed, and consumes it.
        ledgers = self._services.payments is not None and event is not None and is_payment(event)
        return None if event is None or ledgers else Delivery(row.seq, event, row.at, row.group)


def unreadable(shared: Shared, row: InboxRow) -> None:
    """Deal with such a row."""
    work = shared.work
    call = stored_call(row) if row.content_type == CALL else None
    if isinstance(call, Call) and isinstance(call.value, Tick):
        # The bot has the job no more; whoever declares it again begins anew.
        work.count("tick_of_gone_job")
        work.commits.consumed([row.seq])
        return
    if row.content_type in (SIGNAL, ROOM_SIGNAL, CALL):
        # It is what another version of the bot understands: it waits in the inbox for that.
        work.count("unknown_signal")
        what = "a call" if row.content_type == CALL else "a signal"
        try:
            asked = decode_value(row.body.decode())
            why = f"the bot has no route {asked.name!r}" if isinstance(asked, Call | Halt) else "it is none"
            if row.content_type == ROOM_SIGNAL:
                why = f"the bot has no room {cast('tuple[str, str, object]', asked)[0]!r}"
        except (RecordError, UnicodeDecodeError) as error:
            why = error.what if isinstance(error, UnreadableRecordError) else "it is no record"
        text = f"{what} in {told(row.chat_id)} can't be read, and waits in the inbox ({row.seq}): {why}"
        log.warning("%s", text)
        shared.services.raise_alarm(Alarm("signal_unreadable", what, text))
    else:
        work.count("unreadable")
        work.commits.consumed([row.seq])
