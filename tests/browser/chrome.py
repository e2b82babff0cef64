"""A real browser over the DevTools protocol: opens pages, evaluates, clicks, takes pictures.

Small on purpose: Trio and wsproto are here anyway, and a driver of one's own needs no version to match the
browser's.
"""

from __future__ import annotations

import base64
import itertools
import json
import shutil
import subprocess
import time
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import trio
import wsproto
from wsproto.events import AcceptConnection, CloseConnection, Ping, Request, TextMessage

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
# A machine that does other work as well takes its time.
PATIENCE, STARTING = 30.0, 30.0

# The browser's own words for a script whose document went away under it.
NAVIGATED = "Inspected target navigated or closed"

FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--mute-audio",
    "--use-fake-device-for-media-stream",
    "--use-fake-ui-for-media-stream",
    "--remote-debugging-port=0",
    # Nothing but this machine can be reached, whatever a page tries.
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1, EXCLUDE localhost",
)


def find_browser() -> str | None:
    """The path of a Chromium, if one is installed."""
    return next((path for name in NAMES if (path := shutil.which(name))), None)


class PageError(AssertionError):
    """A script failed in the page, or what was waited for did not come."""


class NavigatedError(PageError):
    """The document was replaced by another one before it answered; nobody knows what the script did."""


class Page:
    """One tab. What it logs as errors is in `errors`, and every address that it asked for in `requested`."""

    def __init__(self, browser: Browser, session: str, context: str) -> None:
        self._browser = browser
        self._session = session
        self.context = context
        self.errors: list[str] = []
        self.requested: list[str] = []

    async def call(self, method: str, **params: Any) -> dict[str, Any]:
        """One command of the protocol."""
        return await self._browser.call(method, session=self._session, **params)

    def hear(self, method: str, params: dict[str, Any]) -> None:
        """Take in an event of the protocol."""
        if method == "Runtime.exceptionThrown":
            details = params["exceptionDetails"]
            self.errors.append(details.get("exception", {}).get("description") or details["text"])
        elif method == "Log.entryAdded" and params["entry"]["level"] == "error":
            self.errors.append(f"{params['entry']['text']} {params['entry'].get('url', '')}")
        elif method == "Network.requestWillBeSent":
            self.requested.append(params["request"]["url"])

    async def open(self, address: str) -> None:
        """Go somewhere."""
        await self.call("Page.navigate", url=address)

    async def run(self, script: str) -> Any:
        """Evaluate an expression in the page; a promise is waited for."""
        answer = await self.call(
            "Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True, userGesture=True
        )
        if "exceptionDetails" in answer:
            details = answer["exceptionDetails"]
            raise PageError(details.get("exception", {}).get("description") or details["text"])
        return answer["result"].get("value")

    async def wait(self, condition: str, *, seconds: float = PATIENCE) -> Any:
        """Wait until an expression is true; returns its value."""
        with trio.move_on_after(seconds):
            # An element itself would come back as an empty object.
            script = f"(async (found) => ((found = await found) instanceof Node ? true : found))({condition})"
            while True:
                # A page that loads anew takes the question with it: it is put to the next document.
                with suppress(NavigatedError):
                    if value := await self.run(script):
                        return value
                await trio.sleep(0.03)
        shown = await self.run("document.body.innerText")
        raise PageError(f"never true: {condition}\nthe page shows:\n{shown}\nerrors: {self.errors}")

    async def sees(self, text: str, *, within: str = "body") -> None:
        """Wait until a text is to be seen."""
        await self.wait(
            f"[...document.querySelectorAll({json.dumps(within)})]"
            f".some((one) => one.innerText.includes({json.dumps(text)}))"
        )

    async def click(self, selector: str, text: str = "", *, nth: int = -1) -> None:
        """Press with a real pointer what is to be seen and holds a text: the newest of them, or the `nth`."""
        found = (
            f"[...document.querySelectorAll({json.dumps(selector)})].filter((one) => one.offsetParent && "
            f"one.innerText.includes({json.dumps(text)})).at({nth})"
        )
        await self.wait(f"Boolean({found})")
        # Where it is, once it stands still there and nothing lies over it: a page that has just changed may
        # still be moving, and a person would wait, too.
        box = await self.wait(
            "(async (one) => { if (!one) return false;"
            " one.scrollIntoView({block: 'nearest', behavior: 'instant'});"
            " const at = () => { const box = one.getBoundingClientRect();"
            " return [box.x + box.width / 2, box.y + box.height / 2]; };"
            " const before = at(); await new Promise((next) => setTimeout(next, 40)); const now = at();"
            " const there = document.elementFromPoint(...now);"
            " return String(before) === String(now) && there !== null && one.contains(there) ? now : false;"
            f" }})({found})"
        )
        x, y = box
        for kind in ("mousePressed", "mouseReleased"):
            await self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    async def type(self, text: str, *, selector: str = "") -> None:
        """Write into what has the focus, or into what is named first."""
        if selector:
            await self.click(selector, nth=0)
        await self.call("Input.insertText", text=text)

    async def press(self, key: str) -> None:
        """Press a key such as Enter."""
        code = {"Enter": 13, "Escape": 27, "Tab": 9, "ArrowUp": 38, "ArrowDown": 40}[key]
        for kind in ("keyDown", "keyUp"):
            text = {"text": "\r"} if key == "Enter" and kind == "keyDown" else {}
            await self.call(
                "Input.dispatchKeyEvent", type=kind, key=key, code=key, windowsVirtualKeyCode=code, **text
            )

    async def choose_files(self, selector: str, *paths: Path) -> None:
        """Put files into a file field, as its dialog would."""
        document = await self.call("DOM.getDocument")
        node = await self.call("DOM.querySelector", nodeId=document["root"]["nodeId"], selector=selector)
        await self.call("DOM.setFileInputFiles", files=[str(path) for path in paths], nodeId=node["nodeId"])

    async def resize(self, width: int, height: int, *, dark: bool = False, scale: float = 1) -> None:
        """Be a screen of this size, in light or dark, and of somebody who wants nothing to move."""
        await self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=scale,
            mobile=False,
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        still = {"name": "prefers-reduced-motion", "value": "reduce"}
        await self.call("Emulation.setEmulatedMedia", features=[scheme, still])

    async def picture(self, path: Path) -> None:
        """Save what is to be seen as a PNG."""
        answer = await self.call("Page.captureScreenshot", format="png")
        await trio.Path(path).write_bytes(base64.b64decode(answer["data"]))


