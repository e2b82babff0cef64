"""triobot's way out: the typed client, or the transport alone under httpx's requests. See `outbound`."""

import json
import resource
import sys
import time
from functools import partial
from urllib.parse import urlencode

import httpx
import trio

from triobot.client import PlatformClient
from triobot.http import TrioTransport
from triobot.wire.ids import ChatId
from triobot.wire.operations import SendMessage

platform, token, kind = sys.argv[1:4]
MOST = 1_100


async def by_client(client: PlatformClient) -> None:
    await client.perform(SendMessage(ChatId(1000), "hello"))


async def by_transport(transport: TrioTransport) -> None:
    body = urlencode({"chat_id": "1000", "type": "text", "data": "hello"}).encode()
    headers = {"token": token, "content-type": "application/x-www-form-urlencoded"}
    request = httpx.Request("POST", f"{platform}/sendMessage", headers=headers, content=body)
    response = await transport.handle_async_request(request)
    json.loads(await response.aread())
    await response.aclose()


async def main() -> None:
    # The pool's own limit is never met, and nothing idle is closed meanwhile.
    transport = TrioTransport(connections=MOST, idle_seconds=600)
    async with PlatformClient(platform, token, transport=transport, connections=MOST) as client:
        post = partial(by_client, client) if kind == "client" else partial(by_transport, transport)
        while line := await trio.to_thread.run_sync(sys.stdin.readline):
            connections, requests = map(int, line.split())
            print(json.dumps(await run(post, connections, requests)), flush=True)


async def run(post, connections: int, requests: int) -> dict[str, float]:
    took: list[float] = []
    left = requests

    async def caller() -> None:
        nonlocal left
        while left > 0:
            left -= 1
            began = time.perf_counter()
            await post()
            took.append(time.perf_counter() - began)

    used, began = time.process_time(), time.perf_counter()
    async with trio.open_nursery() as nursery:
        for _ in range(connections):
            nursery.start_soon(caller)
    used, wall = time.process_time() - used, time.perf_counter() - began
    took.sort()
    p50, p99 = took[len(took) // 2] * 1e3, took[int(len(took) * 0.99)] * 1e3
    return {"cpu": used / requests * 1e6, "rate": requests / wall, "p50": p50, "p99": p99}


resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
trio.run(main)
