"""Chats as the app shows them (messages, keyboards, forms, typing), and the changes of chats."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from operator import attrgetter
from typing import ClassVar, Final, Literal, TypeAlias, TypeVar, final

import attrs

from ..base.frozen import guarded
from ..wire.content import Content
from ..wire.forms import Form
from ..wire.ids import CallbackId, ChatId, GroupName, MessageId, SenderId
from ..wire.markup import Currency, InlineButton, InlineKeyboard, Key, ReplyKeyboard

Pairs: TypeAlias = tuple[tuple[str, str], ...]
ButtonT = TypeVar("ButtonT")

_TEXT: Final[Callable[[InlineButton], str]] = attrgetter("text")
_LABEL: Final[Callable[[Key], str]] = attrgetter("label")

# A chat keeps this many of its newest messages, presses and lines, so that an emulator needs little memory
# even after a week of load tests. A dropped message counts as a message that never existed.
HISTORY: Final = 5_000


@final
@guarded
class ChatMessage:
    """One message of a chat. An edit replaces the message by a new object with the same id.

    Attributes:
        author: the person who wrote the message, or None for the bot.
        edited_at: time of the last change of content; a change of the keyboard is no edit.
        submitted: how often the message's form was sent.
        filled: each person's last values of the message's form.
    """

    id: MessageId
    author: SenderId | None
    content: Content = attrs.field(repr=False)
    at: int
    reply_keyboard: ReplyKeyboard | None = None
    inline_keyboard: InlineKeyboard | None = None
    form: Form | None = None
    edited_at: int | None = None
    deleted: bool = False
    submitted: int = 0
    filled: tuple[tuple[SenderId, Pairs], ...] = attrs.field(default=(), repr=False)

    def rows(self) -> Sequence[Sequence[InlineButton]]:
        return () if self.inline_keyboard is None or self.deleted else self.inline_keyboard.rows

    def buttons(self) -> Iterator[InlineButton]:
        """Yield the visible inline buttons, row by row."""
        for row in self.rows():
            yield from row


@final
@guarded
class Pick:
    """Selection of a button or key: by label, and also by position if several have the same label.

    Attributes:
        row, column: position in the keyboard, from 0; None: any.
        nth: index among the matching buttons and keys, from 0, row by row.
    """

    label: str = attrs.field(repr=False)
    row: int | None = None
    column: int | None = None
    nth: int = 0

    def of(self, rows: Sequence[Sequence[ButtonT]], label_of: Callable[[ButtonT], str]) -> ButtonT | None:
        """Return the selected button or key of these rows; None if none matches."""
        meant = [
            button
            for row, buttons in enumerate(rows)
            for column, button in enumerate(buttons)
            if label_of(button) == self.label and self.row in (None, row) and self.column in (None, column)
        ]
        return meant[self.nth] if self.nth < len(meant) else None


@final
@guarded
class PressReply:
    """The bot's answer to a press, as the person sees it."""

    callback_id: CallbackId
    text: str = attrs.field(repr=False)
    alert: bool
    at: int


@final
@attrs.define
class Pressed:
    """A press of a button. The button shows a waiting indicator until `reply` is set."""

    callback_id: CallbackId
    by: SenderId
    message_id: MessageId
    at: int
    reply: PressReply | None = None


@final
@attrs.define(eq=False)
class PlatformChat:
    """A private chat with the bot, or a group with the bot.

    Attributes:
        name: a group's name with its at sign; None for a private chat.
        members: people in the chat; a private chat has one or none.
        reply_keyboard: the keyboard shown now.
        typing_until: time until which the typing indicator shows.
        lines: changes that the chat shows as lines between the messages (see `Change.after`).
    """

    id: ChatId
    name: GroupName | None
    members: set[SenderId] = attrs.field(factory=set[SenderId])
    entries: dict[MessageId, ChatMessage] = attrs.field(factory=dict[MessageId, ChatMessage], repr=False)
    pressed: dict[CallbackId, Pressed] = attrs.field(factory=dict[CallbackId, Pressed], repr=False)
    reply_keyboard: ReplyKeyboard | None = None
    typing_until: int = 0
    lines: deque[Change] = attrs.field(factory=lambda: deque["Change"](maxlen=HISTORY), repr=False)

    def put(self, entry: ChatMessage) -> None:
        """Add or replace a message."""
        self.entries[entry.id] = entry
        if len(self.entries) > HISTORY:
            del self.entries[next(iter(self.entries))]

    def press(self, pressed: Pressed) -> None:
        """Add a press that waits for its answer."""
        self.pressed[pressed.callback_id] = pressed
        if len(self.pressed) > HISTORY:
            del self.pressed[next(iter(self.pressed))]

    def in_sight(self) -> Iterator[ChatMessage]:
        """Yield the messages that are not deleted, newest first."""
        return (entry for entry in reversed(self.entries.values()) if not entry.deleted)

    def is_typing(self, now: int) -> bool:
        return now < self.typing_until

    def button(
        self, pick: Pick, message_id: MessageId | None = None
    ) -> tuple[ChatMessage, InlineButton] | None:
        """Return the newest visible button that `pick` selects, with its message; None if none matches."""
        for entry in self.in_sight():
            if message_id in (None, entry.id) and (button := pick.of(entry.rows(), _TEXT)) is not None:
                return entry, button
        return None

    def labels(self) -> Iterator[str]:
        """Yield the labels of the keys, then of the visible inline buttons, newest message first."""
        rows = self.reply_keyboard.rows if self.reply_keyboard is not None else ()
        yield from (key.label for row in rows for key in row)
        yield from (button.text for entry in self.in_sight() for button in entry.buttons())

    def key(self, pick: Pick) -> Key | None:
        """Return the key of the current reply keyboard that `pick` selects."""
        return None if self.reply_keyboard is None else pick.of(self.reply_keyboard.rows, _LABEL)


