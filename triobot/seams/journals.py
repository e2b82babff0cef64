"""Conversations in a store: the values that `triobot.store.Store` takes and returns.

A conversation is a row and a journal. The *row* has what the bot must know of a conversation that isn't in
memory: its chat, its route, whether work is left, and its wake time. The *journal* is the ordered list of the
conversation's records; the store counts the records and doesn't interpret them. The *effects* are stored
beside the journal: an operation's intent before the operation is sent, and the operation's result once the
result is known.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal, NewType, TypeAlias, final

import attrs

from ..base.frozen import frozen
from ..wire.ids import ChatId, SenderId

ConversationId = NewType("ConversationId", int)
"""Number of the inbox row that started the conversation; never used twice."""

LARGEST_RECORD: Final = 16 * 1024 * 1024
"""Maximum length of one record, intent or result, in characters."""

FITS: Final = 1 << 40  # no build has this number
"""Build of a journal that fits all code: for a store without the sources of old builds."""

RunKind: TypeAlias = Literal["conversation", "interrupt", "aside", "room", "job"]


@final
@frozen
class Opening:
    """A store's facts about the process that has opened the store now, and about the previous process.

    Attributes:
        boot: number of this process among all processes that opened this store, from 1.
        at: when this process opened the store, in wall milliseconds.
        unclean: how many processes in a row, just before this process, ended without closing the store.
        previous_at: when the previous process opened the store, or None.
        epoch: how often the store was restored from a backup. An operation of an earlier epoch may have been
            performed after the backup, so its outcome is unknown.
        epoch_at: when the last backup was restored, in wall milliseconds; 0 if no backup was ever restored.
        restored: whether this process is the first that opens the store since the last restore.
        at_work: content of `Store.at_work`, by slot, when the previous process was killed. Empty after a
            clean stop, and after a restart of the computer.
        risk: why the store may lose acknowledged data, if the store's address accepts this risk.
        node: name of this process in texts for people, if several processes can own the store in turn.
    """

    boot: int
    at: int
    unclean: int = 0
    previous_at: int | None = None
    epoch: int = 0
    restored: bool = False
    epoch_at: int = 0
    at_work: tuple[int, ...] = ()
    risk: str | None = None
    node: str | None = None


@final
@frozen(kw_only=True)
class ConversationRow:
    """State of a conversation.

    Attributes:
        route: name of the conversation's route.
        kind: the route's kind, which is needed if the code has no route with this name any more.
        version: version of the route whose code wrote the journal; opaque to the store.
        sender_id: the only sender whose events the conversation gets, if the route has ``per="sender"``.
        key: idempotency key of the start, if code started the conversation; else None.
        run: number of the route's present run, from 1; `ContinueConversation` adds one.
        unfinished: whether the conversation had work left at the last write; if so, the bot's next start must
            revive the conversation.
        wake_at: when the conversation must be revived even without an event, in wall milliseconds; None for
            never.
        parked_because: why this code must not revive the conversation, or None.
        error: id of the error in the log, if the conversation failed; never the error's text. If the crash
            count reached its limit, `error` is the build of the code that crashed.
        in_hand: the crash count: how often the process was killed while the conversation's code ran, counted
            since the conversation last came to rest.
        position: position of the next record.
        started_at, updated_at: in wall milliseconds.
        ended_at: when the conversation ended. The row of an ended conversation is kept only if the
            conversation failed, or on request.
        rests: the operations in which the conversation waited at the last write of this field; opaque to the
            store. None if unknown.
        build: number of the newest build of the code whose replay matched the journal; 0 if unknown, `FITS`
            if the journal fits all code.
    """

    id: ConversationId
    chat_id: ChatId
    route: str
    kind: RunKind
    version: str
    sender_id: SenderId | None
    key: str | None = attrs.field(default=None, repr=False)
    run: int = 1
    unfinished: bool = True
    wake_at: int | None = None
    parked_because: str | None = None
    error: str | None = None
    in_hand: int = 0
    position: int = 1
    started_at: int
    updated_at: int
    ended_at: int | None = None
    rests: str | None = None
    build: int = 0


SiteRow: TypeAlias = "tuple[int, int, str, str, int | None, int | None, int | None, int | None]"
"""A site, which is a chain of calls. The row has the site's number, the number of the site without the last
call, and the last call: digest of the source, function, and the range in the source (line, column, last line,
end column)."""


@final
@frozen
class Deployed:
    """The sources of one build of the bot's code.

    Attributes:
        at: time of the build's first start, in wall milliseconds.
        build: number of the build in the store.
        sources: digests of the sources.
    """

    at: int
    build: int
    sources: tuple[str, ...]


@final
@frozen
class AcceptedChange:
    """An author's declaration that two calls in a function are the same operation.

    The store keeps the declaration until every conversation from before the change has ended.

    Attributes:
        function: qualified name of the function.
        was, now: text of the call before and after the change.
    """

    function: str
    was: str
    now: str


@final
@frozen
class StoredCode:
    """All data that the store has about the code that wrote the journals.

    Attributes:
        deployed: builds, oldest first.
        sources: name and source of each module, by the digest of the source.
    """

    deployed: tuple[Deployed, ...]
    sources: Mapping[str, tuple[str, str]] = attrs.field(repr=False)
    sites: tuple[SiteRow, ...]
    accepted: tuple[AcceptedChange, ...]


@final
@frozen
class Effect:
    """Intent and result of one operation, stored beside the journal. The store doesn't interpret the texts.

    Attributes:
        intended_at, intent: set if an intent was stored.
        resulted_at, result: set if a result was stored.
    """

    intended_at: int | None = None
    intent: str | None = attrs.field(default=None, repr=False)
    resulted_at: int | None = None
    result: str | None = attrs.field(default=None, repr=False)


@final
@frozen
class Journal:
    """All stored data of a conversation.

    Attributes:
        first: position of the first record: 0, or the position at which the route's current run began.
        records: all records from `first` on, in order.
        effects: effects of the current run, by operation id.
    """

    row: ConversationRow
    first: int
    records: tuple[str, ...] = attrs.field(repr=False)
    effects: Mapping[str, Effect] = attrs.field(repr=False)


# --- writing
#
# A write to a conversation that has ended, or that was deleted with its chat, raises JournalConflictError,
# and nothing of the commit is stored. For some classes, the docstring names another result.


@final
@frozen
class BeginConversation:
    """Begin a conversation: unfinished, with an empty journal.

    Attributes:
        id: number of the inbox row that starts the conversation. JournalConflictError is raised if a
            conversation has this number.
    """

    id: ConversationId
    chat_id: ChatId
    route: str
    version: str
    at: int
    kind: RunKind = "conversation"
    sender_id: SenderId | None = None
    key: str | None = attrs.field(default=None, repr=False)
    wake_at: int | None = None


@final
@frozen
class AppendRecords:
    """Append records to a journal.

    Attributes:
        position: position of the first record. If `position` isn't the journal's end, JournalConflictError is
            raised: another writer has appended records, or an earlier write was lost.
        records: one line of text each.
    """

    conversation: ConversationId
    position: int
    records: tuple[str, ...] = attrs.field(repr=False)


@final
@frozen
class PutStanding:
    """Store whether a conversation has work left, and the conversation's wake time.

    A conversation without work left (`unfinished` is False) is at rest, and its crash count is set to 0.
    """

    conversation: ConversationId
    at: int
    unfinished: bool
    wake_at: int | None = None


@final
@frozen
class PutRested:
    """Store the operations in which a conversation waits, and the build whose replay matches the journal.

    This write is needed if the last record doesn't show these operations.

    Attributes:
        rests, build: as in `ConversationRow`.
    """

    conversation: ConversationId
    rests: str | None
    build: int


@final
@frozen
class KeepIntent:
    """Store the intent to send an operation, before it is sent; a second intent for the same operation
    replaces the first intent.

    Attributes:
        run: number of the route's run. If this run is over, JournalConflictError is raised.
        operation: id of the operation within the run.
    """

    conversation: ConversationId
    run: int
    operation: str
    at: int
    text: str = attrs.field(repr=False)


@final
@frozen
class KeepResult:
    """Store an operation's result, unless a result is stored already.

    No effect if the run or the conversation is over.
    """

    conversation: ConversationId
    run: int
    operation: str
    at: int
    text: str = attrs.field(repr=False)


@final
@frozen
class DropEffects:
    """Delete intents and results of operations whose outcomes are now in the journal. Missing rows are
    ignored.
    """

    conversation: ConversationId
    run: int
    operations: tuple[str, ...]


@final
@frozen
class ContinueConversation:
    """Begin a conversation's next run: unfinished, with a new journal and without a wake time.

    The new records continue the old numbering, so a record of the old run can't be mistaken for a record of
    the new run.

    Attributes:
        position: position of the first record. If `position` isn't the journal's end, JournalConflictError is
            raised.
        records: the new journal; at least one record.
    """

    conversation: ConversationId
    position: int
    records: tuple[str, ...] = attrs.field(repr=False)
    route: str
    version: str
    at: int
    kind: RunKind = "conversation"


@final
@frozen
class ParkConversation:
    """Park a conversation: neither a deadline nor the bot's start revives the conversation. The journal
    stays.

    Attributes:
        because: the reason; None makes a parked conversation an ordinary conversation again.
        error: id of the error in the log. If the crash count reached its limit, `error` is the build of the
            code that crashed.
    """

    conversation: ConversationId
    at: int
    because: str | None
    error: str | None = None


@final
@frozen
class TakeInHand:
    """Add one to the conversation's crash count."""

    conversation: ConversationId
    at: int


