"""aiohttp alone, in and out: no framework. It answers 200 first, then sends; or it only answers."""

import asyncio
import sys

import aiohttp
from aiohttp import web

port, platform, secret, token, kind = sys.argv[1:6]
tasks: set[asyncio.Task[None]] = set()


async def send(session: aiohttp.ClientSession, chat: str, text: str) -> None:
    form = {"chat_id": chat, "type": "text", "data": text}
    async with session.post(f"{platform}/sendMessage", data=form, headers={"token": token}) as answer:
        await answer.json()


async def take(request: web.Request) -> web.Response:
    form = await request.post()
    if kind != "silent":
        task = asyncio.create_task(send(request.app[SESSION], form["chat_id"], form["data"]))
        tasks.add(task)
        task.add_done_callback(tasks.discard)
    return web.Response()


async def session_of(app: web.Application):
    async with aiohttp.ClientSession() as session:
        app[SESSION] = session
        yield


SESSION = web.AppKey("session", aiohttp.ClientSession)
app = web.Application()
app.router.add_post(f"/{secret}", take)
app.cleanup_ctx.append(session_of)
web.run_app(app, host="127.0.0.1", port=int(port), print=None, access_log=None)
