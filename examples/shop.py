"""A shop: pages in one message, a search while they are shown, a cart, and a button that repeats an order."""

from collections.abc import Sequence
from enum import Enum, auto

import attrs
import trio

from triobot import Bot, Buttons, Chat, Message, Paid, Press
from triobot.filters import command, flooding, paid, pressed, text

PAGE = 3

bot = Bot()
bot.ignore(flooding(per_minute=120))


@attrs.frozen
class Item:
    id: int
    name: str
    price: int  # rials


ITEMS = tuple(
    Item(id, name, 10_000 * id)
    for id, name in enumerate(("Apples", "Bread", "Cheese", "Dates", "Eggs", "Figs", "Grapes"), 1)
)


class Go(Enum):
    BACK = auto()
    ON = auto()
    PAY = auto()


@attrs.frozen
class Repeat:
    """Value of a button that works as long as its message: the button contains the class and its fields."""

    items: tuple[int, ...]


def found(words: str) -> Sequence[Item]:
    return [item for item in ITEMS if words.casefold() in item.name.casefold()]


async def order(what: Repeat, key: str) -> None:
    """Have the order packed. Your code would call a service that recognizes a repeated `key`."""
    await trio.lowlevel.checkpoint()


async def pay(chat: Chat, cart: Sequence[Item]) -> None:
    names, price = ", ".join(item.name for item in cart), sum(item.price for item in cart)
    try:
        await chat.charge(price, names, item=Repeat(tuple(item.id for item in cart)))
    except trio.TooSlowError:  # a payment button lives for a day
        await chat.send("The offer has ended. Come back any time.")


@bot.conversation
async def shop(chat: Chat) -> None:
    items: Sequence[Item] = ITEMS
    cart: list[Item] = []
    first, shown = 0, await chat.send("One moment.")
    with chat.move_on_when(command("leave")) as left:
        while True:
            rows = Buttons({item.id: f"{item.name}, {item.price:,}" for item in items[first : first + PAGE]})
            turn = {Go.BACK: "«"} if first else {}
            turn |= {Go.ON: "»"} if first + PAGE < len(items) else {}
            end = {Go.PAY: f"Pay {sum(item.price for item in cart):,}"} if cart else {}
            title = f"{len(items)} items, page {first // PAGE + 1}; write to search. In the cart: {len(cart)}"
            # The next page replaces this page; a second click on a button can't answer the next page.
            keys = rows + Buttons(turn, columns=2) + Buttons(end)
            match await chat.choose(title, keys, also=text(), into=shown):
                case Go.BACK:
                    first -= PAGE
                case Go.ON:
                    first += PAGE
                case Go.PAY:
                    break
                case Message(content=words):
                    first, items = 0, found(words) or ITEMS
                case int(id):
                    cart.append(ITEMS[id - 1])
                    await chat.answer(f"{ITEMS[id - 1].name} is in the cart.")
        await chat.edit(shown, f"{len(cart)} items.")
        await pay(chat, cart)
    if left.cancelled_caught:
        await chat.send("Come back any time.")


@bot.aside(pressed(Repeat))
async def repeat(chat: Chat[Press[Repeat]]) -> None:
    await pay(chat, [ITEMS[id - 1] for id in chat.event.value.items])


@bot.aside(paid(Repeat))
async def deliver(chat: Chat[Paid[Repeat]]) -> None:
    """Deliver a paid order. Only this code delivers, whether a conversation waits or not."""
    bought = chat.event
    await chat.step(order, bought.item, bought.key)
    names = ", ".join(ITEMS[id - 1].name for id in bought.item.items)
    await chat.send(f"Thank you! On its way: {names}.", buttons=Buttons({bought.item: "The same again"}))


if __name__ == "__main__":
    bot.run()
