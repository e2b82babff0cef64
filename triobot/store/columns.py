"""What any engine can hold in a column. Pure."""

from __future__ import annotations

from typing import Final

from ..errors import LocalProtocolError
from ..wire.ids import ChatId
from ..wire.rules import check_integer, check_text

LARGEST_CHAT: Final = 10**18 - 1


def check_chat(chat_id: ChatId) -> None:
    """Refuse a chat id that is none."""
    check_integer("chat_id", chat_id, least=-LARGEST_CHAT, most=LARGEST_CHAT)


def check_column(field: str, value: str, *, empty: bool = False) -> None:
    """Refuse text that some engine can't hold."""
    if "\0" in check_text(field, value, empty=empty):
        raise LocalProtocolError(field, "must not hold U+0000")
