"""Look, mend, again, keep, as a film of the real page: ``python -m tests.docs.film`` records it anew.

It needs the browser of the page's tests, and Pillow. Pictures are taken where something has changed, and each
stands for as long as a reader needs.
"""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Final

import trio
from PIL import Image

from tests.browser.chrome import Browser, Page, running_browser
from tests.loopback import PATIENCE

ROOT: Final = Path(__file__).parents[2]
FILM: Final = ROOT / "docs" / "images" / "film.webp"
_SIZE: Final = (1200, 750)

_BOT: Final = """\
from triobot import Bot, Chat

bot = Bot()


@bot.conversation
async def order(chat: Chat) -> None:
    name = await chat.ask("Your name?")
    n = await chat.ask("How many pizzas?", int)
    price, old_price = 50, 100
    total = n * old_price
    await chat.send(f"{name}, {n} cost {total}.")
    await chat.send("Thanks.")
"""
_WRONG: Final = "n * old_price"
_RIGHT: Final = "n * price"

_CAPTION: Final = """((words) => {
  const line = document.querySelector('#film') ?? document.body.appendChild(document.createElement('pre'));
  line.id = 'film';
  line.textContent = words;
  Object.assign(line.style, {
    position: 'fixed', left: '50%', bottom: '28%', transform: 'translateX(-50%)', zIndex: 99, margin: 0,
    padding: '14px 26px', borderRadius: '12px', background: '#0f172a', color: '#e2e8f0',
    font: '600 22px ui-monospace, monospace', whiteSpace: 'pre', display: words ? 'block' : 'none',
  });
})"""


class Camera:
    """Takes pictures of a page, each with its milliseconds."""

    def __init__(self, page: Page, folder: Path) -> None:
        self.page, self.folder = page, folder
        self.taken: list[tuple[Path, int]] = []

    async def take(self, ms: int) -> None:
        """Take a picture that stands for `ms`."""
        path = self.folder / f"{len(self.taken)}.png"
        await self.page.picture(path)
        self.taken.append((path, ms))

    async def caption(self, words: str) -> None:
        """Say what comes."""
        await self.page.run(f"{_CAPTION}({json.dumps(words)})")

    async def title(self, words: str) -> None:
        """Show a caption for a second."""
        await self.caption(words)
        await self.take(1100)
        await self.caption("")

    async def types(self, text: str) -> None:
        """Type and send."""
        for letter in text:
            await self.page.type(letter, selector=".compose")
            await self.take(140)
        await self.page.press("Enter")


@asynccontextmanager
async def _developing(browser: Browser, folder: Path) -> AsyncGenerator[Page]:
    (folder / "pizza.py").write_text(_BOT, encoding="utf-8")
    command = [sys.executable, "-m", "triobot", "dev", "pizza.py:bot", "--port", "0"]
    log = folder / "log"
    with log.open("wb") as file:
        process = subprocess.Popen(
            command, cwd=folder, env={"PYTHONPATH": str(ROOT), "HOME": str(folder)}, stdout=file, stderr=file
        )
    try:
        with trio.fail_after(PATIENCE):
            while (found := re.search(r"http://\S+/#\S+", log.read_text())) is None:
                await trio.sleep(0.05)
        async with browser.page(found[0]) as page:
            await page.click(".join")
            yield page
        process.send_signal(signal.SIGINT)
        await trio.to_thread.run_sync(partial(process.wait, timeout=PATIENCE))
    finally:
        process.kill()
        process.wait()


async def record(browser: Browser, folder: Path) -> list[tuple[Path, int]]:
    """Act the story on the page."""
    async with _developing(browser, folder) as page:
        camera = Camera(page, folder)
        newest = ".row.theirs:nth-last-child(1) .bubble"
        await page.sees("Your name?", within=newest)
        await camera.take(700)
        await camera.types("Sara")
        await page.sees("How many pizzas?", within=newest)
        await camera.take(500)
        await camera.types("4")
        await page.sees("Thanks.", within=newest)
        await camera.take(1400)
        await camera.title("look")
        await page.click("main [title^='Go through what happened']")
        await page.sees("total", within=".variables")
        await camera.take(900)
        for key in ("ArrowLeft", "ArrowLeft", "ArrowRight"):
            await page.press(key)
            await trio.sleep(0.3)
            await camera.take(650)
        await page.press("End")
        await trio.sleep(0.3)
        await camera.take(1200)
        await camera.title("mend")
        await camera.caption(f"-    total = {_WRONG}\n+    total = {_RIGHT}")
        await camera.take(1500)
        (folder / "pizza.py").write_text(_BOT.replace(_WRONG, _RIGHT), encoding="utf-8")
        await page.sees("this conversation would go otherwise now", within=".travel-banner")
        await camera.caption("")
        await camera.take(1000)
        await camera.title("again")
        await page.click(".travel-banner button")
        await page.sees("All answers were given.")
        await camera.take(2600)
        await camera.title("keep")
        await page.push("button", "Keep as a test: The same answers for the new code")
        await page.sees("tests/test_order_1.py", within=".kept-test .well")
        await camera.take(2600)
        return camera.taken


def main() -> None:
    """Record and save."""
    with tempfile.TemporaryDirectory() as folder, running_browser() as browser:
        taken = trio.run(record, browser, Path(folder))
        frames = [
            Image.open(path).convert("RGB").resize(_SIZE, Image.Resampling.LANCZOS) for path, _ in taken
        ]
        durations = [ms for _, ms in taken]
        frames[0].save(
            FILM, save_all=True, append_images=frames[1:], duration=durations, loop=0, quality=60, method=6
        )
    seconds = sum(durations) / 1000
    print(f"wrote {FILM.name}: {len(frames)} pictures, {seconds:.0f} s, {FILM.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
