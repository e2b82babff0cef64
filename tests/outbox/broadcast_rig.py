"""What the tests of broadcasts share: a store that survives its process, and a platform that answers."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Iterable
from contextlib import asynccontextmanager
from typing import Any

import attrs
import trio
from scripted_platform import Alarms, ScriptedPlatform

from triobot.outbox import Broadcasts, LaneOutbox, OutboxRules, open_broadcasts, open_outbox
from triobot.outbox.broadcast_plan import WindowRules
from triobot.seams.broadcasts import Announcement
from triobot.store import Store
from triobot.wire.ids import ChatId


class Noon:
    """A clock that stands."""

    def now(self) -> int:
        return 1_800_000_000_000


@attrs.frozen
class Rig:
    """A running outbox with broadcasts."""

    broadcasts: Broadcasts
    outbox: LaneOutbox
    platform: ScriptedPlatform
    store: Any
    alarms: Alarms

    async def start(self, key: str = "k", chats: Iterable[int] = range(1, 101), text: str = "hello") -> bool:
        return await self.broadcasts.start(key, Announcement(text), listed(chats))

    async def over(self, key: str = "k", *, within: float = 3600) -> Any:
        """Wait for the end; its status."""
        with trio.fail_after(within):
            while not (status := await self.broadcasts.status(key)).over:
                await trio.sleep(0.5)
        return status

    def told(self) -> list[int]:
        """The chats that were told, in order."""
        return [operation.chat_id for operation in self.platform.took_effect if hasattr(operation, "content")]


async def listed(chats: Iterable[int]) -> AsyncIterator[ChatId]:
    """An audience."""
    for chat in chats:
        yield ChatId(chat)


@asynccontextmanager
async def running(
    store: Store,
    platform: ScriptedPlatform | None = None,
    *,
    rules: OutboxRules | None = None,
    window: WindowRules | None = None,
) -> AsyncGenerator[Rig]:
    """A process: it comes to rest at the end of the block as a bot does."""
    platform, alarms = platform or ScriptedPlatform(), Alarms()
    async with (
        open_outbox(platform, raise_alarm=alarms, rules=rules, random=lambda: 0.5) as outbox,
        open_broadcasts(store, outbox, clock=Noon(), raise_alarm=alarms, rules=window) as broadcasts,
    ):
        yield Rig(broadcasts, outbox, platform, store, alarms)
        broadcasts.rest()
        with trio.move_on_after(2):
            await broadcasts.drain()
        outbox.cut()
