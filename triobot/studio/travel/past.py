"""The state at a notch: the journal up to the notch, and the chat as people saw it.

A notch is the conversation's start, or one turn with all its records. A journal has only the events and the
outcomes of operations. A replay of the code, without effects, adds the contents of the operations (see
`Onlooker`). Acts in the chat's other conversations are not included.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Final, cast, final

import attrs

from ...base.frozen import guarded
from ...conversations.codec import CODEC
from ...conversations.inspection.rerun import open_rerun
from ...conversations.revival.stored import Stored, read_opening
from ...conversations.routes.router import table_of
from ...conversations.routes.routing import KIND
from ...conversations.running.branches import Onlooker
from ...engine import Record, Run
from ...engine.records import (
    ABSENT,
    DONE,
    EFFECTS,
    ENDED,
    ENDS,
    FAILED,
    FIRED,
    PATCHED,
    READ,
    START,
    TURNS,
    Id,
    time_of,
)
from ...errors import ConfigError, NondeterminismError
from ...runtime.bot import Bot, dry_services_of
from ...runtime.settings import Settings
from ...seams.money import Captured, PaymentNotice
from ...wire.events import Event
from ...wire.ids import ChatId, RefId
from ...wire.operations import Operation

_VERIFY: Final = "verify"
_STEP: Final = "step"
_BESIDE_DATA: Final = (":", "#")


# --- notches


def notch_starts(records: Sequence[Record]) -> list[int]:
    """Return the indexes of the records that begin a journal's notches."""
    return [place for place, record in enumerate(records) if record[0] in TURNS or record[0] == START]


def up_to(stored: Stored, notch: int, *, noted: bool = True) -> Stored:
    """Return a journal as of the end of a turn, before the next turn began.

    Args:
        noted: whether to include records that newer code added later about these turns.

    Raises:
        ConfigError: there is no such notch.
    """
    begins = notch_starts(stored.records)
    if not 0 <= notch < len(begins):
        raise ConfigError(f"this journal has the notches 0 to {len(begins) - 1}, and not {notch}")
    if notch == len(begins) - 1:
        return stored
    end = begins[notch + 1]
    kept = [record for record in stored.records[:end] if record[0] not in EFFECTS]
    # Newer code may add records about an old turn later. Such records belong to the old turn.
    turns = {record[2] for record in kept if record[0] in TURNS} | {0}
    later = [one for one in stored.records[end:] if noted and _is_beside(one) and one[2] in turns]
    return Stored(stored.row, [*kept, *later])


def _is_beside(record: Record) -> bool:
    return record[0] not in TURNS and record[0] not in EFFECTS and record[0] not in (PATCHED, START)


async def before_failure(bot: Bot, stored: Stored, notch: int, *, settings: Settings, group: bool) -> int:
    """Return the notch from which the current code can repeat a failure; `notch` if nothing failed.

    The journal contains the error of a failed step. A later notch would replay this error, although the code
    may be fixed by now. If the code differs from the journal before the failure, the result is the last notch
    at which code and journal agree.

    Raises:
        NondeterminismError: the runtime would park the conversation without running it.
    """
    begins = [stored.records[place] for place in notch_starts(stored.records)]
    over = begins[-1][0] == ENDED
    last = len(begins) - 1 - over
    failed = stored.row.error is not None or (over and begins[-1][2] is not None)
    if not failed or notch < last:
        return notch
    notch = last
    while notch > 0 and begins[notch][0] == FAILED and begins[notch][3] == _STEP:
        notch -= 1
    services = dry_services_of(bot, settings)
    async with open_rerun(services, table_of(bot), up_to(stored, notch), group=group) as rerun:
        parts = [] if rerun.divergence is None else [rerun.divergence]
        others = {one.operation for one in (*rerun.changed, *parts)}
    return next((at - 1 for at in range(1, notch + 1) if str(begins[at][2]) in others), notch)


def time_at(stored: Stored) -> int:
    """Return the time of a journal's last turn, in wall milliseconds."""
    return time_of(stored.records[notch_starts(stored.records)[-1]])


def is_over(stored: Stored) -> bool:
    """Whether the journal contains the conversation's end."""
    return stored.records[notch_starts(stored.records)[-1]][0] in ENDS


def event_of(record: Record) -> Event | None:
    """Return the event that began a turn; None for a turn without an event.

    Raises:
        UnreadableRecordError: this program can't read the event.
    """
    if record[0] == START:
        return read_opening(record).event
    if record[0] == DONE and record[3] == KIND:
        return cast("Event", cast("tuple[object, ...]", CODEC.value_of(record[5]))[0])
    if record[0] == FIRED and record[4] is not None:
        return cast("Event", cast("tuple[object, ...]", CODEC.value_of(record[4]))[0])
    return None


