"""A bot that sells: a store that outlives it, conversations and asides that grant, crashes at any write.

What decides is the real thing: books, examiner, handler and table. What waits is simulated.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any, Literal

import attrs

from tests.payments.simulated_platform import (
    HOUR,
    MINUTE,
    SECOND,
    Callback,
    LostError,
    NeverLeftError,
    Platform,
    StatusError,
)
from tests.payments.simulated_store import Giver, Grant, Plan, Store, Talk, Told
from tests.payments.simulated_time import Pause, Signal, Simulator
from triobot.emulator.world import User
from triobot.payments import examiner
from triobot.payments.callbacks import CallbackHandler
from triobot.payments.entries import Entries, Planned, claiming, moving
from triobot.payments.entry import Entry
from triobot.payments.facts import Fact, PaymentAnswer, Plain, SendOk
from triobot.payments.ledger import Moved, Notice
from triobot.payments.records import entry_of
from triobot.seams.money import Decided, MovePayment, PaymentRow, RaiseAlarm
from triobot.seams.writes import Consume, StaleRowError
from triobot.wire.ids import ChatId, InvoiceId, RefId
from triobot.wire.markup import InlineKeyboard, PayButton
from triobot.wire.operations import (
    CreateInvoice,
    EditMessage,
    InquireInvoice,
    InquirePayment,
    SendMessage,
    VerifyInvoice,
    VerifyPayment,
)


class Shop:
    """One life of the bot's process after another, on one store."""

    def __init__(self, simulator: Simulator, chance: random.Random, platform: Platform, store: Store) -> None:
        self.simulator = simulator
        self.chance = chance
        self.platform = platform
        self.store = store
        self.alive = False
        self.ready = False
        self.grants: list[Grant] = []
        self.by_hand, self.wanted_by_hand = set[RefId](), set[RefId]()
        self.taken_away: list[tuple[RefId, str, int]] = []
        self.plans: dict[RefId, Plan] = {}
        self.impossible: list[tuple[str, str]] = []
        self.numbers = 0
        self.intends = True
        self.restored_at = 0
        self.restored = False
        self.last_refs: list[str] = []
        store.crash = self.crash
        platform.deliver = self.accept

    # --- lives

    def boot(self, restored: bool = False) -> None:
        self.alive = True
        self.ready = False
        self.restored = restored = restored or self.restored
        self.process = object()
        self.poke = Signal()
        self.busy: set[RefId] = set()
        self.waiters: dict[RefId, Signal] = {}
        self.waiting: dict[RefId, Talk] = {}
        self.parked: dict[RefId, Talk] = {}
        self.stuck: dict[RefId, Giver] = {}
        self.books = Entries(self.store.rows, self.store.commit, self.simulator.now, self._listen)
        self.handler = CallbackHandler(
            self.books, self.store.rows, self.store.commit, self._look_up, self.simulator.now
        )
        self._spawn(self._start(restored))

    def crash(self) -> None:
        if not self.alive:
            return
        if self.ready:  # a start that dies has not watched anything yet
            self.store.beat = self.simulator.now()
        self.alive = self.ready = False
        self.simulator.stop(self.process)
        down = self.chance.choice((SECOND, MINUTE, 15 * MINUTE, 70 * MINUTE))
        self.simulator.spawn(self._boot_later(down), self)

    async def _boot_later(self, down: int) -> None:
        await Pause(down)
        self.boot()

    def _spawn(self, coroutine: Any) -> None:
        self.simulator.spawn(coroutine, self.process)

    async def _start(self, restored: bool) -> None:
        talks = list(self.store.talks.values())
        for talk in talks:
            if talk.plan is not None and talk.plan.durable and not talk.plan.parks:
                self.waiters[talk.id] = Signal()
        rows = self.store.money.find(limit=10_000)
        now = self.simulator.now()
        watched = now - self.store.beat <= 20 * MINUTE
        if restored or (not watched and any(row.due_at is not None for row in rows)):
            await self.store.commit(RaiseAlarm("unwatched", "start", f"since {self.store.beat}", now))
        for row in rows:
            await self.books.move(row.id, Plain("restored" if restored else "restart"))
        for giver in list(self.store.givers.values()):
            if self.plans[giver.id].stuck:
                self.stuck[giver.id] = giver
                await self._mine("handler", giver.id, "parked")
            else:
                self._spawn(self._gives(giver))
        for talk in talks:
            assert talk.plan is not None
            if not talk.plan.durable:
                await self._gives_up(talk.id, (Talk(talk.owner, None),))
            elif talk.plan.parks:
                self.parked[talk.id] = talk
            else:
                self._spawn(self._revived(talk, talk.plan))
        self.ready = True
        self.restored = False
        self._spawn(self._verifier())
        self._spawn(self._takes())

    # --- the task around the examiner

    async def _verifier(self) -> None:
        while True:
            now = self.simulator.now()
            for row in await self.store.rows.due(now, limit=16):
                if row.id not in self.busy:
                    self.busy.add(row.id)
                    self._spawn(self._works_on(row.id))
            due = await self.store.rows.next_due()
            waits = float("inf") if due is None else max(due - now, SECOND)
            await Pause(waits, self.poke)

    async def _works_on(self, id_: RefId) -> None:
        await examiner.work_on(id_, self.books, self, self.simulator.now)
        self.busy.discard(id_)
        self.poke.send()

    def _listen(self, moved: Moved) -> None:
        self.store.reached[moved.before.state, moved.fact] += 1
        if moved.entry.id in self.waiters:
            self.waiters[moved.entry.id].send()
        if moved.entry.state == "mismatch" != moved.before.state and self.chance.random() < 0.7:
            self._spawn(self._command(moved.entry.id, after=self.chance.randrange(30)))
        self.poke.send()

    def _note(self, planned: Planned | None) -> bool:
        if planned is None or planned.moved:
            return planned is not None
        for outcome in planned.outcomes:
            if not isinstance(outcome, Moved):
                self.impossible.append((outcome.entry.state, outcome.fact))
        return False

    # --- callbacks

    def accept(self, event: Callback) -> bool:
        if not self.alive:
            return False
        self.numbers += 1
        self.store.inbox[self.numbers] = event
        self.poke_inbox.send()
        return True

    poke_inbox = Signal()

    async def _takes(self) -> None:
        self.poke_inbox = Signal()
        while True:
            for seq, event in list(self.store.inbox.items()):
                await self.handler.take(event, also=(Consume((seq,)),))
            await Pause(30 * SECOND if self.store.inbox else float("inf"), self.poke_inbox)

    # --- hands

    async def ask(self, entry: Entry, to: Literal["verify", "inquire"]) -> PaymentAnswer:
        if to == "verify" and self.intends:
            row = self.store.money.get(entry.id)
            assert row is not None
            assert row.state == "verifying", f"verify of a payment that is {row.state}"
        operation: Any
        if entry.invoice_id is not None:
            kind = VerifyInvoice if to == "verify" else InquireInvoice
            operation = kind(entry.chat_id, entry.invoice_id)
        else:
            kind = VerifyPayment if to == "verify" else InquirePayment
            operation = kind(entry.chat_id, entry.id)
        return await self._ask(operation, to)

    async def _ask(
        self, operation: Any, to: Literal["verify", "inquire"], *, again: bool = False
    ) -> PaymentAnswer:
        try:
            state = await self.platform.perform(operation)
        except LostError:
            # The lane inquires once more at once, within the same question; it never verifies once more.
            if to == "inquire" and not again and self.chance.random() < 0.3:
                return await self._ask(operation, to, again=True)
            return PaymentAnswer(to, "unknown")
        except NeverLeftError:
            return PaymentAnswer(to, "unknown")
        except StatusError as error:
            word: Any = {400: "400", 403: "403"}.get(error.status, "unknown")
            return PaymentAnswer(to, word)
        return PaymentAnswer(to, "verified" if state.verified else "error", state.amount)

    async def _look_up(self, chat_id: ChatId, invoice_id: InvoiceId) -> PaymentAnswer:
        return await self._ask(InquireInvoice(chat_id, invoice_id), "inquire")

    async def remove(self, entry: Entry) -> bool:
        assert entry.message_id is not None
        try:
            await self.platform.perform(EditMessage(entry.chat_id, entry.message_id, entry.text))
        except (LostError, NeverLeftError, StatusError):
            return False
        return True

    async def deliver(self, entry: Entry) -> bool:
        plan = self.plans[entry.id]
        if not plan.has_aside or (entry.id in self.stuck and self.chance.random() < 0.5):
            return False
        delivered, claim = claiming(self.books, entry, Plain("delivered"), self.simulator.now())
        giver = Giver(entry.id, delivered.uncertain)
        there = entry.id in self.store.givers
        try:
            await self.store.commit(claim, *(() if there else (giver,)))
        except StaleRowError:
            return True
        if not there:
            self._spawn(self._gives(giver))
        return True

    # --- the author's code

    async def _gives(self, giver: Giver) -> None:
        """Give the goods, as an aside: another's by a step, and the bot's own with the record of that."""
        plan = self.plans[giver.id]
        await Pause(self.chance.randrange(10, 3_000) + (plan.patience if plan.stuck else 0))
        if not giver.given:
            if not self.platform.calm and self.chance.random() < 0.3:
                return await self._ends(giver, "handler_failed")
            entry = await self.books.read(giver.id)
            if entry is None or not entry.may_be_given(uncertain=giver.uncertain):
                return await self._ends(giver, "handler_failed")
            self.grants.append(Grant(giver.id, self.simulator.now(), giver.uncertain))
            giver = attrs.evolve(giver, given=True)
            await self.store.commit(giver)
        if plan.forgets:
            return await Pause(float("inf"))
        await Pause(self.chance.randrange(10, 3_000))
        return await self._ends(giver, "settled")

    async def _ends(self, giver: Giver, name: Literal["settled", "handler_failed"]) -> None:
        """The aside's end, what the ledger makes of it, and what the charge comes to that waits, are one."""
        also: list[Any] = [attrs.evolve(giver, there=False)]
        if (talk := self.waiting.pop(giver.id, None)) is not None:
            also += [Talk(talk.owner, None), Told(giver.id, "given" if name == "settled" else "handed_over")]
        await self._mine("handler", giver.id, name, *also)
        if talk is not None:
            self.waiters[giver.id].send()
        if name == "settled" and self.chance.random() < 0.1:
            await self._mine("handler", giver.id, name)  # it has gone on as another

    async def _mine(self, taker: Any, id_: RefId, name: Any, *also: Any) -> bool:
        """What a conversation records, and what it does to its payment while that is still its own."""
        happened: list[bool] = []
        now = self.simulator.now()
        move = moving(self.books, id_, Plain(name), now=now, taker=taker, may_fail=True)

        def decide(row: PaymentRow | None) -> Sequence[Decided]:
            writes = move.move(row)
            happened[:] = [bool(writes)]
            return writes

        await self.store.commit(*also, MovePayment(id_, decide, move.committed))
        return happened[0]

    async def sells(self, user: User, number: int) -> None:
        """Start a conversation with a user who is offered something."""
        chance = self.chance
        plan = Plan(
            kind=chance.choice(("button", "button", "invoice")),
            chat_id=user.chat_id,
            amount=chance.randrange(1_000, 900_000),
            currency=chance.choice(("IRR", "coin")),
            late=chance.choice(("handler", "nobody")),
            durable=chance.random() < 0.6,
            has_aside=chance.random() < 0.85,
            patience=chance.choice((MINUTE, 10 * MINUTE, 40 * MINUTE, 3 * HOUR)),
            impatient=chance.random() < 0.3,
            dies=chance.random() < 0.2,
            forgets=chance.random() < 0.05,
            parks=chance.random() < 0.15,
            resends=chance.random() < 0.5,
            stuck=chance.random() < 0.15,
            hasty=chance.random() < 0.15,
            twice=chance.random() < 0.3,
        )
        if plan.kind == "invoice":
            plan = attrs.evolve(plan, currency="IRR")
        now = self.simulator.now()
        entry = Entry(
            id=RefId(str(10**15 + chance.randrange(8 * 10**15))),
            kind=plan.kind,
            chat_id=plan.chat_id,
            amount=plan.amount,
            currency=plan.currency,
            item="[1, null]",
            text="Pizza",
            owner=f"{number}",
            taker="conversation",
            late=plan.late,
            made_at=now,
            expires_at=now + (6 * HOUR if plan.kind == "invoice" else plan.patience),
        )
        self.plans[entry.id] = plan
        self.last_refs.append(entry.id)
        self.waiters[entry.id] = Signal()
        owner, also = entry.owner, (Talk(entry.owner, plan, entry.id),)
        if plan.twice:
            entry = await self.books.add(entry, also=also)
            if plan.hasty:
                await Pause(chance.randrange(0, 20 * MINUTE))  # its lane is held
        else:
            entry = await self.books.add(entry, Plain("send_begun"), also=also)
        await self._goes_on(owner, plan, entry.id)

    async def _revived(self, talk: Talk, plan: Plan) -> None:
        if talk.paid:
            await self._waits_for_goods(talk.owner, plan, talk.id)
        else:
            await self._goes_on(talk.owner, plan, talk.id)

    async def _goes_on(self, owner: str, plan: Plan, id_: RefId) -> None:
        entry = await self.books.read(id_)
        if entry is None:
            return None  # a backup was restored meanwhile
        over = (Talk(owner, None),)
        if entry.captured is not None and entry.state != "mismatch":
            return await self._waits(owner, plan, id_)
        if entry.taker != "conversation" or entry.state in ("mismatch", "resolved"):
            return await self.store.commit(*over)
        if entry.state == "sending" and plan.hasty:
            # The author's own timeout, perhaps before the platform has answered.
            self._spawn(self._sends(entry))
            await Pause(self.chance.randrange(0, 15 * SECOND))
            return await self._gives_up(id_, over)
        named = entry.message_id is not None or entry.invoice_id is not None or entry.hinted_at is not None
        asked = entry.uncertain and entry.state == "verifying" and not named
        unsure = entry.state == "unsure" or asked
        if entry.state == "prepared" or (unsure and plan.resends and plan.kind == "button"):
            if not await self._mine("conversation", id_, "send_begun"):
                return await self.store.commit(*over)
            if await self._sends(entry):
                return await self._gives_up(id_, over)
        elif entry.state == "sending":
            if await self._sends(entry):
                return await self._gives_up(id_, over)
        elif entry.state == "unsure" and plan.kind == "invoice":
            return await self._gives_up(id_, over)
        return await self._waits(owner, plan, id_)

    async def _gives_up(self, id_: RefId, over: Any) -> None:
        await self._mine("conversation", id_, "taker_gone", *over)

    async def _sends(self, entry: Entry) -> bool:
        """Send it; True if the conversation has to end."""
        operation: Any
        if entry.kind == "invoice":
            operation = CreateInvoice(entry.chat_id, entry.amount, entry.text, expire_time=6 * 3600)
        else:
            button = PayButton("Pay", entry.amount, entry.id, entry.currency, entry.text)
            operation = SendMessage(entry.chat_id, entry.text, inline_keyboard=InlineKeyboard(((button,),)))
        for _ in range(3):
            fact: Fact
            try:
                result = await self.platform.perform(operation)
                fact = (
                    SendOk(message_id=result.id) if entry.kind == "button" else SendOk(invoice_id=result.id)
                )
            except NeverLeftError:
                fact = Plain("send_never_left")
            except LostError:
                fact = Plain("send_unknown")
            except StatusError as error:
                fact = Plain("send_refused" if error.status in (400, 403) else "send_unknown")
            planned = await self.books.move(entry.id, fact)
            self._note(planned)
            assert planned is not None
            match fact:
                case SendOk():
                    return False
                case Plain("send_refused"):
                    return True
                case Plain("send_unknown"):
                    if entry.kind == "invoice":
                        return True
            if planned.entry.taker != "conversation":
                return False
            again = planned.entry.state in ("prepared", "unsure")
            if again and not await self._mine("conversation", entry.id, "send_begun"):
                return False  # given up meanwhile
            await Pause(2 * SECOND)
        await self._mine("conversation", entry.id, "send_never_left")
        return True

    async def _waits(self, owner: str, plan: Plan, id_: RefId) -> None:
        since, over = 0, (Talk(owner, None),)
        deadline = self.simulator.now() + plan.patience
        while (entry := await self.books.read(id_)) is not None:
            notice = entry.news
            if notice is not None and 0 < notice.revision <= since:
                notice = None
            ends = notice is None and self.simulator.now() >= deadline
            match notice:
                case Notice("paid"):
                    await self.store.commit(Talk(owner, plan, id_, paid=True))
                    return await self._waits_for_goods(owner, plan, id_)
                case Notice("handed_over"):
                    return await self.store.commit(*over)
                case Notice("mismatch" | "declined"):
                    ends = True
                case Notice("retry"):
                    ends, since = plan.impatient, notice.revision
            if ends:
                return await self._gives_up(id_, over)
            if notice is None:
                await Pause(max(0, deadline - self.simulator.now()), self.waiters[id_])
        return await self.store.commit(*over)

    async def _waits_for_goods(self, owner: str, plan: Plan, id_: RefId) -> None:
        """Wait as a charge does that is paid; or be ended meanwhile, which changes nothing."""
        if plan.dies:
            await Pause(self.chance.randrange(0, 5_000))
            return await self._gives_up(id_, (Talk(owner, None),))
        self.waiting[id_] = Talk(owner, plan, id_, paid=True)
        deadline = self.simulator.now() + plan.patience
        while id_ in self.waiting:
            entry = await self.books.read(id_)
            over = plan.impatient and self.simulator.now() >= deadline
            ending = None if entry is None else entry.ending
            if over or ending is not None or entry is None:
                if self.waiting.pop(id_, None) is None:
                    return None  # it has been told since
                told = () if over or ending is None else (Told(id_, ending),)
                return await self.store.commit(Talk(owner, None), *told)
            waits = max(0, deadline - self.simulator.now()) if plan.impatient else float("inf")
            await Pause(waits, self.waiters[id_])
        return None

    # --- an operator

    async def operates(self, until: int) -> None:
        """Somebody who types commands, sensible ones only."""
        while self.simulator.now() < until:
            await Pause(self.chance.randrange(5 * MINUTE, 3 * HOUR))
            if not self.alive or not self.last_refs:
                continue
            self._spawn(self._command(RefId(self.chance.choice(self.last_refs))))

    async def _command(self, id_: RefId, after: int = 0) -> None:
        await Pause(after)
        entry = await self.books.read(id_)
        if entry is None:
            return
        match entry.state:
            case "verified" | "delivered":
                name = self.chance.choice(("operator_redeliver", "operator_settled", "operator_resolved"))
            case "mismatch" | "closing":
                name = "operator_resolved"
            case "settled" | "resolved":
                name = "forgotten"
            case "prepared" | "sending":
                return
            case _:
                name = "operator_verify"
        if name == "operator_resolved" and entry.state == "closing" and entry.gone_at is None:
            return
        if name in ("operator_settled", "operator_resolved"):
            self.by_hand.add(id_)
        if name.endswith(("verify", "redeliver")):
            self.wanted_by_hand.add(id_)
        planned = await self.books.move(id_, Plain(name))
        if entry.state in ("verified", "delivered") and planned is not None and planned.moved:
            self.taken_away.append((id_, name, self.simulator.now()))
            self._spawn(self._mended(id_))

    async def _mended(self, id_: RefId) -> None:
        """Let a parked conversation, and a parked aside, go on with code that can."""
        await Pause(HOUR)
        if (giver := self.stuck.pop(id_, None)) is not None:
            self._spawn(self._gives(giver))
        talk = self.parked.pop(id_, None)
        if talk is not None and talk.plan is not None:
            self.waiters[id_] = Signal()
            await self._revived(talk, talk.plan)

    def entries(self) -> list[Entry]:
        return [entry_of(row) for row in self.store.money.find(limit=10**6)]
