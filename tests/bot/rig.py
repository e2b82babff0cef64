"""A bot without sockets: the platform is a function, and the store is in memory."""

from __future__ import annotations

import json
from collections import defaultdict
from urllib.parse import parse_qs

import attrs
import httpx
import trio

from tests.loopback import PATIENCE, text_event
from triobot import Bot, Settings
from triobot.base.secrets import Secret
from triobot.runtime.work import Intake

SECRET = "rig-secret-0123456789-abcdef"
FORM = "application/x-www-form-urlencoded"


@attrs.define
class Chats:
    """Takes what the bot sends.

    Attributes:
        texts: what reached each chat.
        gate: sends wait for it, when there is one.
    """

    texts: dict[int, list[str]] = attrs.Factory(lambda: defaultdict[int, list[str]](list))
    gate: trio.Event | None = None
    entered: trio.Event = attrs.Factory(trio.Event)
    _count: int = 0
    _arrived: trio.lowlevel.ParkingLot = attrs.Factory(trio.lowlevel.ParkingLot)

    async def take(self, request: httpx.Request) -> httpx.Response:
        """Answer one request."""
        fields = parse_qs((await request.aread()).decode())
        self.entered.set()
        if self.gate is not None:
            await self.gate.wait()
        self._count += 1
        if request.url.path.endswith("/sendMessage"):
            self.texts[int(fields["chat_id"][0])].append(fields["data"][0])
            self._arrived.unpark_all()
        return httpx.Response(200, content=json.dumps({"id": self._count}))

    async def wait_for(self, chat: int, *texts: str) -> None:
        """Wait until this is what the chat has seen; more than that is no reason to wait on."""
        with trio.fail_after(PATIENCE):
            while (seen := self.texts[chat]) != list(texts):
                assert seen == list(texts[: len(seen)]), seen
                await self._arrived.park()


def make_bot(chats: Chats, *, store: str = "memory:", grace: float = PATIENCE) -> Bot:
    """A bot whose platform is `chats`."""
    settings = Settings(
        token=Secret("rig-token"),
        base_url="http://127.0.0.1:9",
        webhook_secret=Secret(SECRET),
        store=store,
        port=0,
        grace=grace,
    )
    return Bot(settings=settings, transport=httpx.MockTransport(chats.take))


async def say(intake: Intake, chat: int, text: str) -> None:
    """Let a person say something."""
    await intake.inbox.accept(FORM, text_event(chat, text))
