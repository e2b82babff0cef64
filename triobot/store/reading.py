"""The reading side of payments and alarms, over whatever can run a function on their rows."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Protocol, TypeVar, final

from ..money import AlarmRow, PaymentMove, PaymentRow, PaymentTotal
from ..wire.ids import ChatId, InvoiceId, RefId
from ..wire.rules import check_integer
from .columns import check_chat
from .payment_rows import MoneyTables

R = TypeVar("R")


class Ask(Protocol):
    """Has a function run on the rows, and returns its result."""

    def __call__(self, work: Callable[[MoneyTables], R], /) -> Awaitable[R]: ...


@final
class ReadPayments:
    """`triobot.money.PaymentRows` over the tables."""

    def __init__(self, ask: Ask) -> None:
        self._ask = ask

    async def get(self, id: RefId) -> PaymentRow | None:
        return await self._ask(lambda money: money.get(id))

    async def of_invoice(self, invoice_id: InvoiceId) -> PaymentRow | None:
        return await self._ask(lambda money: money.of_invoice(invoice_id))

    async def due(self, now: int, *, limit: int) -> Sequence[PaymentRow]:
        check_integer("limit", limit, least=0)
        return await self._ask(lambda money: money.due(now, limit))

    async def next_due(self) -> int | None:
        return await self._ask(lambda money: money.next_due())

    async def find(
        self,
        *,
        states: Sequence[str] = (),
        chat_id: ChatId | None = None,
        before: int | None = None,
        after: RefId | None = None,
        limit: int,
    ) -> Sequence[PaymentRow]:
        check_integer("limit", limit, least=0)
        if chat_id is not None:
            check_chat(chat_id)
        return await self._ask(lambda money: money.find(states, chat_id, before, after, limit))

    async def counts(self) -> Mapping[str, int]:
        return await self._ask(lambda money: money.counts())

    async def history(self, id: RefId) -> Sequence[PaymentMove]:
        return await self._ask(lambda money: money.history(id))

    async def totals(self, *, since: int, until: int) -> Sequence[PaymentTotal]:
        return await self._ask(lambda money: money.totals(since, until))


@final
class ReadAlarms:
    """`triobot.money.AlarmRows` over the tables."""

    def __init__(self, ask: Ask) -> None:
        self._ask = ask

    async def open(self, *, told_before: int | None = None, limit: int) -> Sequence[AlarmRow]:
        check_integer("limit", limit, least=0)
        return await self._ask(lambda money: money.open_alarms(told_before, limit))

    async def all(self, *, limit: int) -> Sequence[AlarmRow]:
        check_integer("limit", limit, least=0)
        return await self._ask(lambda money: money.all_alarms(limit))
