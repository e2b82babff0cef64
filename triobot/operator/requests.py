"""An operator's requests. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias, final

import attrs

from ..base.alarm_kinds import ABOUT, AlarmKind
from ..base.frozen import guarded
from ..errors import LocalProtocolError
from ..seams.journals import ConversationId
from ..seams.rooms import LARGEST_PLACE
from ..wire.ids import ChatId
from ..wire.rules import Validator, check_integer, check_text, is_a, is_optional, is_optional_text, is_text

Answer: TypeAlias = Mapping[str, object]
"""An answer, or a line of an answer: JSON values, and under ``data`` the raw bytes that follow the line."""

LONGEST_WORDS: Final = 4_000


def _from(least: int) -> Validator:
    def validate(instance: object, attribute: attrs.Attribute[Any], value: object) -> None:
        check_integer(attribute.name, value, least=least, most=10**18)

    return validate


def _is_place(instance: object, attribute: attrs.Attribute[Any], value: object) -> None:
    check_integer(attribute.name, value, least=-LARGEST_PLACE, most=LARGEST_PLACE)


def _can_be_said(instance: object, attribute: object, value: object) -> None:
    if len(check_text("say", value, empty=True)) > LONGEST_WORDS:
        raise LocalProtocolError("say", f"must be at most {LONGEST_WORDS} characters")


def _is_whole_path(instance: object, attribute: object, value: Path) -> None:
    if not value.is_absolute():
        raise LocalProtocolError("path", "must be absolute")


@final
@guarded
class Status:
    """Request the bot's status."""


@final
@guarded
class ListJournals:
    """List conversations.

    Attributes:
        chat_id: only conversations of this chat that have not ended.
        after: only ids above this id.
        limit: largest number of conversations in the answer.
        crashed: with `chat_id`: also crashed conversations that are kept.
    """

    chat_id: ChatId | None = attrs.field(default=None, validator=is_optional(_is_place))
    after: int = attrs.field(default=0, validator=_from(0))
    limit: int = attrs.field(default=100, validator=_from(1))
    crashed: bool = attrs.field(default=False, validator=is_a(bool))


@final
@guarded
class ShowJournal:
    """Show the journal of a conversation."""

    conversation: ConversationId = attrs.field(validator=_from(1))


@final
@guarded
class ReadJournals:
    """Read a page of the journals of conversations that have not ended, and the start of the next page.

    Attributes:
        after: only ids above this id.
        whole: whether to include the records. Without the records, the answer has only ids and routes.
    """

    after: int = attrs.field(default=0, validator=_from(0))
    whole: bool = attrs.field(default=True, validator=is_a(bool))


@final
@guarded
class ReadCode:
    """Read everything stored about the code of the current journals, including its sources."""


@final
@guarded
class AcceptLines:
    """Accept that a changed call of a function is still the same operation.

    Attributes:
        function: function with the calls.
        was: call before the deploy.
        now: call after the deploy.
    """

    function: str = attrs.field(validator=is_text())
    was: str = attrs.field(validator=is_text())
    now: str = attrs.field(validator=is_text())


@final
@guarded
class ReadKept:
    """Read a page of the values that places keep under `key`, and the start of the next page.

    Attributes:
        key: name of the value.
        after: only places with ids above this id.
    """

    key: str = attrs.field(validator=is_text())
    after: int | None = attrs.field(default=None, validator=is_optional(_is_place))


@final
@guarded
class SettleParked:
    """End parked conversations, or try them once more. All given conditions must match.

    Attributes:
        conversation: only this conversation.
        chat_id: only conversations of this chat.
        route: only conversations of this route.
        because: only conversations with this text in the reason.
        end: whether to end the conversations; otherwise try the conversations once more.
        say: message to the users after the end; empty for none.
        dry: whether to only count the conversations.
    """

    conversation: ConversationId | None = attrs.field(default=None, validator=is_optional(_from(1)))
    chat_id: ChatId | None = attrs.field(default=None, validator=is_optional(_is_place))
    route: str | None = attrs.field(default=None, validator=is_optional_text)
    because: str | None = attrs.field(default=None, validator=is_optional_text)
    end: bool = attrs.field(default=False, validator=is_a(bool))
    say: str = attrs.field(default="", validator=_can_be_said, repr=False)
    dry: bool = attrs.field(default=True, validator=is_a(bool))


