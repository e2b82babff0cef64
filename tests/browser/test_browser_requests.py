"""The panel of requests: the facts of a request; filter, pause, clear, copy, post again."""

from __future__ import annotations

import json
import re
import shutil

import httpx
import pytest
import trio
from chrome import Browser
from window import Window, needs_browser, window

pytestmark = [needs_browser, pytest.mark.processes]


async def says(shown: Window, text: str, *, chat: int | None = None) -> None:
    """Send a text as the bot, over HTTP."""
    async with httpx.AsyncClient(base_url=shown.platform.base_url, trust_env=False) as bot:
        fields = {"chat_id": str(chat or shown.sara.chat_id), "type": "text", "data": text}
        answer = await bot.post("/sendMessage", data=fields, headers={"token": "token"})
        assert answer.status_code == 200


@pytest.mark.slow
async def test_requests_are_seen_filtered_by_text_and_copied(browser: Browser) -> None:
    async with window(browser) as shown:
        page = shown.page
        await page.push("button", "Requests")
        async with httpx.AsyncClient(base_url=shown.platform.base_url, trust_env=False) as bot:
            fields = {"chat_id": str(shown.sara.chat_id), "type": "text", "data": "it's $HOME"}
            await bot.post("/sendMessage", data=fields, headers={"token": "token"})
            await bot.post("/sendAction", data={"chat_id": "1"}, headers={"token": "wrong"})
        await page.sees("200", within=".call")
        await page.sees("403", within=".call.failed")
        await page.push("button", "sendMessage Sara")
        await page.sees("it's $HOME", within=".fields-table")
        await page.sees('"id": ', within=".call-details")
        await page.run("navigator.clipboard.writeText = async (text) => (window.copied = text)")
        await page.push("button", "Copy as curl")
        await page.wait("window.copied")
        copied = await page.run("window.copied")
        assert copied == (
            'curl -X POST "$BASE_URL"/sendMessage -H "token: $TOKEN"'
            " -H 'Content-Type: application/x-www-form-urlencoded'"
            f" --data-raw 'chat_id={shown.sara.chat_id}&type=text&data=it%27s+%24HOME'"
        )
        await page.push("searchbox", "Filter")
        await page.type("sendaction")
        await page.finds("button", "sendMessage", times=0)
        await page.finds("button", "sendAction", times=1)


@pytest.mark.slow
async def test_requests_of_one_chat_are_seen_alone_while_others_come(browser: Browser) -> None:
    """During a pause, new requests are counted; cleared requests stay hidden."""
    async with window(browser, bot_url="http://127.0.0.1:9/path-of-the-bot") as shown:
        page, exchange = shown.page, shown.exchange
        team = shown.platform.world.add_group("team")
        shown.joins(shown.sara, team.id)
        exchange.act(shown.sara, lambda acting: acting.say("Hi"), team.id)
        await page.push("button", "Requests")
        await says(shown, "one to Sara")
        await says(shown, "to all", chat=team.id)
        await page.finds("button", "text Sara · @team lost")
        await page.finds("button", "join Sara lost")
        await page.finds("button", "sendMessage @team")

        await page.choose("Chat", "Sara")
        await page.choose("Direction", "From the bot")
        await page.finds("button", "sendMessage @team", times=0)
        await page.push("button", "Pause")
        await says(shown, "two to Sara")
        await says(shown, "to all again", chat=team.id)
        await page.sees("Paused: 1 new", within=".paused")
        await page.finds("button", "sendMessage", times=1)
        await page.push("button", "Go on")
        await page.finds("button", "sendMessage Sara", times=2)
        await page.lacks(".paused")

        await page.choose("Chat", "Every chat")
        await page.choose("Direction", "Both ways")
        # Each request shows its time and text; the newest request is the last.
        await page.finds("button", "lost", times=3)
        await page.has(".call", times=7)
        texts = await page.run("[...document.querySelectorAll('.call-text')].map((one) => one.innerText)")
        assert [one for one in texts if one] == ["Hi", "one to Sara", "to all", "two to Sara", "to all again"]
        times = await page.run("[...document.querySelectorAll('.call-head')].map((one) => one.innerText)")
        assert all(re.search(r"\d\d:\d\d:\d\d", one) for one in times)

        await page.push("button", "Clear")
        await page.sees("No request yet.", within=".calls")
        await says(shown, "three to Sara")
        await page.finds("button", "sendMessage", times=1)
        # New requests don't redraw the old ones: no node is removed.
        await page.run(
            "window.gone = 0, new MutationObserver((all) =>"
            " all.forEach((one) => (gone += one.removedNodes.length)))"
            ".observe(document.querySelector('.calls'), {subtree: true, childList: true}), 1"
        )
        await says(shown, "four to Sara")
        await page.finds("button", "sendMessage", times=2)
        assert await page.run("gone") == 0


@pytest.mark.slow
async def test_requests_of_long_ago_are_looked_up(browser: Browser) -> None:
    """A new page gets the newest requests; a button and the search load older ones."""
    async with window(browser) as shown:
        page, traffic = shown.page, shown.exchange.traffic
        for number in range(2_600):
            call = traffic.begin("event", "early" if number == 3 else "text", number)
            traffic.end(call, 0.001, 200)
        await page.run("localStorage.setItem('triobot-panel', 'inspector')")
        await page.reload()
        await page.has(".call", times=200)
        await page.wait(
            "(({scrollTop, scrollHeight, clientHeight}) => scrollTop + clientHeight > scrollHeight - 9)"
            "(document.querySelector('.inspector'))"
        )
        known = "load('world.js').world.calls.size"
        assert await page.run(known) == 400
        for rows in (400, 600):
            await page.push("button", "Older requests")
            await page.has(".call", times=rows)
        numbers = await page.run("[...document.querySelectorAll('.call')].map((one) => +one.dataset.call)")
        assert numbers == list(range(call.number - 599, call.number + 1))

        await page.push("searchbox", "Filter")
        await page.type("early")
        await page.sees("early", within=".call")
        assert await page.run(known) == call.number
        await page.finds("button", "Older requests", times=0)


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no shell that could be tricked")
async def test_a_copied_request_is_one_request_and_no_other_command(browser: Browser) -> None:
    """For any path and body, the shell runs curl only, with the path and the body as arguments."""
    tricks = (
        "x;echo HACKED",
        "$(echo HACKED)",
        "`echo HACKED`",
        "it's\n'$(echo HACKED)'",
        "\x1b]0;t\x07",
        "&x|y#",
    )
    async with window(browser) as shown:
        for trick in tricks:
            call = {"way": "operation", "name": trick, "body": trick, "content_type": trick, "size": 1}
            line = await shown.page.run(f"load('calls.js').asCurl({json.dumps(call)})")
            script = f"BASE_URL=http://a TOKEN=t; curl() {{ printf '%s\\0' \"$@\"; }}; {line}"
            done = await trio.run_process(["bash", "-c", script], capture_stdout=True)
            arguments = done.stdout.decode().split("\0")
            assert arguments[:2] == ["-X", "POST"]
            assert arguments[2].startswith("http://a/")
            assert arguments[3:] == [
                *("-H", "token: t", "-H", f"Content-Type: {trick}"),
                *("--data-raw", trick, ""),
            ]