class Browser:
    """A running browser, by its one WebSocket."""

    def __init__(self, stream: trio.SocketStream, address: str) -> None:
        parts = urlsplit(address)
        self._stream = stream
        self._socket = wsproto.WSConnection(wsproto.ConnectionType.CLIENT)
        self._hello = Request(host=parts.netloc, target=parts.path)
        self._numbers = itertools.count(1)
        self._answers: dict[int, trio.MemorySendChannel[dict[str, Any]]] = {}
        self._pages: dict[str, Page] = {}
        self._lock = trio.Lock()
        self._open = trio.Event()

    async def run(self) -> None:
        """Hear the browser, until it ends."""
        await self._send(self._hello)
        text = ""
        while data := await self._stream.receive_some(1 << 16):
            self._socket.receive_data(data)
            for event in self._socket.events():
                match event:
                    case AcceptConnection():
                        self._open.set()
                    case TextMessage(data=piece, message_finished=done):
                        text += piece
                        if done:
                            self._take(json.loads(text))
                            text = ""
                    case Ping():
                        await self._send(event.response())
                    case CloseConnection():
                        return
                    case _:
                        pass

    def _take(self, message: dict[str, Any]) -> None:
        if (answer := self._answers.pop(message.get("id", 0), None)) is not None:
            answer.send_nowait(message)
        elif (page := self._pages.get(message.get("sessionId", ""))) is not None:
            page.hear(message["method"], message["params"])

    async def _send(self, event: Any) -> None:
        async with self._lock:
            await self._stream.send_all(self._socket.send(event))

    async def call(self, method: str, *, session: str = "", **params: Any) -> dict[str, Any]:
        """One command; waits for its answer."""
        await self._open.wait()
        number = next(self._numbers)
        send, receive = trio.open_memory_channel[dict[str, Any]](1)
        self._answers[number] = send
        command: dict[str, Any] = {"id": number, "method": method, "params": params}
        if session:
            command["sessionId"] = session
        await self._send(TextMessage(data=json.dumps(command)))
        with trio.fail_after(PATIENCE):
            answer = await receive.receive()
        if "error" in answer:
            message = answer["error"]["message"]
            raise (NavigatedError if message == NAVIGATED else PageError)(f"{method}: {message}")
        return dict(answer["result"])

    @asynccontextmanager
    async def page(self, address: str = "about:blank") -> AsyncGenerator[Page]:
        """A tab while the block runs, with a profile of its own: it shares nothing with others."""
        made = await self.call("Target.createBrowserContext", disposeOnDetach=True)
        page = await self.tab(made["browserContextId"], address)
        yield page
        await self.call("Target.disposeBrowserContext", browserContextId=page.context)

    async def tab(self, context: str, address: str) -> Page:
        """One more tab of a profile; it ends with that."""
        target = await self.call("Target.createTarget", url="about:blank", browserContextId=context)
        attached = await self.call("Target.attachToTarget", targetId=target["targetId"], flatten=True)
        page = self._pages[attached["sessionId"]] = Page(self, attached["sessionId"], context)
        for domain in ("Page", "Runtime", "Log", "Network"):
            await page.call(f"{domain}.enable")
        await page.resize(1280, 800)
        await page.open(address)
        return page


@contextmanager
def running_browser(folder: Path) -> Generator[str]:
    """Run a browser while the block runs, with its profile in `folder`; yields where to reach it."""
    path = find_browser()
    assert path is not None
    command = [path, *FLAGS, f"--user-data-dir={folder}", "about:blank"]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield _address(process, folder / "DevToolsActivePort")
    finally:
        process.terminate()
        try:
            process.wait(5)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _address(process: subprocess.Popen[bytes], file: Path) -> str:
    deadline = time.monotonic() + STARTING
    while process.poll() is None and time.monotonic() < deadline:
        if file.exists() and (text := file.read_text().strip()).count("\n") == 1:
            port, _, place = text.partition("\n")
            return f"ws://127.0.0.1:{port}{place}"
        time.sleep(0.02)
    raise PageError(f"the browser did not start: {process.poll()}")


@asynccontextmanager
async def connect_browser(address: str) -> AsyncGenerator[Browser]:
    """Reach a running browser while the block runs."""
    port = urlsplit(address).port
    assert port is not None
    stream = await trio.open_tcp_stream("127.0.0.1", port)
    async with stream, trio.open_nursery() as nursery:
        browser = Browser(stream, address)
        nursery.start_soon(browser.run)
        yield browser
        nursery.cancel_scope.cancel()
