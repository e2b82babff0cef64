"""One bot in two languages: each chat chooses once, and every button, form and hint follows."""

from collections.abc import Callable, Mapping
from enum import Enum, auto
from typing import Final

import attrs

from triobot import Bot, Chat, Data, Key, Keyboard, Texts, fold
from triobot.filters import command, text


class Language(Enum):
    ENGLISH = auto()
    PERSIAN = auto()


@attrs.frozen
class Guest:
    name: str
    children: int = 0


@attrs.frozen
class Words:
    """What the bot says in one language. A text with gaps is a function, so type checkers find wrong gaps."""

    runtime: Texts
    menu: str
    book: str
    language: str
    how_many: str
    too_many: Callable[[int], str]
    who: str
    labels: Mapping[str, str]
    booked: Callable[[int, Guest], str]


def persian_digits(number: int) -> str:
    return f"{number}".translate(str.maketrans("0123456789", "۰۱۲۳۴۵۶۷۸۹"))


ENGLISH: Final = Words(
    runtime=Texts.english(),
    menu="What can I do for you?",
    book="Book a table",
    language="فارسی",
    how_many="For how many?",
    too_many=lambda most: f"We have room for {most} at most.",
    who="Who is coming?",
    labels={"name": "Name", "children": "How many of them are children?"},
    booked=lambda seats, guest: f"A table for {seats}, {guest.name}. See you soon!",
)
PERSIAN: Final = Words(
    runtime=Texts.persian(),
    menu="چه کاری می‌توانم بکنم؟",
    book="رزرو میز",
    language="English",
    how_many="برای چند نفر؟",
    too_many=lambda most: f"حداکثر برای {persian_digits(most)} نفر جا داریم.",
    who="چه کسی می‌آید؟",
    labels={"name": "نام", "children": "چند نفر کودک هستند؟"},
    booked=lambda seats, guest: f"میز {persian_digits(seats)} نفره به نام {guest.name}. به امید دیدار!",
)
WORDS: Final = {Language.ENGLISH: ENGLISH, Language.PERSIAN: PERSIAN}
MOST: Final = 8

LANGUAGE: Final = Key("language", Language, default=Language.ENGLISH)


def runtime_words(data: Data) -> Texts:
    """Return triobot's own hints and apologies in the chat's language."""
    return WORDS[data[LANGUAGE]].runtime


bot = Bot(texts=runtime_words)


def menu(words: Words) -> Keyboard:
    # Users see the label, and the bot gets the key. So one filter serves all languages.
    return Keyboard({"/book": words.book, "/language": words.language}, once=False)


@bot.conversation(command("book"))
async def book(chat: Chat) -> None:
    words = WORDS[chat.data[LANGUAGE]]

    def seats(answer: str) -> int:
        # `fold` turns "۴" into "4".
        if not fold(answer).isdecimal():
            raise ValueError(words.runtime.want_number)
        if (number := int(fold(answer))) > MOST:
            raise ValueError(words.too_many(MOST))
        return number

    number = await chat.ask(words.how_many, seats)
    guest = await chat.fill(Guest, words.who, labels=words.labels)
    await chat.send(words.booked(number, guest), keyboard=menu(words))


@bot.interrupt(command("language") | text("english", "فارسی"))
async def switch(chat: Chat) -> None:
    persian = chat.data[LANGUAGE] is Language.PERSIAN
    chat.data[LANGUAGE] = Language.ENGLISH if persian else Language.PERSIAN
    words = WORDS[chat.data[LANGUAGE]]
    await chat.send(words.menu, keyboard=menu(words))


@bot.conversation
async def greet(chat: Chat) -> None:
    words = WORDS[chat.data[LANGUAGE]]
    await chat.send(words.menu, keyboard=menu(words))


if __name__ == "__main__":
    bot.run()
