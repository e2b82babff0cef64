"""A bot inside an existing web site: one process and one port, started and stopped together.

When the warehouse posts that an order was shipped, the bot tells the customer in the chat. Three days later,
the bot asks whether the order has arrived. Run the site with `python examples/existing_app.py`, or
`hypercorn --worker-class trio existing_app:app` in this folder. The address to register is
`triobot webhook-url existing_app:bot --public-url https://HOST/bot`.
"""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import attrs
import trio
from quart_trio import QuartTrio

from triobot import Bot, Chat, ChatId
from triobot.filters import signal

DAY = 24 * 3600.0  # seconds

app = QuartTrio(__name__)
bot = Bot()
bot.mount(app, "/bot")


@attrs.frozen
class Shipped:
    order: int
    days: int


@attrs.define
class Orders:
    """Stands for the site's database."""

    chats: dict[int, ChatId] = attrs.field(factory=dict[int, ChatId])
    lost: list[int] = attrs.field(factory=list[int])

    async def follow(self, order: int, chat_id: ChatId) -> None:
        await trio.lowlevel.checkpoint()
        self.chats[order] = chat_id

    async def chat_of(self, order: int) -> ChatId | None:
        await trio.lowlevel.checkpoint()
        return self.chats.get(order)

    async def search(self, order: int) -> None:
        await trio.lowlevel.checkpoint()
        self.lost.append(order)


@bot.resource
@asynccontextmanager
async def orders() -> AsyncGenerator[Orders]:
    yield Orders()


@app.get("/")
async def index() -> str:
    return f"A shop whose bot follows {len(bot.use(orders).chats)} orders."


@app.post("/orders/<int:order>/shipped")  # put your own route behind a login
async def shipped(order: int) -> tuple[str, int]:
    chat_id = await bot.use(orders).chat_of(order)
    if chat_id is None:
        return "nobody follows this order", 404
    # The signal is stored when this call returns. A repeated post has the same key, and is dropped.
    await bot.to(chat_id).signal(Shipped(order, days=3), key=f"shipped-{order}")
    return "", 204


@bot.conversation
async def follow(chat: Chat) -> None:
    order = await chat.ask("The number of your order?", int)
    await chat.step(chat.use(orders).follow, order, chat.id)
    await chat.send(f"You will hear of order {order} here.")


@bot.aside(signal(Shipped))
async def parcel(chat: Chat[Shipped]) -> None:
    # An aside: a conversation that sleeps for days would keep the chat's messages waiting.
    order = chat.event.order
    await chat.send(f"Order {order} is on its way.")
    await chat.sleep(chat.event.days * DAY)
    if await chat.choose(f"Has order {order} arrived?", {True: "Yes", False: "No"}):
        await chat.send("Enjoy it!")
    else:
        await chat.step(chat.use(orders).search, order)
        await chat.send("We are looking for it.")


if __name__ == "__main__":
    app.run()
