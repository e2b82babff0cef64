"""Care: whoever was in hand when the program died is counted, and parked after the third time.

What kills the whole process (a crash in C, all memory eaten, a loop without an ``await``) kills it again when
it is revived. So a conversation that may have done it is counted *before* it runs, and no longer once it has
come to rest. After a second unclean end soon after a start the program is *careful*: whatever waits from
before is taken in hand one at a time, each event by itself, so that only the guilty one is counted. What
comes in anew goes on as ever: if that kills, it waits from before the next time.

Only a filter runs before there is a conversation to count: then the event itself is counted, and put away.
"""

from __future__ import annotations

import logging
import shlex
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, Final, final

import trio

from ...journals import ConversationRow, ParkConversation, TakeInHand
from ...seams import Alarm, Consume, InboxRow, KeepRaw, PutSetting, Write
from ...wire.events import Event, Leave
from ...wire.ids import ChatId
from ..routes.routing import Break, Drop, End, Expire, Give, Obey, Queue, Start, Stop, Tell
from ..running.waits import Delivery
from ..services import Services
from . import build

if TYPE_CHECKING:
    from ...journal.incarnation import Incarnation
    from ..conversation import Conversation
    from ..house import House
    from ..life import ChatLife

log: Final = logging.getLogger("triobot.conversations")

CRASHES: Final = 3
"""A conversation that was in hand at so many unclean ends, without having come to rest, is parked."""
LIVED: Final = 300.0
"""A process that lives so many seconds is no crash loop, and whoever is in hand then is not to blame."""
PATIENCE: Final = 64.0
"""At most so many seconds does one hold up the others; less at first, doubled at each crash."""
_REASONS: Final = 3
_LIVED: Final = "lived"
_ROUTING: Final = "routing"


