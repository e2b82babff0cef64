"""Many tabs of one browser: each tab shows all news, and each tab can act."""

from __future__ import annotations

from functools import partial

import pytest
import trio
from chrome import Browser, PageError
from window import needs_browser

from triobot.emulator.pusher import PushSettings
from triobot.emulator.server import Emulator, serve_emulator
from triobot.wire.operations import SendMessage

pytestmark = [needs_browser, pytest.mark.processes]

# More tabs than the six connections that a browser allows to a host.
TABS = 7


@pytest.mark.slow
async def test_more_tabs_than_connections_show_and_act(browser: Browser) -> None:
    async with trio.open_nursery() as nursery:
        platform: Emulator = await nursery.start(
            partial(
                serve_emulator,
                port=0,
                bot_url=None,
                token="token",
                control_token="a token",
                push=PushSettings(attempts=1),
            )
        )
        world = platform.world
        sara = world.add_user("Sara")
        async with browser.page(platform.page_address) as first:
            tabs = [first]
            while len(tabs) < TABS:
                tabs.append(await first.beside(platform.page_address))
            for tab in tabs:
                await tab.to_front()
                await tab.has(".thread")
            await first.to_front()
            await first.click(".join")
            await first.sees("joined", within=".messages")
            platform.exchange.perform(SendMessage(sara.chat_id, "to all of you"))
            for number, tab in enumerate(tabs):
                await tab.to_front()
                await tab.sees("to all of you", within=".bubble")
                await tab.type(f"from tab {number}", selector=".compose")
                await tab.press("Enter")
                await tab.sees(f"from tab {number}", within=".mine .bubble")
            await first.sees(f"from tab {TABS - 1}", within=".mine .bubble")
            assert [tab.errors for tab in tabs] == [[]] * TABS

            # Without the right token, a tab gets no news.
            await first.run("sessionStorage.setItem('triobot-control', 'wrong')")
            await first.reload()
            await first.sees("Open the address", within=".gate")
            with pytest.raises(PageError):
                await first.wait("document.querySelector('.bubble')", seconds=0.5)
        nursery.cancel_scope.cancel()
