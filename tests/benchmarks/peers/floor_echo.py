"""The floor: Trio's streams and httptools, and nothing else. No framework, no limits, no timeouts, no store.

What a runtime on Trio costs above this is what it does; what is below this is another event loop.
As "httpx" the echoes go out by httpx's transport: the floor of who sends by it.
"""

import sys
from collections import deque
from functools import partial
from urllib.parse import parse_qs, urlencode, urlsplit

import httptools
import httpx
import trio

port, platform, secret, token, kind = sys.argv[1:6]
PATH = f"/{secret}".encode()
ADDRESS = urlsplit(platform)


class Message:
    """One message after the other, as httptools reads them."""

    def __init__(self, stream: trio.SocketStream, parser: type) -> None:
        self.stream = stream
        self.parser = parser(self)
        self.path = self.body = b""
        self.complete = False

    def on_url(self, url: bytes) -> None:
        self.path = url

    def on_body(self, data: bytes) -> None:
        self.body += data

    def on_message_complete(self) -> None:
        self.complete = True

    async def read(self) -> bytes | None:
        self.body, self.complete = b"", False
        while not self.complete:
            data = await self.stream.receive_some(65536)
            if not data:
                return None
            self.parser.feed_data(data)
        return self.body


class Sender:
    """Keeps connections to the platform, one request on each at a time."""

    def __init__(self) -> None:
        self.free: deque[Message] = deque()

    async def send(self, form: dict[str, str]) -> None:
        if not self.free:
            stream = await trio.open_tcp_stream(ADDRESS.hostname, ADDRESS.port)
            self.free.append(Message(stream, httptools.HttpResponseParser))
        line = self.free.popleft()
        body = urlencode(form).encode()
        await line.stream.send_all(
            b"POST /sendMessage HTTP/1.1\r\nHost: %s\r\ntoken: %s\r\nContent-Type: application/"
            b"x-www-form-urlencoded\r\nContent-Length: %d\r\n\r\n%s"
            % (ADDRESS.netloc.encode(), token.encode(), len(body), body)
        )
        await line.read()
        self.free.append(line)


class Stock:
    """Sends by httpx."""

    def __init__(self) -> None:
        # Without it twenty connections are kept, and the others are made anew for each request.
        limits = httpx.Limits(max_keepalive_connections=None)
        self.transport = httpx.AsyncHTTPTransport(limits=limits)

    async def send(self, form: dict[str, str]) -> None:
        url = f"{platform}/sendMessage"
        request = httpx.Request("POST", url, data=form, headers={"token": token})
        answer = await self.transport.handle_async_request(request)
        await answer.aread()
        await answer.aclose()


async def chat(events: trio.MemoryReceiveChannel[str], sender: Sender | Stock, chat_id: str) -> None:
    async for text in events:
        await sender.send({"chat_id": chat_id, "type": "text", "data": text})


async def serve(
    stream: trio.SocketStream, nursery: trio.Nursery, chats: dict, sender: Sender | Stock
) -> None:
    line = Message(stream, httptools.HttpRequestParser)
    while (body := await line.read()) is not None:
        if line.path != PATH:
            await stream.send_all(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n")
            continue
        await stream.send_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
        if kind == "silent":
            continue
        form = parse_qs(body.decode())
        (chat_id,), (text,) = form["chat_id"], form["data"]
        if chat_id not in chats:
            chats[chat_id], events = trio.open_memory_channel[str](16)
            nursery.start_soon(chat, events, sender, chat_id)
        await chats[chat_id].send(text)


async def main() -> None:
    async with trio.open_nursery() as nursery:
        sender = Stock() if kind == "httpx" else Sender()
        handler = partial(serve, nursery=nursery, chats={}, sender=sender)
        await trio.serve_tcp(handler, int(port), host="127.0.0.1")


trio.run(main)
