"""What outlives a simulated shop's process: money rows, an inbox, a journal of who has which payment."""

from __future__ import annotations

import copy
import random
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, Literal, Protocol

import attrs

from tests.payments.plain_money import PlainMoney, all_decided
from tests.payments.simulated_platform import Callback
from tests.payments.simulated_time import Pause, Simulator
from triobot.seams.money import PaymentGoods, PutPayment, RaiseAlarm
from triobot.seams.writes import Consume
from triobot.store.rules import tell_moved
from triobot.store.table_store import ReadAlarms, ReadPayments
from triobot.wire.ids import ChatId, RefId


@attrs.frozen
class Plan:
    """What a conversation will do, decided when it starts."""

    kind: Literal["button", "invoice"]
    chat_id: ChatId
    amount: int
    currency: Literal["IRR", "coin"]
    late: Literal["handler", "nobody"]
    durable: bool
    has_aside: bool
    patience: int
    impatient: bool
    dies: bool
    forgets: bool
    parks: bool
    stuck: bool
    resends: bool
    hasty: bool
    twice: bool


NONE = RefId("")


class Second(Protocol):
    """A store beside the model."""

    def commit(self, writes: Sequence[Any], refuses: Callable[[], None]) -> None:
        """Commit what is about money; it must be refused if this raises."""
        ...

    def check(self, work: Callable[[Any], Any], answer: Any) -> None:
        """Ask the same; it must answer the same."""
        ...

    def check_all(self, model: PlainMoney) -> None:
        """Ask for everything; it must be the model's."""
        ...

    def backup(self) -> int:
        """Keep what there is, and return its number."""
        ...

    def restore(self, number: int) -> None:
        """Put that back."""
        ...


@attrs.frozen
class Talk:
    """A line of the journal: this conversation is alive, and has this payment.

    Attributes:
        paid: it waits for the goods.
    """

    owner: str
    plan: Plan | None
    id: RefId = NONE
    paid: bool = False


@attrs.frozen
class Giver:
    """A line of the journal: an aside is there that gives what was paid for.

    Attributes:
        there: it has not come to its end.
        uncertain: it was told that the goods may have been given before.
        given: so it has recorded; what the bot itself keeps has changed with that.
    """

    id: RefId
    uncertain: bool
    there: bool = True
    given: bool = False


@attrs.frozen
class Told:
    """A line of the journal: the charge that waited for this has come to its end."""

    id: RefId
    ending: PaymentGoods


class Store:
    """Money rows, an inbox and a journal, committed together; keeps what no crash may take.

    Attributes:
        second: a real store that is told and asked the same about money, and must agree; None: there is none.
        own: how often the bot's own data were changed for a payment; a backup has its own.
        told: what the charge for it came to.
    """

    def __init__(self, simulator: Simulator, chance: random.Random) -> None:
        self._simulator = simulator
        self._chance = chance
        self.money = PlainMoney()
        self.second: Second | None = None
        self.inbox: dict[int, Callback] = {}
        self.talks: dict[str, Talk] = {}
        self.givers: dict[RefId, Giver] = {}
        self.own: Counter[RefId] = Counter()
        self.told: dict[RefId, list[PaymentGoods]] = {}
        self.alarms: list[RaiseAlarm] = []
        self.reached: Counter[tuple[str, str]] = Counter()
        self.settled: Counter[RefId] = Counter()
        self.beat = simulator.time
        self.crash_at: dict[int, str] = {}
        self.commits = 0
        self.crash: Any = None
        self.backup_at = 0
        self.backup_made: Any = None
        self.rows = ReadPayments(self._ask)
        self.read_alarms = ReadAlarms(self._ask)

    async def _ask(self, work: Any) -> Any:
        answer = work(self)
        if self.second is not None:
            self.second.check(work, answer)
        return answer

    async def commit(self, *writes: Any) -> None:
        self.commits += 1
        crash = self.crash_at.pop(self.commits, "")
        await Pause(self._chance.randrange(0, 5))
        if crash == "before":
            await self._crash()
        whole = all_decided(writes, self.money.get)
        if self.second is not None:
            self.second.commit(writes, lambda: self.money.check(whole))
        self.money.check(whole)
        for write in whole:
            self._apply(write)
        if self.commits >= self.backup_at > 0 and self.backup_made is None:
            self.backup_made = self.backup()
        if crash == "after":
            await self._crash()
        tell_moved(writes)
        await Pause(self._chance.randrange(0, 3))

    async def _crash(self) -> None:
        self.crash()
        await Pause(float("inf"))

    def _apply(self, write: Any) -> None:
        match write:
            case Consume(seqs):
                for seq in seqs:
                    self.inbox.pop(seq, None)
            case Talk(owner, None):
                self.talks.pop(owner, None)
            case Talk(owner):
                self.talks[owner] = write
            case Giver(id_):
                before = self.givers.pop(id_, None)
                self.own[id_] += write.given and not (before is not None and before.given)
                if write.there:
                    self.givers[id_] = write
            case Told(id_, ending):
                self.told.setdefault(id_, []).append(ending)
            case _:
                if isinstance(write, PutPayment) and write.fact == "settled" and write.row.state == "settled":
                    was = self.money.get(write.row.id)
                    self.settled[write.row.id] += was is not None and was.state != "settled"
                if isinstance(write, RaiseAlarm):
                    self.alarms.append(write)
                self.money.apply(write)

    def backup(self) -> Any:
        self.beat = self._simulator.now()
        kept = self.money, self.inbox, self.talks, self.givers, self.own, self.told, self.beat
        return copy.deepcopy(kept), None if self.second is None else self.second.backup()

    def restore(self, backup: Any) -> None:
        kept, number = copy.deepcopy(backup)
        if self.second is not None:
            self.second.restore(number)
        self.money, self.inbox, self.talks, self.givers, self.own, self.told, self.beat = kept


@attrs.frozen
class Grant:
    key: str
    at: int
    marked: bool
