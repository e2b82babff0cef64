"""A town: one bot's conversations, and people who talk to them.

A test says what people do and looks at what they saw. Nothing here sleeps: time passes by `autojump_clock`.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import ExitStack, asynccontextmanager
from functools import partial

import attrs
import trio
from doubles import FakeClock, FakeOutbox, FakeStore
from trio.testing import wait_all_tasks_blocked

from triobot.base.alarm_kinds import Alarm
from triobot.base.clock import Timepiece
from triobot.conversations.charges.paid import deliver, goes_on
from triobot.conversations.conversation import Services
from triobot.conversations.data import Speech
from triobot.conversations.dispatcher import Dispatcher
from triobot.conversations.revival.code import Code
from triobot.conversations.routes.router import Router, table_of
from triobot.conversations.texts import Texts
from triobot.payments.cashier import Cashier
from triobot.runtime.work import early_door
from triobot.seams.inbox import Arrival, InboxRow, Quota
from triobot.seams.money import Captured, MovePayment
from triobot.studio.advice import advising
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
)
from triobot.wire.ids import CallbackId, ChatId, MessageId, RefId
from triobot.wire.markup import CallbackButton, PayButton
from triobot.wire.operations import DeleteMessage, EditMessage, Operation, SendMessage
from triobot.wire.platform_side import encode_event

ALI = Sender(71, "Ali", "ali")
SARA = Sender(72, "Sara", "sara")
REZA = Sender(73, "Reza", "reza")
CHAT = ChatId(5)
TEXTS = Texts.english()


class Town:
    """The people's side of one dispatcher; a restart gives it another one over the same store."""

    def __init__(
        self, router: Router, outbox: FakeOutbox, store: FakeStore, texts: Speech, *, username: str | None
    ) -> None:
        self.clock = FakeClock()
        self.outbox = outbox
        self.store = store
        self.alarms: list[Alarm] = []
        # What was accepted, each with its place in its chat: a row's number, and how many were taken
        # without a row since.
        self.accepted: list[tuple[tuple[int, int], Event]] = []
        # An event may be dealt with in the transaction that accepts it.
        self.at_once = True
        self.services = Services(
            outbox=outbox,
            store=store,
            clock=Timepiece(self.clock),
            texts=texts,
            raise_alarm=self.alarms.append,
            charge_hosts=("pay.example",),
        )
        self._table = table_of(router)
        self._username = username
        self._presses = 0
        self.dispatcher = self.new_dispatcher()

    def new_dispatcher(self) -> Dispatcher:
        """As after a restart."""
        self.cashier = Cashier(
            self.store,  # type: ignore[arg-type]
            self.outbox,
            self.services.clock,
            deliver=self._deliver,
            ring=self.alarms.append,
            recall=lambda chat_id: self.dispatcher.chats.recall(chat_id),
        )
        self.services = attrs.evolve(self.services, payments=self.cashier)
        self.dispatcher = Dispatcher(self.services, self._table, username=self._username)
        self.door = early_door(self.dispatcher)
        return self.dispatcher

    async def _deliver(self, captured: Captured, claim: MovePayment) -> bool:
        return await deliver(self.dispatcher.chat_calls, self.dispatcher.work, captured, claim)

    # --- people do

    async def happens(self, event: Event, *, wait: bool = True) -> int:
        """The platform posts this; returns its number in the inbox, or 0, once everybody is at rest."""
        body = encode_event(event)
        sender = None if event.sender is None else event.sender.id
        arrival = Arrival(event.chat_id, sender, self.services.clock.now(), body.content_type, body.data)

        place_if_taken = self._place_of_taken(event.chat_id)

        def offer(begins: Callable[[InboxRow], bool] | None, row: InboxRow) -> None:
            self.accepted.append(((row.seq, 0), event))
            if begins is None or not begins(row):
                self.dispatcher.inbox.offer(row, event)

        if self.at_once and self.door is not None:
            accepted = await self.door.store(event, arrival, Quota(), offer)
        else:
            accepted = await self.store.accept(arrival, quota=Quota(), on_commit=partial(offer, None))
        assert accepted is None or isinstance(accepted, InboxRow), accepted
        if accepted is None:
            self.accepted.append((place_if_taken, event))
        if wait:
            await wait_all_tasks_blocked()
        return 0 if accepted is None else accepted.seq

    def _place_of_taken(self, chat: ChatId) -> tuple[int, int]:
        # Nothing of the chat is on its way into the store then: all earlier rows have been handed on.
        row, taken = max((place for place, event in self.accepted if event.chat_id == chat), default=(0, 0))
        return row, taken + 1

    async def rest(self) -> None:
        """Wait until nobody does anything any more."""
        await wait_all_tasks_blocked()

    async def says(
        self, content: object, chat: int = CHAT, *, sender: Sender | None = ALI, wait: bool = True
    ) -> int:
        """Somebody writes."""
        return await self.happens(Message(ChatId(chat), content, sender), wait=wait)

    async def presses(
        self,
        what: str,
        chat: int = CHAT,
        *,
        on: int | None = None,
        times: int = 1,
        sender: Sender | None = ALI,
        wait: bool = True,
    ) -> str:
        """Somebody presses a button by its label: the newest message's that has one, or that of `on`."""
        message_id, data = self.button(what, chat, on)
        callback_id = ""
        for _ in range(times):
            self._presses += 1
            callback_id = f"press{self._presses}"
            press = Press(ChatId(chat), data, MessageId(message_id), CallbackId(callback_id), sender)
            await self.happens(press, wait=False)
        if wait:
            await wait_all_tasks_blocked()
        return callback_id

    async def presses_data(self, data: str, on: int, chat: int = CHAT, *, sender: Sender | None = ALI) -> str:
        """Somebody presses a button that has this data; others may happen before it is looked at."""
        self._presses += 1
        callback_id = f"data{self._presses}"
        press = Press(ChatId(chat), data, MessageId(on), CallbackId(callback_id), sender)
        await self.happens(press, wait=False)
        return callback_id

    async def submits(
        self,
        values: Mapping[str, str],
        chat: int = CHAT,
        *,
        on: int | None = None,
        sender: Sender | None = ALI,
        wait: bool = True,
    ) -> int:
        """Somebody fills in the newest form, or that of `on`."""
        if on is None:
            on = next(id for id, sent in reversed(self.messages(chat)) if sent.form is not None)
        event = Submission(ChatId(chat), tuple(values.items()), MessageId(on), None, sender)
        return await self.happens(event, wait=wait)

    async def joins(self, chat: int = CHAT, *, sender: Sender | None = ALI) -> int:
        """Somebody joins."""
        return await self.happens(Join(ChatId(chat), sender))

    async def leaves(self, chat: int = CHAT, *, sender: Sender | None = ALI, wait: bool = True) -> int:
        """Somebody leaves."""
        return await self.happens(Leave(ChatId(chat), sender), wait=wait)

    async def pays(
        self,
        chat: int = CHAT,
        *,
        ref_id: str | None = None,
        code: int | None = None,
        charge_url: str | None = None,
        wait: bool = True,
    ) -> int:
        """The platform says something about the newest payment button."""
        ref = RefId(ref_id) if ref_id is not None else self.pay_button(chat).ref_id
        status = "error" if code is not None else "success"
        event = PayCallback(ChatId(chat), ref, None, status, code, charge_url, ALI)
        return await self.happens(event, wait=wait)

    async def pays_invoice(self, invoice_id: str, chat: int = CHAT, *, wait: bool = True) -> int:
        """The platform says something about an invoice."""
        return await self.happens(InvoiceCallback(ChatId(chat), invoice_id, ALI), wait=wait)

    # --- people see

    def operations(self, chat: int | None = CHAT) -> Sequence[Operation[object]]:
        """Everything that left for this chat, in order; of all chats with None."""
        return [op for op in self.outbox.left if chat is None or getattr(op, "chat_id", None) == chat]

    def sent(self, chat: int = CHAT) -> list[object]:
        """The contents of the messages, in order."""
        return [op.content for op in self.operations(chat) if isinstance(op, SendMessage)]

    def edits(self, chat: int = CHAT) -> list[EditMessage]:
        """The edits, in order."""
        return [op for op in self.operations(chat) if isinstance(op, EditMessage)]

    def deletes(self, chat: int = CHAT) -> list[DeleteMessage]:
        """The deletions, in order."""
        return [op for op in self.operations(chat) if isinstance(op, DeleteMessage)]

    def messages(self, chat: int = CHAT) -> list[tuple[int, SendMessage]]:
        """The messages with their ids, in order."""
        return [
            (id, op)
            for id, op in self.outbox.message_ids
            if op.chat_id == chat and isinstance(op, SendMessage)
        ]

    def newest(self, chat: int = CHAT) -> SendMessage:
        """The newest message."""
        return self.messages(chat)[-1][1]

    def button(self, label: str, chat: int = CHAT, on: int | None = None) -> tuple[int, str]:
        """Where a button is, and its data."""
        for id, sent in reversed(self.messages(chat)):
            rows = sent.inline_keyboard.rows if sent.inline_keyboard and on in (None, id) else ()
            for button in (button for row in rows for button in row):
                if isinstance(button, CallbackButton) and button.text == label:
                    return id, button.data
        raise AssertionError(f"nobody sees a button {label!r}")

    def labels(self, chat: int = CHAT) -> list[str]:
        """The labels of the newest message's inline keyboard."""
        keyboard = self.newest(chat).inline_keyboard
        return [button.text for row in keyboard.rows for button in row] if keyboard else []

    def pay_button(self, chat: int = CHAT) -> PayButton:
        """The newest payment button."""
        for _, sent in reversed(self.messages(chat)):
            rows = sent.inline_keyboard.rows if sent.inline_keyboard else ()
            for button in (button for row in rows for button in row):
                if isinstance(button, PayButton):
                    return button
        raise AssertionError("nobody sees a payment button")

    # --- what is shared

    @property
    def counts(self) -> Mapping[str, int]:
        """What the dispatcher counted."""
        return self.dispatcher.work.counts

    def left_over(self) -> dict[str, int]:
        """How much the dispatcher still remembers of chats, where there is anything."""
        chats = self.dispatcher.chats
        kept = {"lives": len(chats.actors), "catching_up": len(chats.catching_up._stalled)}
        kept["running"] = len(self.dispatcher.tasks.running)
        kept["cleanup"] = len(self.dispatcher.shared.cleanup)
        kept["_consumption"] = self.dispatcher.commits.added - self.dispatcher.commits.written
        kept["_busy"] = self.dispatcher.work.busy
        return {name: size for name, size in kept.items() if size}


