"""A real browser, driven by Playwright: opens pages, evaluates, clicks, types, takes pictures.

Playwright awaits on asyncio, and the tests on Trio, as the emulator in their own process does. So the browser
has an event loop of its own, in a thread that anyio keeps; what a test awaits is awaited there, several
things at once if need be, and what is cancelled here is cancelled there. (Playwright's blocking interface
would need a thread as well, and could be told neither to stop nor two things at once.)

It is Debian's browser, or what else is installed, and none of Playwright's own, which is a download. The
headless shell draws the same pages without a window's frame around them, for three quarters of the CPU.
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

# Without it, the tests of the page are skipped; they must be read for that.
with suppress(ImportError):
    from playwright import async_api

ArgsT = ParamSpec("ArgsT")
ResultT = TypeVar("ResultT")

NAMES: Final = PROGRAMS["chromium-headless-shell"]
# Where Playwright has a patience of its own, it ends before this, and says more.
GIVEN_UP = 1.2 * PATIENCE
# Nothing is asserted of how a tab closes, and the browser does not always say that it has.
CLOSING: Final = 10.0
SCREEN: Final = (1280, 800)

# A browser draws the list below its address line as a page of its own, for each profile anew, and keeps a
# process ready for a page that is yet to come. Both cost more than most of the tests do.
OWN: Final = ("WebUIOmniboxPopup", "WebUIOmniboxAimPopup", "SpareRendererForSitePerProcess")
# What Playwright leaves out. Of two such flags the last one counts, so its names are here, too.
LEFT_OUT: Final = (
    *("AvoidUnnecessaryBeforeUnloadCheckSync", "DestroyProfileOnBrowserClose", "HttpsUpgrades"),
    *("HttpsFirstBalancedModeAutoEnable", "LensOverlay", "MediaRouter", "PaintHolding"),
    *("ThirdPartyStoragePartitioning", "AvoidCorsURLLoaderRestartOnRedirect", "OptimizationHints"),
    *("NetworkTimeServiceQuerying", "AimEnabled", "PreconnectToSearch"),
)
# Besides those that Playwright gives.
FLAGS: Final = (
    f"--disable-features={','.join((*LEFT_OUT, *OWN))}",
    "--disable-gpu",
    "--disable-quic",
    # Nothing but this machine can be reached, whatever a page tries.
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1, EXCLUDE localhost",
)


def find_browser() -> str | None:
    """The path of a Chromium, if one is installed."""
    return next((path for name in NAMES if (path := shutil.which(name))), None)


def what_is_missing() -> str | None:
    """Why no page can be opened here, or None."""
    if importlib.util.find_spec("playwright") is None:
        return "Playwright is not installed (the extra test)"
    return None if find_browser() else "no Chromium (Debian: apt-get install chromium-headless-shell)"


class PageError(AssertionError):
    """A script failed in the page, or what was waited for did not come."""


def _in_its_thread(
    work: Callable[Concatenate[Page, ArgsT], Awaitable[ResultT]],
) -> Callable[Concatenate[Page, ArgsT], Awaitable[ResultT]]:
    """Await a method where the browser's loop runs; what fails there says what the page shows meanwhile."""

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
    """One tab. What it logs as errors is in `errors`, and every address that it asked for in `requested`.

    Nothing of Playwright's may be touched outside of its thread, not even what needs no waiting.
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
        """What somebody has to know for whom the page does not do what it should."""
        shown = "nothing that could be read"
        with suppress(async_api.Error):
            shown = await self._tab.inner_text("body", timeout=5_000)
        return f"the page shows:\n{shown}\nits errors: {self.errors}"

    @_in_its_thread
    async def open(self, address: str) -> None:
        """Go somewhere."""
        await self._tab.goto(address)

    @_in_its_thread
    async def reload(self) -> None:
        """Load the same document once more."""
        await self._tab.reload()

    @_in_its_thread
    async def keep_time(self) -> None:
        """Prepare the next document for `pass_time`; time passes there as before."""
        await self._tab.clock.install()

    @_in_its_thread
    async def pass_time(self, seconds: float) -> None:
        """Run at once what is due within this time."""
        await self._tab.clock.fast_forward(round(1_000 * seconds))

    @_in_its_thread
    async def beside(self, address: str) -> Page:
        """One more tab of the same profile; it ends with that."""
        page = Page(self.browser, await self._tab.context.new_page())
        await page._tab.goto(address)
        return page

    @_in_its_thread
    async def end(self) -> None:
        """Close the profile, with all its tabs."""
        await self._tab.context.close()

    @_in_its_thread
    async def to_front(self) -> None:
        """Show this tab of the profile, and none of its others."""
        await self._tab.bring_to_front()

    @_in_its_thread
    async def run(self, script: str) -> Any:
        """Evaluate an expression in the page; a promise is waited for."""
        return await self._tab.evaluate(script)

    @_in_its_thread
    async def wait(self, condition: str, *, seconds: float = PATIENCE) -> None:
        """Wait until an expression is true, in this document or in the next one."""
        # A function is compiled once. An expression would be at each look, which the page's policy forbids.
        # And it is asked by the clock: a tab that lies behind others draws no frames that could be counted.
        await self._tab.wait_for_function(f"() => ({condition})", timeout=1_000 * seconds, polling=30)

    @_in_its_thread
    async def has(self, selector: str, *, times: int | None = None) -> None:
        """Wait until there is such an element, or until there are exactly so many."""
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
        """Wait until a text is to be seen."""
        found = self._tab.locator(within)
        await async_api.expect(found).to_contain_text([text], use_inner_text=True, timeout=1_000 * PATIENCE)

    @_in_its_thread
    async def click(self, selector: str, text: str = "", *, nth: int = -1) -> None:
        """Press with a real pointer what is to be seen and holds a text: the newest of them, or the `nth`."""
        await self._click(selector, text, nth)

    async def _click(self, selector: str, text: str, nth: int) -> None:
        found = self._tab.locator(selector).filter(visible=True)
        if text:
            # A plain text would be found in capitals and in small letters alike.
            found = found.filter(has_text=re.compile(re.escape(text)))
        await found.nth(nth).click()

    def _named(self, role: str, name: str, exact: bool) -> async_api.Locator:
        found = self._tab.get_by_role(cast(Any, role), name=name, exact=exact)
        return found.filter(visible=True)

    @_in_its_thread
    async def push(self, role: str, name: str, *, exact: bool = False) -> None:
        """Press what a person finds by what it is and by its name."""
        await self._named(role, name, exact).click()

    @_in_its_thread
    async def choose(self, name: str, label: str) -> None:
        """Choose of a list what a person reads there."""
        await self._named("combobox", name, True).select_option(label=label)

    @_in_its_thread
    async def finds(self, role: str, name: str, *, times: int | None = None, exact: bool = False) -> None:
        """Wait until a person finds this, or finds it so many times."""
        expected = async_api.expect(self._named(role, name, exact))
        if times is None:
            await expected.not_to_have_count(0, timeout=1_000 * PATIENCE)
        else:
            await expected.to_have_count(times, timeout=1_000 * PATIENCE)

    @_in_its_thread
    async def type(self, text: str, *, selector: str = "") -> None:
        """Write into what has the focus, or into what is named first."""
        if selector:
            await self._click(selector, "", 0)
        await self._tab.keyboard.insert_text(text)

    @_in_its_thread
    async def press(self, key: str) -> None:
        """Press a key such as Enter."""
        await self._tab.keyboard.press(key)

    @_in_its_thread
    async def choose_files(self, selector: str, *paths: Path) -> None:
        """Put files into a file field, as its dialog would."""
        await self._tab.set_input_files(selector, paths)

    @_in_its_thread
    async def resize(self, wide: int, high: int) -> None:
        """Make the window as large as this."""
        await self._tab.set_viewport_size({"width": wide, "height": high})

    @_in_its_thread
    async def picture(self, path: Path) -> None:
        """Save what is to be seen as a PNG."""
        await self._tab.screenshot(path=path)

    async def answers(self, addresses: str, answer: Callable[[str, str], tuple[int, str, str]]) -> None:
        """From now on, `answer(method, address)` answers for the server: status, type, and body."""

        async def told(asked: async_api.Route) -> None:
            status, kind, body = answer(asked.request.method, asked.request.url)
            await asked.fulfill(status=status, content_type=kind, body=body)

        await self.browser.there(self._tab.route, addresses, told)

    @asynccontextmanager
    async def refused(self, addresses: str) -> AsyncGenerator[None]:
        """While the block runs, nobody is there at addresses that look like this one."""
        await self.browser.there(self._tab.route, addresses, _refuse)
        yield
        await self.browser.there(self._tab.unroute, addresses, _refuse)


async def _refuse(asked: async_api.Route) -> None:
    await asked.abort("connectionrefused")


class Browser:
    """A running browser, from Trio."""

    def __init__(self, portal: BlockingPortal, inside: async_api.Browser) -> None:
        self._inside = inside
        self.there = portal.call_async

    @asynccontextmanager
    async def page(
        self, address: str, *, size: tuple[int, int] = SCREEN, dark: bool = False
    ) -> AsyncGenerator[Page]:
        """A tab while the block runs, with a profile of its own: it shares nothing with others.

        It is that of somebody with a screen of this size, in light or dark, who wants nothing to move.
        """
        page = await self.there(self._first_tab, size, dark)
        try:
            await page.open(address)
            yield page
        finally:
            # Not even for a test that is cancelled may it stay: the browser serves the others, too.
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
        # The sandbox is off, as Playwright has it: nothing but our own page is shown.
        browser = await playwright.chromium.launch(
            executable_path=find_browser(), args=FLAGS, timeout=1_000 * PATIENCE
        )
        try:
            yield browser
        finally:
            await browser.close()
