"""Chats as the app shows them: messages, keyboards, forms, typing; and what changes in them."""

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

# A chat keeps this many of its newest messages and answers: an emulator left running for a week of load
# tests stays small. What has scrolled out is treated like a message that never was.
HISTORY: Final = 5_000


@final
@guarded
class ChatMessage:
    """One message of a chat; edits make a new entry under the same id.

    Attributes:
        author: the person who wrote it, or None for the bot.
        edited_at: when its content was last changed; a keyboard that comes or goes is no edit to people.
        submitted: how often its form was sent.
        filled: what each person sent last with its form.
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
        """Return the rows of inline buttons in sight."""
        return () if self.inline_keyboard is None or self.deleted else self.inline_keyboard.rows

    def buttons(self) -> Iterator[InlineButton]:
        """Yield the inline buttons in sight, row by row."""
        for row in self.rows():
            yield from row


@final
@guarded
class Pick:
    """Which button or key is meant: by its label, and where several have it by their place.

    Attributes:
        row, column: where it stands in its keyboard, from 0; None: anywhere.
        nth: which of those that are left, from 0, row by row.
    """

    label: str = attrs.field(repr=False)
    row: int | None = None
    column: int | None = None
    nth: int = 0

    def of(self, rows: Sequence[Sequence[ButtonT]], label_of: Callable[[ButtonT], str]) -> ButtonT | None:
        """Return what is meant of these rows."""
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
    """A press whose button shows a waiting mark until `reply` is there."""

    callback_id: CallbackId
    by: SenderId
    message_id: MessageId
    at: int
    reply: PressReply | None = None


@final
@attrs.define(eq=False)
class PlatformChat:
    """A private chat with the bot, or a group that the bot is in.

    Attributes:
        name: a group's name with its at sign; None for a private chat.
        members: who is in it; a private chat has one or none.
        reply_keyboard: the keys shown now.
        typing_until: the typing indicator shows before this moment.
        lines: what stands between its messages: see `Change.after`.
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
        """Show a new or a changed message."""
        self.entries[entry.id] = entry
        if len(self.entries) > HISTORY:
            del self.entries[next(iter(self.entries))]

    def press(self, pressed: Pressed) -> None:
        """Remember a press that waits for its answer."""
        self.pressed[pressed.callback_id] = pressed
        if len(self.pressed) > HISTORY:
            del self.pressed[next(iter(self.pressed))]

    def in_sight(self) -> Iterator[ChatMessage]:
        """Yield the messages that are not deleted, newest first."""
        return (entry for entry in reversed(self.entries.values()) if not entry.deleted)

    def is_typing(self, now: int) -> bool:
        """Return whether the typing indicator shows at this moment."""
        return now < self.typing_until

    def button(
        self, pick: Pick, message_id: MessageId | None = None
    ) -> tuple[ChatMessage, InlineButton] | None:
        """Find the button that is meant under the newest message that has it, or under one message."""
        for entry in self.in_sight():
            if message_id in (None, entry.id) and (button := pick.of(entry.rows(), _TEXT)) is not None:
                return entry, button
        return None

    def labels(self) -> Iterator[str]:
        """Yield the labels that can be pressed: the keys, then the inline buttons in sight, newest first."""
        rows = self.reply_keyboard.rows if self.reply_keyboard is not None else ()
        yield from (key.label for row in rows for key in row)
        yield from (button.text for entry in self.in_sight() for button in entry.buttons())

    def key(self, pick: Pick) -> Key | None:
        """Find the key that is meant on the reply keyboard that is shown."""
        return None if self.reply_keyboard is None else pick.of(self.reply_keyboard.rows, _LABEL)


# --- what changed, as people can see it: a closed union, kept as a log with growing numbers


@final
@guarded
class Shown:
    """A new message, the bot's or a person's."""

    kind: ClassVar[str] = "message"
    chat_id: ChatId
    entry: ChatMessage


@final
@guarded
class Edited:
    """A message changed; `anew` when its content did, not its keyboard alone."""

    kind: ClassVar[str] = "edit"
    chat_id: ChatId
    entry: ChatMessage
    anew: bool


@final
@guarded
class Deleted:
    """A message is gone."""

    kind: ClassVar[str] = "delete"
    chat_id: ChatId
    message_id: MessageId


@final
@guarded
class TypingSeen:
    """The typing indicator shows until this moment."""

    kind: ClassVar[str] = "typing"
    chat_id: ChatId
    until: int


@final
@guarded
class Clicked:
    """This person pressed a button with data, which waits for its answer from here on."""

    kind: ClassVar[str] = "press"
    chat_id: ChatId
    user_id: SenderId
    message_id: MessageId
    callback_id: CallbackId
    label: str = attrs.field(repr=False)


@final
@guarded
class Submitted:
    """This person filled in a form, and sent it."""

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
    """This person joined or left."""

    chat_id: ChatId
    user_id: SenderId
    joined: bool

    @property
    def kind(self) -> str:
        """Return what the person did."""
        return "join" if self.joined else "leave"


@final
@guarded
class MoneyMoved:
    """Money of this person: `paid` left the wallet, `captured` is the bot's, `refunded` came back."""

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
    """This person tried to pay; `code` is the platform's reason."""

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
    """The bot asked the person to top up (outside the interface)."""

    kind: ClassVar[str] = "charge_request"
    chat_id: ChatId
    text: str = attrs.field(repr=False)


@final
@guarded
class Replayed:
    """New code was given the answers of this chat, and goes on in it."""

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
    """A consequence with its place in the world's log and its moment.

    Attributes:
        after: of one that stands in its chat as a line between messages: behind which it stands; else None.
    """

    seq: int
    at: int
    what: Consequence
    after: MessageId | None = None


def is_line(what: Consequence) -> bool:
    """Return whether this stands in its chat as a line, as no message shows it."""
    match what:
        case PressAnswered(reply=reply):
            return bool(reply.text)
        case MoneyMoved(what=moved):
            return moved != "topped_up"
        case _:
            return isinstance(what, Clicked | Submitted | MembersChanged | PaymentFailed | Replayed)
