"""The platform, its people and the network between it and the bot, with everything that goes wrong there."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import attrs

from tests.payments.simulated_time import Pause, Simulator
from triobot.emulator.acts import Acting
from triobot.emulator.faults import Switches
from triobot.emulator.performing import Refusal, perform
from triobot.emulator.world import ImpossibleActError, User, World
from triobot.wire.events import InvoiceCallback, PayCallback
from triobot.wire.ids import ChatId, InvoiceId, MessageId, RefId

SECOND = 1_000
MINUTE = 60 * SECOND
HOUR = 60 * MINUTE

Callback = PayCallback | InvoiceCallback


class LostError(Exception):
    """No answer: nobody knows whether the request took effect."""


class NeverLeftError(Exception):
    """The request certainly never left."""


class StatusError(Exception):
    def __init__(self, status: int) -> None:
        super().__init__(status)
        self.status = status


@attrs.frozen
class Weather:
    """How often what goes wrong; drawn once a seed."""

    lost_before: float
    lost_after: float
    never_left: float
    late: float
    failing: float
    forbidden: float
    drop: float
    double: float
    delay: float
    forge: float

    @classmethod
    def drawn(cls, chance: random.Random) -> Weather:
        def some(most: float) -> float:
            return chance.choice((0.0, 0.0, chance.random() * most, most))

        return cls(
            lost_before=some(0.3),
            lost_after=some(0.4),
            never_left=some(0.2),
            late=some(0.1),
            failing=some(0.3),
            forbidden=some(0.1),
            drop=some(0.6),
            double=some(0.5),
            delay=some(0.5),
            forge=some(0.6),
        )


class Platform:
    """The emulator's world behind a bad line.

    Attributes:
        deliver: where callbacks are posted; returns whether they were taken.
        outages: spans in which nothing answers.
        calm_from: from then on nothing goes wrong any more.
    """

    def __init__(self, simulator: Simulator, chance: random.Random, calm_from: int) -> None:
        self._simulator = simulator
        self._chance = chance
        self.calm_from = calm_from
        self.weather = Weather.drawn(chance)
        switches = Switches(
            second_verify=chance.choice(("verified", "error")),
            inquiry_sees_paid=chance.random() < 0.5,
            pay_twice=chance.random() < 0.2,
            unknown_ref_status=chance.choice((200, 400)),
        )
        self.world = World(chance=chance, switches=switches)
        self.deliver: Callable[[Callback], bool] = lambda event: False
        self.outages: list[tuple[int, int]] = []
        self.topped_up = 0
        self.asked = 0

    @property
    def calm(self) -> bool:
        return self._simulator.time >= self.calm_from

    def _happens(self, odds: float) -> bool:
        return not self.calm and self._chance.random() < odds

    def _out(self) -> bool:
        return any(since <= self._simulator.time < until for since, until in self.outages)

    async def perform(self, operation: Any) -> Any:
        """What the client does: the answer, or an error."""
        self.asked += 1
        weather = self.weather
        if self._happens(weather.never_left):
            raise NeverLeftError
        await Pause(self._chance.randrange(20, 400))
        if self._out() or self._happens(weather.lost_before):
            await Pause(10 * SECOND)
            raise LostError
        if self._happens(weather.late):
            # It takes effect after we have given up.
            later = self._chance.randrange(11 * SECOND, 40 * SECOND)
            self._simulator.spawn(self._late(operation, later), self)
            await Pause(10 * SECOND)
            raise LostError
        if self._happens(weather.failing):
            raise StatusError(self._chance.choice((500, 502, 429)))
        if self._happens(weather.forbidden):
            raise StatusError(403)
        answer, _ = perform(self.world, operation, self._simulator.time)
        if self._happens(weather.lost_after):
            await Pause(10 * SECOND)
            raise LostError
        await Pause(self._chance.randrange(5, 50))
        if isinstance(answer, Refusal):
            raise StatusError(answer.status)
        return answer

    async def _late(self, operation: Any, after: int) -> None:
        await Pause(after)
        perform(self.world, operation, self._simulator.time)

    # --- people

    def person(self, number: int) -> User:
        user = self.world.add_user(f"user {number}", irr=10**9, coin=10**9)
        Acting(self.world, user, self._simulator.time).join()
        return user

    async def pays_now_and_then(self, user: User, times: int) -> None:
        """Somebody who pays what they see, in every way there is."""
        chance = self._chance
        for _ in range(times):
            await Pause(chance.choice((20 * SECOND, 3 * MINUTE, 20 * MINUTE, 70 * MINUTE)) * chance.random())
            try:
                self._pay_once(user)
            except ImpossibleActError:
                continue
            finally:
                self._fill(user)

    def _pay_once(self, user: User) -> None:
        chance, world, now = self._chance, self.world, self._simulator.time
        code, taken, amount = None, False, None
        world.catch_up(now)
        way = chance.random()
        if way < 0.25:
            code = chance.choice((*range(1000, 1007), 1003, 1003, 1003))
            taken = chance.random() < 0.3
        elif way < 0.3:
            amount = chance.randrange(1, 1000)
        elif way < 0.4:
            self._empty(user)
        if chance.random() < 0.5:
            try:
                message_id, button = Acting(world, user, now).newest_pay_button()
            except ImpossibleActError:
                pass
            else:
                post = Acting(world, user, now).pay(message_id, button, code=code, taken=taken, amount=amount)
                return self._post_all(post)
        try:
            invoice = Acting(world, user, now).newest_invoice()
        except ImpossibleActError:
            message_id, button = Acting(world, user, now).newest_pay_button()
            post = Acting(world, user, now).pay(message_id, button, code=code, taken=taken, amount=amount)
        else:
            post = Acting(world, user, now).pay_invoice(invoice, code=code, taken=taken, amount=amount)
        return self._post_all(post)

    def _empty(self, user: User) -> None:
        self._kept = dict(user.wallet)
        user.wallet.update(IRR=0, coin=0)
        self._emptied = True

    _emptied = False

    def _fill(self, user: User) -> None:
        if self._emptied:
            user.wallet.update(self._kept)
            self._emptied = False

    # --- callbacks

    def _post_all(self, events: Any) -> None:
        for event in events:
            self._simulator.spawn(self.post(event), self)

    async def post(self, event: Callback) -> None:
        """Post one callback: perhaps never, late, twice; and nobody says whether a lost one is repeated."""
        if self._happens(self.weather.drop):
            return
        delay = self._chance.randrange(10, 2_000)
        if self._happens(self.weather.delay):
            delay = self._chance.choice((MINUTE, 20 * MINUTE, 55 * MINUTE, 2 * HOUR))
        await Pause(delay)
        taken = self.deliver(event)
        if not taken and self._chance.random() < 0.5:
            await Pause(30 * SECOND)
            self.deliver(event)
        if self._happens(self.weather.double):
            await Pause(self._chance.choice((1, 5 * SECOND, 15 * MINUTE)))
            self.deliver(event)

    async def forges(self, refs: Callable[[], list[str]], until: int) -> None:
        """Somebody who knows our address, and some of our numbers."""
        chance = self._chance
        while self._simulator.time < until:
            await Pause(chance.randrange(MINUTE, 40 * MINUTE))
            if not self._happens(self.weather.forge):
                continue
            known = refs()
            number = (
                chance.choice(known) if known and chance.random() < 0.8 else str(chance.randrange(10**15))
            )
            chat = ChatId(chance.choice((13_601, 13_602, 99)))
            if chance.random() < 0.2:
                self.deliver(InvoiceCallback(chat, InvoiceId(chance.choice((number, "50001", "50002")))))
            else:
                code = chance.choice((None, 1000, 1001, 1002, 1003, 1004, 1005, 1006, 2000))
                message = chance.choice((None, MessageId(chance.randrange(1, 20))))
                self.deliver(PayCallback(chat, RefId(number), message, "error", code, "https://evil.example"))
