"""The same bots on what others wrote: for hypercorn to serve, and with httpx's own transport."""

from __future__ import annotations

import httpx

from tests.processes import bots, selling
from triobot import Bot, Router


def on_stock(routes: Router) -> Bot:
    made = Bot(transport=httpx.AsyncHTTPTransport())
    made.include(routes)
    return made


bot = on_stock(bots.bot)
single = on_stock(bots.single)
orders = on_stock(bots.orders)
shop = on_stock(selling.bot)
