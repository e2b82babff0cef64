"""hypercorn with a bare application, or with a route of quart-trio: reads the event, and answers 200."""

import sys

import trio
from hypercorn.config import Config
from hypercorn.trio import serve
from quart import Response, request
from quart_trio import QuartTrio

port, platform, secret, token, kind = sys.argv[1:]


async def bare(scope, receive, send):
    if scope["type"] == "lifespan":
        while True:
            asked = (await receive())["type"]
            await send({"type": f"{asked}.complete"})
            if asked == "lifespan.shutdown":
                return
    while (await receive()).get("more_body"):
        pass
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"0")]})
    await send({"type": "http.response.body", "body": b""})


site = QuartTrio("site", static_folder=None)


@site.post("/<path>")
async def take(path):
    await request.get_data()
    return Response(b"", 200)


config = Config()
config.bind, config.accesslog, config.errorlog = [f"127.0.0.1:{port}"], None, None
config.include_server_header = False
trio.run(serve, bare if kind == "bare" else site, config)
