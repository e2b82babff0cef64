"""What a store keeps of conversations: the values that `triobot.store.Store` takes and gives.

A conversation is a row and a journal. The *row* says what has to be known of a conversation that isn't in
memory: whose it is, what runs it, whether it has work left, when to wake it. The *journal* is the ordered
list of what happened to it; the store counts its records and knows nothing of what is in them. Beside it,
*effects*: an intent before an operation leaves, its result once that is known.

Everything of a conversation is written under the lease of the run that opened the store: a process that has
lost the store can't write any more, whatever it still believes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal, NewType, TypeAlias, final

import attrs

from ..base.frozen import frozen
from ..wire.ids import ChatId, SenderId

ConversationId = NewType("ConversationId", int)
"""The number of the inbox row that started a conversation; never given twice."""

Lease = NewType("Lease", int)
"""The right to write: counts the runs that opened the store; a write with an older one is refused."""

LARGEST_RECORD: Final = 16 * 1024 * 1024
"""Characters of one record, intent or result."""

RunKind: TypeAlias = Literal["conversation", "interrupt", "aside", "room", "job"]


@final
@frozen
class Opening:
    """What a store knows of this run of the program and of the one before.

    Attributes:
        boot: counts the runs that opened this store, from 1.
        at: when this one did, in wall milliseconds.
        unclean: how many runs in a row, up to this one, ended without closing the store.
        previous_at: when the run before opened it, or None.
        epoch: counts restored backups: what is older may have been done already, or never.
        epoch_at: when the last of them was restored, in wall milliseconds; 0 if none was.
        restored: this is the first run since the last of them.
        at_work: what was noted by slot when the run before was killed (`Store.at_work`); empty after
            a clean stop, and where the machine has been started since.
        risk: why the store may lose what it has acknowledged, where its address accepts that.
        node: what people are told of this process, where another one may have the store after it.
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
@frozen
class ConversationRow:
    """Where a conversation stands.

    Attributes:
        lease: under which it was read; what is written to it goes under the same.
        route: the name of what runs it.
        kind: what sort of route that is, for when its name is no longer known.
        version: of the code that wrote its journal; opaque to the store.
        sender_id: whose it is, with ``per="sender"``.
        key: what it was started with by code, if it was.
        run: counts from 1; one more with each `ContinueConversation`.
        unfinished: something of it was under way when this was written: it must be revived at a start.
        wake_at: when it must be revived, whatever happens, in wall milliseconds.
        parked_because: why it is not to be revived with this code, or None.
        error: a reference to what it failed with, for the log; never content.
        in_hand: how often the program was killed while its code was at work, without its having come to
            rest since.
        position: of the next record.
        started_at, updated_at: in wall milliseconds.
        ended_at: set when it has ended, and is kept for a while since it crashed.
        rests: the operations in which it stood when that was written, opaque to the store; None if unknown.
        build: of the code that last fitted its journal; 0 if unknown.
    """

    id: ConversationId
    lease: Lease
    chat_id: ChatId
    route: str
    kind: RunKind
    version: str
    sender_id: SenderId | None
    key: str | None = attrs.field(repr=False)
    run: int
    unfinished: bool
    wake_at: int | None
    parked_because: str | None
    error: str | None
    in_hand: int
    position: int
    started_at: int
    updated_at: int
    ended_at: int | None = None
    rests: str | None = None
    build: int = 0


SiteRow: TypeAlias = "tuple[int, int, str, str, int | None, int | None, int | None, int | None]"
"""A site: its number, that of the site before, its source's digest, the function, and the range there: line,
column, last line, end."""


@final
@frozen
class Deployed:
    """The sources that ran together from a time on.

    Attributes:
        at: in wall milliseconds.
        build: what the store knows them by.
        sources: their digests.
    """

    at: int
    build: int
    sources: tuple[str, ...]


@final
@frozen
class AcceptedChange:
    """What an author has said to be the same operation: two calls in a function."""

    function: str
    was: str
    now: str


@final
@frozen
class StoredCode:
    """All that a store knows of the code whose journals it has, but for the texts of sources.

    Attributes:
        deployed: the earliest first.
        sources: the modules' names by digest.
    """

    deployed: tuple[Deployed, ...]
    sources: Mapping[str, str]
    sites: tuple[SiteRow, ...]
    accepted: tuple[AcceptedChange, ...]


@final
@frozen
class Effect:
    """What is known of one operation besides the journal; texts as they were given.

    Attributes:
        intended_at, intent: set if an intent was kept.
        resulted_at, result: set if a result was kept.
    """

    intended_at: int | None = None
    intent: str | None = attrs.field(default=None, repr=False)
    resulted_at: int | None = None
    result: str | None = attrs.field(default=None, repr=False)


