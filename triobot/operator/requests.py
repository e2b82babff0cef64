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

Told: TypeAlias = Mapping[str, object]
"""An answer, or a line of it: values that JSON can hold; under ``data``, bytes that follow the line."""

LONGEST_WORDS: Final = 4_000


def _from(least: int) -> Validator:
    """Return an attrs validator for an integer of at least this."""

    def validate(instance: object, attribute: attrs.Attribute[Any], value: object) -> None:
        check_integer(attribute.name, value, least=least, most=10**18)

    return validate


def _is_place(instance: object, attribute: attrs.Attribute[Any], value: object) -> None:
    """Refuse, as a validator, what is no chat's id, nor that of another place."""
    check_integer(attribute.name, value, least=-LARGEST_PLACE, most=LARGEST_PLACE)


def _can_be_said(instance: object, attribute: object, value: object) -> None:
    """Refuse, as a validator, words that no message can hold."""
    if len(check_text("say", value, empty=True)) > LONGEST_WORDS:
        raise LocalProtocolError("say", f"must be at most {LONGEST_WORDS} characters")


def _is_whole_path(instance: object, attribute: object, value: Path) -> None:
    if not value.is_absolute():
        raise LocalProtocolError("path", "must be absolute")


@final
@guarded
class Status:
    """Ask how the bot is."""


@final
@guarded
class ListJournals:
    """List conversations.

    Attributes:
        chat_id: of this chat only, and only those that have not ended.
        after: behind this one.
        limit: so many at most.
        crashed: with `chat_id`: those that crashed and are kept, too.
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
    """Read a page of journals of conversations that have not ended, and where the next page begins.

    Attributes:
        after: behind this one.
        whole: with their records; otherwise only their ids and routes.
    """

    after: int = attrs.field(default=0, validator=_from(0))
    whole: bool = attrs.field(default=True, validator=is_a(bool))


@final
@guarded
class ReadCode:
    """Read all that is known of the code whose journals are there, its sources as well."""


@final
@guarded
class AcceptLines:
    """Say that two calls of a function are the same operation, before a deploy and after it."""

    function: str = attrs.field(validator=is_text())
    was: str = attrs.field(validator=is_text())
    now: str = attrs.field(validator=is_text())


@final
@guarded
class ReadKept:
    """Read a page of what chats and other places keep under a key, and where the next page begins.

    Attributes:
        after: behind this place.
    """

    key: str = attrs.field(validator=is_text())
    after: int | None = attrs.field(default=None, validator=is_optional(_is_place))


@final
@guarded
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
    """End a conversation, whatever it waits for, as its chat's interrupt would."""

    conversation: ConversationId = attrs.field(validator=_from(1))


@final
@guarded
class ListChats:
    """Show the chats in memory: where their tasks are, and what waits for what.

    Attributes:
        limit: so many at most, the latest active ones.
    """

    limit: int = attrs.field(default=100, validator=_from(1))


@final
@guarded
class Forget:
    """Delete everything of this chat, or of another place."""

    chat_id: ChatId = attrs.field(validator=_is_place)


def _is_way(instance: object, attribute: object, value: object) -> None:
    if value not in ("send", "signal", "start"):
        raise LocalProtocolError("way", "must be send, signal or start")


@final
@guarded
class Reach:
    """Send something to a chat, signal it, or start a route there, on behalf of another process.

    Attributes:
        way: which of these.
        name: of the signal's class, or of the route.
        value: the message; or JSON: an object with the fields of the signal, or a list of arguments.
        key: a second one with this key does nothing.
    """

    chat_id: ChatId = attrs.field(validator=_is_place)
    way: Literal["send", "signal", "start"] = attrs.field(validator=_is_way)
    name: str = attrs.field(default="", validator=is_text(empty=True))
    value: str = attrs.field(default="", validator=is_text(empty=True), repr=False)
    key: str | None = attrs.field(default=None, validator=is_optional_text)


@final
@guarded
class Backup:
    """Copy the store into this new file; the path is absolute."""

    path: Path = attrs.field(converter=Path, validator=_is_whole_path)


@final
@guarded
class StreamStore:
    """Send an image of the store and then its log, as that is committed, for as long as somebody reads."""


@final
@guarded
class AboutJobs:
    """Ask what is known of jobs; have one run now, or forget one that is gone.

    Attributes:
        run, forget: the name of the job.
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
    """Tell alarms no more: a person has seen them. Those are listed that are still open.

    Attributes:
        kind: only of this kind.
        key: only about this.
        all: whatever they are about; needed if neither is given.
    """

    kind: AlarmKind | None = attrs.field(default=None, validator=_is_kind)
    key: str | None = attrs.field(default=None, validator=is_optional_text)
    all: bool = attrs.field(default=False, validator=is_a(bool))


@final
@guarded
class AboutBroadcasts:
    """Ask about broadcasts; the outbox knows the questions."""

    fields: Told


@final
@guarded
class AboutPayments:
    """Ask about payments, and alarms about them; the payments know the questions."""

    fields: Told


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
