"""How long a message takes into a busy page: ``python -m tests.benchmarks.page``.

A chat of 5,000 messages is open, and beside it the panel of 10,000 requests: as a page draws them, the newest
ones of each, and then with somebody who has gone back to the first, so that all of them are drawn. Measured
is the time from the bot's message to the picture after its bubble, with its request in the panel; it holds
the 20 ms that the stream waits for company. And how long a page takes to open upon all that, and to look
through it.
"""

from __future__ import annotations

import statistics
import sys
import time
from pathlib import Path
from typing import Final

import trio

sys.path.insert(0, str(Path(__file__).parents[1] / "browser"))

from chrome import Browser, running_browser
from window import Window, window

MESSAGES: Final = 5_000
REQUESTS: Final = 10_000
ROUNDS: Final = 30

# Ends with the picture that is painted after the text has come.
_DRAWN: Final = """
window.drawn = new Promise((done) => {
  const list = document.querySelector(".messages");
  const seen = new MutationObserver(() => {
    if (!list.lastElementChild?.innerText.includes(TEXT)) return;
    seen.disconnect();
    requestAnimationFrame(() => setTimeout(() => done(Date.now())));
  });
  seen.observe(list, { childList: true, subtree: true });
});
1
"""


# One step further back, and ends with its picture.
_BACK: Final = """
new Promise((done) => {
  const list = document.querySelector(".messages");
  const many = list.childElementCount;
  document.querySelector(".scroller").scrollTop = 0;
  list.querySelector(".older").click();
  const look = () => (list.childElementCount > many ? done(1) : requestAnimationFrame(look));
  look();
})
"""


_CLEARED: Final = """
((words) => { words.value = ""; words.dispatchEvent(new Event("input")); })(
  document.querySelector(".filters input"),
)
"""


def ask(shown: Window, body: bytes) -> None:
    """Let a request pass through the panel."""
    traffic, kind = shown.exchange.traffic, "application/x-www-form-urlencoded"
    call = traffic.begin("operation", "sendMessage", shown.exchange.clock.now(), content_type=kind, body=body)
    traffic.end(call, 0.001, 200, b'{"id":1}')


async def fill(shown: Window) -> None:
    """Let everything happen of which the page is to be full."""
    for number in range(MESSAGES):
        shown.sends(f"message {number} of many")
        if number % 100 == 99:
            shown.exchange.tell()
            await trio.sleep(0.05)
    for number in range(REQUESTS):
        # Not the very first: each round takes the place of the oldest.
        word = b"needle" if number == 3 * ROUNDS else b"hello"
        ask(shown, b"chat_id=1&type=text&data=" + word)
        if number % 100 == 99:
            shown.exchange.tell()
            await trio.sleep(0.05)
    await shown.page.sees(f"message {MESSAGES - 1}", within=".bubble")
    await trio.sleep(2)


async def rounds(shown: Window, called: str) -> str:
    """Send so many messages, each with its request; a row of the table."""
    page = shown.page
    took: list[float] = []
    for number in range(ROUNDS):
        text = f"{called}: round {number} begins"
        await page.run(_DRAWN.replace("TEXT", repr(text)))
        began = time.time() * 1_000
        shown.sends(text)
        ask(shown, b"data=round")
        shown.exchange.tell()
        took.append(float(await page.run("window.drawn")) - began)
        await trio.sleep(0.05)
    there = await page.run("import('/page/world.js').then(({world}) => world.calls.size)")
    rows = await page.run("document.querySelectorAll('.call').length")
    bubbles = await page.run("document.querySelectorAll('.row').length")
    return (
        f"{called}: a message shows after {statistics.median(took):.0f} ms (median),"
        f" {max(took):.0f} ms (longest) of {ROUNDS}; {there:,} requests in the page, {rows:,} drawn;"
        f" {bubbles:,} messages drawn"
    )


async def measure(browser: Browser) -> None:
    """Print a line of each kind."""
    async with window(browser) as shown:
        page = shown.page
        await page.click(".rail .tab", "Requests")
        await fill(shown)
        print(await rounds(shown, "a page that was open all the time"))

        began = time.time()
        await page.reload()
        await page.wait("document.querySelectorAll('.call').length >= 200")
        print(f"a page that opens shows all that after {1_000 * (time.time() - began):.0f} ms")
        began = time.time()
        await page.type("needle", selector=".filters input")
        await page.wait("document.querySelectorAll('.call').length === 1")
        print(f"one of the oldest requests is found after {1_000 * (time.time() - began):.0f} ms")
        await page.run(_CLEARED)
        for _ in range(REQUESTS // 200):
            await page.run("document.querySelector('.calls .older:not([hidden])')?.click()")
        print(await rounds(shown, "all requests drawn"))
        while await page.run("Boolean(document.querySelector('.messages .older'))"):
            await page.run(_BACK)
        print(await rounds(shown, "and read back to the first message"))


def main() -> None:
    """Measure, and print."""
    with running_browser() as browser:
        trio.run(measure, browser)


if __name__ == "__main__":
    main()
