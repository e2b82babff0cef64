"""What changed in the world, as people can see it: a closed union, kept as a log with growing numbers."""

from __future__ import annotations

from typing import Literal, TypeAlias, final

import attrs

from ..wire.ids import CallbackId, ChatId, MessageId, SenderId
from ..wire.markup import Currency
from .chats import ChatMessage, PressReply


@final
@attrs.frozen
class Shown:
    """A new message, the bot's or a person's."""

    chat_id: ChatId
    entry: ChatMessage


@final
@attrs.frozen
class Edited:
    """A message changed; `anew` when its content did, not its keyboard alone."""

    chat_id: ChatId
    entry: ChatMessage
    anew: bool


@final
@attrs.frozen
class Deleted:
    """A message is gone."""

    chat_id: ChatId
    message_id: MessageId


@final
@attrs.frozen
class TypingSeen:
    """The typing indicator shows until this moment."""

    chat_id: ChatId
    until: int


@final
@attrs.frozen
class Clicked:
    """This person pressed a button with data, which waits for its answer from here on."""

    chat_id: ChatId
    user_id: SenderId
    message_id: MessageId
    callback_id: CallbackId
    label: str = attrs.field(repr=False)


@final
@attrs.frozen
class PressAnswered:
    """The bot answered a press of this person."""

    chat_id: ChatId
    user_id: SenderId
    reply: PressReply


@final
@attrs.frozen
class MembersChanged:
    """This person joined or left."""

    chat_id: ChatId
    user_id: SenderId
    joined: bool


@final
@attrs.frozen
class MoneyMoved:
    """Money of this person: `paid` left the wallet, `captured` is the bot's, `refunded` came back."""

    chat_id: ChatId
    user_id: SenderId
    what: Literal["paid", "captured", "refunded", "topped_up"]
    currency: Currency
    amount: int
    bill: str = ""


@final
@attrs.frozen
class InvoiceShown:
    """An invoice appeared in the wallet page of the chat's people."""

    chat_id: ChatId
    invoice_id: str


@final
@attrs.frozen
class ChargeRequested:
    """The bot asked the person to top up (outside the interface)."""

    chat_id: ChatId
    text: str = attrs.field(repr=False)


Consequence: TypeAlias = (
    Shown
    | Edited
    | Deleted
    | TypingSeen
    | Clicked
    | PressAnswered
    | MembersChanged
    | MoneyMoved
    | InvoiceShown
    | ChargeRequested
)


@final
@attrs.frozen
class Change:
    """A consequence with its place in the world's log and its moment."""

    seq: int
    at: int
    what: Consequence
