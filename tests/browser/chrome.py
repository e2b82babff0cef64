"""A real browser, driven by Playwright: open pages, evaluate scripts, click, type, take pictures.

Playwright runs on asyncio; the tests and their emulator run on Trio. So Playwright has its own event loop in
a thread, by anyio. Each call of a test runs in that loop; several calls may run at the same time, and a
cancelled call is cancelled in the loop, too. (Playwright's blocking interface would need a thread as well,
but would allow neither cancellation nor two calls at the same time.)

The browser is Debian's, or another installed one; Playwright's own browsers would be a download. The headless
shell draws the same pages without a window frame, with three quarters of the CPU time.
"""

from __future__ import annotations

import importlib.util
import re
import shutil
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from contextlib import asynccontextmanager, contextmanager, suppress
from functools import partial, wraps
from pathlib import Path
from typing import Any, Concatenate, Final, ParamSpec, TypeVar, cast

import trio
from anyio.from_thread import BlockingPortal, start_blocking_portal

from tests.loopback import PATIENCE
from tests.programs import PROGRAMS

# Without Playwright, the page's tests are skipped; pytest must be able to import the tests for that.
with suppress(ImportError):
    from playwright import async_api

ArgsT = ParamSpec("ArgsT")
ResultT = TypeVar("ResultT")

NAMES: Final = PROGRAMS["chromium-headless-shell"]
# Longer than Playwright's own timeouts: their errors say more.
GIVEN_UP = 1.2 * PATIENCE
# Seconds to close a tab: the browser doesn't always report the end, and no test depends on the end.
CLOSING: Final = 10.0
SCREEN: Final = (1280, 800)

# The first two are pages that a browser draws below the address line for each profile. The third is a spare
# process for the next page. They cost more time than most of the tests.
OWN: Final = ("WebUIOmniboxPopup", "WebUIOmniboxAimPopup", "SpareRendererForSitePerProcess")
# The features that Playwright disables. A second --disable-features replaces the first, so repeat them here.
LEFT_OUT: Final = (
    *("AvoidUnnecessaryBeforeUnloadCheckSync", "DestroyProfileOnBrowserClose", "HttpsUpgrades"),
    *("HttpsFirstBalancedModeAutoEnable", "LensOverlay", "MediaRouter", "PaintHolding"),
    *("ThirdPartyStoragePartitioning", "AvoidCorsURLLoaderRestartOnRedirect", "OptimizationHints"),
    *("NetworkTimeServiceQuerying", "AimEnabled", "PreconnectToSearch"),
)
# Flags in addition to Playwright's own.
FLAGS: Final = (
    f"--disable-features={','.join((*LEFT_OUT, *OWN))}",
    "--disable-gpu",
    "--disable-quic",
    # A page can reach only this machine.
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1, EXCLUDE localhost",
)


def find_browser() -> str | None:
    """Return the path of an installed Chromium, or None."""
    return next((path for name in NAMES if (path := shutil.which(name))), None)


def what_is_missing() -> str | None:
    """Return why no page can be opened here, or None."""
    if importlib.util.find_spec("playwright") is None:
        return "Playwright is not installed (the extra test)"
    return None if find_browser() else "no Chromium (Debian: apt-get install chromium-headless-shell)"


class PageError(AssertionError):
    """A script of the page failed, or an expected change did not happen in time."""


def _in_its_thread(
    work: Callable[Concatenate[Page, ArgsT], Awaitable[ResultT]],
) -> Callable[Concatenate[Page, ArgsT], Awaitable[ResultT]]:
    """Run a method in the browser's event loop; add the page's text to an error."""

    async def told(page: Page, *args: ArgsT.args, **options: ArgsT.kwargs) -> ResultT:
        try:
            return await work(page, *args, **options)
        except (async_api.Error, AssertionError) as error:
            raise PageError(f"{error}\n{await page.told()}") from error

    @wraps(work)
    async def asked(page: Page, *args: ArgsT.args, **options: ArgsT.kwargs) -> ResultT:
        with trio.fail_after(GIVEN_UP):
            return await page.browser.there(partial(told, page, *args, **options))

    return asked


