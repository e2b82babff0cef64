"""A step that is tried again: how often, behind which pauses, and never with goods that lack their key."""

from __future__ import annotations

from typing import Any

import attrs
import pytest
import trio
from trio.testing import MockClock

from triobot import Bot, Chat, Paid, Retry
from triobot.conversations.blocks import pause_behind
from triobot.errors import ConfigError, StepError
from triobot.filters import join, paid
from triobot.testing import drive


class BusyError(Exception):
    """Worth another try."""


class Service:
    """Fails with these errors, one after the other, and then answers."""

    def __init__(self, *errors: Exception) -> None:
        self.errors = list(errors)
        self.asked: list[float] = []

    async def __call__(self, what: str) -> str:
        await trio.lowlevel.checkpoint()
        self.asked.append(trio.current_time())
        if self.errors:
            raise self.errors.pop(0)
        return f"{what}, done"


def a_bot(service: Service, **options: Any) -> Bot:
    bot = Bot()

    @bot.conversation(join())
    async def order(chat: Chat) -> None:
        try:
            await chat.send(await chat.step(service.__call__, "bread", **options))
        except StepError as error:
            await chat.send(f"failed: {error.kind}")
        except BusyError:
            await chat.send("busy")

    return bot


def pauses(service: Service) -> list[float]:
    return [round(b - a, 2) for a, b in zip(service.asked, service.asked[1:], strict=False)]


async def test_it_is_tried_until_it_succeeds(autojump_clock: MockClock) -> None:
    service = Service(OSError(), ValueError())
    async with drive(a_bot(service, retry=Retry(4, after=2, growth=3))) as world:
        ali = world.user("Ali")
        await ali.joins()
        await world.waits(minutes=1)
        await ali.sees("bread, done")

    assert pauses(service) == [2, 6]


async def test_the_last_error_is_the_step_s(autojump_clock: MockClock) -> None:
    """Each other error has been waited out."""
    service = Service(*[OSError() for _ in range(9)])
    async with drive(a_bot(service, retry=Retry(3, after=1))) as world:
        ali = world.user("Ali")
        await ali.joins()
        await world.waits(minutes=1)
        await ali.sees("failed: OSError")

    assert pauses(service) == [1, 2]


@pytest.mark.parametrize("raises", [(), BusyError])
async def test_only_what_is_worth_it_is_tried_again(
    autojump_clock: MockClock, raises: type[Exception]
) -> None:
    """An error that `on` does not name ends it at once; the last one comes back as without a retry."""
    service = Service(BusyError(), OSError(), BusyError())
    async with drive(a_bot(service, retry=Retry(9, on=BusyError))) as world:
        ali = world.user("Ali")
        await ali.joins()
        await world.waits(minutes=1)
        await ali.sees("failed: OSError")
    assert len(service.asked) == 2

    service = Service(BusyError(), BusyError())
    async with drive(a_bot(service, retry=Retry(2, on=BusyError), raises=raises)) as world:
        ali = world.user("Ali")
        await ali.joins()
        await world.waits(minutes=1)
        await ali.sees("busy" if raises else "failed: BusyError")


async def test_a_pause_goes_on_after_a_crash(autojump_clock: MockClock) -> None:
    """What was tried is not tried again, and the rest of the pause counts."""
    service = Service(OSError())
    async with drive(a_bot(service, retry=Retry(2, after=3600))) as world:
        ali = world.user("Ali")
        await ali.joins()
        await world.waits(minutes=50)
        await world.crashes()
        await world.waits(minutes=9)
        assert len(service.asked) == 1
        await world.waits(minutes=2)
        await ali.sees("bread, done")

    assert len(service.asked) == 2


@attrs.frozen
class Cake:
    pass


@pytest.mark.parametrize("keyed", [True, False])
async def test_goods_are_tried_again_by_their_key_only(autojump_clock: MockClock, keyed: bool) -> None:
    """Without it the other side could not tell the second try from a second sale."""
    service, bot, refused = Service(OSError()), Bot(), list[str]()

    @bot.conversation(join())
    async def sell(chat: Chat) -> None:
        await chat.charge(1_000, "A cake", item=Cake())

    @bot.aside(paid(Cake))
    async def bake(chat: Chat[Paid[Cake]]) -> None:
        try:
            await chat.step(service.__call__, chat.event.key if keyed else "cake", retry=Retry(2))
        except ConfigError as error:
            refused.append(str(error))
        await chat.send("Here it is.")

    async with drive(bot) as world:
        ali = world.user("Ali", wallet=10_000)
        await ali.joins()
        await ali.pays()
        await world.waits(minutes=1)
        await ali.sees("Here it is.")

    assert len(service.asked) == (2 if keyed else 0)
    assert all("the payment's key as an argument" in one for one in refused)
    assert bool(refused) is not keyed


@pytest.mark.parametrize(
    "wrong",
    [
        {"times": 1},
        {"times": 101},
        {"times": True},
        {"times": 3, "after": -1},
        {"times": 3, "after": float("nan")},
        {"times": 3, "growth": 0.5},
        {"times": 3, "on": "OSError"},
    ],
)
def test_what_is_no_plan_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=r"^Retry\("):
        Retry(**wrong)


def test_a_pause_is_a_day_at_most() -> None:
    assert pause_behind(99, Retry(100, after=1)) == 24 * 3600
    assert pause_behind(1, Retry(2, after=10**9)) == 24 * 3600
