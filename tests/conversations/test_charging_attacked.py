"""Money against forged callbacks, unlucky moments and a broken store: granted, or an operator knows."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import pytest
import trio
from doubles import FakeOutbox, FakeStore
from test_charging import PRICE, YES, Pizza, Shop, alarms, inquires, state, verifies
from town import CHAT, TEXTS, Town, open_town
from trio.testing import MockClock

from tests.payments.plain_money import all_decided
from tests.samples import sample
from triobot.client.address import own_hosts
from triobot.conversations.charges.charging import is_trusted
from triobot.conversations.charges.paid import Paid, paid
from triobot.conversations.chat import Chat
from triobot.conversations.conversation import Ending
from triobot.conversations.routes.filters import text
from triobot.conversations.routes.router import Router
from triobot.errors import StoreFullError
from triobot.seams.money import PutPayment
from triobot.seams.writes import Write
from triobot.wire.operations import InquirePayment, Operation, VerifyPayment
from triobot.wire.results import PaymentState

# --- links


@pytest.mark.parametrize(
    "url",
    [
        "https://evil.example\\@pay.example/",  # browsers read the backslash as the end of the host
        "https://evil.example\\.pay.example/",
        "https://pay.example\\@evil.example/",
        "https://pay.example.evil.example/",
        "https://evil.example#@pay.example/",
        "https://evil.example?@pay.example/",
        "https://me@pay.example/",
        "https://me:secret@pay.example/",
        "https://pay.example:8443/",
        "https://pay.example:443@evil.example/",
        "https://pay.example:/",
        "https://pay.example./",
        "https://.pay.example/",
        "https://evil.example%2f.pay.example/",
        "https://evil.example\N{FULLWIDTH SOLIDUS}.pay.example/",
        "https://evil.example\N{IDEOGRAPHIC FULL STOP}pay.example/",
        "https://p\N{CYRILLIC SMALL LETTER A}y.example/",
        "https://pay.example/\N{RIGHT-TO-LEFT OVERRIDE}",
        "https://pay.example/a b",
        "https://pay.example/\t",
        "https://pay.example/\n",
        "https://evil.example\t.pay.example/",
        "ht\ntps://pay.example/",
        " https://pay.example/",
        "https:pay.example/",
        "https:/pay.example/",
        "https:///pay.example/",
        "//pay.example/",
        "https://pay.example/" + "x" * 3000,
        "",
    ],
)
async def test_a_forged_callback_sends_no_foreign_link(url: str) -> None:
    """The charge waits on, without the link, and without failing on it."""
    assert not is_trusted(url, ("pay.example",))
    shop = Shop()
    async with open_town(shop.bot) as town:
        await town.says("buy")
        if url:
            await town.pays(code=1000, charge_url=url)
            assert town.sent() == ["Pizza", TEXTS.top_up]
            assert town.newest().inline_keyboard is None
        assert shop.outcomes == []


@pytest.mark.parametrize(
    "url",
    [
        "https://pay.example",
        "https://pay.example/",
        "https://pay.example:443/charge?a=1&b=%20#top",
        "https://WALLET.pay.example/a/b-c_d~e",
        "HTTPS://pay.example/",
    ],
)
def test_the_platforms_own_links_are_trusted(url: str) -> None:
    """Written in any of the usual ways."""
    assert is_trusted(url, ("pay.example",))
    assert is_trusted(url, ("Pay.Example",))
    assert not is_trusted(url, ("",))
    assert not is_trusted(url, ("other.example",))


@pytest.mark.parametrize(
    ("base_url", "hosts"),
    [
        ("https://api.gap.im", ("gap.im",)),
        ("https://gap.im", ("gap.im",)),
        ("https://bots.shop.co.ir", ("shop.co.ir",)),
        ("https://shop.co.ir", ("shop.co.ir",)),
        ("https://bots.shop.com", ("shop.com",)),
        ("https://bots.shop.go.jp", ("shop.go.jp",)),
        ("https://bots.shop.example", ("shop.example",)),
        ("https://shop.github.io", ("shop.github.io",)),
        ("http://127.0.0.1:9", ()),
        ("http://localhost:9", ()),
    ],
)
def test_the_platforms_own_domain_is_not_a_whole_registry(base_url: str, hosts: tuple[str, ...]) -> None:
    """Anybody may have a name under ``co.ir``."""
    assert own_hosts(base_url) == hosts


# --- forged callbacks


@pytest.mark.parametrize("code", [None, 0, -1, 1001, 1000, 1004, 1005, 2**53 - 1, 1 - 2**53])
async def test_a_callback_of_another_number_touches_nothing(code: int | None) -> None:
    """Nothing is verified, granted or declined, and an operator knows."""
    shop = Shop()
    async with open_town(shop.bot) as town:
        town.outbox.reply(YES, verifies)
        await town.says("buy")
        await town.pays(ref_id="1111222233334444", code=code)
        assert shop.outcomes == []
        assert not any(verifies(op) or inquires(op) for op in town.operations(None))
        assert await alarms(town) == ["foreign_payment"]
        assert town.store.rows == {}


@pytest.mark.parametrize("code", [None, 1000, 1001, 1003, 1004, 1005])
async def test_a_callback_from_another_chat_is_checked_where_it_was_asked(code: int | None) -> None:
    """The platform is asked about our chat, and knows that nothing was paid."""
    shop = Shop()
    async with open_town(shop.bot) as town:
        await town.says("buy")
        for _ in range(2):
            await town.pays(6, ref_id=town.pay_button().ref_id, code=code, charge_url="https://pay.example")
        assert shop.outcomes == []
        assert town.sent() == ["Pizza"]
        assert town.edits() == []
        assert {op.chat_id for op in town.operations(None) if verifies(op)} == {CHAT}


# --- unlucky moments


class RacingOutbox(FakeOutbox):
    """Calls `at_yes` in the very moment in which the platform's yes is there and nobody has looked at it."""

    at_yes: Callable[[], None] = staticmethod(lambda: None)

    async def perform(self, operation: Operation[object], **given: object) -> object:  # type: ignore[override]
        if not isinstance(operation, VerifyPayment):
            return await super().perform(operation, **given)  # type: ignore[arg-type]
        self.left.append(operation)
        task = trio.lowlevel.current_task()

        def answer() -> None:
            trio.lowlevel.reschedule(task)
            self.at_yes()

        trio.lowlevel.current_trio_token().run_sync_soon(answer)
        await trio.lowlevel.wait_task_rescheduled(lambda _: trio.lowlevel.Abort.SUCCEEDED)
        return YES