class Page:
    """One tab.

    Playwright's objects may be used in Playwright's thread only, even for calls that don't wait.

    Attributes:
        errors: errors that the page's scripts raised or logged.
        requested: all addresses that the page requested.
    """

    def __init__(self, browser: Browser, tab: async_api.Page) -> None:
        self.browser = browser
        self.errors: list[str] = []
        self.requested: list[str] = []
        self._tab = tab
        tab.on("pageerror", lambda error: self.errors.append(error.stack or error.message))
        tab.on("console", self._hear)
        tab.on("request", lambda request: self.requested.append(request.url))
        tab.on("websocket", lambda line: self.requested.append(line.url))

    def _hear(self, message: async_api.ConsoleMessage) -> None:
        if message.type == "error":
            self.errors.append(f"{message.text} {message.location['url']}")

    async def told(self) -> str:
        """Return the page's text and errors, for the message of a failed test."""
        shown = "nothing that could be read"
        with suppress(async_api.Error):
            shown = await self._tab.inner_text("body", timeout=5_000)
        return f"the page shows:\n{shown}\nits errors: {self.errors}"

    @_in_its_thread
    async def open(self, address: str) -> None:
        """Open an address in the tab."""
        await self._tab.goto(address)

    @_in_its_thread
    async def reload(self) -> None:
        """Load the document again."""
        await self._tab.reload()

    @_in_its_thread
    async def keep_time(self) -> None:
        """Prepare the next document for `pass_time`; until the first call, its time passes normally."""
        await self._tab.clock.install()

    @_in_its_thread
    async def pass_time(self, seconds: float) -> None:
        """Advance the page's clock: run the timers that are due within `seconds`."""
        await self._tab.clock.fast_forward(round(1_000 * seconds))

    @_in_its_thread
    async def beside(self, address: str) -> Page:
        """Open another tab of the same profile; `end` closes all tabs of a profile."""
        page = Page(self.browser, await self._tab.context.new_page())
        await page._tab.goto(address)
        return page

    @_in_its_thread
    async def end(self) -> None:
        """Close the tab's profile with all tabs."""
        await self._tab.context.close()

    @_in_its_thread
    async def to_front(self) -> None:
        """Show this tab in front of the profile's other tabs."""
        await self._tab.bring_to_front()

    @_in_its_thread
    async def run(self, script: str) -> Any:
        """Evaluate an expression in the page; wait for a promise."""
        return await self._tab.evaluate(script)

    @_in_its_thread
    async def wait(self, condition: str, *, seconds: float = PATIENCE) -> None:
        """Wait until an expression is true, in this document or in the next."""
        # A function is compiled once; an expression would be compiled at each check, which the page's policy
        # forbids. Poll by time: a tab behind other tabs draws no frames.
        await self._tab.wait_for_function(f"() => ({condition})", timeout=1_000 * seconds, polling=30)

    @_in_its_thread
    async def has(self, selector: str, *, times: int | None = None) -> None:
        """Wait until there is such an element, or until there are exactly `times`."""
        expected = async_api.expect(self._tab.locator(selector))
        if times is None:
            await expected.not_to_have_count(0, timeout=1_000 * PATIENCE)
        else:
            await expected.to_have_count(times, timeout=1_000 * PATIENCE)

    async def lacks(self, selector: str) -> None:
        """Wait until there is no such element."""
        await self.has(selector, times=0)

    @_in_its_thread
    async def sees(self, text: str, *, within: str = "body") -> None:
        """Wait until a text is visible."""
        found = self._tab.locator(within)
        await async_api.expect(found).to_contain_text([text], use_inner_text=True, timeout=1_000 * PATIENCE)

    @_in_its_thread
    async def click(self, selector: str, text: str = "", *, nth: int = -1) -> None:
        """Click a visible element that contains `text`: the last such element, or the `nth`."""
        await self._click(selector, text, nth)

    async def _click(self, selector: str, text: str, nth: int) -> None:
        found = self._tab.locator(selector).filter(visible=True)
        if text:
            # Playwright ignores the case of a plain text, but not of a pattern.
            found = found.filter(has_text=re.compile(re.escape(text)))
        await found.nth(nth).click()

    def _named(self, role: str, name: str, exact: bool) -> async_api.Locator:
        found = self._tab.get_by_role(cast(Any, role), name=name, exact=exact)
        return found.filter(visible=True)

    @_in_its_thread
    async def push(self, role: str, name: str, *, exact: bool = False) -> None:
        """Click the visible element with this ARIA role and accessible name."""
        await self._named(role, name, exact).click()

    @_in_its_thread
    async def choose(self, name: str, label: str) -> None:
        """Choose the option with this label from the menu `name`."""
        await self._named("combobox", name, True).select_option(label=label)

    @_in_its_thread
    async def finds(self, role: str, name: str, *, times: int | None = None, exact: bool = False) -> None:
        """Wait until an element with this role and name is visible, or exactly `times` elements."""
        expected = async_api.expect(self._named(role, name, exact))
        if times is None:
            await expected.not_to_have_count(0, timeout=1_000 * PATIENCE)
        else:
            await expected.to_have_count(times, timeout=1_000 * PATIENCE)

    @_in_its_thread
    async def type(self, text: str, *, selector: str = "") -> None:
        """Type a text into the focused element; with `selector`, click that element first."""
        if selector:
            await self._click(selector, "", 0)
        await self._tab.keyboard.insert_text(text)

    @_in_its_thread
    async def press(self, key: str) -> None:
        """Press a key such as Enter."""
        await self._tab.keyboard.press(key)

    @_in_its_thread
    async def choose_files(self, selector: str, *paths: Path) -> None:
        """Choose files in a file field, as by the browser's dialog."""
        await self._tab.set_input_files(selector, paths)

    @_in_its_thread
    async def resize(self, wide: int, high: int) -> None:
        """Set the size of the page's viewport in pixels."""
        await self._tab.set_viewport_size({"width": wide, "height": high})

    @_in_its_thread
    async def picture(self, path: Path) -> None:
        """Save a picture of the page as a PNG file."""
        await self._tab.screenshot(path=path)

    async def answers(self, addresses: str, answer: Callable[[str, str], tuple[int, str, str]]) -> None:
        """Answer requests for `addresses`: `answer(method, address)` returns status, type and body."""

        async def told(asked: async_api.Route) -> None:
            status, kind, body = answer(asked.request.method, asked.request.url)
            await asked.fulfill(status=status, content_type=kind, body=body)

        await self.browser.there(self._tab.route, addresses, told)

    @asynccontextmanager
    async def refused(self, addresses: str) -> AsyncGenerator[None]:
        """Refuse the connections of requests for `addresses` while the block runs."""
        await self.browser.there(self._tab.route, addresses, _refuse)
        yield
        await self.browser.there(self._tab.unroute, addresses, _refuse)


