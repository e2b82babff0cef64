"""Conversations come back from the store: replayed until they stand where they stood, then live.

A chat's events wait until all its conversations are there, so that each goes to whom it would have gone to.
What can't be replayed with this code is *parked*: it keeps its place and its journal, an operator is told,
the user hears one line; an interrupt still ends it, and every start tries it anew: what killed the program
time and again, with other code only, or after a while (`care`).
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, cast

import attrs
import trio

from ...errors import UnreadableRecordError
from ...journals import ConversationRow, EndConversation, Journal, ParkConversation
from ...seams import Store, Write
from ...wire.events import Event, Join
from ...wire.ids import ChatId
from ..charges.paid import abandon, tell_parked
from ..conversation import Conversation
from ..doors.calls import Order
from ..inbox.consumption import stored_event
from ..routes.declarations import Route, RouteKind, Table
from ..routes.filters import Filter, Setting
from ..routes.routing import Delivery, Start
from ..services import Services
from .care import CRASHES, current_build
from .stored import Stored, opening_of, read_stored, why_unfit

if TYPE_CHECKING:
    from ..life import ChatLife

log: Final = logging.getLogger("triobot.conversations")

_PAGE: Final = 256
PROMPT: Final = 1.0
"""Seconds after which a conversation is taken for busy, if nothing of its journal is left."""
HANGS: Final = 60.0
"""Seconds after which it is parked, if something is: what it waits for has come before, and doesn't now."""


async def revive(
    services: Services, table: Table, life: ChatLife, waiting: Sequence[tuple[Delivery, bool]]
) -> None:
    """Bring back whatever is stored of a chat's conversations.

    Args:
        waiting: what waits for the chat; each with whether that was a group.
    """
    store, care = services.store, life.shared.care
    # Whose mailbox holds what waits comes last: then it is known what the others have of that.
    rows = sorted(await store.conversations(life.chat_id), key=lambda row: row.kind != "aside")
    if any(row.parked_because is not None for row in rows):
        life.recall_told(await store.data(life.chat_id))
    healed = list[Conversation]()
    for row in rows:
        route = table.named(row.route)
        journal = await store.journal(row.id)
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
        except UnreadableRecordError as error:
            _park(life, journal, route, str(error))
            continue
        if opening is None or not route.durable:
            _end_politely(services, life, row)
            continue
        there = Conversation(services, life, *opening, row.sender_id, stored)
        await _follow(there, stored)
        _place(life, there)
        if row is rows[-1] and row.parked_because is None and stored.interrupted_by is None:
            life.shows(there, waiting)
        life.work.count("revived")
        life.calls.start(there)
        await _stand(there)
        if row.parked_because is not None and not there.stuck:
            await _heal(store, life, there)
            if there.beside:
                healed.append(there)
    # Whether a message was typed for an aside is known once all live conversations are there.
    for there in healed:
        life.heals(there, await _waiting(store, life.chat_id))


async def _is_to_end(store: Store, row: ConversationRow) -> bool:
    """Return whether an operator wants this parked conversation to end, without running its code."""
    orders = [waiting.event for waiting in await _waiting(store, row.chat_id)]
    return any(
        isinstance(order, Order) and order.end and order.conversation == row.id
        for order in cast("list[object]", orders)
    )


async def _heal(store: Store, life: ChatLife, there: Conversation) -> None:
    """Unpark it; let go what was typed meanwhile, and answers no question that its user has seen."""
    assert there.stored is not None
    life.parked_no_more(there)
    if not there.beside:
        life.heals(there, await _waiting(store, life.chat_id))
    row = there.stored.row
    there.stored = attrs.evolve(there.stored, row=attrs.evolve(row, parked_because=None))
    if there.writer is not None:
        life.work.write(there.writer.freed(row.in_hand))


async def _waiting(store: Store, chat_id: ChatId) -> Sequence[Delivery]:
    """Read what waits in a chat's inbox."""
    waiting, after = list[Delivery](), 0
    while rows := await store.pending(chat_id, after=after, limit=_PAGE):
        after = rows[-1].seq
        for row in rows:
            if (event := stored_event(row)) is not None:
                waiting.append(Delivery(row.seq, event, row.at))
    return waiting


async def _follow(there: Conversation, stored: Stored) -> None:
    """Let an interrupt that was ending it begin with its end, as it would have without the restart."""
    life, seq = there.life, stored.interrupted_by
    if seq is None:
        return
    rows = await life.services.store.pending(life.chat_id, after=seq - 1, limit=1)
    event = stored_event(rows[0]) if rows and rows[0].seq == seq else None
    if event is not None:
        life.follow(there, Delivery(seq, event, rows[0].at), group=rows[0].group)


