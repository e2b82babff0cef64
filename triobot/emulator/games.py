"""The operations outside the interface, in a small way: game data by chat, a wallet request, a board."""

from __future__ import annotations

from typing import final

from ..wire.ids import ChatId
from ..wire.operations import Operation
from ..wire.results import Answer
from ..wire.undocumented import (
    GetGameConfig,
    GetGameData,
    GetLeaderBoard,
    PutGameData,
    RequestWalletCharge,
    SendGameEvent,
)


@final
class Games:
    """Game data of a chat, by its type."""

    def __init__(self) -> None:
        self._data: dict[tuple[ChatId, str], str] = {}

    def perform(self, operation: Operation[object]) -> Answer | None:
        """Answer one of these operations, or None for any other."""
        match operation:
            case RequestWalletCharge() | SendGameEvent():
                return Answer({})
            case GetGameData(chat_id=chat_id, type=kind):
                return Answer({"data": self._data.get((chat_id, kind))})
            case PutGameData(chat_id=chat_id, type=kind, data=data, force=force):
                if force or (chat_id, kind) not in self._data or kind != "high_score":
                    self._data[(chat_id, kind)] = data
                return Answer({})
            case GetGameConfig():
                return Answer({"configs": {}})
            case GetLeaderBoard():
                return Answer({"topLeaders": [], "currentPlayer": {}})
            case _:
                return None

    def charge_request(self, operation: Operation[object]) -> tuple[ChatId, str] | None:
        """Whom a wallet request asks, and with which words."""
        match operation:
            case RequestWalletCharge(chat_id=chat_id, desc=desc):
                return chat_id, desc
            case _:
                return None
