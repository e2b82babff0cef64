"""Money of real processes that are killed in the worst moments, and of people who forge callbacks."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from urllib.parse import urlencode

import pytest

from tests.loopback import PATIENCE
from tests.processes.market import Market, are, buys, open_market, until
from tests.processes.process import Stack, on_both_stacks_when_long

pytestmark = pytest.mark.processes


async def held(market: Market, operation: str) -> bool:
    return operation in market.wire.stopped


async def baked(market: Market, count: int) -> bool:
    return len(market.baked) == count


async def idle(market: Market) -> bool:
    return await market.waiting() == 0


async def start_again(market: Market) -> None:
    """SIGKILL, and a new process on the same store."""
    assert market.process is not None
    await market.process.kill()
    market.wire.held.clear()
    await market.start()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("second", "stack"),
    [
        ("verified", "ours"),
        ("error", "ours"),
        *[
            pytest.param(*other, marks=pytest.mark.long)
            for other in [("verified", "stock"), ("error", "stock"), ("error", "hosted")]
        ],
    ],
)
async def test_killed_between_the_platform_s_verified_and_our_record(
    tmp_path: Path, second: str, stack: Stack
) -> None:
    """It is given, and given once, whatever the platform says when it is asked again."""
    async with open_market(tmp_path, stack) as market:
        await market.app.post("switches", {"second_verify": second})
        ali = await buys(market)
        market.wire.held.add("payment/verify")
        await ali.pays()
        await until(lambda: held(market, "payment/verify"))
        (said,) = market.wire.stopped["payment/verify"]
        assert json.loads(said)["status"] == "verified"
        assert await market.states() == ["verifying"]
        await start_again(market)
        await ali.sees("Here it is.", within=PATIENCE)
        await until(lambda: are(market, "settled"))
        assert len(market.baked) == 1
        assert (await ali.wallet())["IRR"] == 300_000


@pytest.mark.slow
@pytest.mark.parametrize("drop", ["before", "after"])
async def test_killed_between_a_lost_verify_and_the_inquiry(tmp_path: Path, drop: str) -> None:
    """It is verified after the next start, whether the lost one had captured it or never arrived."""
    async with open_market(tmp_path) as market:
        ali = await buys(market)
        await market.app.post("faults", {"operation": "payment/verify", "drop": drop, "times": 1})
        market.wire.held.add("payment/inquiry")
        await ali.pays()
        await until(lambda: held(market, "payment/inquiry"))
        assert await market.states() == ["verifying"]
        await start_again(market)
        await ali.sees("Here it is.", within=PATIENCE)
        await until(lambda: are(market, "settled"))
        assert len(market.baked) == 1
        assert (await ali.wallet())["IRR"] == 300_000


@pytest.mark.slow
@pytest.mark.parametrize(
    ("late", "stack"),
    [(False, "ours"), (True, "ours"), (True, "stock"), pytest.param(False, "stock", marks=pytest.mark.long)],
)
async def test_killed_inside_the_aside(tmp_path: Path, late: bool, stack: Stack) -> None:
    """It goes on with the step that it was in, with the same key; and so does who waits for it."""
    async with open_market(tmp_path, stack) as market:
        await market.app.post("faults", {"operation": "editMessage", "status": 500})
        ali = await buys(market, "Ali", "hang")
        if late:
            await ali.says("/cancel")
            await ali.sees("Cancelled.", within=PATIENCE)
        await ali.pays()
        await until(lambda: baked(market, 1))
        assert await market.states() == ["delivered"]
        await start_again(market)
        await ali.sees("Here it is.", within=PATIENCE)
        if not late:
            await ali.sees("Anything else?", within=PATIENCE)
        await until(lambda: are(market, "settled"))
        first, second = market.baked
        assert first == second
        assert (await ali.wallet())["IRR"] == 300_000


@pytest.mark.slow
@on_both_stacks_when_long
async def test_cancelled_while_it_is_given(tmp_path: Path, stack: Stack) -> None:
    """By the user, and then by SIGKILL: the aside gives on, with the same key, and nobody is called."""
    async with open_market(tmp_path, stack) as market:
        ali = await buys(market, "Ali", "hang")
        await ali.pays()
        await until(lambda: baked(market, 1))
        await ali.says("/cancel")
        await ali.sees("Cancelled.", within=PATIENCE)
        await start_again(market)
        await ali.sees("Here it is.", within=PATIENCE)
        await until(lambda: are(market, "settled"))
        first, second = market.baked
        assert first == second
        assert await market.alarms() == {}


def forgeries(numbers: list[str], chats: list[int]) -> Iterator[bytes]:
    """Every kind of callback, about these payments, as if from these chats."""
    for kind in ("payCallback", "paycallback"):
        for chat, number, status in product(chats, numbers, ("success", "error")):
            for code in (None, 1000, 1001, 1002, 1003, 1004, 1005, 1006, 1007, 0, -1, "1000"):
                given = {"ref_id": number, "message_id": 1, "status": status, "code": code}
                given["charge_url"] = "https://evil.example/charge"
                yield event(chat, kind, json.dumps({k: v for k, v in given.items() if v is not None}))
    for chat, number, key in product(chats, numbers, ("invoiceId", "invoice_id", "id")):
        for kind in ("invoiceCallback", "invoicecallback"):
            yield event(chat, kind, json.dumps({key: number, "charge_url": "https://evil.example"}))
    for data in ("", "{}", "[]", "null", '{"ref_id": null}', '{"ref_id": "' + "9" * 5_000 + '"}', "\0", '"'):
        yield event(chats[0], "payCallback", data)
        yield event(chats[0], "invoiceCallback", data)


def event(chat: int, kind: str, data: str) -> bytes:
    return urlencode({"chat_id": chat, "type": kind, "data": data}).encode()


@pytest.mark.slow
@on_both_stacks_when_long
async def test_whoever_forges_callbacks_without_a_number_moves_nothing(tmp_path: Path, stack: Stack) -> None:
    """Hundreds of them: what is asked for waits on, and is sold to who pays."""
    async with open_market(tmp_path, stack) as market:
        ali = await buys(market)
        (bill,) = await market.app.get("payments")  # type: ignore[misc]
        number, before = str(bill["id"]), await asked(market)  # type: ignore[index,call-overload]
        guessed = [str(int(number) + 1), "1111222233334444", "-1", "0", "x"]
        await forge(market, forgeries(guessed, [ali.chat_id, ali.chat_id + 1]))
        assert await asked(market) == before
        assert await market.states() == ["open"]
        assert market.baked == []
        await ali.pays()
        await ali.sees("Here it is.", within=PATIENCE)
        assert len(market.baked) == 1


@pytest.mark.slow
@on_both_stacks_when_long
async def test_whoever_forges_callbacks_with_a_number_gets_nothing(tmp_path: Path, stack: Stack) -> None:
    """Nor leads anybody astray; and paid money is given, whatever is said of it."""
    async with open_market(tmp_path, stack) as market:
        await market.app.post("faults", {"type": "payCallback", "drop": True})
        ali = await buys(market)
        (bill,) = await market.app.get("payments")  # type: ignore[misc]
        number = str(bill["id"])  # type: ignore[index,call-overload]
        # From another chat no forgery ends the sale; from its own, one that says "no" may, like "/cancel".
        await forge(market, forgeries([number], [ali.chat_id + 1]))
        for code in (1001, 1003, 1002, 1003):
            await forge(market, iter([event(ali.chat_id + 1, "payCallback", said(number, code))]))
        await forge(market, (event(ali.chat_id, "payCallback", said(number, code)) for code in CLAIMS))
        assert market.baked == []
        assert (await ali.wallet())["IRR"] == 500_000
        assert "evil" not in json.dumps(await operations(market))
        assert set(await market.states()) <= {"open", "check", "verifying"}
        await ali.pays()  # and the platform's word about it is lost
        await forge(market, (event(ali.chat_id, "payCallback", said(number, code)) for code in (1001, 1003)))
        await ali.sees("Here it is.", within=PATIENCE)
        await until(lambda: are(market, "settled"))
        await forge(market, forgeries([number], [ali.chat_id, ali.chat_id + 1]))
        assert await market.states() == ["settled"]
        assert len(market.baked) == 1
        assert (await ali.wallet())["IRR"] == 300_000
        assert "evil" not in json.dumps(await operations(market))


CLAIMS = (None, 1000, 1000, 1004, 1005, 1006, 1007)


def said(number: str, code: int | None) -> str:
    given: dict[str, object] = {"ref_id": number, "status": "error", "charge_url": "https://evil.example/"}
    return json.dumps(given if code is None else {**given, "code": code})


async def forge(market: Market, events: Iterator[bytes]) -> None:
    """Post these to the webhook, secret and all, and wait until nobody has one of them in hand."""
    async with market.users.connect() as line:
        for body in events:
            assert await market.users.post(line, body) == 200
    await until(lambda: idle(market))


async def asked(market: Market) -> int:
    """What the bot has asked of the platform so far."""
    return len(await operations(market))


async def operations(market: Market) -> list[object]:
    told = await market.app.get("calls", {"count": 1_000})
    assert isinstance(told, dict)
    return [call for call in told["calls"] if call["way"] == "operation"]  # type: ignore[index,union-attr,call-overload]
