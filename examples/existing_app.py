"""A bot inside a web site that is there already: one process, one port, one life.

Run it with `python examples/existing_app.py`, or `hypercorn --worker-class trio existing_app:app` in this
folder. The address to register is `triobot webhook-url existing_app:bot --public-url https://HOST/bot`.
"""

from quart_trio import QuartTrio

from triobot import Bot, Chat

app = QuartTrio(__name__)
bot = Bot()
bot.mount(app, "/bot")

customers: dict[str, int] = {}


@app.get("/")
async def index() -> str:
    return f"A shop whose bot knows {len(customers)} customers."


@app.post("/orders/<customer>/shipped")  # yours belongs behind a login
async def shipped(customer: str) -> tuple[str, int]:
    if customer not in customers:
        return "nobody of this name", 404
    await bot.chat(customers[customer]).send("Your order is on its way.")
    return "", 204


@bot.conversation
async def register(chat: Chat) -> None:
    name = await chat.ask("Under which name do you order?")
    customers[name] = chat.id
    await chat.send(f"We will write to you here, {name}.")


if __name__ == "__main__":
    app.run()
