"""A table of faults: a test causes each fault, and the bot raises exactly the listed alarms.

Faults of disks and processes are tested in other files: a full disk in ``test_bot_full_disk`` and
``test_processes_full_disk``, a process that dies again and again in ``test_processes_fatal``. A damaged store
ends the start with a line, without an alarm (``test_store_sqlite``).
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta
from itertools import groupby
from typing import Final, TypeAlias
from urllib.parse import parse_qs

import attrs
import httpx
import pytest
import trio
from trio.testing import MockClock

from tests.bot.rig import FORM, SECRET, say
from triobot import Alarm, Bot, Chat, Paid, Settings, Tick
from triobot.base.alarm_kinds import AlarmKind
from triobot.base.secrets import Secret
from triobot.errors import StoreAwayError
from triobot.filters import command, paid, text
from triobot.payments.cashier import Cashier
from triobot.runtime.work import Intake
from triobot.seams.inbox import Quota
from triobot.testing import DrivenWorld, EventFault, Fault, Person, drive
from triobot.testing.virtual import VirtualWallClock
from triobot.wire.ids import RefId

MINUTE, HOUR = 60.0, 3600.0
Told: TypeAlias = list[tuple[AlarmKind, str]]
"""Alarms in their order, each with words of its text."""


@attrs.frozen
class Cake:
    layers: int


@attrs.define
class There:
    """A bot, and its platform, which fails as it is told to."""

    clock: VirtualWallClock = attrs.Factory(lambda: VirtualWallClock(1_800_000_000_000))
    status: int = 200
    body: bytes = b'{"id": 5}'
    gone: frozenset[int] = frozenset()
    answers: bool = True
    spoiled: bool = False
    heard: list[Alarm] = attrs.Factory(lambda: list[Alarm]())
    texts: list[str] = attrs.Factory(lambda: list[str]())
    intake: Intake = attrs.field(init=False)

    async def take(self, request: httpx.Request) -> httpx.Response:
        """Answer one request."""
        fields = parse_qs((await request.aread()).decode("latin-1"))
        await trio.sleep(0.01)
        if not self.answers:
            await trio.sleep_forever()
        if request.url.host != "127.0.0.1":  # where alarms are posted
            return httpx.Response(500)
        if self.status != 200:
            return httpx.Response(self.status, content=b'{"error": "told to"}')
        if request.url.path.endswith("/upload"):
            return httpx.Response(200, content=json.dumps({"path": "/1"}))
        if int(fields["chat_id"][0]) in self.gone:
            return httpx.Response(403, content=b'{"error": "told to"}')
        self.texts.append(fields["data"][0])
        return httpx.Response(200, content=self.body)

    async def hear(self, alarm: Alarm) -> None:
        """The author's hook."""
        self.heard.append(alarm)

    async def says(self, said: str, chat: int = 5) -> None:
        """Let a person say something."""
        await say(self.intake, chat, said)

    def bot(self) -> Bot:
        """One whose code fails when it is told to."""
        there = self

        settings = Settings(
            token=Secret("rig-token"),
            base_url="http://127.0.0.1:9",
            webhook_secret=Secret(SECRET),
            store="memory:",
        )
        bot = Bot(settings=settings, transport=httpx.MockTransport(self.take), clock=self.clock)
        bot.on_alarm(self.hear)

        @bot.conversation(text("fail"), name="fail")
        async def fail(chat: Chat) -> None:
            raise KeyError

        @bot.every(timedelta(minutes=45), name="count")
        async def count(chat: Chat[Tick]) -> None:
            if there.spoiled:
                raise KeyError

        def choose(event: object) -> bool:
            raise KeyError

        @bot.aside(text("ask").where(choose), name="asked")
        async def asked(chat: Chat) -> None: ...

        @bot.conversation(text(), name="talk")
        async def talk(chat: Chat) -> None:
            await chat.send("hello")

        return bot


async def nothing(there: There) -> None:
    await there.says("hi")


async def wrong_token(there: There) -> None:
    there.status = 403
    for chat in (5, 6, 7):
        await there.says("hi", chat)


