"""triobot's way out: the typed client. See `outbound`."""

import json
import resource
import sys
import time
from functools import partial

import trio

from triobot.client import PlatformClient
from triobot.wire.ids import ChatId
from triobot.wire.operations import SendMessage

platform, token = sys.argv[1:3]
MOST = 1_100


async def by_client(client: PlatformClient) -> None:
    await client.perform(SendMessage(ChatId(1000), "hello"))


async def main() -> None:
    # The pool's own limit is never met, and nothing idle is closed meanwhile.
    async with PlatformClient(platform, token, connections=MOST) as client:
        client._own._keep_seconds = 600
        post = partial(by_client, client)
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
