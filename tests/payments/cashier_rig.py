"""A cashier over a memory store and the emulator's world, in virtual time."""

from __future__ import annotations

import random
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Any

import attrs
import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from triobot.base.alarm_kinds import Alarm
from triobot.base.clock import Timepiece
from triobot.emulator.acts import Acting
from triobot.emulator.faults import Switches
from triobot.emulator.performing import Refusal, perform
from triobot.emulator.world import User, World
from triobot.errors import BadRequestError, DeliveryUnknownError, ForbiddenError, RefusedError
from triobot.payments.cashier import Cashier
from triobot.payments.entry import Entry
from triobot.payments.records import entry_of
from triobot.payments.ticket import captured_of
from triobot.seams.inbox import Arrival, Quota
from triobot.seams.money import Captured, Charge, MovePayment, PaymentEnd, PaymentGoods, PaymentNotice
from triobot.store import Store
from triobot.store.memory import open_memory
from triobot.wire.events import InvoiceCallback, PayCallback
from triobot.wire.ids import RefId
from triobot.wire.markup import InlineKeyboard, PayButton
from triobot.wire.operations import CreateInvoice, SendMessage

EPOCH = 1_700_000_000_000
PRICE = 250_000
MINUTE = 60.0
HOUR = 60 * MINUTE


class Clock:
    """The time of day, which passes as Trio's does."""

    ahead = slept = 0

    def now(self) -> int:
        return EPOCH + self.ahead + self.steady()

    def steady(self) -> int:
        return self.slept + int(trio.current_time() * 1000)


@attrs.define
class Line:
    """`triobot.seams.outbox.Outbox` to the world, with faults.

    Attributes:
        fault: called with each operation before it takes effect; raises, or says "lost" or "hangs": after it.
        asked: the operations that arrived, by path.
    """

    world: World
    clock: Clock
    fault: Callable[[Any], str | None] = lambda operation: None
    asked: list[str] = attrs.field(factory=list[str])

    async def perform(self, operation: Any, **how: Any) -> Any:
        await trio.sleep(0.1)
        self.asked.append(operation.path)
        after = self.fault(operation)
        answer, _ = perform(self.world, operation, self.clock.now())
        if after == "hangs":
            await trio.sleep_forever()
        if after == "lost":
            raise DeliveryUnknownError(operation.path, "no answer")
        if isinstance(answer, Refusal):
            kind = {400: BadRequestError, 403: ForbiddenError}.get(answer.status, RefusedError)
            raise kind(operation.path, answer.status, answer.reason)
        return answer


class Waiter:
    """A conversation that waits for its payment."""

    def __init__(self, cashier: Cashier, id_: RefId) -> None:
        self.id = id_
        self._news = trio.Event()
        self._since = 0
        self.ticket = cashier.ticket(id_, lambda: self._news.set())

    @property
    def captured(self) -> Captured | None:
        return None if self.entry.captured is None else captured_of(self.entry)

    @property
    def entry(self) -> Entry:
        assert self.ticket.entry is not None
        return self.ticket.entry

    @property
    def ending(self) -> PaymentGoods | None:
        return self.entry.ending

    async def wait_notice(self) -> PaymentNotice | None:
        """The next notice; None: a callback came, and the payment is being examined."""
        await self.ticket.read()
        while not self.ticket.has_news(self._since):
            self._news = trio.Event()
            await self._news.wait()
        return self._handled(self.entry.news)

    async def wait_decided(self) -> PaymentNotice | None:
        """The notice that the examination comes to; None: none is going on."""
        return self._handled(await self.ticket.decided(self._since))

    def _handled(self, notice: PaymentNotice | None) -> PaymentNotice | None:
        if notice is None or 0 < notice.revision <= self._since:
            return None
        self._since = notice.revision
        return notice


