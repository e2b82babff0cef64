"""The stores of a driven bot, whether it has one or several shards of one."""

from __future__ import annotations

from triobot.money import PaymentRow
from triobot.nodes.node import Node
from triobot.seams import Store
from triobot.shards import shard_of
from triobot.testing import DrivenWorld
from triobot.wire.ids import ChatId


def stores_of(world: DrivenWorld) -> list[Store]:
    """All of them; of one store that alone."""
    intake = world._process._intake
    assert intake is not None
    front: object = intake
    return [one.store for one in front.intakes.values()] if isinstance(front, Node) else [intake.store]


def store_of(world: DrivenWorld, chat_id: int) -> Store:
    """The one that has a chat."""
    stores = stores_of(world)
    return stores[shard_of(ChatId(chat_id), len(stores))]


async def payments_of(world: DrivenWorld) -> list[PaymentRow]:
    """The payments of all chats."""
    return [row for store in stores_of(world) for row in await store.payments.find(limit=9)]