async def _stand(there: Conversation) -> None:
    """Wait until it stands where it stood, as long as it may: nobody gets an event of its chat meanwhile.

    Its code awaits what isn't the chat's once more, which may last, or come no more.
    """
    seconds, given = PROMPT, -1
    while True:
        with trio.move_on_after(seconds):
            await there.settled.wait()
        if not there.begun:
            await there.settled.wait()  # it hasn't begun: the store is slow
        if there.settled.is_set():
            return
        if not there.replaying:
            return
        if given == there.run.cursor:
            break  # in a whole minute; a machine that is slow would have come further
        seconds, given = HANGS, there.run.cursor
    # A replay that doesn't come to its end: whoever has the turn waits, and not for the chat.
    there.give_up("it went on here, and now waits for something that isn't the chat's")
    with trio.move_on_after(PROMPT):
        await there.settled.wait()


def _place(life: ChatLife, there: Conversation) -> None:
    if there.beside:
        life.places.asides.append(there)
    else:
        life.places.live[there.owner] = there


def _end_politely(services: Services, life: ChatLife, row: ConversationRow) -> None:
    """End, with a word, what wasn't meant to survive the process, or couldn't be written down."""
    said = life.kept.texts.restarted if row.kind != "aside" else ""
    told = life.shared.tidying.tell(life.chat_id, row.id, said) if said else ()
    life.work.write([EndConversation(row.lease, row.id, services.clock.now()), *told])
    abandon(life.work, services, life.chat_id, f"{life.chat_id}/{row.id}", row.key)
    life.work.count("not_durable")


def _park(
    life: ChatLife, journal: Journal, route: Route | None, because: str, *, error: str | None = None
) -> None:
    """Keep its place, without running it."""
    park(_place_parked(life, journal, route), because, error=error)


def _place_parked(life: ChatLife, journal: Journal, route: Route | None) -> Conversation:
    row = journal.row
    route = route or _unknown(row)
    delivery = Delivery(row.id, Join(life.chat_id, None), row.started_at)
    there = Conversation(
        life.services, life, Start(route, None), delivery, None, row.sender_id, _readable(journal)
    )
    there.stuck = True
    _place(life, there)
    return there


def _readable(journal: Journal) -> Stored:
    """Decode what is stored of a conversation; of a journal that this program can't read only the row."""
    try:
        return read_stored(journal)
    except UnreadableRecordError:
        return Stored(journal.row, ())


def park(there: Conversation, because: str, *, error: str | None = None) -> None:
    """Write down that a conversation can't go on, and tell whom it concerns, once."""
    life, stored = there.life, there.stored
    life.work.count("parked")
    log.error("conversation %s of chat %s is parked: %s", there.route.name, life.chat_id, because)
    todo = "deploy code that can go on with it, or end it"
    if there.writer is not None and there.writer.lost:
        todo = "start the bot again, and it goes on with what is stored"
    name = there.route.name if stored is None else stored.row.route
    life.shared.care.tell_parked(name, there.seq, because, todo)
    key = there.key if stored is None else stored.row.key
    tell_parked(life.work, life.services, life.chat_id, key)
    writes: list[Write] = []
    if stored is not None:
        row, now = stored.row, there.services.clock.now()
        if (row.parked_because, row.error) == (because, error):
            return  # it was before, and since then
        writes.append(ParkConversation(row.lease, row.id, now, because, error))
    elif there.writer is None or not there.writer.park(because, error):
        return
    new = stored is None or stored.row.parked_because is None
    if (said := life.kept.texts.parked) and new and not there.beside:
        writes += [*life.shared.tidying.tell(life.chat_id, there.seq, said), life.regretted()]
    life.work.write(writes)


def let_go(there: Conversation) -> None:
    """Park a conversation whose code catches every cancellation, or end it as was asked: its chat goes on."""
    there.stuck = True
    if there.ending is None:
        park(there, "its code catches every cancellation (BaseException), and does not end")
    else:
        ending, there.ending = there.ending, None
        there.end(ending)


def _unknown(row: ConversationRow) -> Route:
    async def nothing(_: object) -> None:
        raise AssertionError("a parked conversation doesn't run")

    def never(_: Event, __: Setting) -> None:
        """Return None: no event starts it."""

    return Route(RouteKind(row.kind), nothing, Filter(never, "nothing"), row.route)