@final
class Care:
    """Counts who is in hand; in careful mode, takes one at a time.

    Args:
        house: the dispatcher.
        less_busy: where it tells that somebody has come to rest.
    """

    def __init__(self, services: Services, house: House, less_busy: trio.lowlevel.ParkingLot) -> None:
        self._services = services
        self._house = house
        self._less_busy = less_busy
        self._opening = services.store.opening()
        self._patience = min(2.0**self._opening.unclean, PATIENCE)
        self._careful = False
        self._hand = trio.StrictFIFOLock()
        self._held: ChatId | None = None
        self._suspects: set[ChatId] = set()
        # How often they had been counted before.
        self._counted: dict[Conversation, int] = {}
        self._routing = ""
        self._looking = False
        # Those of this run, by route: why.
        self._parked: dict[str, dict[int, str]] = {}

    # --- the mode

    async def begin(self) -> None:
        """Find out whether the last run died young, after one that had died, too."""
        opening, store = self._opening, self._services.store
        if opening.unclean < 2 or await store.setting(_LIVED) == str(opening.previous_at):
            return
        self._careful = True
        self._routing = await store.setting(_ROUTING) or ""
        log.warning("the program died %d times in a row: it goes on carefully", opening.unclean)
        text = (
            f"the program died {opening.unclean} times in a row, the last time soon after its start; it "
            "revives one conversation at a time until it knows which one does it; look at the log's end"
        )
        self._services.raise_alarm(Alarm("crash_loop", "start", text))

    # --- who is parked

    def tell_parked(self, there: Conversation, because: str, todo: str) -> None:
        """Tell an operator that a conversation is parked, and how many others are.

        At the first of its route in this run, and whenever there are ten times as many.
        """
        # As it is stored, which is what the commands go by: the route may have another name by now.
        name = there.route.name if there.stored is None else there.stored.row.route
        mine = self._parked.setdefault(name, {})
        mine[there.seq] = because
        count = len(mine)
        if str(count).strip("0") != "1":
            return
        reasons = Counter(mine.values()).most_common(_REASONS)
        parts = [f"{count} of {name} since the start"]
        if len(reasons) > 1:
            parts += [f"{times} since {reason}" for reason, times in reasons]
        stored = max(self._services.store.statistics().parked, count)
        route = shlex.quote(name)
        text = (
            f"conversation {name} is parked: {because}; {todo}. Parked: {stored} in all, {', '.join(parts)}. "
            f"`triobot journal retry --route {route}` and `triobot journal end --route {route} --say TEXT` "
            "count them first, and with --yes try them again or end them"
        )
        key = name if count == 1 else f"{name} {count}"
        self._services.raise_alarm(Alarm("conversation_parked", key, text))

    def parked_no_more(self, there: Conversation) -> None:
        """It goes on, or has ended."""
        for mine in self._parked.values():
            mine.pop(there.seq, None)

    async def live_on(self) -> None:
        """Once the program has lived for a while, nobody in it is to blame for what may come."""
        if self._opening.unclean:
            await trio.sleep(LIVED)
            self._careful = False
            self._house.write([PutSetting(_LIVED, str(self._opening.at))])
            for there in list(self._counted):
                self._acquit(there, 0)

    def end(self) -> None:
        """The program stops, and nobody made it: who is in hand, or was about to be, is not to blame."""
        for there, before in list(self._counted.items()):
            self._acquit(there, before)
        if self._looking:
            self._looks_at(self._routing, looking=False)

    def rested(self, there: Conversation) -> None:
        """It has come to rest by itself, or to its end, which ends its count: nothing is to be put back."""
        if self._counted:
            self._counted.pop(there, None)

    def suspect(self, chat_id: ChatId) -> None:
        """This chat has something from before: in careful mode it is taken in hand for it."""
        if self._careful:
            self._suspects.add(chat_id)

    def concerns(self, row: InboxRow) -> bool:
        """Whether this event waits from before, and has to be taken in hand by itself."""
        return self._careful and row.at < self._opening.at

    # --- the hand

    @asynccontextmanager
    async def hand(self, chat_id: ChatId) -> AsyncGenerator[None]:
        """While the block runs, and until the chat has come to rest, no other is in hand."""
        if chat_id not in self._suspects or not self._careful:
            yield
            return
        async with self._hand:
            self._held = chat_id
            try:
                yield
                await self._at_rest(chat_id)
                for there in [there for there in self._counted if there.life.chat_id == chat_id]:
                    self._acquit(there, 0)
            finally:
                self._held = None

    async def _at_rest(self, chat_id: ChatId) -> None:
        with trio.move_on_after(self._patience):
            while (life := self._house.life(chat_id)) and not all(t.quiescent for t in life.places.all()):
                await self._less_busy.park()
        await self._house.wait_written()

    # --- who is counted

    def condemns(self, row: ConversationRow) -> bool:
        """Whether this conversation is to be parked rather than to be taken in hand once more."""
        # After a clean stop it has another chance, if it isn't the very code that died.
        tried = self._opening.unclean or row.error == build.current_build()
        return bool(tried) and row.in_hand >= CRASHES

    async def revives(self, there: Conversation, row: ConversationRow) -> bool:
        """Count a conversation that is about to be replayed, before it may kill the process once more."""
        held = self._held == there.life.chat_id
        if not held and not (self._opening.unclean and row.unfinished):
            return False
        await self._count([there])
        return True

    async def revived(self, there: Conversation, row: ConversationRow, *, counted: bool) -> None:
        """It has been replayed: if it stands where it rested, it is not its replay that kills."""
        if counted and self._held == there.life.chat_id:
            await self._at_rest(there.life.chat_id)
            self._acquit(there, 0 if row.unfinished else row.in_hand)
        elif row.parked_because is not None and not there.stuck:
            # It goes on after all; but if it kills, it must not begin to be counted anew.
            self._house.beside(partial(self._unpark, there, row))

    async def _unpark(self, there: Conversation, row: ConversationRow) -> None:
        with suppress(trio.ClosedResourceError):
            await self._at_rest(there.life.chat_id)
            self._acquit(there, 0 if row.unfinished else row.in_hand)

    async def begins(self, there: Conversation, made: Incarnation) -> None:
        """A conversation in hand that begins is written down first: so there is something to count."""
        if there.stored is None and self._held == there.life.chat_id:
            made.write_beginning()
            await self._count([there])

    async def look_at_deadlines(self, life: ChatLife) -> None:
        """Count those whose time came while nobody ran, before they are told."""
        now = self._services.clock.now()
        due = [there for there in life.places.all() if _is_due(there, now) and not there.stuck]
        if due and self._held == life.chat_id:
            await self._count(due)

    async def _count(self, some: Sequence[Conversation], *more: PutSetting) -> None:
        if self._house.cut:
            return  # nobody comes to run any more
        for there in some:
            if there not in self._counted:
                self._counted[there] = 0 if there.stored is None else there.stored.row.in_hand
        writes = [write for there in some for write in self._counting(there)]
        self._house.write([*writes, *more])
        await self._house.wait_written()

    def _counting(self, there: Conversation) -> Sequence[Write]:
        if there.world is not None:
            return there.world.counted()
        row = None if there.stored is None else there.stored.row
        return [] if row is None else [TakeInHand(row.lease, row.id, self._services.clock.now())]

    def _acquit(self, there: Conversation, count: int) -> None:
        """It did no harm this time; how often it was counted for something else stands."""
        self._counted.pop(there, None)
        if there.stuck:
            return
        if there.world is not None:
            self._house.write(there.world.acquitted(count))
        elif there.stored is not None and there.stored.row.parked_because is None:
            # It was counted and has not begun.
            row, now = there.stored.row, self._services.clock.now()
            free = ParkConversation(row.lease, row.id, now, None)
            self._house.write([free, *(TakeInHand(row.lease, row.id, now) for _ in range(count))])

    # --- events

    async def route(self, row: InboxRow, event: Event | None, route: Callable[[], None]) -> None:
        """Route an event from before, with whoever gets it in hand."""
        self._suspects.add(row.chat_id)
        async with self.hand(row.chat_id):
            life = self._house.life(row.chat_id)
            if event is None or life is None or life.loading or life.behind:
                if await self._may_be_looked_at(row):
                    route()
                    self._was_looked_at()
            elif await self.admit(life, row, Delivery(row.seq, event, row.at)):
                route()

    async def admit(self, life: ChatLife, row: InboxRow, delivery: Delivery) -> bool:
        """Count whoever is about to be given an event from before; False if the event is put away."""
        if not self.concerns(row):
            return True
        await self._at_rest(life.chat_id)
        if not await self._may_be_looked_at(row):
            return False
        takers = takers_of(life, delivery)
        if takers:
            self._looking = False
            await self._count(takers, PutSetting(_ROUTING, ""))
        else:
            self._was_looked_at()
        return True

    async def _may_be_looked_at(self, row: InboxRow) -> bool:
        """Count the event while filters look at it; False if that has killed too often."""
        seq, _, count = self._routing.partition(" ")
        before = int(count) if seq == str(row.seq) else 0
        if before >= CRASHES:
            self._put_away(row)
            return False
        if self._house.cut:
            return False
        self._looks_at(f"{row.seq} {before + 1}", looking=True)
        await self._house.wait_written()
        return True

    def _was_looked_at(self) -> None:
        self._looks_at("", looking=False)

    def _looks_at(self, what: str, *, looking: bool) -> None:
        self._looking = looking
        self._house.write([PutSetting(_ROUTING, what)])

    def _put_away(self, row: InboxRow) -> None:
        text = (
            f"event {row.seq} of chat {row.chat_id} was put away, since the program died each time its "
            "filters looked at it: one of them doesn't return"
        )
        log.error("%s", text)
        self._services.raise_alarm(Alarm("crash_loop", str(row.seq), text))
        raw = KeepRaw(row.at, "kills the program", row.content_type, row.body)
        self._house.write([raw, Consume((row.seq,)), PutSetting(_ROUTING, "")])


def takers_of(life: ChatLife, delivery: Delivery) -> Sequence[Conversation]:
    """Those whose code runs because of this event; not who begins with it."""
    there = life.places.all()
    if isinstance(delivery.event, Leave):
        return there
    match life.decide_on(delivery):
        case Give(wait) | Tell(wait) | Break(wait, _):
            return [one for one in there if wait in one.waits]
        case End(watch):
            return [one for one in there if watch in one.watches]
        case Start(interrupts=True) as start:
            live = life.places.live.get(life.places.owner_for(start, delivery.event))
            return [] if live is None else [live]
        case Stop():
            return there
        case Drop() | Queue() | Expire() | Start() | Obey():
            return []


def _is_due(there: Conversation, now: int) -> bool:
    wake_at = None if there.stored is None else there.stored.row.wake_at
    return wake_at is not None and wake_at <= now
