"""The cashier: the task that stores callbacks at once, and carries out each duty when the duty is due.

The task is independent of conversations, which may be parked, replayed or gone. The rows contain all due
times, so no duty is lost in a restart. The transaction that stores a callback in the ledger also deletes the
callback from the inbox.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractContextManager
from functools import partial
from typing import Final, Literal, TypeAlias, final

import attrs
import trio

from ..base.alarm_kinds import Alarm, text_of
from ..base.alarm_kinds import RaiseAlarm as Ring
from ..base.clock import Timepiece
from ..errors import LocalProtocolError, StoreFullError, UnreadableRecordError
from ..seams.money import Charge, Deliver, MovePayment, PaymentEnd, RaiseAlarm
from ..seams.outbox import Outbox
from ..seams.patience import await_store
from ..seams.values import encode_value, reading
from ..seams.writes import LARGEST_VALUE, PutSetting, Write
from ..store import Store
from ..wire.events import InvoiceCallback, PayCallback
from ..wire.ids import ChatId, InvoiceId, MessageId, RefId
from . import asking
from .callbacks import CallbackHandler, Callbacks
from .entries import Entries, claiming, moving, opening
from .entry import UNPAID, Entry, State, Taker
from .examiner import Hands, next_step, work_on
from .facts import WINDOW, ClockSet, Fact, PaymentAnswer, Plain, PlainName, SendOk, new_ref_id
from .ledger import Moved
from .records import alarm_of, clock_time
from .schedule import BLIND, MINUTE, SECOND, claimed_since, due_at
from .ticket import OpenTicket, captured_of

Alive: TypeAlias = "Callable[[ChatId, str], Awaitable[bool]]"
"""Returns whether the conversation with this owner key in this chat will wait for its payment again."""

WATCHED: Final = "payments_watched"
"""Setting with the last time at which payments were watched, and the sum of the clock's jumps before this
time.
"""
EPOCH: Final = "payments_epoch"
"""Setting with the store's epoch when `Cashier.start` last took over the payments."""
_NAMED: Final = 20
_BEAT: Final = BLIND / 2 / SECOND
_PAGE: Final = 64
_PARALLEL: Final = 16
"""Largest number of examinations at a time. An examination verifies a payment or inquires about it."""
PER_SECOND: Final = 20.0
"""Largest number of examinations a second, for payments without a callback. Payments with a callback come
first and don't count. If more examinations are due, the sweep of all open payments falls behind, and an alarm
names the risk.
"""
LARGEST_ITEM: Final = LARGEST_VALUE // 2
LARGEST_TEXT: Final = LARGEST_VALUE // 4
"""Largest numbers of characters of the item and the text in a row; all other values need far less."""
_RETRY_STORE: Final = 5.0
_ENDS: Final[dict[PaymentEnd, tuple[Taker | None, PlainName]]] = {
    "settled": ("handler", "settled"),
    "failed": ("handler", "handler_failed"),
    "given_up": ("conversation", "taker_gone"),
    "refused": (None, "send_refused"),
    "never_left": (None, "send_never_left"),
    "unknown": (None, "send_unknown"),
}
_PAID: Final[tuple[State, ...]] = ("verified", "delivered")
_LEFT: Final[tuple[State, ...]] = (*UNPAID, *_PAID)
_WATCHED_STATES: Final[tuple[State, ...]] = ("unsure", "open", "check", "verifying", "closing")
_URGENT: Final[tuple[State, ...]] = ("sending", "verifying", *_PAID, "mismatch")
_PATIENT: Final[tuple[State, ...]] = ("prepared", "unsure", "open", "check", "closing")


