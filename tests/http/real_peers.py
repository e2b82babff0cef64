"""Servers that others wrote, for tests: hypercorn, aiohttp, and nginx in front of anything.

All of them offer the same small application, so that what they answer can be compared.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import hypercorn.trio
import pytest
import trio
from hypercorn.config import Config

from triobot.http.server_connection import Talk

LONG = 3_000_000
CHUNK = 50_000


def needs(program: str) -> pytest.MarkDecorator:
    """Skip without this program; CI installs them all."""
    return pytest.mark.skipif(shutil.which(program) is None, reason=f"{program} is not installed")


def long_body() -> bytes:
    return bytes(range(250)) * (LONG // 250)


async def application(scope: Any, receive: Any, send: Any) -> None:
    """What was asked is told as JSON; /long, /zipped, /none, /elsewhere, /slow and /last are as they say."""
    if scope["type"] == "lifespan":
        while (message := await receive())["type"] == "lifespan.startup":
            await send({"type": "lifespan.startup.complete"})
        await send({"type": message["type"] + ".complete"})
        return
    body = b""
    while True:
        message = await receive()
        body += message.get("body", b"")
        if not message.get("more_body"):
            break
    path = scope["path"]
    status, headers, answer = 200, [(b"content-type", b"application/json")], b""
    if path == "/none":
        status = 204
    elif path == "/elsewhere":
        status, headers = 307, [(b"location", b"/echo?moved=1")]
    elif path == "/zipped":
        headers.append((b"content-encoding", b"gzip"))
        answer = gzip.compress(long_body(), mtime=0)
    elif path == "/last":
        headers.append((b"connection", b"close"))
        answer = b'"the last"'
    elif path == "/slow":
        await trio.sleep(3600)
    elif path != "/long":
        told = dict(scope["headers"])
        shown = ("content-type", "x-forwarded-for", "content-length", "transfer-encoding", "x-twice")
        answer = json.dumps(
            {
                "method": scope["method"],
                "path": path,
                "query": scope["query_string"].decode(),
                "headers": {name: told[name.encode()].decode() for name in shown if name.encode() in told},
                "length": len(body),
                "digest": hashlib.sha256(body).hexdigest(),
            }
        ).encode()
    if path == "/long":
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        data = long_body()
        for begin in range(0, LONG, CHUNK):
            piece = data[begin : begin + CHUNK]
            await send({"type": "http.response.body", "body": piece, "more_body": True})
        await send({"type": "http.response.body", "body": b""})
        return
    if status != 204:
        headers.append((b"content-length", str(len(answer)).encode()))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": b"" if scope["method"] == "HEAD" else answer})


async def talked(talk: Talk) -> None:
    """The same application on our listener."""
    request, body = talk.request, b""
    while piece := await talk.read():
        body += piece
    path, _, query = request.target.partition(b"?")
    scope = {
        "type": "http",
        "method": request.method,
        "path": path.decode(),
        "query_string": query,
        "headers": request.headers,
    }
    head: list[Any] = []

    async def receive() -> Any:
        return {"body": body}

    async def send(message: Any) -> None:
        if message["type"] == "http.response.start":
            head[:] = message["status"], dict(message["headers"])
            return
        status, headers = head
        if headers.pop(b"content-length", None) or status == 204:
            close = headers.pop(b"connection", b"") == b"close"
            await talk.answer(status, headers.items(), message["body"], close=close)
            return
        await (talk.write if talk.status else partial(talk.begin, status, headers.items()))(message["body"])
        if not message.get("more_body"):
            await talk.end()

    await application(scope, receive, send)


@asynccontextmanager
async def on_hypercorn() -> AsyncGenerator[int]:
    config, stop = Config(), trio.Event()
    config.bind, config.errorlog, config.graceful_timeout = ["127.0.0.1:0"], None, 0.1
    async with trio.open_nursery() as nursery:
        serve = partial(hypercorn.trio.serve, application, config, shutdown_trigger=stop.wait, mode="asgi")  # type: ignore[arg-type]
        (address,) = await nursery.start(serve)
        yield int(address.rpartition(":")[2])
        stop.set()


NGINX = """
daemon off;
user root;
pid {folder}/nginx.pid;
error_log stderr error;
events {{ worker_connections 256; }}
http {{
    access_log off;
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
    client_max_body_size 2m;
    upstream behind {{ server {behind}; keepalive 4; }}
    server {{
        listen 127.0.0.1:{port}{tls};
        location / {{
            proxy_pass http://behind;
            proxy_http_version 1.1;
            proxy_set_header Connection "";
            proxy_set_header X-Forwarded-For $remote_addr;
            proxy_set_header X-Forwarded-Proto $scheme;
        }}
        location /unbuffered/ {{
            proxy_pass http://behind/;
            proxy_http_version 1.1;
            proxy_set_header Connection "";
            proxy_request_buffering off;
            proxy_buffering off;
        }}
        location /old/ {{ proxy_pass http://behind/; }}
    }}
}}
"""


@asynccontextmanager
async def nginx(behind: str, folder: Path, *, certificate: Path | None = None) -> AsyncGenerator[int]:
    """nginx as a proxy for an address, such as ``127.0.0.1:80`` or ``unix:/run/bot.sock``.

    It inherits its listening socket, as it does from an older nginx: no port has to be guessed.
    """
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
        tls = (
            ""
            if certificate is None
            else f" ssl; ssl_certificate {certificate}; ssl_certificate_key {certificate}"
        )
        text = NGINX.format(folder=folder, behind=behind, port=port, tls=tls)
        (folder / "nginx.conf").write_text(text)
        number = listening.fileno()
        command = ["nginx", "-p", str(folder), "-c", str(folder / "nginx.conf"), "-e", "stderr"]
        environment = {**os.environ, "NGINX": f"{number};"}
        async with trio.open_nursery() as nursery:
            run = partial(trio.run_process, command, pass_fds=[number], env=environment, check=False)
            await nursery.start(run)
            yield port
            nursery.cancel_scope.cancel()


AIOHTTP = """
import asyncio, gzip, hashlib, sys
from aiohttp import web

async def echo(request):
    body = await request.read()
    shown = ("content-type", "x-forwarded-for", "content-length", "transfer-encoding", "x-twice")
    headers = {name: request.headers[name] for name in shown if name in request.headers}
    return web.json_response({
        "method": request.method, "path": request.path, "query": request.rel_url.raw_query_string,
        "headers": headers,
        "length": len(body), "digest": hashlib.sha256(body).hexdigest(), "client": request.remote,
        "scheme": request.scheme,
    })

long_body = bytes(range(250)) * (int(sys.argv[1]) // 250)

async def long(request):
    response = web.StreamResponse()
    response.enable_chunked_encoding()
    await response.prepare(request)
    for begin in range(0, len(long_body), 50_000):
        await response.write(long_body[begin:begin + 50_000])
    await response.write_eof()
    return response

async def zipped(request):
    return web.Response(body=gzip.compress(long_body, mtime=0), headers={"Content-Encoding": "gzip"})

async def none(request):
    return web.Response(status=204)

async def elsewhere(request):
    await request.read()
    raise web.HTTPTemporaryRedirect("/echo?moved=1")

async def last(request):
    response = web.Response(text='"the last"')
    response.force_close()
    return response

async def slow(request):
    await asyncio.sleep(3600)
    return web.Response()

async def main():
    app = web.Application(client_max_size=2**26)
    for path, handler in (("/long", long), ("/zipped", zipped), ("/none", none), ("/elsewhere", elsewhere),
                          ("/last", last), ("/slow", slow), ("/{rest:.*}", echo)):
        app.router.add_route("*", path, handler)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    print(runner.addresses[0][1], flush=True)
    await asyncio.sleep(10**6)

asyncio.run(main())
"""


@asynccontextmanager
async def on_aiohttp() -> AsyncGenerator[int]:
    pytest.importorskip("aiohttp")
    command = [sys.executable, "-c", AIOHTTP, str(LONG)]
    async with trio.open_nursery() as nursery:
        process = await nursery.start(partial(trio.run_process, command, stdout=subprocess.PIPE, check=False))
        told = b""
        while not told.endswith(b"\n"):
            told += await process.stdout.receive_some(100)
        yield int(told)
        nursery.cancel_scope.cancel()
