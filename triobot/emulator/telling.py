"""A chat as lines of text: the messages, and the acts between messages. Pure.

The scripts of the emulator's page describe acts in the same words, in both of the page's languages.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Final

from ..wire.ids import SenderId
from ..wire.markup import Currency
from .chats import (
    Change,
    ChatMessage,
    Clicked,
    MembersChanged,
    MoneyMoved,
    PaymentFailed,
    PlatformChat,
    PressAnswered,
    Replayed,
    Submitted,
)
from .person import Seen, printable
from .views import view_entry
from .world import World

_MOVED: Final = {
    "paid": "{name} paid {amount}",
    "captured": "The bot took {amount}",
    "refunded": "{amount} went back to {name}",
    "topped_up": "{name} has {amount} more",
}


def line_words(world: World, line: Change) -> str:
    """Return the words for a change that a chat shows as a line; an empty text for changes of other kinds."""
    match line.what:
        case Clicked(user_id=user_id, label=label):
            return f"{_name(world, user_id)} pressed “{label}”"
        case Submitted(user_id=user_id, values=values):
            filled = " · ".join(value or "empty" for _, value in values)
            return f"{_name(world, user_id)} sent the form: {filled}"
        case PressAnswered(reply=reply) if reply.text:
            return f"Answered the press: “{reply.text}”"
        case MembersChanged(user_id=user_id, joined=joined):
            return f"{_name(world, user_id)} {'joined' if joined else 'left'}"
        case MoneyMoved() as moved:
            amount = amount_words(moved.amount, moved.currency)
            return _MOVED[moved.what].format(name=_name(world, moved.user_id), amount=amount)
        case PaymentFailed(user_id=user_id, code=code):
            return f"{_name(world, user_id)} could not pay: {code}"
        case Replayed():
            return "The new code was given these answers, and goes on"
        case _:
            return ""


def amount_words(amount: int, currency: Currency) -> str:
    return f"{amount:,} {'rials' if currency == 'IRR' else 'coin'}"


def describe_chat(world: World, chat: PlatformChat) -> Iterator[str]:
    """Yield the messages and acts of a chat as lines for a terminal, without control characters."""
    for one in _in_order(chat):
        if isinstance(one, Change):
            yield f"    \N{MIDDLE DOT} {printable(line_words(world, one))}"
        else:
            yield Seen.of(view_entry(one)).line()


def _in_order(chat: PlatformChat) -> Iterator[ChatMessage | Change]:
    lines = deque(chat.lines)
    for entry in chat.entries.values():
        while lines and lines[0].after is not None and lines[0].after < entry.id:
            yield lines.popleft()
        yield entry
    yield from lines


def _name(world: World, user_id: SenderId) -> str:
    return world.people.get(user_id).name
