"""A bot whose process is frozen for longer than its deadlines, and goes on as if no time had passed."""

from __future__ import annotations

from pathlib import Path

import pytest
import trio

from tests.loopback import PATIENCE
from tests.processes.market import Market, are, buys, open_market, until
from tests.processes.process import Stack, on_both_stacks_when_long
from triobot.emulator.person import Person

pytestmark = pytest.mark.processes

# Longer than a request, a question about money and a posted event may take, and than `selling.HURRY`.
FROZEN = 31.0
PEOPLE = (("Omid", "hurry"), ("Mina", "buy"), ("Sara", "buy"))


async def held(market: Market, operation: str) -> bool:
    return operation in market.wire.stopped


async def heard(person: Person) -> list[str]:
    return [seen.text for seen in await person.history() if seen.from_bot]


@pytest.mark.slow
@on_both_stacks_when_long
async def test_who_paid_meanwhile_gets_it_once(tmp_path: Path, stack: Stack) -> None:
    """Wherever the payment was: on its way to the screen, open, or verified by an answer that nobody read."""
    async with open_market(tmp_path, stack) as market:
        first = await buys(market, "Reza")
        await first.pays()
        await first.sees("Here it is.", within=PATIENCE)
        idle, open_, asked = [await buys(market, name, how) for name, how in PEOPLE]
        sending = await market.app.user("Ali", irr=500_000)
        await sending.joins()
        await until(lambda: are(market, "open", "open", "open", "settled"))
        market.wire.held |= {"payment/verify", "sendMessage"}
        await asked.pays()
        await until(lambda: held(market, "payment/verify"))
        await sending.says("hurry")
        await until(lambda: held(market, "sendMessage"))
        # An event whose answer was not read is posted again: said to be paid twice. Five people have
        # joined and asked, two of them have paid.
        await until(lambda: market.answered(12))
        assert market.process is not None
        await market.process.freeze()
        await sending.pays()
        await open_.pays()
        market.wire.release()  # what was held waits in its socket now
        await trio.sleep(FROZEN)
        market.process.thaw()

        for person in (open_, asked):
            await person.sees("Here it is.", within=PATIENCE)
        # What was only on its way when its time was over is the aside's.
        await sending.sees("Here it is.", within=PATIENCE)
        await idle.sees("Too late.", within=PATIENCE)
        await until(lambda: are(market, "check", "settled", "settled", "settled", "settled"))
        assert len(market.baked) == len(set(market.baked)) == 4
        for person in (first, open_, asked, sending):
            assert (await person.wallet())["IRR"] == 300_000
        # The answer to its send came too late, so the button may have been shown once more.
        assert list(dict.fromkeys(await heard(sending))) == ["Pizza", "Too late.", "Here it is."]
        for person in (first, open_, asked, idle):
            await person.sees_buttons(within=PATIENCE)
        assert await market.alarms() == {}
        # That nobody was at work for so long, the watchdog may say.
        errors = [line for line in market.process.output.splitlines() if " ERROR " in line]
        assert [line for line in errors if "triobot.watchdog: every chat has waited" not in line] == []
