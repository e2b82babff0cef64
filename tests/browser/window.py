"""An emulated platform in this process, and its page in a real browser; the test acts as the bot."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from functools import partial
from urllib.parse import urlsplit

import attrs
import pytest
import trio
from chrome import SCREEN, Browser, Page, what_is_missing

from triobot.emulator.exchange import Exchange
from triobot.emulator.pusher import PushSettings
from triobot.emulator.server import Emulator, serve_emulator
from triobot.emulator.world import User
from triobot.wire.content import Content
from triobot.wire.forms import Form
from triobot.wire.ids import ChatId, MessageId
from triobot.wire.markup import InlineKeyboard, ReplyKeyboard
from triobot.wire.operations import SendMessage
from triobot.wire.results import Sent

needs_browser = pytest.mark.skipif(what_is_missing() is not None, reason=str(what_is_missing()))


@attrs.define
class Window:
    """A page with its platform and with Sara, a person of the platform."""

    platform: Emulator
    page: Page
    sara: User

    @property
    def exchange(self) -> Exchange:
        return self.platform.exchange

    def sends(
        self,
        content: Content,
        *,
        chat: ChatId | None = None,
        keys: ReplyKeyboard | None = None,
        buttons: InlineKeyboard | None = None,
        form: Form | None = None,
    ) -> MessageId:
        """Send a message as the bot, to Sara's chat by default."""
        sent = self.exchange.perform(SendMessage(chat or self.sara.chat_id, content, keys, buttons, form))
        assert isinstance(sent, Sent)
        return sent.id

    def joins(self, user: User, chat: ChatId | None = None) -> None:
        self.exchange.act(user, lambda acting: acting.join(), chat)


@asynccontextmanager
async def window(
    browser: Browser,
    *,
    joined: bool = True,
    size: tuple[int, int] = SCREEN,
    dark: bool = False,
    bot_url: str | None = None,
) -> AsyncGenerator[Window]:
    """Open the page of a new platform with one person, Sara; the page shows Sara's chat.

    After the block, assert that the page had no errors and requested addresses of this machine only.
    """
    async with trio.open_nursery() as nursery:
        platform: Emulator = await nursery.start(
            partial(
                serve_emulator,
                port=0,
                bot_url=bot_url,
                token="token",
                control_token="control",
                push=PushSettings(attempts=1),
            )
        )
        sara = platform.world.add_user("Sara", irr=1_000_000, coin=10)
        if joined:
            platform.exchange.act(sara, lambda acting: acting.join())
        async with browser.page(platform.page_address, size=size, dark=dark) as page:
            # A narrow screen shows the list of chats first.
            await page.has(".thread" if size == SCREEN else ".chat-item")
            yield Window(platform, page, sara)
            assert not page.errors, page.errors
            asked = {urlsplit(address) for address in page.requested}
            assert {one.hostname for one in asked if one.scheme not in ("blob", "data")} <= {
                "127.0.0.1",
                None,
            }
        nursery.cancel_scope.cancel()
