"""What the page under ``triobot dev`` knows of the bot's inside: the operator's desk is asked, by its socket.

Whenever a request between bot and platform began or ended, at most a few times a second; and once a second,
for what happens without any.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Final, cast

import trio

from ..emulator.exchange import Exchange
from ..emulator.people import ImpossibleActError
from ..errors import TriobotError
from ..journals import ConversationId
from ..operator import AboutPayments, ListChats, Request, ShowJournal, Status, ask, socket_path
from ..operator.wording import worded
from ..wire.rules import JsonValue
from .keeper import Keeper

log: Final = logging.getLogger("triobot")

JsonObject = dict[str, JsonValue]

EACH: Final = 1.0
_SOONEST: Final = 0.2
_PATIENCE: Final = 2.0
# A screen shows a dozen; who plays with more reads the newest.
_CHATS: Final = 40
_PAYMENTS: Final = 100
# A journal of thousands is read from its end.
_RECORDS: Final = 300


async def keep_asking(keeper: Keeper, store: str, exchange: Exchange) -> None:
    """Keep the keeper's knowledge of its process fresh, until cancelled."""
    path = socket_path(store)
    if path is None:
        return
    while True:
        await keeper.wait_up()
        seen = exchange.traffic.version
        try:
            with trio.move_on_after(_PATIENCE):
                await _ask_all(keeper, path)
        except (TriobotError, OSError) as error:
            # It may be ending right now; the next one will say more.
            log.debug("the bot said nothing of itself: %s", type(error).__name__)
        await trio.sleep(_SOONEST)
        with trio.move_on_after(EACH - _SOONEST):
            heard = 0
            while exchange.traffic.version == seen:
                heard = await exchange.wait_news(heard)


async def _ask_all(keeper: Keeper, path: Path) -> None:
    told = await _lines(path, Status())
    chats = await _lines(path, ListChats(_CHATS))
    [listed] = await _lines(path, AboutPayments({"ask": "payments.list", "limit": _PAYMENTS})) or [{}]
    for status in told:
        status.pop("at", None)  # else it would be new each time
        keeper.learn(status)
    keeper.see_inside(chats, cast("list[JsonValue]", listed.get("payments", [])))


async def read_journal(store: str, conversation: int) -> Sequence[JsonObject]:
    """A conversation's journal in words: first its row, then the newest records.

    Raises:
        ImpossibleActError: the bot doesn't run, or knows no such conversation.
    """
    path = socket_path(store)
    if path is None:
        raise ImpossibleActError("a store in memory can't be asked")
    try:
        row, *records = await _lines(path, ShowJournal(ConversationId(conversation))) or [{}]
    except (TriobotError, OSError) as error:
        raise ImpossibleActError(str(error)) from None
    if not row:
        raise ImpossibleActError("the bot doesn't run")
    return [row, *(cast("JsonObject", worded(record)) for record in records[-_RECORDS:])]


async def _lines(path: Path, request: Request) -> list[JsonObject]:
    """The lines of an answer; none if nobody answers."""
    lines: list[JsonObject] = []

    async def tell(told: object) -> None:
        await trio.lowlevel.checkpoint()
        lines.append(cast("JsonObject", told))

    await ask(path, request, tell)
    return lines
