"""The supervised task behind the ledger: callbacks at once, what is due when it is due, nothing in between.

Outside of all conversations: they may be parked, replayed, or gone. The rows say what is due; nothing is
remembered here that a restart would miss. Callbacks stay in the inbox until the transaction that takes them.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractContextManager
from functools import partial
from typing import Final, Literal, TypeAlias, final

import trio

from ..base.alarm_kinds import Alarm, text_of
from ..base.alarm_kinds import RaiseAlarm as Ring
from ..base.clock import Timepiece
from ..base.frozen import guarded
from ..errors import LocalProtocolError, StoreFullError, UnreadableRecordError
from ..seams.money import Charge, Deliver, MovePayment, PaymentEnd, RaiseAlarm
from ..seams.outbox import Outbox
from ..seams.patience import await_store
from ..seams.values import encode_value, reading
from ..seams.writes import LARGEST_VALUE, PutSetting, Write
from ..store import Store
from ..wire.events import InvoiceCallback, PayCallback
from ..wire.ids import ChatId, InvoiceId, RefId
from . import asking
from .books import Books, claiming, moving, opening
from .callbacks import CallbackHandler, Callbacks
from .entry import UNPAID, Entry, State, Taker
from .examiner import Hands, next_step, work_on
from .facts import WINDOW, Fact, PaymentAnswer, Plain, SetForward, new_ref_id
from .ledger import Moved
from .records import alarm_of, clock_time, entry_of
from .schedule import BLIND, MINUTE, SECOND, claimed_since, due_at
from .ticket import OpenTicket, captured_of

Alive: TypeAlias = "Callable[[ChatId, str], Awaitable[bool]]"
"""Whether the conversation of this owner in this chat will come back to its payment."""

WATCHED: Final = "payments_watched"
"""The setting that says when payments were watched last, and by how much the clock had jumped by then."""
EPOCH: Final = "payments_epoch"
"""The setting that says of which epoch the payments were taken up."""
_NAMED: Final = 20
_BEAT: Final = BLIND / 2 / SECOND
_PAGE: Final = 64
_PARALLEL: Final = 16
LARGEST_ITEM: Final = LARGEST_VALUE // 2
LARGEST_TEXT: Final = LARGEST_VALUE // 4
"""Characters of what is bought, and of what is said of it, in a payment's row; the rest needs far less."""
_RETRY_STORE: Final = 5.0
_ENDS: Final[dict[PaymentEnd, tuple[Taker, tuple[Plain, ...]]]] = {
    "settled": ("handler", (Plain("settled"),)),
    "failed": ("handler", (Plain("handler_failed"),)),
    "given_up": ("conversation", (Plain("taker_gone"),)),
    "never_left": ("conversation", (Plain("send_never_left"),)),
    "replaced": ("conversation", (Plain("taker_gone"), Plain("removed"))),
}
_TAKEN: Final[tuple[State, ...]] = (
    "prepared",
    "sending",
    "unsure",
    "open",
    "check",
    "verifying",
    "verified",
    "delivered",
)
_LEFT: Final[tuple[State, ...]] = (*_TAKEN, "closing")
_WATCHED_STATES: Final[tuple[State, ...]] = ("unsure", "open", "check", "verifying", "closing")
_PAID: Final[tuple[State, ...]] = ("verified", "delivered")
_URGENT: Final[tuple[State, ...]] = ("sending", "verifying", "verified", "delivered")
_PATIENT: Final[tuple[State, ...]] = ("prepared", "unsure", "open", "check", "closing")


@final
@guarded
class Budget:
    """How many examinations are allowed.

    Attributes:
        per_second: of payments that no callback hinted at; those with a hint come first, and
            aren't counted. Past it the sweep falls behind, and an alarm says what that risks.
        parallel: at a time.
    """

    per_second: float = 20.0
    parallel: int = _PARALLEL


