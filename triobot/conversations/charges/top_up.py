"""Where a user may be sent to top up a wallet: only to hosts that we know. A callback can be forged."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from ...wire.markup import InlineKeyboard, LinkButton
from ...wire.operations import SendMessage
from ..conversation import Conversation

# Only what every reader of addresses takes for the same host: no user, no other port, no backslash.
_LINK: Final = re.compile(
    r"https://([a-z0-9-]+(?:\.[a-z0-9-]+)*)(?::443)?(?:[/?#][!-\[\]-~]{0,2000})?", re.ASCII | re.IGNORECASE
)


async def offer_top_up(conversation: Conversation, url: str | None) -> None:
    """Tell the user that the wallet is too low, with a link only to where we know that it leads."""
    texts = conversation.texts
    keyboard = None
    if url is not None and is_trusted(url, conversation.services.charge_hosts):
        keyboard = InlineKeyboard(((LinkButton(texts.top_up_button, url),),))
    elif url is not None:
        conversation.house.count("foreign_charge_url")
    operation = SendMessage(conversation.life.chat_id, texts.top_up, inline_keyboard=keyboard)
    await conversation.perform(operation)


def is_trusted(url: str, hosts: Sequence[str]) -> bool:
    """Return whether an address is https, on one of these hosts or below it. A callback can be forged."""
    link = _LINK.fullmatch(url)
    host = link[1].lower() if link else ""
    return bool(host) and any(host == known or host.endswith(f".{known}") for known in _names(hosts))


def _names(hosts: Sequence[str]) -> list[str]:
    return [host.lower() for host in hosts if host]
