"""The machine's clock is set back: nothing about money waits until it is as late again."""

from __future__ import annotations

import pytest
import trio
from trio.testing import MockClock

from tests.payments.cashier_rig import HOUR, MINUTE, again, open_till


@pytest.mark.parametrize("running", [True, False])
async def test_a_lost_callback_is_found_all_the_same(autojump_clock: MockClock, running: bool) -> None:
    """While the bot runs, and while it is down."""
    async with open_till() as till:
        ticket = await till.charges()
        await trio.sleep(MINUTE)
        if not running:
            till.crash()
        till.pays()
        till.clock.ahead -= int(2 * HOUR * 1000)
        if running:
            await trio.sleep(20 * MINUTE)
            assert await till.state(ticket.id) == "verified"
        else:
            async with again(till):
                await trio.sleep(20 * MINUTE)
                assert await till.state(ticket.id) == "verified"


async def test_an_operator_hears_of_a_platform_that_is_away(autojump_clock: MockClock) -> None:
    """At the latest when money that was paid since can still be taken."""
    async with open_till() as till:
        await till.charges()
        await trio.sleep(10 * MINUTE)
        till.clock.ahead -= int(5 * HOUR * 1000)
        till.line.fault = lambda operation: "lost"
        await trio.sleep(25 * MINUTE)
        assert "sweep_blind" in await till.alarms()
