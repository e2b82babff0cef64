"""axe on the whole page: each panel, in light and dark, in both writing directions."""

from __future__ import annotations

import json

import pytest
from chrome import Browser
from test_browser_travel import AXE, complaints
from window import SCREEN, needs_browser, window

from triobot.wire.markup import CallbackButton, InlineKeyboard, PayButton

pytestmark = [
    needs_browser,
    pytest.mark.processes,
    pytest.mark.skipif(not AXE.exists(), reason="no axe-core (npm ci --prefix tests/browser)"),
]

RUNS = {"phase": "running", "target": "bot.py:bot", "since": 0, "starts": 1, "pid": 1, "problem": ""}
PANELS = ("wallet", "inspector", "inside", "crowd", "mischief", "machine")


@pytest.mark.slow
@pytest.mark.parametrize("language", ["en", "fa"])
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
async def test_axe_finds_nothing_in_any_panel(browser: Browser, dark: bool, language: str) -> None:
    async with window(browser, size=SCREEN, dark=dark) as shown:
        shown.exchange.world.add_user("علی", irr=5)
        await shown.page.run(f"localStorage.setItem('triobot-language', '{language}')")
        await shown.page.reload()
        await shown.page.has(".thread")
        shown.sends("Hello")
        buttons = InlineKeyboard(((CallbackButton("Yes", "yes"), PayButton("Pay", 5_000, "IRR")),))
        shown.sends("سلام", buttons=buttons)
        await shown.page.has(".row.theirs", times=2)
        # As under `triobot dev`, which shows all panels.
        await shown.page.run(f"void load('world.js').merge({{now: Date.now(), bot: {json.dumps(RUNS)}}})")
        found: list[str] = []
        for panel in PANELS:
            await shown.page.click(f".rail [data-panel={panel}]")
            await shown.page.has(f".rail .chosen[data-panel={panel}]")
            found += [f"{panel}: {one}" for one in await complaints(shown.page, "body")]
        assert found == []