@final
class Cashier:
    """The ledger, as conversations see it; and the task that verifies.

    Args:
        deliver: starts the aside for what was bought.
        ring: says at once what can't be stored.
        on_alarm: told of alarms whose rows are stored.
        epoch: how often the store was restored from a backup.
        recall: brings a chat's conversations back into memory, if they are not there.
    """

    def __init__(
        self,
        store: Store,
        outbox: Outbox,
        clock: Timepiece,
        *,
        deliver: Deliver,
        ring: Ring,
        on_alarm: Callable[[Alarm], object] = lambda alarm: None,
        epoch: int = 0,
        recall: Callable[[ChatId], object] = lambda chat_id: None,
        budget: Budget | None = None,
        tracing: Callable[[str, str], AbstractContextManager[None]] | None = None,
    ) -> None:
        self._tracing = tracing
        self._store = store
        self._outbox = outbox
        self._clock = clock
        self._deliver = deliver
        self._ring = ring
        self._on_alarm = on_alarm
        self._epoch = epoch
        self._recall = recall
        self._budget = budget or Budget()
        rows = store.payments
        self.books = Books(rows, store.commit, clock.now, self._moved)
        # What the platform has said is not forgotten because the disk is full for a while.
        self._patient = Books(rows, self._commit_at_last, clock.now, self._moved, self.books.counts)
        self._hands = Hands(self.ask, self._remove, self._hand_out)
        handler = CallbackHandler(self._patient, rows, self._commit_at_last, self._look_up, clock.now)
        self._callbacks = Callbacks(handler, store, self.books.counts)
        self._tickets: dict[RefId, OpenTicket] = {}
        self._busy: set[RefId] = set()
        self._removing: dict[RefId, trio.CancelScope] = {}
        self._asking = trio.CapacityLimiter(self._budget.parallel)
        self._poke = trio.Event()
        # When the sweep wakes, by Trio's clock; infinite while it looks at what is due.
        self._sleeps_until = math.inf
        self._cold_from = -math.inf
        self._beaten = 0
        self._alive: Alive = _nobody
        self._seen: int | None = None
        self._rest: Sequence[State] = ()
        self._started = 0
        self._watching = False

    # --- for conversations

    def number(self, charge: Charge) -> RefId:
        """Draw a number for a payment; nothing is stored.

        Raises:
            LocalProtocolError: what is bought, or what is said of it, is too large to be stored.
        """
        for name, part, most in (("item", charge.item, LARGEST_ITEM), ("text", charge.text, LARGEST_TEXT)):
            if len(encode_value(part)) > most:
                raise LocalProtocolError(name, f"must be at most {most} characters as it is stored")
        return new_ref_id()

    def opened(self, id: RefId, charge: Charge) -> tuple[OpenTicket, MovePayment]:
        """Write a payment down under its number; to be durable before anything of it is sent.

        A number that another payment has refuses the commit with StaleRowError: in ten million payments, one
        charge in a billion draws such a one.
        """
        now = self._clock.now()
        entry, write = opening(self.books, self._new(id, charge), now)
        return OpenTicket(self.books, entry, self._clock.now, self._tickets), write

    async def again(self, id: RefId, *, since: int = 0) -> OpenTicket | None:
        """Find the payment with this number again, for the conversation that opened it; None if it is gone.

        Args:
            since: the revision of the last notice that the conversation has dealt with; what it was told
                later, while it was not in memory, it gets to know now.
        """
        entry = await self.books.read(id)
        while entry is not None:
            ticket = OpenTicket(self.books, entry, self._clock.now, self._tickets, since)
            # It hears of what moves from here on; what moved while it was read, it has to see.
            entry = await self.books.read(id)
            if entry is not None and entry.revision <= ticket.revision:
                return ticket
        return None

    def ended(self, id: RefId, how: PaymentEnd) -> MovePayment:
        """Return the write that ends a taker's part in a payment; does nothing if another has it by now."""
        taker, facts = _ENDS[how]
        return moving(self.books, id, *facts, now=self._clock.now(), taker=taker, may_fail=True)

    async def may_give(self, id: RefId, *, uncertain: bool = False) -> bool:
        """Tell whether the aside that has a payment may give the goods: it was not taken away since.

        Args:
            uncertain: it was delivered as `Captured.uncertain`.
        """
        entry = await self.books.read(id)
        return entry is not None and entry.may_be_given(uncertain=uncertain)

    async def give_up(self, chat_id: ChatId, owner: str, *, key: str | None = None) -> None:
        """Give up the open payments of this owner, and of what is below it. Safe to repeat.

        Args:
            key: of the payment that the owner has, if it is the aside for it.
        """
        after: RefId | None = None
        find = self._store.payments.find
        while page := await find(states=_TAKEN, chat_id=chat_id, after=after, limit=_PAGE):
            after = page[-1].id
            for entry in map(entry_of, page):
                mine = entry.owner == owner or entry.owner.startswith(f"{owner}/")
                if mine and entry.taker == "conversation":
                    gone = Plain("taker_gone")
                    await self.books.move(entry.id, gone, may_fail=True, taker="conversation")
                elif entry.key == key and entry.taker == "handler":
                    failed = Plain("handler_failed")
                    await self.books.move(entry.id, failed, may_fail=True, taker="handler")

    async def parked(self, chat_id: ChatId, key: str) -> None:
        """Tell an operator of captured money whose aside can't go on. Safe to repeat.

        Args:
            key: of the payment that it has.
        """
        after: RefId | None = None
        find = self._store.payments.find
        while page := await find(states=_PAID, chat_id=chat_id, after=after, limit=_PAGE):
            after = page[-1].id
            for entry in map(entry_of, page):
                if entry.key == key:
                    await self.books.move(entry.id, Plain("parked"), may_fail=True, taker="handler")

    def hint(self, seq: int, event: PayCallback | InvoiceCallback) -> None:
        """Take a callback up, which stays at this place in the inbox until it is stored; never waits."""
        self._callbacks.came(seq, event)

    def _new(self, id: RefId, charge: Charge) -> Entry:
        return Entry(
            id=id,
            kind=charge.kind,
            chat_id=charge.chat_id,
            amount=charge.amount,
            currency=charge.currency,
            item=charge.item,
            text=charge.text,
            owner=charge.owner,
            taker="conversation",
            late=charge.late,
            made_at=self._clock.now(),
            expires_at=charge.expires_at,
            epoch=self._epoch,
        )

    # --- the start

    async def start(self, alive: Alive) -> None:
        """Take up the payments of the last process; before conversations go on, and before `run`.

        What only has to be asked about, however much that is, `run` takes up beside everything else.

        Args:
            alive: whether the conversation of this owner will come back to its payment.
        """
        self._alive = alive
        self._seen = await self._watched_last()
        # What is paid of a backup goes to other hands: nobody may come back to one of them before.
        self._started = self._clock.now()
        if (await self._store.setting(EPOCH) or "0") == str(self._epoch):
            await self._take_up(_URGENT)
            self._rest = _PATIENT
        else:
            await self._take_up(_LEFT, restored=True)
            await self._commit_at_last(PutSetting(EPOCH, str(self._epoch)))

    async def _take_up(self, states: Sequence[State], *, restored: bool = False) -> None:
        """Bring what is in these states into this life of the program, a page in one transaction."""
        after: RefId | None = None
        find = self._store.payments.find
        while page := await find(states=states, after=after, limit=_PAGE):
            after = page[-1].id
            moves: list[tuple[Entry, list[Plain]]] = []
            for entry in map(entry_of, page):
                alive = entry.taker == "conversation" and await self._alive(entry.chat_id, entry.owner)
                facts = _at_start(entry, alive=alive, restored=restored)
                moves.append((entry, facts))
                if alive and entry.said is not None:
                    self._recall(entry.chat_id)
            stale = {entry.id for entry in await self._patient.move_all(moves)}
            for entry, facts in moves:
                if entry.id in stale and Plain("taker_gone") in facts:
                    gone = Plain("taker_gone")
                    await self._patient.move(entry.id, gone, may_fail=True, taker="conversation")

    async def _take_up_the_rest(self) -> None:
        if self._rest:
            await self._take_up(self._rest)
        if self._seen is not None and self._clock.now() - self._seen > BLIND:
            await self._alarm_unwatched("start", self._seen, self._started)
        # Not before: until it is told that nobody watched, a start that dies has watched nothing.
        self._watching = True
        self._poke.set()
        await self._beat()

    async def _watched_last(self) -> int | None:
        """Read when payments were watched last, by the clock as it is now; None if they never were."""
        seen = await self._store.setting(WATCHED)
        if seen is None:
            return None
        with reading("what the store keeps of when payments were watched"):
            at, jumped = map(int, (*seen.split(), "0")[:2])
        self._clock.was_seen(at + self._clock.jumped() - jumped)
        if self._clock.jumped() < jumped:
            await self._set_back()
        return at + self._clock.jumped() - jumped

    async def _alarm_unwatched(self, key: str, since: int, before: int) -> None:
        """Name what was open in a time in which nothing was verified."""
        now = self._clock.now()
        named = await self._open_since(before)
        if named:
            text = (
                f"between {clock_time(since)} and {clock_time(now)} UTC nothing was verified, and {named}. "
                f"{text_of('unwatched', '')}"
            )
            await self._alarm(RaiseAlarm("unwatched", key, text, now))

    async def _alarm(self, alarm: RaiseAlarm) -> None:
        """Store an alarm that belongs to no payment, and tell of it."""
        await self._commit_at_last(alarm)
        self._on_alarm(Alarm(alarm.kind, alarm.key, alarm.text))

    async def _open_since(self, before: int) -> str:
        """Describe the open payments made before a moment, for an alarm; empty if there are none."""
        count, named, sums = 0, list[str](), Counter[str]()
        after: RefId | None = None
        find = self._store.payments.find
        while page := await find(states=UNPAID, before=before, after=after, limit=_PAGE):
            after = page[-1].id
            for entry in map(entry_of, page):
                if not entry.wanted:
                    continue
                count, sums[entry.currency] = count + 1, sums[entry.currency] + entry.amount
                if count <= _NAMED:
                    said = ", said to be paid" if claimed_since(entry) is not None else ""
                    named.append(
                        f"{entry.id} (chat {entry.chat_id}, {entry.amount:,} {entry.currency}{said})"
                    )
        money = " and ".join(f"{amount:,} {currency}" for currency, amount in sorted(sums.items()))
        more = ", ..." if count > _NAMED else ""
        return f"{count} payments were open, of {money} in all: {', '.join(named)}{more}" if count else ""

    async def _beat(self) -> None:
        """Note that payments are being watched now."""
        now = self._clock.now()
        if self._watching and abs(now - self._beaten) >= MINUTE:
            self._beaten = now
            await self._commit_at_last(PutSetting(WATCHED, f"{now} {self._clock.jumped()}"))

    async def _set_back(self) -> None:
        """Let what is due be due at once, after the time of day was set back."""
        await self._happens_to_all(_LEFT, Plain("clock_set_back"))

    async def _set_forward(self, by: int) -> None:
        """Move what was noted along with the time of day, and name what a long standstill may have cost."""
        await self._happens_to_all(_LEFT, SetForward(by))
        now = self._clock.now()
        if by > WINDOW and (named := await self._open_since(now)):
            text = (
                f"the time of day went {by // MINUTE} minutes forward, and {named}. If the machine stood "
                f"still meanwhile, what was paid and not verified went back to its users. "
                f"{text_of('clock_jumped', '')}"
            )
            await self._alarm(RaiseAlarm("clock_jumped", "payments", text, now))

    async def _stood_still(self, since: int) -> None:
        """Raise an alarm about the time in which nothing was verified, and have all that is open verified."""
        # Also what was made after the sweep looked last, up to a minute before the standstill.
        await self._alarm_unwatched("standstill", since, self._clock.now())
        await self._happens_to_all(_WATCHED_STATES, Plain("stood_still"))

    async def _happens_to_all(self, states: Sequence[State], fact: Fact) -> None:
        after: RefId | None = None
        find = self._store.payments.find
        while page := await find(states=states, after=after, limit=_PAGE):
            after = page[-1].id
            for stale in await self._patient.move_all([(entry_of(row), [fact]) for row in page]):
                await self._patient.move(stale.id, fact, may_fail=True)

    # --- the task

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Take callbacks and do what is due, until cancelled.

        Cancellation: *atomic*: what was begun is found by the next start.
        """
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._callbacks.keep_taking)
            nursery.start_soon(self._take_up_the_rest)
            nursery.start_soon(self._keep_sweeping, nursery)
            task_status.started()

    async def _keep_sweeping(self, nursery: trio.Nursery) -> None:
        jumped = self._clock.jumped()
        looked_at: int | None = None
        while True:
            self._poke, self._sleeps_until = trio.Event(), math.inf
            now, before, jumped = self._clock.now(), jumped, self._clock.jumped()
            if jumped < before:
                await self._set_back()
            elif jumped > before:
                await self._set_forward(jumped - before)
            if looked_at is not None and now - (looked_at + jumped - before) > BLIND:
                await self._stood_still(looked_at + jumped - before)
            looked_at = now
            due_by = partial(self._store.payments.due, now, limit=_PAGE + len(self._busy))
            rows = await await_store(due_by)
            pause = math.inf
            for row in rows:
                if row.id in self._busy or (not self._watching and row.state in self._rest):
                    continue  # in hand, or not taken up yet: its clocks go by the last process's time
                if len(self._busy) >= _PAGE:
                    break  # whoever is done pokes
                if row.urgent is None and not self._affordable():
                    pause = self._cold_from - trio.current_time()
                    break
                self._busy.add(row.id)
                nursery.start_soon(self._work, row.id)
            due = await await_store(self._store.payments.next_due)
            if due is None:
                looked_at = None
                await self._poke.wait()
                continue
            await self._beat()
            later = (due - now) / SECOND if due > now else 1.0
            # Now and then in any case, to note that payments are being watched.
            seconds = min(pause, later, _BEAT)
            self._sleeps_until = trio.current_time() + seconds
            await self._clock.wait(self._poke, seconds)

    def _affordable(self) -> bool:
        """Tell whether the sweep may ask once more now, and count it."""
        now = trio.current_time()
        if self._cold_from > now:
            return False
        # A quiet hour is no credit: at most a second's worth at once.
        self._cold_from = max(self._cold_from, now - 1) + 1 / self._budget.per_second
        return True

    async def _work(self, id_: RefId) -> None:
        try:
            await work_on(id_, self._patient, self._hands, self._clock.now)
        except UnreadableRecordError:
            # Another version's: it stays among the busy ones, so that it isn't tried every second.
            text = f"payment {id_} can't be read by this version; it is neither verified nor delivered"
            self._ring(Alarm("payment_unverified", id_, text))
            return
        self._busy.discard(id_)
        self._poke.set()

    def _moved(self, moved: Moved) -> None:
        ticket = self._tickets.get(moved.entry.id)
        if ticket is not None:
            ticket.heard(moved)
        elif moved.notice is not None:
            # Also if the payment is somebody else's now: whoever waited for it has to hear that.
            self._recall(moved.entry.chat_id)
        for kind in moved.alarms:
            self._on_alarm(alarm_of(kind, moved.entry))
        if moved.entry.id in self._removing and next_step(moved.entry, self._clock.now()) != "remove":
            self._removing[moved.entry.id].cancel()
        due = due_at(moved.entry)
        # Lengths are compared, since the time of day may be set while the sweep sleeps.
        sleeps = (self._sleeps_until - trio.current_time()) * SECOND
        if due is not None and due - self._clock.now() < sleeps:
            self._poke.set()

    async def _commit_at_last(self, *writes: Write) -> None:
        while True:
            try:
                return await self._store.commit(*writes)
            except StoreFullError as error:
                text = f"{type(error).__name__}: what is known of payments can't be stored; {error.remedy}"
                self._ring(Alarm("store_unwritable", "store", text))
                await trio.sleep(_RETRY_STORE)

    # --- hands

    async def ask(self, entry: Entry, to: Literal["verify", "inquire"]) -> PaymentAnswer:
        """Ask the platform, a bounded number of questions at a time."""
        async with self._asking:
            if self._tracing is None:
                return await asking.ask(self._outbox, entry, to)
            with self._tracing(entry.owner, to):
                return await asking.ask(self._outbox, entry, to)

    async def _remove(self, entry: Entry) -> bool | None:
        """Take the button away from the user's screen; given up (None) when something more urgent is due."""
        with trio.CancelScope() as self._removing[entry.id]:
            try:
                async with self._asking:
                    return await asking.remove_button(self._outbox, entry)
            finally:
                del self._removing[entry.id]
        return None

    async def _hand_out(self, entry: Entry) -> bool:
        """Hand captured money to the aside for its item."""
        delivered, claim = claiming(self._patient, entry, Plain("delivered"), self._clock.now())
        return await self._deliver(captured_of(delivered), claim)

    async def _look_up(self, chat_id: ChatId, invoice_id: InvoiceId) -> PaymentAnswer:
        async with self._asking:
            return await asking.look_up(self._outbox, chat_id, invoice_id)


async def _nobody(chat_id: ChatId, owner: str) -> bool:
    await trio.lowlevel.checkpoint()
    return False


def _at_start(entry: Entry, *, alive: bool, restored: bool) -> list[Plain]:
    """Return what happens to an entry when the program starts."""
    facts = [Plain("restored" if restored else "restart")]
    if entry.taker == "conversation" and not alive:
        facts.append(Plain("taker_gone"))
    return facts
