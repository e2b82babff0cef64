"""What a broadcast says, as text in the store and back."""

from __future__ import annotations

from typing import Final, Literal, TypeAlias, final

import attrs

from ..errors import UnreadableRecordError
from ..values import decode_value, encode_value, register
from ..wire import content, markup
from ..wire.content import Content
from ..wire.ids import ChatId
from ..wire.markup import InlineKeyboard
from ..wire.operations import SendMessage

OnDoubt: TypeAlias = Literal["count", "resend"]
"""What becomes of a receiver whom the message may have reached: counted as unknown, or told again."""

_RECORDED: Final = (
    content.Image,
    content.Video,
    content.Audio,
    content.Voice,
    content.File,
    content.Contact,
    content.Location,
    content.Descriptor,
    markup.InlineKeyboard,
    markup.CallbackButton,
    markup.LinkButton,
)


def _register() -> None:
    # Names that stay when a module moves; the same ones that other records use.
    for cls in (*_RECORDED, Announcement):
        register(cls, name=f"triobot.{cls.__name__}")


@final
@attrs.frozen
class Announcement:
    """What everybody is told. Media must have its descriptor: a file may be gone tomorrow."""

    content: Content = attrs.field(repr=False)
    keyboard: InlineKeyboard | None = attrs.field(default=None, repr=False)
    on_unknown: OnDoubt = "count"

    def to(self, chat_id: ChatId) -> SendMessage:
        """The operation that tells one receiver.

        Raises:
            LocalProtocolError: the content can't be sent to anybody.
        """
        return SendMessage(chat_id, self.content, inline_keyboard=self.keyboard)

    def dump(self) -> str:
        """The text of it."""
        _register()
        return encode_value(self)

    @classmethod
    def load(cls, text: str) -> Announcement:
        """What `dump` wrote.

        Raises:
            UnreadableRecordError: another version wrote it.
        """
        _register()
        recorded = decode_value(text)
        if not isinstance(recorded, Announcement):
            raise UnreadableRecordError("this is no broadcast's content")
        return recorded