# --- the state at a notch


@final
@guarded
class Past:
    """A conversation's state at a notch.

    Attributes:
        stored: the journal up to the notch.
        whole: the whole journal.
        at: time of the turn, in wall milliseconds.
        sent: operations passed to the outbox, by operation id.
        data: values of the chat's data that the conversation read or wrote, by key; None for a missing value.
        before_charge: the last notch before the charge that is under way; None if no charge is under way.
        ended: whether the conversation has ended.
    """

    stored: Stored
    whole: Stored
    at: int
    sent: Mapping[str, Operation[object]] = attrs.field(repr=False)
    data: Mapping[str, str | None] = attrs.field(repr=False)
    before_charge: int | None
    ended: bool

    @property
    def chat_id(self) -> ChatId:
        """The conversation's chat or room."""
        return self.stored.row.chat_id


async def look_back(
    bot: Bot, stored: Stored, notch: int, *, settings: Settings | None = None, group: bool = False
) -> Past:
    """Replay a journal up to a notch under the current code, without effects; return the state at the notch.

    Raises:
        ConfigError: there is no such notch.
        NondeterminismError: the code differs from the journal before the notch.
    """
    by_then, heard = up_to(stored, notch), _Heard()
    services = dry_services_of(bot, settings or Settings())
    async with open_rerun(services, table_of(bot), by_then, group=group, look=heard) as rerun:
        # Read before the end of the replay, because the end of the replay also ends the charges.
        parts, before_charge = rerun.divergence, heard.before_charge
    if parts is not None:
        raise NondeterminismError(
            parts.operation, parts.what + ("" if parts.line == "?" else f" ({parts.line})")
        )
    data = _data_of(by_then, stored, heard)
    return Past(by_then, stored, time_at(by_then), heard.sent, data, before_charge, is_over(by_then))


async def is_charging(bot: Bot, stored: Stored, settings: Settings) -> bool:
    """Whether a payment is under way at a journal's end; False for a conversation that can't run."""
    heard = _Heard()
    with suppress(NondeterminismError):
        async with open_rerun(dry_services_of(bot, settings), table_of(bot), stored, look=heard):
            return bool(heard.charging)
    return False


@final
class _Heard(Onlooker):
    """Onlooker that collects a replay's sent operations, data and charges.

    Attributes:
        sent: operations passed to the outbox, by operation id, in order.
        data: the value last read or written, by key of the chat's data.
        charging: numbers of the charges that wait for their money.
    """

    def __init__(self) -> None:
        self.sent: dict[str, Operation[object]] = {}
        self.data: dict[str, str | None] = {}
        self.charging: set[RefId] = set()
        self._free = 0

    def looks(self, run: Run) -> None:
        """Record the data that the turn read and wrote, and whether a charge is under way."""
        if not self.charging:
            self._free = run.journal.given
        for key, node in run.view.items():
            # Keys with these prefixes aren't the chat's data.
            if key[:1] not in _BESIDE_DATA:
                self.data[key] = None if node is ABSENT else node

    def sends(self, id: Id, operation: Operation[object]) -> None:
        self.sent[str(id)] = operation

    def charges(self, number: RefId, *, waits: bool) -> None:
        (self.charging.add if waits else self.charging.discard)(number)

    @property
    def before_charge(self) -> int | None:
        """The last notch before the charge that is under way; None if no charge is under way."""
        return self._free if self.charging else None


def _data_of(by_then: Stored, whole: Stored, heard: _Heard) -> dict[str, str | None]:
    """Return the chat's data at the notch: values accessed up to the notch, and values first read later."""
    later: dict[str, str | None] = {}
    known = {id(record) for record in by_then.records}
    for record in whole.records:
        if record[0] == READ and id(record) not in known:
            later.setdefault(record[3], record[4] if len(record) > 4 else None)
    return {**later, **heard.data}


def notices_in(record: Record) -> Iterator[PaymentNotice]:
    """Yield the payment notices in the record of a ledger query; none for other records."""
    if record[0] == DONE and record[3] == _VERIFY:
        yield from cast("tuple[list[PaymentNotice], object]", CODEC.value_of(record[5]))[0]


def captured_in(record: Record) -> Iterator[Captured]:
    """Yield the captured money in the record of a ledger query; none for other records."""
    if record[0] == DONE and record[3] == _VERIFY:
        money = cast("tuple[object, object]", CODEC.value_of(record[5]))[1]
        if isinstance(money, Captured):
            yield money
