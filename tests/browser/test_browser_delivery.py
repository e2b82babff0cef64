"""On the page: whether a bot listens, each event's delivery, and what the interface doesn't promise."""

from __future__ import annotations

import socket
from urllib.parse import parse_qs

import httpx
import pytest
import trio
from chrome import Browser
from window import needs_browser, window

from tests.loopback import Line

pytestmark = [pytest.mark.processes, needs_browser]


class SmallBot:
    """A bot with a reserved port; receives events once it listens."""

    def __init__(self) -> None:
        self.status = b"200 OK"
        self.events: list[dict[str, list[str]]] = []
        self._socket = trio.socket.from_stdlib_socket(socket.socket())

    async def bind(self) -> int:
        await self._socket.bind(("127.0.0.1", 0))
        port: int = self._socket.getsockname()[1]
        return port

    async def listen(self) -> None:
        self._socket.listen()
        await trio.serve_listeners(self._serve, [trio.SocketListener(self._socket)])

    async def _serve(self, stream: trio.SocketStream) -> None:
        line = Line(stream)
        while True:
            _, body = await line.message()
            if not body:
                return
            self.events.append(parse_qs(body.decode()))
            await line.answer(self.status, b"")


@pytest.mark.slow
async def test_a_bot_that_is_not_there_is_missed(browser: Browser) -> None:
    bot = SmallBot()
    port = await bot.bind()
    async with (
        window(browser, bot_url=f"http://127.0.0.1:{port}/secret") as shown,
        trio.open_nursery() as bots,
    ):
        page = shown.page
        await page.sees("No bot listens at", within=".banner")
        await page.sees(f"http://127.0.0.1:{port}", within=".banner")
        await page.sees("offline", within=".thread-title")
        await page.run("document.querySelector('[data-panel=inspector]').click()")
        await page.sees("lost", within=".call")

        bots.start_soon(bot.listen)
        await page.wait("document.querySelector('.banner').hidden")
        await page.sees("online", within=".thread-title")

        bot.status = b"404 Not Found"
        await page.click(".call-head")
        await page.push("button", "Post it again")
        await page.has(".call", times=2)
        await page.sees("again", within=".call:last-child")
        await page.sees("refused", within=".call:last-child")
        bot.status = b"200 OK"
        await page.click(".call:first-child .chip", "Post again, changed")
        await page.has(".sheet textarea")
        await page.run("document.querySelector('.sheet input').value = 'wave'")
        await page.run("document.querySelector('.sheet textarea').value = '<b>'")
        await page.push("button", "Post", exact=True)
        await page.has(".call", times=3)
        await page.wait("!document.querySelector('.call .status.waits')")
        assert [event["type"] for event in bot.events] == [["join"], ["wave"]]
        assert bot.events[-1]["data"] == ["<b>"]
        newest = "document.querySelector('.call:last-child').textContent"
        assert "refused" not in await page.run(newest)
        bots.cancel_scope.cancel()


@pytest.mark.slow
async def test_what_is_not_promised_is_marked(browser: Browser) -> None:
    async with window(browser) as shown, httpx.AsyncClient(trust_env=False) as bot:
        page = shown.page
        await page.run("document.querySelector('[data-panel=inspector]').click()")
        shown.exchange.act(shown.sara, lambda acting: acting.say("Hi"))
        given = {"chat_id": str(shown.sara.chat_id), "type": "Text", "data": "Hello."}
        address = f"{shown.platform.base_url}/sendMessage"
        answer = await bot.post(address, data=given, headers={"token": "token"})
        assert answer.status_code == 200
        await page.sees("not promised", within=".call.operation")
        await page.click(".call.operation .call-head")
        await page.sees("type must be in small letters", within=".liberties")