@final
@frozen
class WakeEarlier:
    """Move every conversation's wake time earlier after the clock was set back, but not before 1970.

    Attributes:
        by: milliseconds.
    """

    by: int


@final
@frozen
class EndConversation:
    """End a conversation, and delete its rows unless `error` or `kept` is set. No effect without rows.

    Attributes:
        error: id of the error in the log if the conversation failed; all rows are then kept for
            `Retention.crashed`.
        kept: whether the rows are kept for `Retention.ended` although the conversation ended well.
    """

    conversation: ConversationId
    at: int
    error: str | None = None
    kept: bool = False


@final
@frozen
class KeepCode:
    """Store sources and sites that records refer to, and the build of the code that the bot uses from now on.

    The store may have some of the sources and sites already. With a new build, the store also deletes the
    code that no conversation can refer to any more.

    Attributes:
        sources: digest, module name and text of each source.
    """

    sources: tuple[tuple[str, str, str], ...] = attrs.field(default=(), repr=False)
    sites: tuple[SiteRow, ...] = ()
    deployed: Deployed | None = None


JournalWrite: TypeAlias = (
    BeginConversation
    | AppendRecords
    | PutStanding
    | KeepIntent
    | KeepResult
    | DropEffects
    | ContinueConversation
    | ParkConversation
    | TakeInHand
    | WakeEarlier
    | EndConversation
    | KeepCode
    | AcceptedChange
    | PutRested
)