@final
@guarded
class OrderEnd:
    """End a conversation in any state, as an interrupt of the chat would."""

    conversation: ConversationId = attrs.field(validator=_from(1))


@final
@guarded
class ListChats:
    """Show the chats in memory. For each task, show its line of code and the operation that the task waits
    for.

    Attributes:
        limit: largest number of chats in the answer; the most recently active chats come first.
    """

    limit: int = attrs.field(default=100, validator=_from(1))


@final
@guarded
class Forget:
    """Delete all data of a chat or another place."""

    chat_id: ChatId = attrs.field(validator=_is_place)


def _is_way(instance: object, attribute: object, value: object) -> None:
    if value not in ("send", "signal", "start"):
        raise LocalProtocolError("way", "must be send, signal or start")


@final
@guarded
class Reach:
    """Send a message or a signal to a chat, or start a route in the chat, on behalf of another process.

    Attributes:
        way: the kind of request.
        name: name of the signal's class, or of the route.
        value: text of the message, or JSON for a signal or route. The JSON is an object with the signal's
            fields, or a list of the route's arguments.
        key: idempotency key: a second request with the same key has no effect.
    """

    chat_id: ChatId = attrs.field(validator=_is_place)
    way: Literal["send", "signal", "start"] = attrs.field(validator=_is_way)
    name: str = attrs.field(default="", validator=is_text(empty=True))
    value: str = attrs.field(default="", validator=is_text(empty=True), repr=False)
    key: str | None = attrs.field(default=None, validator=is_optional_text)


@final
@guarded
class Backup:
    """Copy the store to a new file; the path is absolute."""

    path: Path = attrs.field(converter=Path, validator=_is_whole_path)


@final
@guarded
class StreamStore:
    """Send an image of the store, then each committed part of the store's log, until
    the reader disconnects.
    """


@final
@guarded
class AboutJobs:
    """List the jobs; run a job now, or forget a job that the bot no longer declares.

    Attributes:
        run, forget: name of the job.
    """

    run: str | None = attrs.field(default=None, validator=is_optional_text)
    forget: str | None = attrs.field(default=None, validator=is_optional_text)


def _is_kind(instance: object, attribute: object, value: object) -> None:
    if value is not None and value not in ABOUT:
        raise LocalProtocolError("kind", "must be one that the docs' page alarms lists")


@final
@guarded
class ListAlarms:
    """List the alarms that are open."""


@final
@guarded
class EndAlarms:
    """Acknowledge alarms: a person has seen these alarms, and they are not sent again. The answer is the list
    of the alarms that are still open.

    Attributes:
        kind: only alarms of this kind.
        key: only alarms with this key.
        all: whether to acknowledge all alarms. Required if neither `kind` nor `key` is given.
    """

    kind: AlarmKind | None = attrs.field(default=None, validator=_is_kind)
    key: str | None = attrs.field(default=None, validator=is_optional_text)
    all: bool = attrs.field(default=False, validator=is_a(bool))


@final
@guarded
class AboutBroadcasts:
    """A request about broadcasts; the outbox defines the fields."""

    fields: Answer


@final
@guarded
class AboutPayments:
    """A request about payments and their alarms; `triobot.payments` defines the fields."""

    fields: Answer


Request: TypeAlias = (
    Status
    | ListJournals
    | ShowJournal
    | ReadJournals
    | ReadCode
    | AcceptLines
    | ReadKept
    | SettleParked
    | OrderEnd
    | ListChats
    | Forget
    | Reach
    | Backup
    | StreamStore
    | AboutJobs
    | ListAlarms
    | EndAlarms
    | AboutBroadcasts
    | AboutPayments
)