class Till:
    """What a test sees: a cashier, its store and world, and what the asides got."""

    def __init__(self, store: Store, **switches: Any) -> None:
        self.clock = Clock()
        self.store = store
        self.world = World(chance=random.Random(1), switches=Switches(**switches))
        self.line = Line(self.world, self.clock)
        self.user: User = self.world.add_user("Sara", irr=10**9, coin=10**9)
        Acting(self.world, self.user, self.clock.now()).join()
        self.rung: list[Alarm] = []
        self.noted: list[Alarm] = []
        self.delivered: list[Captured] = []
        self.aside: Callable[[Captured, Till], Any] | None = None
        self.nursery: trio.Nursery | None = None
        self.waiter: Waiter
        self.crash: Callable[[], None] = lambda: None
        self.cashier = self.new_cashier()

    def new_cashier(self, epoch: int = 0) -> Cashier:
        """As after a restart."""
        self.cashier = Cashier(
            self.store,
            self.line,  # type: ignore[arg-type]
            Timepiece(self.clock),
            deliver=self._deliver,
            ring=self.rung.append,
            on_alarm=self.noted.append,
            epoch=epoch,
        )
        return self.cashier

    async def _deliver(self, captured: Captured, claim: MovePayment) -> bool:
        if self.aside is None:
            return False
        await self.store.commit(claim)
        self.delivered.append(captured)
        if self.nursery is None:
            await self.aside(captured, self)
        else:
            self.nursery.start_soon(self.aside, captured, self)
        return True

    # --- a conversation

    async def charges(self, owner: str = "1", *, seconds: float = 24 * HOUR, **changes: Any) -> Waiter:
        """Ask for money, and have it shown."""
        plain = Charge(
            kind="button",
            chat_id=self.user.chat_id,
            amount=PRICE,
            currency="IRR",
            item="[1, 1]",
            text="Pizza",
            owner=owner,
            late="handler",
            expires_at=self.clock.now() + int(seconds * 1000),
        )
        charge = attrs.evolve(plain, **changes)
        id_ = self.cashier.number(charge)
        waiter = self.waiter = Waiter(self.cashier, id_)
        await self.store.commit(self.cashier.opened(id_, charge))
        if charge.kind == "invoice":
            created = await self.line.perform(CreateInvoice(charge.chat_id, charge.amount, charge.text))
            await self.store.commit(self.cashier.sent(id_, None, created.id, twice=False))
            return waiter
        button = PayButton("Pay", charge.amount, id_, charge.currency)
        keyboard = InlineKeyboard(((button,),))
        sent = await self.line.perform(SendMessage(charge.chat_id, charge.text, inline_keyboard=keyboard))
        await self.store.commit(self.cashier.sent(id_, sent.id, None, twice=False))
        return waiter

    async def ends(self, one: Waiter | Captured, how: PaymentEnd) -> None:
        """The conversation, or the aside that has what was captured, is done with it."""
        await self.store.commit(self.cashier.ended(one.id, how))

    def stands_still(self, seconds: float) -> None:
        """The program is stopped, and goes on so much later; nobody sets a clock."""
        self.clock.slept += int(seconds * 1000)

    # --- the user

    def pays(self, **how: Any) -> PayCallback:
        """Press the newest payment button; the callback is posted by `posts`."""
        message_id, button = Acting(self.world, self.user, self.clock.now()).newest_pay_button()
        (event,) = Acting(self.world, self.user, self.clock.now()).pay(message_id, button, **how)
        assert isinstance(event, PayCallback)
        return event

    def pays_invoice(self, **how: Any) -> InvoiceCallback:
        """Pay the newest invoice."""
        number = Acting(self.world, self.user, self.clock.now()).newest_invoice()
        (event,) = Acting(self.world, self.user, self.clock.now()).pay_invoice(number, **how)
        assert isinstance(event, InvoiceCallback)
        return event

    async def posts(self, event: PayCallback | InvoiceCallback) -> int:
        """The platform posts a callback; returns its place in the inbox."""
        arrival = Arrival(event.chat_id, None, self.clock.now(), "text/plain", b"callback")
        accepted = await self.store.accept(arrival, quota=Quota())
        seq: int = accepted.seq  # type: ignore[union-attr]
        self.cashier.hint(seq, event)
        return seq

    # --- the books

    async def entry(self, id_: RefId) -> Entry:
        """A payment as it is stored."""
        row = await self.store.payments.get(id_)
        assert row is not None
        return entry_of(row)

    async def state(self, id_: RefId) -> str:
        """How far it got."""
        return (await self.entry(id_)).state

    async def facts(self, id_: RefId) -> list[str]:
        """What happened to it."""
        return [move.fact for move in await self.store.payments.history(id_)]

    async def alarms(self) -> set[str]:
        """The kinds of the open alarms."""
        return {alarm.kind for alarm in await self.store.alarms.open(limit=100)}

    @property
    def wallet(self) -> int:
        """What the user still has in rials."""
        self.world.catch_up(self.clock.now())
        return self.user.wallet["IRR"]


@asynccontextmanager
async def open_till(**switches: Any) -> AsyncGenerator[Till]:
    """A running cashier."""
    async with open_memory(clock=Clock()) as store:
        till = Till(store, **switches)
        async with _running(till, till.cashier, lambda owner: True):
            yield till


@asynccontextmanager
async def again(
    till: Till, *, alive: Callable[[str], bool] = lambda owner: True, epoch: int = 0
) -> AsyncGenerator[Cashier]:
    """Another cashier over the same store, as after a crash of the first one."""
    till.crash()
    async with _running(till, till.new_cashier(epoch), alive) as cashier:
        yield cashier


@asynccontextmanager
async def _running(till: Till, cashier: Cashier, alive: Callable[[str], bool]) -> AsyncGenerator[Cashier]:
    async with trio.open_nursery() as nursery:
        scope = trio.CancelScope()
        till.crash = scope.cancel

        async def run(task_status: trio.TaskStatus[None]) -> None:
            with scope:
                await cashier.run(task_status=task_status)

        till.nursery = nursery

        async def there(chat_id: object, owner: str) -> bool:
            return alive(owner)

        await cashier.start(there)
        await nursery.start(run)
        yield cashier
        nursery.cancel_scope.cancel()


async def rest() -> None:
    """Wait until nobody does anything without time passing."""
    await wait_all_tasks_blocked()


async def settles(captured: Captured, till: Till) -> None:
    """An aside that gives the goods."""
    await till.ends(captured, "settled")


async def takes_a_minute(captured: Captured, till: Till) -> None:
    """An aside that gives the goods, and needs some time."""
    await trio.sleep(MINUTE)
    await till.ends(captured, "settled")


async def lost_invoice(till: Till, owner: str, amount: int) -> Waiter:
    """An invoice whose creation answer is lost: it is there, and nobody knows its number."""
    till.line.fault = lambda operation: "lost"
    with pytest.raises(DeliveryUnknownError):
        await till.charges(owner, kind="invoice", amount=amount)
    till.line.fault = lambda operation: None
    await till.ends(till.waiter, "unknown")
    await till.ends(till.waiter, "given_up")
    return till.waiter