async def test_an_interrupt_in_the_moment_of_the_yes_loses_nothing() -> None:
    """The money is captured, and the conversation that asked for it is over: the aside has it."""
    shop = Shop()
    outbox = RacingOutbox()
    async with open_town(shop.bot, outbox=outbox) as town:
        await town.says("buy")
        (live,) = town.dispatcher.tasks.running
        outbox.at_yes = lambda: live.end(Ending.INTERRUPTED)
        await town.pays()
        assert [money.redelivered for money in shop.given] == [False]
        assert await state(town, town.pay_button().ref_id) == "settled"


class FullLater(FakeStore):
    """A store that has no room when a payment is to be settled."""

    room = False

    async def commit(self, *writes: Write) -> None:
        moves = [write for write in all_decided(writes, self.money.get) if isinstance(write, PutPayment)]
        if not self.room and any(move.fact == "settled" for move in moves):
            await trio.lowlevel.checkpoint()
            raise StoreFullError("no room")
        await super().commit(*writes)


async def test_many_noes_are_one_word() -> None:
    """Whoever can forge callbacks can't have us talk without end in the time of one look."""
    shop = Shop()
    async with open_town(shop.bot) as town:
        await town.says("buy")
        for _ in range(20):
            await town.pays(code=1000, wait=False)
        await town.rest()
        assert 1 <= town.sent().count(TEXTS.top_up) < 20


async def test_a_full_disk_does_not_take_verified_money_from_the_author(autojump_clock: MockClock) -> None:
    """It is captured and given; neither the aside nor who waits for it has ended before it is settled."""
    shop = Shop()
    store = FullLater()
    async with open_town(shop.bot, store=store) as town:
        town.outbox.reply(YES, verifies)
        await town.says("buy")
        await town.pays()
        assert (shop.outcomes, [one.item for one in shop.given]) == ([None], [Pizza()])
        await trio.sleep(60)
        assert await state(town, town.pay_button().ref_id) == "delivered"
        assert len(await store.conversations(CHAT)) == 2
        store.room = True
        await trio.sleep(2)
        assert await state(town, town.pay_button().ref_id) == "settled"
        assert await store.conversations(CHAT) == []
        assert len(shop.given) == 1


