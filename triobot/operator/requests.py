"""An operator's requests, and the lines that carry them: one JSON object each. Pure.

A request is one line. The answer is any number of lines, and then one that ends it: ``{"end": true}``, or
``{"failed": KIND, "text": ...}``.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Final, TypeAlias, assert_never, cast, final

import attrs

from ..errors import (
    ConfigError,
    LocalProtocolError,
    RemoteProtocolError,
    StoreCorruptError,
    StoreError,
    StoreFullError,
    TriobotError,
)
from ..journals import ConversationId
from ..wire.ids import ChatId
from ..wire.rules import check_integer, check_text

Told: TypeAlias = Mapping[str, object]
"""One line of an answer: values that JSON can hold."""

LONGEST_REQUEST: Final = 64 * 1024
LONGEST_WORDS: Final = 4_000
END: Final[Told] = {"end": True}


@final
@attrs.frozen
class Status:
    """Ask how the bot is."""


@final
@attrs.frozen
class ListJournals:
    """List conversations.

    Attributes:
        chat_id: of this chat only, and only those that have not ended.
        after: behind this one.
        limit: so many at most.
    """

    chat_id: ChatId | None = None
    after: int = 0
    limit: int = 100


@final
@attrs.frozen
class ShowJournal:
    """Show the journal of a conversation."""

    conversation: ConversationId


@final
@attrs.frozen
class ReadJournals:
    """Read a page of journals of conversations that have not ended, and where the next page begins.

    Attributes:
        after: behind this one.
        whole: with their records; otherwise only their ids and routes.
    """

    after: int = 0
    whole: bool = True


@final
@attrs.frozen
class ReadKept:
    """Read a page of what chats keep under a key, and where the next page begins.

    Attributes:
        after: behind this chat.
    """

    key: str
    after: int | None = None


@final
@attrs.frozen
class SettleParked:
    """End parked conversations, or try them once more: those that match all that is given.

    Attributes:
        conversation: this one only.
        chat_id: of this chat only.
        route: of this route only.
        because: only those whose reason holds this.
        end: end them; otherwise they are tried once more.
        say: the message to their users when they have ended; empty for none.
        dry: only count them.
    """

    conversation: ConversationId | None = None
    chat_id: ChatId | None = None
    route: str | None = None
    because: str | None = None
    end: bool = False
    say: str = attrs.field(default="", repr=False)
    dry: bool = True


@final
@attrs.frozen
class ListChats:
    """Show the chats in memory: where their tasks are, and what waits for what.

    Attributes:
        limit: so many at most, the latest active ones.
    """

    limit: int = 100


@final
@attrs.frozen
class Forget:
    """Delete everything of this chat."""

    chat_id: ChatId


@final
@attrs.frozen
class Backup:
    """Copy the store into this new file; the path is absolute."""

    path: Path


@final
@attrs.frozen
class AboutBroadcasts:
    """Ask about broadcasts; the outbox knows the questions."""

    fields: Told


@final
@attrs.frozen
class AboutPayments:
    """Ask about payments and alarms; the payments know the questions."""

    fields: Told


Request: TypeAlias = (
    Status
    | ListJournals
    | ShowJournal
    | ReadJournals
    | ReadKept
    | SettleParked
    | ListChats
    | Forget
    | Backup
    | AboutBroadcasts
    | AboutPayments
)


def encode_request(request: Request) -> bytes:
    """Return the line of a request."""
    match request:
        case Status():
            fields: Told = {"ask": "status"}
        case ListJournals(chat_id, after, limit):
            fields = {"ask": "journals", "chat": chat_id, "after": after, "limit": limit}
        case ShowJournal(conversation):
            fields = {"ask": "journal", "conversation": conversation}
        case ReadJournals(after, whole):
            fields = {"ask": "journals.read", "after": after, "whole": whole}
        case ReadKept(key, after):
            fields = {"ask": "kept", "key": key, "after": after}
        case SettleParked():
            fields = {"ask": "parked", **attrs.asdict(request)}
        case ListChats(limit):
            fields = {"ask": "chats", "limit": limit}
        case Forget(chat_id):
            fields = {"ask": "forget", "chat": chat_id}
        case Backup(path):
            fields = {"ask": "backup", "path": str(path)}
        case AboutBroadcasts() | AboutPayments():
            fields = request.fields
        case _:
            assert_never(request)
    return encode_line(fields)


def decode_request(line: bytes) -> Request:
    """Return the request of a line.

    Raises:
        RemoteProtocolError: it holds none.
    """
    fields = decode_line(line)
    try:
        match fields.get("ask"):
            case "status":
                return Status()
            case "journals":
                chat = fields.get("chat")
                return ListJournals(
                    chat_id=None if chat is None else ChatId(_integer("chat", chat, least=-(10**18))),
                    after=_integer("after", fields.get("after"), least=0),
                    limit=_integer("limit", fields.get("limit"), least=1),
                )
            case "journal":
                conversation = _integer("conversation", fields.get("conversation"), least=1)
                return ShowJournal(ConversationId(conversation))
            case "parked":
                return _settle_parked(fields)
            case "journals.read":
                return ReadJournals(
                    _integer("after", fields.get("after"), least=0), whole=bool(fields.get("whole"))
                )
            case "kept":
                behind = fields.get("after")
                return ReadKept(
                    check_text("key", fields.get("key")),
                    None if behind is None else _integer("after", behind, least=-(10**18)),
                )
            case "chats":
                return ListChats(_integer("limit", fields.get("limit"), least=1))
            case "forget":
                return Forget(ChatId(_integer("chat", fields.get("chat"), least=-(10**18))))
            case "backup" if isinstance(path := fields.get("path"), str) and path.startswith("/"):
                return Backup(Path(path))
            case str() as asked if asked.startswith("broadcast."):
                return AboutBroadcasts(fields)
            case str() as asked if asked.startswith("payments."):
                return AboutPayments(fields)
            case _:
                raise RemoteProtocolError("ask", "must be something that this version can answer")
    except LocalProtocolError as error:
        raise RemoteProtocolError(error.field, error.rule) from None


def _settle_parked(fields: Told) -> SettleParked:
    number, chat = fields.get("conversation"), fields.get("chat_id")
    return SettleParked(
        None if number is None else ConversationId(_integer("conversation", number, least=1)),
        None if chat is None else ChatId(_integer("chat", chat, least=-(10**18))),
        _text_or_none("route", fields.get("route")),
        _text_or_none("because", fields.get("because")),
        end=fields.get("end") is True,
        say=check_say(fields.get("say")),
        dry=fields.get("dry") is not False,
    )


def _text_or_none(field: str, value: object) -> str | None:
    return None if value is None else check_text(field, value)


def check_say(words: object) -> str:
    """Refuse words that no message can hold.

    Raises:
        LocalProtocolError: they are no text, or longer than 4,000 characters.
    """
    if words == "":
        return ""
    text = check_text("say", words)
    if len(text) > LONGEST_WORDS:
        raise LocalProtocolError("say", f"must be at most {LONGEST_WORDS} characters")
    return text


def _integer(field: str, value: object, *, least: int) -> int:
    check_integer(field, value, least=least, most=10**18)
    return cast("int", value)


def encode_line(fields: Told) -> bytes:
    """Return one object as a line."""
    return json.dumps(fields, separators=(",", ":")).encode() + b"\n"


def decode_line(line: bytes) -> Told:
    """Return the object of a line.

    Raises:
        RemoteProtocolError: it holds none.
    """
    try:
        fields: object = json.loads(line)
    except (ValueError, RecursionError):
        raise RemoteProtocolError("line", "must be JSON") from None
    if not isinstance(fields, dict):
        raise RemoteProtocolError("line", "must be a JSON object")
    return cast("dict[str, object]", fields)


def failure(error: TriobotError) -> Told:
    """Return the line that ends an answer with an error."""
    for kind in (ConfigError, StoreFullError, StoreCorruptError):
        if isinstance(error, kind):
            return {"failed": kind.__name__, "text": str(error)}
    return {"failed": "StoreError", "text": str(error)}


def failed(fields: Told) -> TriobotError:
    """Return the error of such a line."""
    text = str(fields.get("text", "the bot doesn't say why"))
    match fields.get("failed"):
        case "ConfigError":
            return ConfigError(text)
        case "StoreFullError":
            return StoreFullError(text)
        case "StoreCorruptError":
            return StoreCorruptError(text)
        case _:
            return StoreError(text)
