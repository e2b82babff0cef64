"""An invoice outlives the process, whenever that is killed: never sent twice, paid once, given, settled."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest
from crash_scenes import Pizzeria, play

from tests.samples import sample
from triobot.emulator.person import AppError
from triobot.testing import DrivenWorld
from triobot.testing.process import CrashableTransport


async def is_billed(world: DrivenWorld, ali: Any) -> None:
    """Ali gets an invoice, and pays it a minute later, if it is there."""
    await ali.says("bill")
    await world.waits(seconds=60)
    with suppress(AppError):
        await ali.pays(invoice=True, within=0)
    await world.waits(seconds=60)


async def fails_first(world: DrivenWorld, ali: Any) -> None:
    """Ali's payment fails, with the same callback; the next one doesn't."""
    await ali.says("bill")
    await world.waits(seconds=60)
    with suppress(AppError):
        await ali.pays(invoice=True, code=1004, within=0)
        await world.waits(seconds=60)
        await ali.pays(invoice=True, within=0)
    await world.waits(seconds=60)


async def walks_away(world: DrivenWorld, ali: Any) -> None:
    """Ali cancels, and pays in spite of it: nobody can take an invoice back."""
    await ali.says("bill")
    await world.waits(seconds=60)
    await ali.says("/cancel")
    await world.waits(seconds=10)
    with suppress(AppError):
        await ali.pays(invoice=True, within=0)
    await world.waits(seconds=60)


def check(pizzeria: Pizzeria, states: list[str]) -> None:
    """One invoice at most is paid, for one pizza; one that was never made lapses."""
    assert len(set(pizzeria.baked)) <= 1
    assert len(states) == 1
    assert states == (["settled"] if pizzeria.baked else ["lapsed"])


@pytest.mark.parametrize("at", sample(range(1, 28)))
async def test_what_is_billed_is_given_whenever_the_process_is_killed(
    at: int, monkeypatch: pytest.MonkeyPatch, autojump_clock: object
) -> None:
    pizzeria = Pizzeria()
    count, states = await play(pizzeria, monkeypatch, at, is_billed)
    assert count >= min(at, 17)
    check(pizzeria, states)


@pytest.mark.parametrize("at", sample(range(1, 28)))
async def test_nobody_is_billed_twice_whenever_the_process_is_killed(
    at: int, monkeypatch: pytest.MonkeyPatch, autojump_clock: object
) -> None:
    """A second invoice would be another one, which could be paid as well."""
    request, asked = CrashableTransport.handle_async_request, list[str]()

    async def counted(transport: CrashableTransport, what: Any) -> Any:
        asked.append(what.url.path.rpartition("/")[2])
        return await request(transport, what)

    monkeypatch.setattr(CrashableTransport, "handle_async_request", counted)
    pizzeria = Pizzeria()
    await play(pizzeria, monkeypatch, at, is_billed)
    assert asked.count("invoice") <= 1


@pytest.mark.parametrize("at", sample(range(1, 34)))
async def test_a_failure_before_the_payment_whenever_the_process_is_killed(
    at: int, monkeypatch: pytest.MonkeyPatch, autojump_clock: object
) -> None:
    pizzeria = Pizzeria()
    count, states = await play(pizzeria, monkeypatch, at, fails_first)
    assert count >= min(at, 24)
    check(pizzeria, states)


@pytest.mark.parametrize("at", sample(range(1, 34)))
async def test_a_bill_that_is_paid_late_whenever_the_process_is_killed(
    at: int, monkeypatch: pytest.MonkeyPatch, autojump_clock: object
) -> None:
    pizzeria = Pizzeria()
    count, states = await play(pizzeria, monkeypatch, at, walks_away)
    assert count >= min(at, 24)
    check(pizzeria, states)
