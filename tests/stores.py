"""The store of a bot that runs under `drive`."""

from __future__ import annotations

from triobot.seams.money import PaymentRow
from triobot.store import Store
from triobot.testing import DrivenWorld


def store_of(world: DrivenWorld) -> Store:
    """What the process that runs now has open."""
    intake = world._process.intake
    assert intake is not None
    return intake.store


async def payments_of(world: DrivenWorld) -> list[PaymentRow]:
    """The payments of all chats."""
    return [*await store_of(world).payments.find(limit=9)]