async def _refuse(asked: async_api.Route) -> None:
    await asked.abort("connectionrefused")


class Browser:
    """A running browser; its methods are called from Trio."""

    def __init__(self, portal: BlockingPortal, inside: async_api.Browser) -> None:
        self._inside = inside
        self.there = portal.call_async

    @asynccontextmanager
    async def page(
        self, address: str, *, size: tuple[int, int] = SCREEN, dark: bool = False
    ) -> AsyncGenerator[Page]:
        """Open a tab with a profile of its own while the block runs; the tab prefers reduced motion.

        Args:
            size: width and height of the viewport in pixels.
            dark: whether the tab prefers dark colours.
        """
        page = await self.there(self._first_tab, size, dark)
        try:
            await page.open(address)
            yield page
        finally:
            # Shielded: a cancelled test must close its tab, too, since other tests use the browser.
            with trio.move_on_after(CLOSING, shield=True):
                await page.end()

    async def _first_tab(self, size: tuple[int, int], dark: bool) -> Page:
        width, height = size
        context = await self._inside.new_context(
            viewport={"width": width, "height": height},
            color_scheme="dark" if dark else "light",
            reduced_motion="reduce",
        )
        context.set_default_timeout(1_000 * PATIENCE)
        return Page(self, await context.new_page())


@contextmanager
def running_browser() -> Generator[Browser]:
    """Run a browser while the block runs."""
    with (
        start_blocking_portal("asyncio", name="browser") as portal,
        portal.wrap_async_context_manager(_launched()) as inside,
    ):
        yield Browser(portal, inside)


@asynccontextmanager
async def _launched() -> AsyncGenerator[async_api.Browser]:
    async with async_api.async_playwright() as playwright:
        # Playwright switches the sandbox off by default; the tests show only the project's own page.
        browser = await playwright.chromium.launch(
            executable_path=find_browser(), args=FLAGS, timeout=1_000 * PATIENCE
        )
        try:
            yield browser
        finally:
            await browser.close()