@final
class Cashier:
    """The ledger's interface for conversations, and the task that verifies payments.

    Args:
        deliver: starts the aside for an item.
        ring: raises an alarm at once, without the store; used while nothing can be stored.
        on_alarm: called with each stored alarm.
        epoch: number of restores of the store from a backup.
        recall: loads a chat's conversations into memory, unless the chat is in memory already.
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
        rows = store.payments
        self.entries = Entries(rows, store.commit, clock.now, self._moved)
        # Commits through this object are repeated while the disk is full, so no answer of the platform is
        # lost.
        self._patient = Entries(rows, self._commit_at_last, clock.now, self._moved, self.entries.counts)
        self._hands = Hands(self.ask, self._remove, self._hand_out)
        handler = CallbackHandler(self._patient, rows, self._commit_at_last, self._look_up, clock.now)
        self._callbacks = Callbacks(handler, store, self.entries.counts)
        self._tickets: dict[RefId, OpenTicket] = {}
        self._busy: set[RefId] = set()
        self._removing: dict[RefId, trio.CancelScope] = {}
        self._asking = trio.CapacityLimiter(_PARALLEL)
        self._poke = trio.Event()
        # When the sweep wakes, by Trio's clock; infinite while the sweep reads the due rows.
        self._sleeps_until = math.inf
        self._cold_from = -math.inf
        self._beaten = 0
        self._alive: Alive
        self._seen: int | None = None
        self._rest: Sequence[State] = ()
        self._started = 0
        self._watching = False

    # --- for conversations

    def number(self, charge: Charge) -> RefId:
        """Draw a number for a payment, and check the payment's size; nothing is stored.

        Raises:
            LocalProtocolError: the item or the text is too large for the store.
        """
        for name, part, most in (("item", charge.item, LARGEST_ITEM), ("text", charge.text, LARGEST_TEXT)):
            if len(encode_value(part)) > most:
                raise LocalProtocolError(name, f"must be at most {most} characters as it is stored")
        return new_ref_id()

    def opened(self, id: RefId, charge: Charge) -> MovePayment:
        """Return the write that stores a payment. Commit the write before sending the button or creating the
        invoice.

        The commit is refused with StaleRowError if another payment has the number. In a store with ten
        million payments, one charge in a billion gets the number of another payment.
        """
        now = self._clock.now()
        asked = attrs.asdict(charge, recurse=False)
        entry = Entry(id=id, **asked, taker="conversation", made_at=now, epoch=self._epoch)
        return opening(self.entries, entry, now)[1]

    def ticket(self, id: RefId, news: Callable[[], None]) -> OpenTicket:
        """Return a ticket for a payment; see `OpenTicket`."""
        return OpenTicket(self.entries, id, self._tickets, news)

    def sent(
        self, id: RefId, message_id: MessageId | None, invoice_id: InvoiceId | None, *, twice: bool
    ) -> MovePayment:
        """Return the write for an accepted send; `twice`: a second message may exist."""
        return moving(self.entries, id, SendOk(message_id, invoice_id, twice), now=self._clock.now())

    def ended(self, id: RefId, how: PaymentEnd) -> MovePayment:
        """Return the write for a failed send, or for the end of the payment's taker (a conversation or an
        aside).

        If the payment has another taker now, the write for a taker's end has no effect.
        """
        taker, name = _ENDS[how]
        now = self._clock.now()
        return moving(self.entries, id, Plain(name), now=now, taker=taker, may_fail=taker is not None)

    async def may_give(self, id: RefId, *, uncertain: bool = False) -> bool:
        """Return whether the aside that has the payment may still give the goods.

        Args:
            uncertain: the value of `Captured.uncertain` at the delivery.
        """
        entry = await self.entries.read(id)
        return entry is not None and entry.may_be_given(uncertain=uncertain)

    async def give_up(self, chat_id: ChatId, owner: str, *, key: str | None = None) -> None:
        """Give up the open payments of `owner` and of owners of the form ``owner/...``. Safe to repeat.

        Args:
            key: `Captured.key` of the owner's payment, if the owner is the aside for an item.
        """
        async for page in self.entries.pages(_LEFT, chat_id=chat_id):
            for entry in page:
                mine = entry.owner == owner or entry.owner.startswith(f"{owner}/")
                if mine and entry.taker == "conversation":
                    await self._store.commit(self.ended(entry.id, "given_up"))
                elif entry.key == key and entry.taker == "handler":
                    await self._store.commit(self.ended(entry.id, "failed"))

    async def parked(self, chat_id: ChatId, key: str) -> None:
        """Raise an alarm about a captured payment, because its aside can't continue. Safe to repeat.

        Args:
            key: key of the payment.
        """
        async for page in self.entries.pages(_PAID, chat_id=chat_id):
            for entry in page:
                if entry.key == key:
                    await self.entries.move(entry.id, Plain("parked"), may_fail=True, taker="handler")

    def hint(self, seq: int, event: PayCallback | InvoiceCallback) -> None:
        """Queue a callback. The inbox keeps the callback at `seq` until its hint is stored. Never waits."""
        self._callbacks.came(seq, event)

    # --- start

    async def start(self, alive: Alive) -> None:
        """Take over the last process's payments, before conversations continue and before `run`.

        `run` later takes over the payments that only need examinations.

        Args:
            alive: returns whether the conversation with an owner key will wait for its payment again.
        """
        self._alive = alive
        self._seen = await self._watched_last()
        # After a restore, all payments are taken over here, not in `run`. A paid payment may then get another
        # taker, and this move must be stored before a conversation waits for the payment again.
        self._started = self._clock.now()
        if (await self._store.setting(EPOCH) or "0") == str(self._epoch):
            await self._take_up(_URGENT)
            self._rest = _PATIENT
        else:
            await self._take_up((*_URGENT, *_PATIENT), restored=True)
            await self._commit_at_last(PutSetting(EPOCH, str(self._epoch)))

    async def _take_up(self, states: Sequence[State], *, restored: bool = False) -> None:
        """Apply the fact of the program's start to all payments in these states; each page of payments
        is one transaction.
        """
        start = Plain("restored" if restored else "restart")
        async for page in self.entries.pages(states):
            now, moves = self._clock.now(), list[MovePayment]()
            for entry in page:
                # If the payment has changed since the page was read, this process has already taken over the
                # payment.
                moves.append(moving(self.entries, entry.id, start, now=now, revision=entry.revision))
                if entry.taker != "conversation":
                    continue
                if not await self._alive(entry.chat_id, entry.owner):
                    moves.append(self.ended(entry.id, "given_up"))
                elif entry.news is not None:
                    self._recall(entry.chat_id)
            await self._commit_at_last(*moves)

    async def _take_up_the_rest(self) -> None:
        if self._rest:
            await self._take_up(self._rest)
        if self._seen is not None and self._clock.now() - self._seen > BLIND:
            await self._alarm_unwatched("start", self._seen, self._started)
        # Store the beginning of this process's watch only after the alarm. If the process crashes before the
        # alarm, the next process must still find the hours in which no process verified payments.
        self._watching = True
        self._poke.set()
        await self._beat()

    async def _watched_last(self) -> int | None:
        """Return when payments were last watched, corrected for clock jumps; None before the first watch."""
        seen = await self._store.setting(WATCHED)
        if seen is None:
            return None
        with reading("what the store keeps of when payments were watched"):
            at, jumped = map(int, (*seen.split(), "0")[:2])
        self._clock.was_seen(at + self._clock.jumped() - jumped)
        if self._clock.jumped() < jumped:
            await self._clock_set(self._clock.jumped() - jumped)
        return at + self._clock.jumped() - jumped

    async def _alarm_unwatched(self, key: str, since: int, before: int) -> None:
        """Raise an alarm about the payments that were open while no process verified payments."""
        now = self._clock.now()
        named = await self._open_since(before)
        if named:
            text = (
                f"between {clock_time(since)} and {clock_time(now)} UTC nothing was verified, and {named}. "
                f"{text_of('unwatched', '')}"
            )
            await self._alarm(RaiseAlarm("unwatched", key, text, now))

    async def _alarm(self, alarm: RaiseAlarm) -> None:
        """Store an alarm that belongs to no payment, and call `on_alarm`."""
        await self._commit_at_last(alarm)
        self._on_alarm(Alarm(alarm.kind, alarm.key, alarm.text))

    async def _open_since(self, before: int) -> str:
        """Return a description, for an alarm, of the open payments made before `before`; "" without
        such payments.
        """
        count, named, sums = 0, list[str](), Counter[str]()
        async for page in self.entries.pages(UNPAID, before=before):
            for entry in page:
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
        """Store the current time as the last time at which this process watched payments."""
        now = self._clock.now()
        if self._watching and abs(now - self._beaten) >= MINUTE:
            self._beaten = now
            await self._commit_at_last(PutSetting(WATCHED, f"{now} {self._clock.jumped()}"))

    async def _clock_set(self, by: int) -> None:
        """Correct stored times after the time of day was set.

        If the clock went forward by more than an hour, raise an alarm about the open payments.
        """
        await self._happens_to_all(_LEFT, ClockSet(by))
        now = self._clock.now()
        if by > WINDOW and (named := await self._open_since(now)):
            text = (
                f"the time of day went {by // MINUTE} minutes forward, and {named}. If the machine stood "
                f"still meanwhile, what was paid and not verified went back to its users. "
                f"{text_of('clock_jumped', '')}"
            )
            await self._alarm(RaiseAlarm("clock_jumped", "payments", text, now))

    async def _stood_still(self, since: int) -> None:
        """Raise an alarm about the time in which the process stood still and verified no payment; then
        verify all open payments.
        """
        # The alarm also includes payments that were made between the last sweep and the standstill.
        await self._alarm_unwatched("standstill", since, self._clock.now())
        await self._happens_to_all(_WATCHED_STATES, Plain("stood_still"))

    async def _happens_to_all(self, states: Sequence[State], fact: Fact) -> None:
        async for page in self.entries.pages(states):
            now = self._clock.now()
            moves = [moving(self.entries, entry.id, fact, now=now, may_fail=True) for entry in page]
            await self._commit_at_last(*moves)

    # --- the task

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Store callbacks and carry out due duties, until cancelled.

        Cancellation: *atomic*: the rows keep unfinished duties for the next start.
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
            if jumped != before:
                await self._clock_set(jumped - before)
            if looked_at is not None and now - (looked_at + jumped - before) > BLIND:
                await self._stood_still(looked_at + jumped - before)
            looked_at = now
            due_by = partial(self._store.payments.due, now, limit=_PAGE + len(self._busy))
            rows = await await_store(due_by)
            pause = math.inf
            for row in rows:
                if row.id in self._busy or (not self._watching and row.state in self._rest):
                    continue  # a duty is in progress, or the payment isn't taken over yet
                if len(self._busy) >= _PAGE:
                    break  # each task sets `_poke` when it has finished
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
            # Wake at least every `_BEAT` seconds, to store the time until which payments were watched.
            seconds = min(pause, later, _BEAT)
            self._sleeps_until = trio.current_time() + seconds
            await self._clock.wait(self._poke, seconds)

    def _affordable(self) -> bool:
        """Return whether the budget allows one more examination now; if so, count this examination."""
        now = trio.current_time()
        if self._cold_from > now:
            return False
        # Unused budget isn't saved up: at most one second's examinations start at once.
        self._cold_from = max(self._cold_from, now - 1) + 1 / PER_SECOND
        return True

    async def _work(self, id_: RefId) -> None:
        try:
            await work_on(id_, self._patient, self._hands, self._clock.now)
        except UnreadableRecordError:
            # Another version of the bot wrote the row. The payment stays in `_busy`, so that the sweep
            # doesn't read the row again every second.
            text = f"payment {id_} can't be read by this version; it is neither verified nor delivered"
            self._ring(Alarm("payment_unverified", id_, text))
            return
        self._busy.discard(id_)
        self._poke.set()

    def _moved(self, moved: Moved) -> None:
        ticket = self._tickets.get(moved.entry.id)
        if ticket is not None:
            ticket.heard(moved.entry)
        elif moved.notice is not None:
            # Load the chat even after a change of taker: the conversation that waited has to get the notice.
            self._recall(moved.entry.chat_id)
        for kind in moved.alarms:
            self._on_alarm(alarm_of(kind, moved.entry))
        if moved.entry.id in self._removing and next_step(moved.entry, self._clock.now()) != "remove":
            self._removing[moved.entry.id].cancel()
        due = due_at(moved.entry)
        # Compare durations, since the time of day may change while the sweep sleeps.
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

    # --- requests and deliveries

    async def ask(self, entry: Entry, to: Literal["verify", "inquire"]) -> PaymentAnswer:
        """Send a verify or inquiry for an entry; the number of requests at a time is bounded."""
        async with self._asking:
            if self._tracing is None:
                return await asking.ask(self._outbox, entry, to)
            with self._tracing(entry.owner, to):
                return await asking.ask(self._outbox, entry, to)

    async def _remove(self, entry: Entry) -> bool | None:
        """Remove the button from the user's screen.

        Returns:
            Whether the removal succeeded; None if a more urgent duty cancelled the attempt.
        """
        with trio.CancelScope() as self._removing[entry.id]:
            try:
                async with self._asking:
                    return await asking.remove_button(self._outbox, entry)
            finally:
                del self._removing[entry.id]
        return None

    async def _hand_out(self, entry: Entry) -> bool:
        delivered, claim = claiming(self._patient, entry, Plain("delivered"), self._clock.now())
        return await self._deliver(captured_of(delivered), claim)

    async def _look_up(self, chat_id: ChatId, invoice_id: InvoiceId) -> PaymentAnswer:
        async with self._asking:
            return await asking.look_up(self._outbox, chat_id, invoice_id)