async def one_has_left(there: There) -> None:
    there.gone = frozenset({5})
    for chat in (5, 6, 7):
        await there.says("hi", chat)


async def refused(there: There) -> None:
    there.status = 500
    await there.says("hi")


async def silent(there: There) -> None:
    there.answers = False
    await there.says("hi")


async def slow_for_a_while(there: There) -> None:
    there.status = 429
    await there.says("hi")
    await trio.sleep(20)
    there.status = 200


async def other_answers(there: There) -> None:
    there.body = b'{"ok": true}'
    await there.says("hi")


async def unreadable(there: There) -> None:
    await there.intake.inbox.accept(FORM, b"what is this")


async def code_fails(there: There) -> None:
    await there.says("fail")


async def filter_fails(there: There) -> None:
    await there.says("ask")


async def clock_forward(there: There) -> None:
    there.clock.set_by(3_600_000)
    await there.says("hi")


async def clock_back(there: There) -> None:
    there.clock.set_by(-600_000)
    await there.says("hi")


async def flood(there: There) -> None:
    there.status = 500
    for number in range(1002):
        await there.says(f"hi {number}")
    there.status = 200


async def half_full(there: There) -> None:
    there.intake.inbox._quota = Quota(bytes_in_all=6000)
    there.status = 500
    for number in range(40):
        await there.says(f"hi {number}")
    there.status = 200


async def job_fails(there: There) -> None:
    there.spoiled = True
    await trio.sleep(HOUR)
    there.spoiled = False


FAULTS: Final[dict[str, tuple[Callable[[There], Awaitable[None]], Told]]] = {
    "nothing": (nothing, []),
    "a wrong token": (wrong_token, [("token_refused", "Check the token")]),
    "one person who has left": (one_has_left, []),
    "a platform that refuses all": (refused, [("backlog", "triobot status")]),
    "a platform that never answers": (silent, [("backlog", "triobot status")]),
    "a platform that is too busy for twenty seconds": (slow_for_a_while, []),
    "answers of another shape": (other_answers, [("answer_unreadable", "sendMessage was answered")]),
    "a request that nobody can read": (unreadable, [("request_unreadable", "")]),
    "code that fails": (code_fails, [("conversation_crashed", "test_fault_alarms.py:")]),
    "a filter that fails": (filter_fails, [("filter_failed", "test_fault_alarms.py:")]),
    "a clock that is set forward": (clock_forward, [("clock_jumped", "forward by 3600 seconds")]),
    "a clock that is set back": (clock_back, [("clock_jumped", "back by 600 seconds")]),
    "a job that fails": (job_fails, [("job_failed", "test_fault_alarms.py:")]),
    "one chat that floods": (flood, [("chat_refused", "503")]),
    "a small inbox that is filled": (half_full, [("inbox_half_full", "of 6000 bytes")]),
}


def told(alarms: Sequence[Alarm]) -> list[AlarmKind]:
    """The kinds in their order; what was told again of one thing counts once."""
    return [kind for (kind, _), _ in groupby(alarms, lambda alarm: (alarm.kind, alarm.key))]


@pytest.mark.parametrize("name", FAULTS)
async def test_a_fault_has_its_alarms_and_no_others(autojump_clock: MockClock, name: str) -> None:
    act, expected = FAULTS[name]
    there = There()
    async with there.bot().running() as there.intake:
        await trio.sleep(5)
        await act(there)
        await trio.sleep(30 * MINUTE)
        there.status, there.answers = 200, True
        await trio.sleep(5)
    assert told(there.heard) == [kind for kind, _ in expected]
    for kind, words in expected:
        assert any(alarm.kind == kind and words in alarm.text for alarm in there.heard), there.heard


# --- money


async def sold(world: DrivenWorld, sara: Person) -> None:
    await sara.pays()


async def low_wallet(world: DrivenWorld, sara: Person) -> None:
    await sara.pays(code=1000)


async def lost_callback(world: DrivenWorld, sara: Person) -> None:
    world.faults.add(EventFault(type="payCallback", drop=True))
    await sara.pays()