@attrs.define
class Run:
    """A running dispatcher, and how to stop it."""

    scope: trio.CancelScope
    ended: trio.Event
    paying: trio.CancelScope = attrs.field(factory=trio.CancelScope)

    async def cut(self) -> None:
        """End the program's part without asking anybody."""
        self.scope.cancel()
        self.paying.cancel()
        await self.ended.wait()


async def start(nursery: trio.Nursery, town: Town) -> Run:
    """Run the town's present dispatcher in a nursery."""
    run = Run(trio.CancelScope(), trio.Event())
    dispatcher = town.dispatcher

    async def keep_running(task_status: trio.TaskStatus[None]) -> None:
        try:
            with run.scope:
                await dispatcher.run(task_status=task_status)
        finally:
            run.ended.set()

    async def keep_paying(task_status: trio.TaskStatus[None]) -> None:
        with run.paying:
            await cashier.run(task_status=task_status)

    cashier = town.cashier
    await cashier.start(partial(goes_on, town.store))  # type: ignore[arg-type]
    await nursery.start(keep_paying)
    await nursery.start(keep_running)
    return run


@asynccontextmanager
async def open_town(
    router: Router,
    *,
    outbox: FakeOutbox | None = None,
    store: FakeStore | None = None,
    texts: Speech = TEXTS,
    username: str | None = "pizzabot",
    advised: bool = False,
    code: bool = False,
) -> AsyncGenerator[Town]:
    """A town whose dispatcher runs while the block runs, and is cut at its end.

    Args:
        code: records have sites.
    """
    town = Town(router, outbox or FakeOutbox(), store or FakeStore(), texts, username=username)
    if code:
        town.services = attrs.evolve(town.services, code=Code(table_of(router)))
        town.new_dispatcher()
    with ExitStack() as stack:
        if advised:
            notice = stack.enter_context(advising(town.dispatcher.table))
            town.services = attrs.evolve(town.services, notice=notice)
            town.new_dispatcher()
        async with trio.open_nursery() as nursery:
            await start(nursery, town)
            yield town
            nursery.cancel_scope.cancel()
