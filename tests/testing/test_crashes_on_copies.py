"""Bots whose store is copied to another number of shards after each kill go on as without: a sample.

All of them, and whatever else is driven, run so with ``pytest --copies --long tests/testing``; with
``--shards 3`` the first store is in shards.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine

import pytest
import test_charge_crashes as charges
import test_invoice_crashes as invoices
import test_room_crashes as rooms
import test_update_crashes as updates

from tests.samples import sample
from tests.store.copied_rows import copy_at_each_start
from triobot.testing import driving

Case = Callable[..., Coroutine[object, object, None]]

# Each with as many acts as it is killed at.
MATRICES: dict[Case, int] = {
    charges.test_what_is_bought_is_given_whenever_the_process_is_killed: 24,
    charges.test_money_that_comes_late_is_given_by_the_aside_whenever_the_process_is_killed: 51,
    charges.test_a_duplicate_number_is_exchanged_whenever_the_process_is_killed: 45,
    invoices.test_what_is_billed_is_given_whenever_the_process_is_killed: 27,
    rooms.test_whenever_the_process_is_killed_a_room_hears_all_once_and_in_order: 100,
    updates.test_whenever_the_process_is_killed_each_update_is_made_once: 120,
    updates.test_whenever_the_process_is_killed_nothing_is_set_again_over_what_came_later: 18,
}
EVERY = 59


def _named(moment: tuple[Case, int, int]) -> str:
    matrix, at, shards = moment
    return f"{matrix.__name__.removeprefix('test_')}-{at}-{shards}"


@pytest.mark.parametrize(
    "moment",
    sample(
        ((case, at, shards) for case, most in MATRICES.items() for at in range(most) for shards in (1, 3)),
        every=EVERY,
    ),
    ids=_named,
)
async def test_a_bot_outlives_a_kill_and_a_copy_at_any_act(
    moment: tuple[Case, int, int], monkeypatch: pytest.MonkeyPatch, autojump_clock: object
) -> None:
    matrix, at, shards = moment
    monkeypatch.setattr(driving, "_shards", shards)
    copy_at_each_start(monkeypatch)
    await matrix(at=at, monkeypatch=monkeypatch, autojump_clock=autojump_clock)


@pytest.mark.slow
async def test_an_update_in_another_shard_is_made_once_although_it_is_in_this_one_now(
    monkeypatch: pytest.MonkeyPatch, autojump_clock: object
) -> None:
    """Its owner had done it, and the process died before the conversation knew."""
    monkeypatch.setattr(driving, "_shards", 3)
    copy_at_each_start(monkeypatch, (1,))
    for at in (1, 18, 49, 71, 99, 120):
        with monkeypatch.context() as patch:
            await updates.test_whenever_the_process_is_killed_each_update_is_made_once(
                at=at, monkeypatch=patch, autojump_clock=autojump_clock
            )