@final
@frozen
class Journal:
    """Everything of a conversation.

    Attributes:
        first: the position of the first record: 0, or where the present run begins.
        records: from there on, in order.
        effects: by operation id, those of the present run.
    """

    row: ConversationRow
    first: int
    records: tuple[str, ...] = attrs.field(repr=False)
    effects: Mapping[str, Effect] = attrs.field(repr=False)


# --- writing
#
# Unless it says otherwise, a write to a conversation that isn't there any more, because it has ended or its
# chat was forgotten, raises JournalConflictError, and nothing of its commit is stored.


@final
@frozen
class BeginConversation:
    """A conversation begins: unfinished, with an empty journal.

    Attributes:
        id: the number of the inbox row that starts it. JournalConflictError if it is known already.
    """

    lease: Lease
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
    """Add records to a journal.

    Attributes:
        position: of the first of them. JournalConflictError unless it is the next: another has written
            meanwhile, or an earlier write was lost.
        records: one line of text each.
    """

    lease: Lease
    conversation: ConversationId
    position: int
    records: tuple[str, ...] = attrs.field(repr=False)


@final
@frozen
class PutStanding:
    """Say where a conversation stands; coming to rest (not `unfinished`) ends its count of kills."""

    lease: Lease
    conversation: ConversationId
    at: int
    unfinished: bool
    wake_at: int | None = None


@final
@frozen
class PutRested:
    """Say in which operations a conversation stands, where its last record doesn't tell, and what it fits.

    Attributes:
        rests, build: as in `ConversationRow`.
    """

    lease: Lease
    conversation: ConversationId
    rests: str | None
    build: int


@final
@frozen
class KeepIntent:
    """Say that an operation is about to leave; a second one for it replaces the first.

    Attributes:
        run: of the conversation; JournalConflictError if that is over.
        operation: its id within the run.
    """

    lease: Lease
    conversation: ConversationId
    run: int
    operation: str
    at: int
    text: str = attrs.field(repr=False)


@final
@frozen
class KeepResult:
    """Keep what came of an operation; the first result stays. Nothing, if its run or conversation is over."""

    lease: Lease
    conversation: ConversationId
    run: int
    operation: str
    at: int
    text: str = attrs.field(repr=False)


@final
@frozen
class DropEffects:
    """Forget intents and results that the journal has made superfluous. Nothing, if they are gone."""

    lease: Lease
    conversation: ConversationId
    run: int
    operations: tuple[str, ...]


@final
@frozen
class ContinueConversation:
    """Replace a conversation's journal by the beginning of another run; unfinished, with no wake time.

    Positions count on, so that nothing of the old run can be taken for the new one's.

    Attributes:
        position: of the first record; JournalConflictError unless it is the next.
        records: the new journal; at least one.
    """

    lease: Lease
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
    """Don't revive it, by deadline or start, until this is taken back; its journal stays.

    Attributes:
        because: why; None takes it back, and ends its count of kills.
        error: a reference to the log.
    """

    lease: Lease
    conversation: ConversationId
    at: int
    because: str | None
    error: str | None = None


@final
@frozen
class TakeInHand:
    """Count one more kill at which its code was at work."""

    lease: Lease
    conversation: ConversationId
    at: int


@final
@frozen
class WakeEarlier:
    """Let every conversation wake earlier, but not before 1970: the clock was set back.

    Attributes:
        by: milliseconds.
    """

    lease: Lease
    by: int


@final
@frozen
class EndConversation:
    """A conversation is over: its rows go. Nothing, if they are gone.

    Attributes:
        error: a reference to what it failed with: everything of it is kept for a while then.
        kept: everything of it is kept for a while, too, though it ended well.
    """

    lease: Lease
    conversation: ConversationId
    at: int
    error: str | None = None
    kept: bool = False


@final
@frozen
class KeepCode:
    """Keep what records name: sources and sites that the store may have, and what runs from now on.

    What no conversation can name any more goes, whenever other code begins to run.

    Attributes:
        sources: each a digest, the module's name and the text.
    """

    lease: Lease
    sources: tuple[tuple[str, str, str], ...] = attrs.field(default=(), repr=False)
    sites: tuple[SiteRow, ...] = ()
    deployed: Deployed | None = None


@final
@frozen
class AcceptChange:
    """Keep that two calls are the same operation, until no conversation from before that is left."""

    lease: Lease
    change: AcceptedChange


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
    | AcceptChange
    | PutRested
)
