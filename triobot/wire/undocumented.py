"""Operations outside the interface, known only from public clients. The platform may refuse these operations.

Each operation returns the platform's answer uninterpreted (`Answer`). triobot itself uses none of these
operations.
"""

from __future__ import annotations

from typing import ClassVar, Final, Literal, final

import attrs

from ..base.frozen import guarded
from ..errors import RemoteProtocolError
from .ids import ChatId, as_chat_id
from .json_text import read_json
from .operations import Operation
from .rules import JsonValue, is_a, is_one_of, is_text
from .traits import Traits


@final
@guarded
class Answer:
    """The decoded JSON answer of an operation outside the interface; None for an empty body."""

    value: JsonValue = attrs.field(repr=False)


def read_answer(operation: object, answer: JsonValue, body: bytes) -> Answer:
    """Return the decoded JSON without interpreting it."""
    if not body.strip():
        return Answer(None)
    try:
        return Answer(read_json(body))
    except ValueError:
        raise RemoteProtocolError("body", "must be JSON") from None


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
    """Report an event of a game to the platform."""

    path: ClassVar[str] = "gameEvent"
    traits: ClassVar[Traits] = _TRAITS

    chat_id: ChatId = attrs.field(converter=as_chat_id, repr=False)
    event: str = attrs.field(validator=is_text())
    value: str = attrs.field(validator=is_text(empty=True), repr=False)


@final
@guarded
class GetLeaderBoard(Operation[Answer]):
    """Read a game's best players of a period (the field name `time` is a guess, see gap 14)."""

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
