"""Bots on PostgreSQL outlive a kill at any act, as they do in memory: a sample of the matrices.

All of them, and whatever else is driven, run there with ``pytest --postgres --long tests/testing``.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine

import pytest
import test_charge_crashes as charges
import test_invoice_crashes as invoices
import test_room_crashes as rooms
import test_update_crashes as updates

from tests.postgres import Server
from tests.samples import sample
from tests.store.postgres_rows import drive_on

Case = Callable[..., Coroutine[object, object, None]]

# Each with as many acts as it is killed at.
MATRICES: dict[Case, int] = {
    charges.test_what_is_bought_is_given_whenever_the_process_is_killed: 24,
    charges.test_a_delivery_that_asks_is_given_whenever_the_process_is_killed: 33,
    charges.test_who_is_in_a_hurry_is_given_once_whenever_the_process_is_killed: 25,
    charges.test_money_that_comes_late_is_given_by_the_aside_whenever_the_process_is_killed: 51,
    invoices.test_what_is_billed_is_given_whenever_the_process_is_killed: 27,
    invoices.test_a_bill_that_is_paid_late_whenever_the_process_is_killed: 33,
    rooms.test_whenever_the_process_is_killed_a_room_hears_all_once_and_in_order: 100,
    updates.test_whenever_the_process_is_killed_each_update_is_made_once: 120,
    updates.test_whenever_the_process_is_killed_nothing_is_set_again_over_what_came_later: 18,
}
EVERY = 47


@pytest.fixture(autouse=True)
def on_postgres(postgres_server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep the bot's store on a server."""
    drive_on(postgres_server, monkeypatch)


def _named(moment: tuple[Case, int]) -> str:
    matrix, at = moment
    return f"{matrix.__name__.removeprefix('test_')}-{at}"


@pytest.mark.slow
@pytest.mark.parametrize(
    "moment",
    sample(((case, at) for case, most in MATRICES.items() for at in range(most)), every=EVERY),
    ids=_named,
)
async def test_a_bot_outlives_a_kill_at_any_act(
    moment: tuple[Case, int], monkeypatch: pytest.MonkeyPatch, autojump_clock: object
) -> None:
    matrix, at = moment
    await matrix(at=at, monkeypatch=monkeypatch, autojump_clock=autojump_clock)