# --- the changes that people see in a chat: a closed union


@final
@guarded
class Shown:
    """A new message of the bot or of a person."""

    kind: ClassVar[str] = "message"
    chat_id: ChatId
    entry: ChatMessage


@final
@guarded
class Edited:
    """A message changed. `anew`: whether the content changed, not only the keyboard or the form's values."""

    kind: ClassVar[str] = "edit"
    chat_id: ChatId
    entry: ChatMessage
    anew: bool


@final
@guarded
class Deleted:
    """A message was deleted."""

    kind: ClassVar[str] = "delete"
    chat_id: ChatId
    message_id: MessageId


@final
@guarded
class TypingSeen:
    """The bot is typing: the typing indicator is shown until the time `until`."""

    kind: ClassVar[str] = "typing"
    chat_id: ChatId
    until: int


@final
@guarded
class Clicked:
    """The person pressed a button with data; the press waits for the bot's answer."""

    kind: ClassVar[str] = "press"
    chat_id: ChatId
    user_id: SenderId
    message_id: MessageId
    callback_id: CallbackId
    label: str = attrs.field(repr=False)


@final
@guarded
class Submitted:
    """The person filled in and sent a form."""

    kind: ClassVar[str] = "form"
    chat_id: ChatId
    user_id: SenderId
    message_id: MessageId
    callback_id: CallbackId | None
    values: Pairs = attrs.field(repr=False)


@final
@guarded
class PressAnswered:
    """The bot answered a press of this person."""

    kind: ClassVar[str] = "answer"
    chat_id: ChatId
    user_id: SenderId
    reply: PressReply


@final
@guarded
class MembersChanged:
    """The person joined or left."""

    chat_id: ChatId
    user_id: SenderId
    joined: bool

    @property
    def kind(self) -> str:
        return "join" if self.joined else "leave"


@final
@guarded
class MoneyMoved:
    """The person's money moved.

    `paid`: left the wallet; `captured`: went to the bot; `refunded`, `topped_up`: entered the wallet.
    """

    kind: ClassVar[str] = "money"
    chat_id: ChatId
    user_id: SenderId
    what: Literal["paid", "captured", "refunded", "topped_up"]
    currency: Currency
    amount: int
    bill: str = ""


@final
@guarded
class PaymentFailed:
    """The person failed to pay; `code` is the platform's reason."""

    kind: ClassVar[str] = "payment_failed"
    chat_id: ChatId
    user_id: SenderId
    bill: str
    code: int


@final
@guarded
class InvoiceShown:
    """An invoice appeared in the wallet page of the chat's people."""

    kind: ClassVar[str] = "invoice"
    chat_id: ChatId
    invoice_id: str


@final
@guarded
class ChargeRequested:
    """The bot asked the person to top up the wallet (outside the interface)."""

    kind: ClassVar[str] = "charge_request"
    chat_id: ChatId
    text: str = attrs.field(repr=False)


@final
@guarded
class Replayed:
    """New code received the chat's recorded answers, and continues the conversation."""

    kind: ClassVar[str] = "replayed"
    chat_id: ChatId


Consequence: TypeAlias = (
    Shown
    | Edited
    | Deleted
    | TypingSeen
    | Clicked
    | Submitted
    | PressAnswered
    | MembersChanged
    | MoneyMoved
    | PaymentFailed
    | InvoiceShown
    | ChargeRequested
    | Replayed
)


@final
@guarded
class Change:
    """An entry of the world's log: a change of a chat, with the entry's number and time.

    Attributes:
        what: the change.
        after: id of the message after which the chat shows the change as a line; None if the change gets no
            line.
    """

    seq: int
    at: int
    what: Consequence
    after: MessageId | None = None


def is_line(what: Consequence) -> bool:
    """Whether the chat shows the change `what` as a separate line between messages."""
    match what:
        case PressAnswered(reply=reply):
            return bool(reply.text)
        case MoneyMoved(what=moved):
            return moved != "topped_up"
        case _:
            return isinstance(what, Clicked | Submitted | MembersChanged | PaymentFailed | Replayed)
