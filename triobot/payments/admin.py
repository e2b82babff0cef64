"""Operators' requests about the ledger: plain JSON values, one answer per request.

============================  =========================================================================
``payments.list``             ``states``, ``chat``, ``before``, ``after``, ``limit``: ``{"payments": [...]}``
``payments.show``             ``ref``: ``{"payment": {...}, "history": [...]}``
``payments.verify``           ``ref``: verify at once, whatever the schedule says
``payments.inquire``          ``ref``: ``{"said": word}``, without a capture; needs a running bot
``payments.redeliver``        ``ref``: pass a captured payment to the aside for its item again
``payments.settle``           ``ref``: store that the goods were given by hand
``payments.resolve``          ``ref``: store that nothing is owed any more
``payments.adopt``            ``number``, ``chat``, ``amount``, ``currency``, ``kind``: add to the ledger
``payments.totals``           ``since``, ``until``: ``{"totals": [...]}`` by day and currency
``payments.ages``             payments claimed to be paid but not verified, and payments captured but not
                              settled: the number of each, and the oldest time of each
``payments.forget``           ``chat``: delete items and texts, keep amounts and numbers; refused while money
                              is open; with ``captured``, only check for captured money that is owed
============================  =========================================================================

No answer contains a message's text, or an item.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Final, TypeAlias, cast, final

import attrs

from ..errors import ConfigError, ConflictError, NotFoundError
from ..seams.writes import StaleRowError
from ..store import Store
from ..wire.ids import ChatId, RefId, as_chat_id, as_invoice_id, as_ref_id
from ..wire.rules import check_integer
from .entries import Entries, Pages
from .entry import ENDED, NOTHING, STATES, UNPAID, Entry, Kind, State
from .facts import Adopted, Fact, PaymentAnswer, Plain, PlainName, SendOk, new_ref_id, over_at
from .records import clock_time, entry_of
from .schedule import INVOICE_LIFE, MINUTE, claimed_since, verify_by

Question: TypeAlias = Mapping[str, object]
Inquire: TypeAlias = Callable[[Entry], Awaitable[PaymentAnswer]]

_ACTS: Final[Mapping[str, PlainName]] = {
    "payments.verify": "operator_verify",
    "payments.redeliver": "operator_redeliver",
    "payments.settle": "operator_settled",
    "payments.resolve": "operator_resolved",
}
_MOST: Final = 1_000
_PAGE: Final = 200
_USUAL: Final = 100
_HIDDEN: Final = frozenset({"item", "text", "payer", "said"})


@final
class PaymentsAdmin:
    """Answers operators' requests about payments.

    Args:
        inquire: sends an inquiry to the platform; None if no bot runs.
    """

    def __init__(
        self, store: Store, entries: Entries, now: Callable[[], int], *, inquire: Inquire | None = None
    ) -> None:
        self._store = store
        self._entries = entries
        self._now = now
        self._inquire = inquire

    async def answer(self, question: Question) -> dict[str, object]:
        """Answer one question.

        Raises:
            NotFoundError: the payment doesn't exist.
            ConflictError: the payment's state doesn't allow the action.
            ConfigError: the request is unknown, or names an unknown state.
            LocalProtocolError: a value in the request is invalid.
        """
        ask = question.get("ask")
        match ask:
            case "payments.list":
                return await self._list(question)
            case "payments.show":
                return await self._show(question)
            case "payments.inquire":
                return await self._inquired(question)
            case "payments.adopt":
                return await self._adopt(question)
            case "payments.totals":
                since, until = _integer(question, "since"), _integer(question, "until")
                totals = await self._store.payments.totals(since=since, until=until)
                return {"totals": [attrs.asdict(total) for total in totals]}
            case "payments.ages":
                return await self._ages()
            case "payments.forget":
                return await self._forget(as_chat_id(cast("int", question.get("chat"))), question)
            case str() if ask in _ACTS:
                return await self._moved(await self._entry(question), Plain(_ACTS[ask]))
            case _:
                raise ConfigError("nobody here knows this question about payments")

    async def _ages(self) -> dict[str, object]:
        claimed = map(claimed_since, await self._in(UNPAID))
        unverified = [at for at in claimed if at is not None]
        unsettled = await self._in(("verified", "delivered", "mismatch"))
        since = [entry.verified_at for entry in unsettled if entry.verified_at is not None]
        return {
            "unverified": len(unverified),
            "oldest_unverified_at": min(unverified, default=None),
            "unsettled": len(unsettled),
            "oldest_unsettled_at": min(since, default=None),
        }

    async def _list(self, question: Question) -> dict[str, object]:
        states = [str(state) for state in cast("list[object]", question.get("states") or [])]
        for state in states:
            if state not in STATES:
                raise ConfigError(f"there is no state {state!r}; there are {', '.join(STATES)}")
        chat, after = question.get("chat"), question.get("after")
        rows = await self._store.payments.find(
            states=states,
            chat_id=None if chat is None else as_chat_id(cast("int", chat)),
            before=None if question.get("before") is None else _integer(question, "before"),
            after=None if after is None else as_ref_id(str(after)),
            limit=min(_integer({"limit": _USUAL, **question}, "limit"), _MOST),
        )
        return {"payments": [_summary(entry_of(row)) for row in rows]}

    async def _show(self, question: Question) -> dict[str, object]:
        entry = await self._entry(question)
        history = await self._store.payments.history(entry.id)
        fields = attrs.asdict(entry, filter=lambda attribute, _: attribute.name not in _HIDDEN)
        return {"payment": fields, "history": [attrs.asdict(move) for move in history]}

    async def _inquired(self, question: Question) -> dict[str, object]:
        entry = await self._entry(question)
        if self._inquire is None:
            raise ConflictError("no bot runs, and only a running bot can ask the platform")
        if not entry.verifiable:
            raise ConflictError(f"payment {entry.id} has no number that the platform knows")
        answer = await self._inquire(entry)
        return {"said": answer.word, "amount": answer.amount}

    async def _moved(self, entry: Entry, fact: Fact) -> dict[str, object]:
        planned = await self._entries.move(entry.id, fact, may_fail=True)
        if planned is None:
            raise ConflictError(
                f"payment {entry.id} is {entry.state}: {STATES[entry.state]}; nothing was done"
            )
        return {"payment": _summary(planned.entry)}

    async def _adopt(self, question: Question) -> dict[str, object]:
        """Add an unknown number to the ledger, such as the lost id of an invoice."""
        number, amount = str(question.get("number")), _integer(question, "amount", least=1)
        chat_id = as_chat_id(cast("int", question.get("chat")))
        kind: Kind = "button" if question.get("kind") == "button" else "invoice"
        known = await self._store.payments.get(RefId(number))
        if known is not None or await self._store.payments.of_invoice(as_invoice_id(number)) is not None:
            raise ConflictError(f"{number} is in the books already: `triobot payments show {number}`")
        states: Final = ("unsure", "check", "closing", "lapsed")
        lost = [entry for entry in await self._in(states, chat_id) if not entry.verifiable]
        mine = sorted(
            (entry for entry in lost if entry.amount == amount),
            key=lambda entry: (entry.state == "lapsed", entry.made_at),
        )
        if kind == "invoice" and mine:
            return await self._moved(mine[0], Adopted(as_invoice_id(number)))
        now = self._now()
        entry = Entry(
            id=as_ref_id(number) if kind == "button" else new_ref_id(),
            kind=kind,
            chat_id=chat_id,
            amount=amount,
            currency="coin" if question.get("currency") == "coin" else "IRR",
            item=NOTHING,
            text="-",
            owner=f"operator {new_ref_id()}",
            taker="conversation",
            late="handler",
            made_at=now,
            expires_at=now + INVOICE_LIFE,
        )
        named = SendOk(invoice_id=as_invoice_id(number)) if kind == "invoice" else SendOk()
        try:
            added = await self._entries.add(entry, Plain("send_begun"), named, Plain("taker_gone"))
        except StaleRowError as error:
            raise ConflictError(f"{number} has come into the books meanwhile") from error
        return {"payment": _summary(added)}

    async def _forget(self, chat_id: ChatId, question: Question) -> dict[str, object]:
        for entry in await self._in(("verified", "delivered", "mismatch"), chat_id):
            raise ConflictError(
                f"chat {chat_id} has paid for what it may not have got: payment {entry.id} is {entry.state}: "
                f"{STATES[entry.state]}. Nothing was deleted; look after `triobot payments show {entry.id}`"
            )
        if question.get("captured"):
            return {}
        running = self._inquire is not None
        for entry in await self._in(UNPAID, chat_id):
            if running and entry.taker == "conversation":
                # The payment's conversation has just ended, and may still have to give up the payment.
                await self._entries.move(entry.id, Plain("taker_gone"), may_fail=True, taker="conversation")
        for entry in await self._in(UNPAID, chat_id):
            over = over_at(entry)
            ended = " What ran in the chat was ended." if running else ""
            # Rounded up, so that the shown minute isn't too early.
            after = (
                f"after {clock_time(over + MINUTE)} UTC" if over else "75 minutes after its button is gone"
            )
            raise ConflictError(
                f"chat {chat_id} may still pay: payment {entry.id} is {entry.state}: {STATES[entry.state]}. "
                f"Nothing was deleted.{ended} Forget it {after}; `triobot payments list --chat {chat_id}`"
            )
        forgotten = 0
        for entry in await self._in(("settled", *ENDED), chat_id):
            if (entry.item, entry.text) != (NOTHING, "-"):
                await self._entries.move(entry.id, Plain("forgotten"), may_fail=True)
                forgotten += 1
        return {"payments": forgotten}

    async def _in(self, states: Sequence[State], chat_id: ChatId | None = None) -> list[Entry]:
        find = partial(self._store.payments.find, states=states, chat_id=chat_id, limit=_PAGE)
        return [entry async for page in Pages(lambda after: find(after=after)) for entry in page]

    async def _entry(self, question: Question) -> Entry:
        ref = str(question.get("ref"))
        row = await self._store.payments.get(RefId(ref))
        row = row or await self._store.payments.of_invoice(as_invoice_id(ref))
        if row is None:
            raise NotFoundError(f"there is no payment {ref}")
        return entry_of(row)


def _integer(question: Question, name: str, *, least: int = 0) -> int:
    value = question.get(name)
    check_integer(name, value, least=least)
    return cast("int", value)


def _conversation_of(owner: str) -> int | None:
    """Return the number of the conversation that requested the payment; None if an operator added it."""
    number = owner.partition("/")[2].partition("/")[0]
    return int(number) if number.isdecimal() else None


def _summary(entry: Entry) -> dict[str, object]:
    watched = entry.sent_at is not None and entry.captured is None
    return {
        "ref": entry.id,
        "invoice": entry.invoice_id,
        "kind": entry.kind,
        "chat": entry.chat_id,
        "conversation": _conversation_of(entry.owner),
        "amount": entry.amount,
        "currency": entry.currency,
        "state": entry.state,
        "taker": entry.taker,
        "made_at": entry.made_at,
        "hinted_at": entry.hinted_at,
        "verify_by": verify_by(entry) if watched and entry.wanted else None,
        "captured": entry.captured,
        "captured_at": entry.verified_at if entry.captured is not None else None,
        "settled_at": entry.settled_at,
    }
