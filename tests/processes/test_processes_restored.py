"""A backup of a bot that sells on, made and restored by the commands, with real processes."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.loopback import PATIENCE
from tests.processes.market import Market, are, buys, open_market, until
from tests.processes.process import Stack, on_both_stacks_when_long
from triobot import Texts

pytestmark = pytest.mark.processes


async def named(market: Market, number: str) -> bool:
    return number in await market.command("alarms")


@pytest.mark.slow
@on_both_stacks_when_long
async def test_what_a_backup_does_not_know_is_not_done_again(tmp_path: Path, stack: Stack) -> None:
    """Who has paid since is told so and named; who has not may pay; what is not in it is not taken."""
    async with open_market(tmp_path, stack) as market:
        paid, waiting = await buys(market, "Ali"), await buys(market, "Sara")
        await until(lambda: are(market, "open", "open"))
        await market.command("store", "backup", str(tmp_path / "backup"))
        await paid.pays()
        await paid.sees("Here it is.", within=PATIENCE)
        await until(lambda: are(market, "open", "settled"))
        later = await buys(market, "Maryam")
        await until(lambda: are(market, "open", "open", "settled"))
        assert market.process is not None
        await market.process.kill()
        await market.command("store", "restore", str(tmp_path / "backup"))
        await market.start()

        # Captured and given since: it is the operator's.
        await paid.sees("Ask at the counter.", within=PATIENCE)
        number = await market.number(paid)
        assert await market.alarms() == {"1": "store_restored", number: "granted_before_maybe"}
        assert number in await market.command("alarms")
        assert len(market.baked) == 1
        await market.command("payments", "settle", number)
        assert await market.alarms() == {"1": "store_restored"}
        # Not paid: for its user nothing has happened.
        await waiting.pays()
        await waiting.sees("Here it is.", within=PATIENCE)
        await until(lambda: are(market, "settled", "settled"))
        assert len(market.baked) == len(set(market.baked)) == 2
        # Not in the backup: it is not taken, and goes back by itself.
        await later.pays()
        foreign = await market.number(later)
        await until(lambda: named(market, foreign))
        assert await market.states() == ["settled", "settled"]
        assert [bill["state"] for bill in await market.bills() if bill["id"] == foreign] == ["paid"]
        assert len(market.baked) == 2


@pytest.mark.slow
@on_both_stacks_when_long
async def test_what_had_its_money_in_a_backup_gives_by_an_operators_order_only(
    tmp_path: Path, stack: Stack
) -> None:
    """Whether it was given since, the aside can't know: its user is told, and the operator asked."""
    async with open_market(tmp_path, stack) as market:
        given, waiting = await buys(market, "Ali", "address"), await buys(market, "Sara", "address")
        for person in (given, waiting):
            await person.pays()
            await person.sees("Where to?", within=PATIENCE)
        await until(lambda: are(market, "delivered", "delivered"))
        await market.command("store", "backup", str(tmp_path / "backup"))
        await given.says("home")
        await given.sees("Here it is.", within=PATIENCE)
        assert market.process is not None
        await market.process.kill()
        await market.command("store", "restore", str(tmp_path / "backup"))
        await market.start()

        numbers = [await market.number(person) for person in (given, waiting)]
        for person in (given, waiting):
            await person.says("home")
            await person.sees(Texts.english().handed_over, within=PATIENCE)
        await until(lambda: are(market, "verified", "verified"))
        assert await market.alarms() == {
            "1": "store_restored",
            **dict.fromkeys(numbers, "granted_before_maybe"),
        }
        assert market.baked == [f"button-{numbers[0]}"]
        await market.command("payments", "settle", numbers[0])
        await market.command("payments", "redeliver", numbers[1])
        await waiting.sees("Here it is.", within=PATIENCE)
        await until(lambda: are(market, "settled", "settled"))
        assert market.baked == [f"button-{number}" for number in numbers]
        assert await market.alarms() == {"1": "store_restored"}