async def answer_lost(world: DrivenWorld, sara: Person) -> None:
    world.faults.add(Fault(operation="payment/verify", drop="after", times=1))
    await sara.pays()


async def not_verified(world: DrivenWorld, sara: Person) -> None:
    for operation in ("payment/verify", "payment/inquiry"):
        world.faults.add(Fault(operation=operation, status=500, times=60))
    await sara.pays()


async def refused_once(world: DrivenWorld, sara: Person) -> None:
    world.faults.add(Fault(operation="payment/verify", status=400, times=1))
    await sara.pays()


async def unknown(world: DrivenWorld, sara: Person) -> None:
    for operation in ("payment/verify", "payment/inquiry"):
        world.faults.add(Fault(operation=operation, status=400, times=60))
    await sara.pays()


async def another_amount(world: DrivenWorld, sara: Person) -> None:
    await sara.pays(amount=5)


async def declined(world: DrivenWorld, sara: Person) -> None:
    await sara.pays(code=1002)


async def no_goods(world: DrivenWorld, sara: Person) -> None:
    BAKES.append(KeyError())
    await sara.pays()
    await world.waits(hours=30)


async def killed(world: DrivenWorld, sara: Person) -> None:
    await sara.pays()
    await world.crashes()


async def away_at_the_goods(world: DrivenWorld, sara: Person) -> None:
    may_give, times = Cashier.may_give, 0

    async def away_at_first(cashier: Cashier, id_: RefId, *, uncertain: bool = False) -> bool:
        nonlocal times
        times += 1
        if times < 4:
            raise StoreAwayError("the store is away")
        return await may_give(cashier, id_, uncertain=uncertain)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Cashier, "may_give", away_at_first)
        await sara.pays()
        await world.waits(seconds=10)
    assert times == 4


BAKES: Final = list[Exception]()
MONEY: Final[dict[str, tuple[Callable[[DrivenWorld, Person], Awaitable[None]], Told]]] = {
    "nothing": (sold, []),
    "a wallet that is too low": (low_wallet, []),
    "a callback that is lost": (lost_callback, []),
    "an answer to verify that is lost": (answer_lost, []),
    "a process that dies": (killed, []),
    "a store that is away when goods are to be given": (away_at_the_goods, []),
    "a payment that can't be verified until its hour is nearly over": (
        not_verified,
        [("sweep_blind", "payments list"), ("paid_maybe_unverified", "payments verify")],
    ),
    "a verify that is refused once": (refused_once, []),
    "a payment that the platform does not know": (
        unknown,
        [("verify_refused", "doesn't know this payment")],
    ),
    "another amount": (
        another_amount,
        [("amount_mismatch", "1,000 IRR"), ("conversation_crashed", "AmountMismatchError")],
    ),
    "a request that the platform calls wrong": (declined, [("declined_by_code", "1002")]),
    "goods that can't be given": (
        no_goods,
        [("conversation_crashed", "test_fault_alarms.py:"), ("handler_keeps_failing", "redeliver")],
    ),
}


@pytest.mark.parametrize("name", MONEY)
async def test_a_fault_of_money_has_its_alarms_and_no_others(autojump_clock: MockClock, name: str) -> None:
    act, expected = MONEY[name]
    bot = Bot()
    BAKES.clear()

    async def bake(key: str) -> int:
        if BAKES:
            raise BAKES[0]
        return 1

    @bot.conversation(command("buy"))
    async def buy(chat: Chat) -> None:
        await chat.charge(1000, "Cake", item=Cake(2))

    @bot.aside(paid(Cake))
    async def give(chat: Chat[Paid[Cake]]) -> None:
        await chat.step(bake, chat.event.key)

    async with drive(bot) as world:
        sara = world.user("Sara", wallet=5000)
        await sara.joins()
        await sara.says("/buy")
        await sara.sees("Cake")
        await world.waits(seconds=5)
        await act(world, sara)
        await world.waits(minutes=45)
        heard = list(world.alarms)
        world.alarms.clear()
    assert told(heard) == [kind for kind, _ in expected]
    for kind, words in expected:
        assert any(alarm.kind == kind and words in alarm.text for alarm in heard), heard
