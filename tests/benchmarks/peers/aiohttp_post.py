"""aiohttp's way out. See `outbound`."""

import asyncio
import json
import resource
import sys
import time

import aiohttp

platform, token = sys.argv[1:3]


async def main() -> None:
    connector = aiohttp.TCPConnector(limit=0, keepalive_timeout=600)
    async with aiohttp.ClientSession(connector=connector) as session:

        async def post() -> None:
            form = {"chat_id": "1000", "type": "text", "data": "hello"}
            url = f"{platform}/sendMessage"
            async with session.post(url, data=form, headers={"token": token}) as answer:
                await answer.json()

        while line := await asyncio.to_thread(sys.stdin.readline):
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
    await asyncio.gather(*(caller() for _ in range(connections)))
    used, wall = time.process_time() - used, time.perf_counter() - began
    took.sort()
    p50, p99 = took[len(took) // 2] * 1e3, took[int(len(took) * 0.99)] * 1e3
    return {"cpu": used / requests * 1e6, "rate": requests / wall, "p50": p50, "p99": p99}


resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
asyncio.run(main())
