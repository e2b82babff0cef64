"""A bot that was killed goes on in a copy of its store, which is of another kind; nothing happens twice."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.loopback import PATIENCE
from tests.postgres import Server
from tests.processes.market import Market, buys, open_market, until

pytestmark = pytest.mark.processes


async def moves_to(market: Market, target: str) -> None:
    """SIGKILL, a copy, and a new process on that."""
    assert market.process is not None
    await market.process.kill()
    market.wire.held.clear()
    said = await market.command("store", "copy", f"sqlite:{market.store}", target)
    assert f"copied sqlite:{market.store} to {target}" in said
    assert isinstance(market.environ, dict)
    market.environ["TRIOBOT_STORE"] = target
    await market.start()


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
async def test_what_was_under_way_goes_on_in_the_copy_and_is_done_once(
    kind: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """A question, an open payment, and one of which the platform's answer was lost with the process."""
    target = f"sqlite:{tmp_path}/busy.db"
    if kind == "postgres":
        server: Server = request.getfixturevalue("postgres_server")
        server.ask("DROP SCHEMA IF EXISTS moved CASCADE")
        target = server.url(query="schema=moved")
    async with open_market(tmp_path) as market:
        ali, sara, reza = await buys(market, "Ali"), await buys(market, "Sara"), await buys(market, "Reza")
        await sara.pays()
        await sara.sees("Anything else?", within=PATIENCE)
        market.wire.held.add("payment/verify")
        await ali.pays()

        async def held() -> bool:
            return "payment/verify" in market.wire.stopped

        await until(held)
        await moves_to(market, target)
        await ali.sees("Here it is.", within=PATIENCE)
        await ali.sees("Anything else?", within=PATIENCE)
        for person in (ali, sara):
            await person.says("no")
        await reza.pays()
        await reza.sees("Here it is.", within=PATIENCE)

        async def all_baked() -> bool:
            return len(market.baked) == 3

        await until(all_baked)
        assert len(set(market.baked)) == len(market.baked) == 3
        for person in (ali, sara, reza):
            assert (await person.wallet())["IRR"] == 300_000
            texts = [seen.text for seen in await person.history() if seen.from_bot]
            assert texts.count("Here it is.") == 1
