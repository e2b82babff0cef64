"""A whole order under ``triobot dev``, in both writing directions: kills change nothing."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import pytest
from chrome import Browser, Page
from test_browser_dev import developing, says, sees
from window import needs_browser

pytest.importorskip("watchfiles", reason="watchfiles is not installed (the extra dev)")
pytestmark = [needs_browser, pytest.mark.processes]

# A script that sends a GET request to the control API, like the page.
ASK: Final = (
    "(async (path) => (await fetch('/control/' + path,"
    " {headers: {'X-Triobot-Control': sessionStorage.getItem('triobot-control')}})).json())"
)
NEWEST: Final = ".row.theirs:nth-last-child(1)"


async def kill(page: Page) -> None:
    """Kill the bot's process, and restart the bot."""
    # A second click on the panel's tab would close the panel.
    if not await page.run("Boolean(document.querySelector('.kill'))"):
        await page.click(".rail .tab[data-panel=mischief]")
    await page.click(".kill")
    await page.click(".banner .button")
    await page.wait("document.querySelector('.banner').hidden")
    await page.run("void (window.world = load('world.js').world)")
    await page.wait("window.world.bot.phase === 'running'")


async def order(page: Page, *, killed: bool) -> None:
    """Make an order, from the join to the picture of the pizza."""

    async def perhaps_dies() -> None:
        if killed:
            await kill(page)

    await page.click(".join")
    await sees(page, "Your name?")
    await says(page, "سارا")
    await sees(page, "Size?")
    await perhaps_dies()
    await page.click(".inline-button", "Large")
    await sees(page, "Where to?")
    await page.click(".composer .icon-button", nth=0)
    await page.click(".menu button:has(.icon-pin)")
    await page.click(".sheet .primary")
    await page.sees("How do we find you?")
    await perhaps_dies()
    await page.type("3", selector=".native-form input[name=floor]")
    await page.type("احمدی", selector=".native-form input[name=doorbell]")
    await page.click(".submit")
    await sees(page, "A large pizza")
    await perhaps_dies()
    await page.click(".inline-button.pay", "Pay")
    await page.click(".payment [type=submit]")
    await page.sees("Thank you, سارا!", within=".bubble")


async def history(page: Page, name: str) -> list[dict[str, Any]]:
    """Return the contents of a person's chat without ids and times, which differ between chats."""
    users = await page.run(f"{ASK}('users')")
    chat = next(user["chat_id"] for user in users if user["name"] == name)
    messages = (await page.run(f"{ASK}('history?chat={chat}&count=500')"))["messages"]
    kept = ("from_bot", "deleted", "content", "submitted", "form")
    shown = [{key: message.get(key) for key in kept} for message in messages]
    for one, message in zip(shown, messages, strict=True):
        one["labels"] = [[button["label"] for button in row] for row in message.get("buttons", [])]
        if isinstance(one["content"], dict):
            one["content"] = {
                key: one["content"].get(key) for key in ("type", "text", "caption", "lat", "name")
            }
    return shown


def without_repeats(shown: Sequence[dict[str, Any]], like: Sequence[dict[str, Any]]) -> tuple[list[Any], int]:
    """Remove each repeated message that `like` has once; return the rest and the count."""
    left: list[dict[str, Any]] = []
    repeats = 0
    for one in shown:
        if (
            left
            and one["from_bot"]
            and one == left[-1]
            and (len(left) >= len(like) or like[len(left)] != one)
        ):
            repeats += 1
        else:
            left.append(one)
    return left, repeats


@pytest.mark.long  # a plain run kills orders in `test_browser_dev` and `test_examples_crashing`
@pytest.mark.parametrize("language", ["fa", "en"])
async def test_a_kill_in_the_middle_is_not_noticed(browser: Browser, tmp_path: Path, language: str) -> None:
    """Two people make the same order; the second while the process is killed three times."""
    async with developing(browser, tmp_path, "pizza", join=False) as page:
        await page.has(".join")
        await page.run(f"localStorage.setItem('triobot-language', '{language}')")
        await page.reload()
        await page.has(".join")
        assert await page.run("document.documentElement.dir") == ("rtl" if language == "fa" else "ltr")
        await order(page, killed=False)
        await page.click(".chat-item", "علی")
        await order(page, killed=True)
        await page.wait("document.querySelector('.picture img')?.naturalWidth > 0")

        undisturbed, disturbed = await history(page, "Sara"), await history(page, "علی")
        same, repeats = without_repeats(disturbed, undisturbed)
        assert same == undisturbed
        assert len(undisturbed) == 8
        # A message is repeated if a kill came while the request was in flight; the bot counts such repeats.
        counted = await page.run(
            "(({counts, outbox}) => (counts?.possible_repeat ?? 0) + (outbox?.possible_repeats ?? 0))"
            "(load('world.js').world.runtime)"
        )
        assert repeats <= counted
        starts = await page.run("load('world.js').world.bot.starts")
        assert starts == 4

        await page.click(".rail .tab[data-panel=inside]")
        await page.has(".inside-summary")
