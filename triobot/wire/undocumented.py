"""Operations outside the interface, known only from public clients. The platform may refuse these operations.

Each operation returns the platform's answer uninterpreted (`Answer`). triobot itself uses none of these
operations.
"""

from __future__ import annotations

from typing import ClassVar, Final, Literal, final

import attrs

from ..base.frozen import guarded
from .ids import ChatId, as_chat_id
from .operations import Operation
from .results import Answer, read_answer
from .rules import is_a, is_one_of, is_text
from .traits import Traits

_TRAITS: Final = Traits(read_answer, "chat")


@final
@guarded
class RequestWalletCharge(Operation[Answer]):
    """Ask the user to top up the wallet."""

    path: ClassVar[str] = "requestWalletCharge"
    traits: ClassVar[Traits] = _TRAITS

    chat_id: ChatId = attrs.field(converter=as_chat_id, repr=False)
    desc: str = attrs.field(validator=is_text(), repr=False)


@final
@guarded
class GetGameData(Operation[Answer]):
    """Read a user's game data of one type."""

    path: ClassVar[str] = "getGameData"
    traits: ClassVar[Traits] = _TRAITS

    chat_id: ChatId = attrs.field(converter=as_chat_id, repr=False)
    type: str = attrs.field(validator=is_text())


@final
@guarded
class PutGameData(Operation[Answer]):
    """Write a user's game data of one type; `force` overwrites a higher score."""

    path: ClassVar[str] = "gameData"
    traits: ClassVar[Traits] = _TRAITS

    chat_id: ChatId = attrs.field(converter=as_chat_id, repr=False)
    type: str = attrs.field(validator=is_text())
    data: str = attrs.field(validator=is_text(empty=True), repr=False)
    force: bool = attrs.field(default=False, validator=is_a(bool))


@final
@guarded
class GetGameConfig(Operation[Answer]):
    """Read a game's configuration."""

    path: ClassVar[str] = "getGameConfig"
    traits: ClassVar[Traits] = _TRAITS

    chat_id: ChatId = attrs.field(converter=as_chat_id, repr=False)
    key: str = attrs.field(validator=is_text())


@final
@guarded
class SendGameEvent(Operation[Answer]):
    """Record an event of a game."""

    path: ClassVar[str] = "gameEvent"
    traits: ClassVar[Traits] = _TRAITS

    chat_id: ChatId = attrs.field(converter=as_chat_id, repr=False)
    event: str = attrs.field(validator=is_text())
    value: str = attrs.field(validator=is_text(empty=True), repr=False)


@final
@guarded
class GetLeaderBoard(Operation[Answer]):
    """Read a game's best players of a period (the field's name is a guess, see gap 14)."""

    path: ClassVar[str] = "leaderBoard"
    traits: ClassVar[Traits] = _TRAITS

    chat_id: ChatId = attrs.field(converter=as_chat_id, repr=False)
    time: Literal["all", "month", "week", "day"] = attrs.field(
        default="all", validator=is_one_of("all", "month", "week", "day")
    )


UNDOCUMENTED: Final = (
    RequestWalletCharge,
    GetGameData,
    PutGameData,
    GetGameConfig,
    SendGameEvent,
    GetLeaderBoard,
)
