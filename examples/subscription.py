"""A subscription: paid by the month, with a reminder before each month ends, for as long as it is wanted."""

from triobot import Bot, Chat, Key, Paid
from triobot.errors import PaymentError, PaymentHandedOverError
from triobot.filters import command

DAY = 24 * 3600.0  # seconds
MONTH, EARLY = 30 * DAY, 3 * DAY
PRICE = 90_000  # rials

MEMBER = Key("member", bool, default=False)

bot = Bot()


async def buy(chat: Chat) -> bool:
    try:
        no = {"no": "Not now"}
        # A month that is paid after the question has ended isn't wanted: it may have been asked again.
        paid = await chat.charge(PRICE, "A month of news", item="month", options=no, late="refund")
    except PaymentHandedOverError:  # an operator deals with it, as after a restored backup
        await chat.send("Your payment has arrived. We look into it, and write to you.")
        return False
    except PaymentError:  # declined, or not paid for a day
        return False
    if not isinstance(paid, Paid):
        return False
    await paid.settle()  # the month is theirs, however this conversation ends
    return True


@bot.conversation
async def subscribe(chat: Chat) -> None:
    if chat.data[MEMBER]:
        await chat.send("You are a member. /stop ends that.")
    elif await buy(chat):
        chat.data[MEMBER] = True
        # Beside the chat's conversations: one that sleeps for weeks would make it deaf.
        await chat.start(membership)
        await chat.send("Welcome!")


@bot.aside
async def membership(chat: Chat) -> None:
    """One month of it, and then the next."""
    await chat.sleep(MONTH - EARLY)
    renewed = False
    with chat.move_on_after(EARLY):  # until the month is over, whatever the answer is
        if await chat.choose("Your month ends in three days. Another one?", {True: "Yes", False: "No"}):
            renewed = await buy(chat)
            await chat.send("Thank you!" if renewed else "A pity.")
        await chat.sleep(EARLY)
    if renewed:
        # Not a loop: what was recorded of the old month is dropped, so years cost no more than a month.
        await chat.continue_as(membership)
    chat.data[MEMBER] = False
    await chat.send("Your subscription is over.")


@bot.interrupt(command("stop"))
async def stop(chat: Chat) -> None:
    chat.data[MEMBER] = False
    await chat.stop(membership)
    await chat.send("You won't hear from us any more.")


if __name__ == "__main__":
    bot.run()
