"""A clinic: a calendar, a booking, a reminder the day before, and a waiting list for several chats.

The bot has no database. Each day is a room, whose key is the date. The room stores who has which hour, and
offers each freed hour to the waiting people, one after the other.
"""

from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from zoneinfo import ZoneInfo

from triobot import Bot, Buttons, Chat, ChatId, Key, Press, Room
from triobot.filters import Filter, command, join, pressed, signal
from triobot.widgets import calendar, confirm

bot = Bot()
TEHRAN = ZoneInfo("Asia/Tehran")
HOURS = (9, 10, 11)
HALF_AN_HOUR = 30 * 60


@dataclass(frozen=True)
class Booking:
    day: date
    hour: int

    @property
    def at(self) -> datetime:
        return datetime.combine(self.day, time(self.hour), TEHRAN)

    def __str__(self) -> str:
        return f"{self.day.day} {self.day:%B}, {self.hour}:00"


@dataclass(frozen=True)
class Cancel:
    booking: Booking


@dataclass(frozen=True)
class Freed:
    booking: Booking
    by: ChatId


@dataclass(frozen=True)
class Answer:
    who: ChatId
    takes: bool


TAKEN = Key("taken", dict[int, ChatId], default={})  # in a day's room: who has which hour
WAITING = Key("waiting", tuple[ChatId, ...], default=())  # in a day's room: the oldest first


# Changes of a day's data: pure functions of the old value.


def hand(taken: dict[int, ChatId], hour: int, before: ChatId | None, after: ChatId) -> dict[int, ChatId]:
    return {**taken, hour: after} if taken.get(hour) == before else taken


def put_last(waiting: tuple[ChatId, ...], who: ChatId) -> tuple[ChatId, ...]:
    return waiting if who in waiting else (*waiting, who)


# --- a day


def answer_of(who: ChatId) -> Filter[Answer]:
    return signal(Answer).where(lambda answer: answer.who == who)


@bot.room(signal(Freed))
async def day(room: Room[Freed]) -> None:
    """Offer a freed hour to the waiting people in turn. Meanwhile, the next freed hour waits."""
    booking, before = room.event.booking, room.event.by
    if room.data[TAKEN].get(booking.hour) != before:  # the button was pressed twice
        return
    while waiting := room.data[WAITING]:
        who, room.data[WAITING] = waiting[0], waiting[1:]
        offered = str(room.uuid())
        await room.to(who).start(offer, booking, key=offered)
        with room.move_on_after(HALF_AN_HOUR) as late:
            answer = await room.receive(answer_of(who))
            if answer.takes:
                room.data[TAKEN] = hand(room.data[TAKEN], booking.hour, before, who)
                await room.to(who).start(booked, booking, key=offered)
                return
        if late.cancelled_caught:
            await room.to(who).stop(offer, key=offered)
            await room.to(who).send("Too late, it goes to the next one.")
    room.data[TAKEN] = {hour: who for hour, who in room.data[TAKEN].items() if hour != booking.hour}


# --- a person's chat


@bot.conversation(join() | command("start", "book"))
async def book(chat: Chat) -> None:
    today = chat.now(TEHRAN).date()
    first, last = today + timedelta(days=1), today + timedelta(days=60)
    while True:
        which = await calendar(chat, "Which day?", first=first, last=last)
        diary = chat.to(day, which.isoformat())
        taken = await diary.get(TAKEN)
        free = {hour: f"{hour}:00" for hour in HOURS if hour not in taken}
        if not free:
            if await confirm(chat, "That day is full. Shall I tell you if an hour gets free?"):
                await diary.update(WAITING, put_last, chat.id)
                await chat.send("You are on the waiting list.")
                return
            continue
        booking = Booking(which, await chat.choose("When?", free))
        if (await diary.update(TAKEN, hand, booking.hour, None, chat.id))[booking.hour] == chat.id:
            await booked(chat, booking)
            return
        await chat.send("Somebody was faster.")


@bot.aside
async def booked(chat: Chat, booking: Booking) -> None:
    await chat.start(remind, booking, key=str(booking))
    await chat.send(f"Booked: {booking}.", buttons=Buttons({Cancel(booking): "Cancel it"}))


@bot.aside
async def remind(chat: Chat, booking: Booking) -> None:
    await chat.sleep_until(booking.at - timedelta(days=1))
    await chat.send(f"Tomorrow: {booking}.", buttons=Buttons({Cancel(booking): "Cancel it"}))


@bot.aside(pressed(Cancel))
async def cancel(chat: Chat[Press[Cancel]]) -> None:
    booking = chat.event.value.booking
    await chat.to(day, booking.day.isoformat()).signal(Freed(booking, chat.id))
    await chat.stop(remind, key=str(booking))
    await chat.send("Cancelled.")


@bot.aside
async def offer(chat: Chat, booking: Booking) -> None:
    """Ask the person, and send the answer to the day's room, which ignores late answers."""
    takes = await confirm(chat, f"{booking} got free. Do you take it?")
    await chat.to(day, booking.day.isoformat()).signal(Answer(chat.id, takes))


if __name__ == "__main__":
    bot.run()