@pytest.mark.parametrize("where", ["coroutine", "branch"])
@pytest.mark.parametrize("said", ["yes", "no"])
async def test_who_paid_in_the_last_second_gets_the_goods(
    where: str, said: str, autojump_clock: MockClock
) -> None:
    """The timeout was held for the money, and what the block does with the money is part of it."""
    bot = Router()
    granted: list[object] = []
    limits: list[bool] = []

    @bot.aside(paid(Pizza))
    async def deliver(chat: Chat[Paid[Pizza]]) -> None:
        await chat.step(trio.sleep, 1)
        granted.append(chat.event.item)
        await chat.send("Here it is.")

    @bot.conversation(text("later"))
    async def later(chat: Chat) -> None:
        async def sell() -> None:
            await chat.charge(PRICE, "Pizza", item=Pizza())
            await chat.step(trio.sleep, 1)
            await chat.send("Thank you.")

        with chat.move_on_after(1000) as outer:
            with chat.move_on_after(60) as limit:
                if where == "coroutine":
                    await sell()
                else:
                    async with chat.open_nursery() as nursery:
                        nursery.start_soon(sell)
            await chat.sleep(2000)
        limits.extend([limit.cancelled_caught, outer.cancelled_caught])

    async with open_town(bot) as town:
        await town.says("later")
        await trio.sleep(59)
        town.outbox.latency = 2
        if said == "yes":
            town.outbox.reply(YES, verifies)
        await town.pays()
        await trio.sleep(20)
        assert granted == ([Pizza()] if said == "yes" else [])
        assert town.sent()[1:] == (["Here it is.", "Thank you."] if said == "yes" else [])
        await trio.sleep(1000)
        # Only the timeout that had come is waived.
        assert limits == [said == "no", True]
        assert await alarms(town) == []


@pytest.mark.parametrize("seed", sample(range(60)))
async def test_captured_money_is_granted_or_an_operator_knows(seed: int, autojump_clock: MockClock) -> None:
    """Whatever a person, the platform and forgers do, in any order and at any moment."""
    random = Random(seed)
    shop = Shop(options={"no": "Not now"})
    outbox = FakeOutbox(latency=random.choice([0.0, 0.3]))
    captured: dict[str, int] = {}
    amount = random.choice([PRICE, PRICE, PRICE, 7])

    async def perform(operation: Operation[object], **given: object) -> object:
        if isinstance(operation, VerifyPayment | InquirePayment):
            ref = operation.ref_id
            outbox.left.append(operation)
            if random.random() < 0.7:
                await trio.sleep(random.choice([0.0, 0.3, 1.0, 6.0]))
            # Captured on the platform's side, whether or not the answer gets through to anybody.
            if isinstance(operation, VerifyPayment) and ref in paid_by_user and ref not in captured:
                captured[ref] = amount
            if random.random() < 0.3:
                await trio.sleep(random.choice([0.0, 0.5]))
            return PaymentState(ref in captured, captured.get(ref))
        return await FakeOutbox.perform(outbox, operation, **given)  # type: ignore[arg-type]

    paid_by_user: set[str] = set()
    outbox.perform = perform  # type: ignore[method-assign]
    async with open_town(shop.bot, outbox=outbox, store=FakeStore(latency=random.choice([0.0, 0.1]))) as town:
        for _ in range(14):
            await _something(town, random, paid_by_user)
            if random.random() < 0.6:
                await trio.sleep(random.choice([0.0, 0.1, 0.5, 2.0, 30.0]))
        await town.says("/cancel")
        await trio.sleep(2000)
        keys = [one.key.split("-")[1] for one in shop.given]
        granted = set(keys)
        assert len(granted) == len(keys)
        assert not any(one.redelivered for one in shop.given)
        assert shop.outcomes.count(None) <= len(shop.given)
        assert granted <= set(captured)
        assert not (granted and amount != PRICE)
        told = {alarm.key for alarm in await town.store.alarms.open(limit=99)}
        for ref in captured:
            assert ref in granted or ref in told, (captured, granted, told)
            assert await state(town, ref) in ("settled", "mismatch")
        assert town.left_over() == {}, town.left_over()
        assert town.store.rows == {}
        assert town.alarms == [] or {alarm.kind for alarm in town.alarms} == {"conversation_crashed"}


async def _something(town: Town, random: Random, paid_by_user: set[str]) -> None:
    refs = [
        button.ref_id
        for _, sent in town.messages()
        if sent.inline_keyboard
        for row in sent.inline_keyboard.rows
        for button in row
        if hasattr(button, "ref_id")
    ]
    match random.choice(["buy", "buy", "later", "pay", "pay", "pay", "forge", "cancel", "press", "talk"]):
        case "buy" | "later" as word:
            await town.says(word, wait=False)
        case "pay" if refs:
            paid_by_user.add(refs[-1])
            await town.pays(ref_id=refs[-1], wait=False)
        case "forge" if refs:
            code = random.choice([None, 1001, 1000, 1004, 77])
            await town.pays(ref_id=random.choice(refs), code=code, wait=False)
        case "cancel":
            await town.says("/cancel", wait=False)
        case "press" if any("Not now" in town.labels() for _ in refs[:1]):
            await town.presses("Not now", wait=False)
        case _:
            await town.says("hello", wait=False)
