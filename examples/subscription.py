"""A subscription: paid by the month, with a reminder before each month ends, until the user stops it."""

import attrs

from triobot import Bot, Chat, Key, Paid
from triobot.errors import PaymentError
from triobot.filters import command, paid

DAY = 24 * 3600.0  # seconds
MONTH, EARLY = 30 * DAY, 3 * DAY
PRICE = 90_000  # rials

MONTHS = Key("months", int, default=0)
"""Paid months that are not over, with the present month."""

bot = Bot()


@attrs.frozen
class Month:
    """What is bought."""


@bot.conversation
async def subscribe(chat: Chat) -> None:
    if chat.data[MONTHS]:
        await chat.send("You are a member. /stop ends that.")
    else:
        await chat.charge(PRICE, "A month of news", item=Month(), options={"no": "Not now"})


@bot.aside(paid(Month))
async def deliver(chat: Chat[Paid[Month]]) -> None:
    """Add a paid month. Only this code adds months, and only once for each payment."""
    await chat.send("Thank you!" if chat.data[MONTHS] else "Welcome!")
    chat.data[MONTHS] += 1
    # An aside: a conversation that sleeps for weeks would keep the chat's messages waiting.
    await chat.start(membership, key="membership")


@bot.aside
async def membership(chat: Chat) -> None:
    """Wait for the end of a month, and then begin the next month if it is paid."""
    await chat.sleep(MONTH - EARLY)
    with chat.move_on_after(EARLY):  # until the month is over, whatever the answer is
        if chat.data[MONTHS] == 1 and await chat.choose(
            "Your month ends in three days. Another one?", {True: "Yes", False: "No"}
        ):
            try:
                await chat.charge(PRICE, "A month of news", item=Month())
            except PaymentError:
                await chat.send("A pity.")
        await chat.sleep(EARLY)
    chat.data[MONTHS] -= 1
    if not chat.data[MONTHS]:
        await chat.send("Your subscription is over.")
    if chat.data[MONTHS]:
        # Not a loop: `continue_as` drops the old month's records, so years cost no more than a month.
        await chat.continue_as(membership)


@bot.interrupt(command("stop"))
async def stop(chat: Chat) -> None:
    chat.data[MONTHS] = 0
    await chat.stop(membership)
    await chat.send("You won't hear from us any more.")


if __name__ == "__main__":
    bot.run()
