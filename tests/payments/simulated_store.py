"""What outlives a simulated shop's process: money rows, an inbox, a journal of who has which payment."""

from __future__ import annotations

import copy
import random
from collections import Counter
from typing import Any, Literal

import attrs

from tests.payments.plain_money import PlainMoney, all_decided
from tests.payments.simulated_platform import Callback
from tests.payments.simulated_time import Pause, Simulator
from triobot.money import PutPayment, RaiseAlarm
from triobot.payments.entry import Taker
from triobot.seams import Consume
from triobot.store.rules import tell_moved
from triobot.store.sqlite import ReadAlarms, ReadPayments
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
    resends: bool
    hasty: bool
    twice: bool


NONE = RefId("")


@attrs.frozen
class Talk:
    """A line of the journal: this conversation is alive, and has this payment, maybe in another's place.

    Attributes:
        taken: it has the money, and goes on behind its charge.
    """

    owner: str
    plan: Plan | None
    id: RefId = NONE
    before: RefId | None = None
    taken: bool = False


class Store:
    """Money rows, an inbox and a journal, committed together; keeps what no crash may take."""

    def __init__(self, simulator: Simulator, chance: random.Random) -> None:
        self._simulator = simulator
        self._chance = chance
        self.money = PlainMoney()
        self.inbox: dict[int, Callback] = {}
        self.talks: dict[str, Talk] = {}
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
        return work(self.money)

    async def commit(self, *writes: Any) -> None:
        self.commits += 1
        crash = self.crash_at.pop(self.commits, "")
        await Pause(self._chance.randrange(0, 5))
        if crash == "before":
            await self._crash()
        whole = all_decided(writes, self.money.get)
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
            case _:
                if isinstance(write, PutPayment) and write.fact == "settled" and write.row.state == "settled":
                    before = self.money.get(write.row.id)
                    self.settled[write.row.id] += before is not None and before.state != "settled"
                if isinstance(write, RaiseAlarm):
                    self.alarms.append(write)
                self.money.apply(write)

    def backup(self) -> Any:
        self.beat = self._simulator.now()
        return copy.deepcopy((self.money, self.inbox, self.talks, self.beat))

    def restore(self, backup: Any) -> None:
        self.money, self.inbox, self.talks, self.beat = copy.deepcopy(backup)


@attrs.frozen
class Grant:
    key: str
    at: int
    marked: bool
    taker: Taker
