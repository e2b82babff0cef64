"""What a random person does next, from what is on the screen. Pure: chance comes in as a `random.Random`."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import Final, TypeAlias, final

import attrs

from ..emulator.chats import ChatMessage, PlatformChat
from ..wire.content import Contact, Content, Image, Location
from ..wire.forms import Checkbox, Form, Radio, Select, Submit
from ..wire.markup import CallbackButton, PayButton

_WORDS: Final = (
    "hi",
    "yes",
    "no",
    "2",
    "17",
    "۱۲",
    "Sara",
    "سلام",
    "/start",
    "/help",
    "/cancel",
    "back",
    "a@example.com",
    "09120000000",
    "x" * 300,
    "می‌خواهم",
    "😀",
)
# A picture of one pixel.
_PIXEL: Final = bytes.fromhex(
    "89504e470d0a1a0a0000000d49484452000000010000000108060000001f15c489"
    "0000000d49444154789c6360f8cfc000000301010018dd8db00000000049454e44ae426082"
)
# Most people get through; the rest meet one of the interface's codes (section 2.4).
_CODES: Final = (None, None, None, None, 1000, 1001, 1002, 1003, 1004)
_LOOKS_BACK: Final = 3


@final
@attrs.frozen
class Say:
    """Write or send this."""

    content: Content = attrs.field(repr=False)


@final
@attrs.frozen
class PressLabel:
    """Press the button or key of this label, so many times."""

    label: str = attrs.field(repr=False)
    times: int = 1


@final
@attrs.frozen
class Fill:
    """Fill in the newest form."""

    values: Mapping[str, str] = attrs.field(repr=False)


@final
@attrs.frozen
class Pay:
    """Pay by the button of this label, or the newest invoice; with a code, it goes wrong."""

    label: str | None
    code: int | None = None
    taken: bool = False


@final
@attrs.frozen
class LeaveChat:
    """Leave, and come back later."""


Impulse: TypeAlias = Say | PressLabel | Fill | Pay | LeaveChat


def impulse(
    chat: PlatformChat, chance: random.Random, *, invoice: bool = False, words: Sequence[str] = ()
) -> Impulse:
    """Choose what a person does who looks at this chat.

    Args:
        invoice: there is one that could be paid.
        words: what the bot waits for, such as its commands: half of what is written is one of them.
    """
    if chance.random() < 0.02:
        return LeaveChat()
    if invoice and chance.random() < 0.5:
        return _paid(None, chance)
    entries = [
        entry for entry in list(chat.entries.values())[-20:] if entry.author is None and not entry.deleted
    ]
    offered = [entry for entry in entries if entry.form is not None or any(entry.buttons())]
    if offered and chance.random() < 0.8:
        # Mostly the newest; sometimes a button that ought to be gone.
        entry = offered[-1] if chance.random() < 0.9 else chance.choice(offered[-_LOOKS_BACK:])
        if (wanted := _answer(entry, chance)) is not None:
            return wanted
    if chat.reply_keyboard is not None and chance.random() < 0.8:
        keys = [key.label for row in chat.reply_keyboard.rows for key in row]
        if keys:
            return PressLabel(chance.choice(keys))
    if words and chance.random() < 0.5:
        return Say(chance.choice(words))
    return Say(_content(chance))


def _answer(entry: ChatMessage, chance: random.Random) -> Impulse | None:
    buttons = list(entry.buttons())
    if entry.form is not None and (not buttons or chance.random() < 0.5):
        return Fill(_filled(entry.form, chance))
    button = chance.choice(buttons) if buttons else None
    match button:
        case CallbackButton(text=text):
            return PressLabel(text, times=2 if chance.random() < 0.1 else 1)
        case PayButton(text=text):
            return _paid(text, chance)
        case _:
            return None


def _paid(label: str | None, chance: random.Random) -> Pay:
    code = chance.choice(_CODES)
    # After these codes nobody knows, not even the person, whether the money went.
    return Pay(label, code, taken=code in (1001, 1004) and chance.random() < 0.3)


def _filled(form: Form, chance: random.Random) -> Mapping[str, str]:
    values: dict[str, str] = {}
    for field in form.fields:
        match field:
            case Submit():
                pass
            case Radio(options=options) | Select(options=options):
                if options and chance.random() < 0.9:
                    values[field.name] = chance.choice(options)[0]
            case Checkbox():
                values[field.name] = chance.choice(("", "true"))
            case _:
                values[field.name] = chance.choice(_WORDS)
    return values


def _content(chance: random.Random) -> Content:
    what = chance.random()
    if what < 0.85:
        return chance.choice(_WORDS)
    if what < 0.9:
        return Location("35.7", "51.4")
    if what < 0.95:
        return Contact("+989120000000", "Reza")
    return Image.from_bytes(_PIXEL, "me.png")
