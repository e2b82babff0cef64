"""The state at a notch: the journal up to the notch, and the chat as its people saw it.

A notch is the conversation's start, or a turn: a record that begins the turn, and the turn's other records. A
journal has only the events and the outcomes of operations. A replay of the code, without effects, adds the
contents of the operations (see `Onlooker`). Acts of other conversations in the chat are not included.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Final, cast, final

import attrs

from ...base.frozen import guarded
from ...conversations.codec import CODEC
from ...conversations.inspection.rerun import open_rerun
from ...conversations.revival.stored import Stored, read_opening
from ...conversations.routes.router import table_of
from ...conversations.routes.routing import KIND
from ...conversations.running.branches import ChargeStands, Onlooker
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
from ...seams.money import Captured, Charge, PaymentNotice
from ...wire.events import Event
from ...wire.ids import ChatId, MessageId, RefId
from ...wire.markup import InlineKeyboard, PayButton
from ...wire.operations import CreateInvoice, EditMessage, Operation, SendMessage
from ...wire.results import Sent

_VERIFY: Final = "verify"
_CHARGE: Final = "charge"
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
    may be fixed by now. The code may also differ from the journal before the failure. Then the result is the
    last notch at which code and journal agree.

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


# --- the replay's reports


@final
@guarded
class OpenCharge:
    """A charge that waits for its money at the notch.

    Attributes:
        id: the payment's number.
        made_at: wall milliseconds at which the charge was recorded.
        sent: whether the charge's message or invoice was sent.
        message: id of the message with the charge's button.
        captured: the captured money; None if no capture is known yet.
        claimed: whether the platform reported a payment that is not verified yet.
        notice: the later outcome of this payment, if the whole journal contains the outcome.
    """

    id: RefId
    asked: Charge = attrs.field(repr=False)
    made_at: int
    sent: bool = False
    message: MessageId | None = None
    captured: Captured | None = attrs.field(default=None, repr=False)
    claimed: bool = False
    notice: PaymentNotice | None = attrs.field(default=None, repr=False)


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
        charges: the charges that wait for their money.
        ended: whether the conversation has ended.
    """

    stored: Stored
    whole: Stored
    at: int
    sent: Mapping[str, Operation[object]] = attrs.field(repr=False)
    data: Mapping[str, str | None] = attrs.field(repr=False)
    charges: Sequence[OpenCharge]
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
        parts, standing = rerun.divergence, rerun.standing()
        looks = {id for id, kind, _ in standing.operations if kind == _VERIFY}
        # Read before the replay is closed, since its end also ends the charges.
        charges = [
            _charge_at(heard, by_then, stored, looks, number, *tell())
            for number, tell in heard.charging.items()
        ]
    if parts is not None:
        raise NondeterminismError(
            parts.operation, parts.what + ("" if parts.line == "?" else f" ({parts.line})")
        )
    data = _data_of(by_then, stored, heard)
    return Past(by_then, stored, time_at(by_then), heard.sent, data, charges, is_over(by_then))


@final
class _Heard(Onlooker):
    """Collects the reports of a replay.

    Attributes:
        sent: operations passed to the outbox, by operation id, in order.
        data: last value read or written of each key of the chat.
        charging: the charges that wait for their money, by number.
    """

    def __init__(self) -> None:
        self.sent: dict[str, Operation[object]] = {}
        self.data: dict[str, str | None] = {}
        self.charging: dict[RefId, ChargeStands] = {}

    def looks(self, run: Run) -> None:
        """Record the data that the turn read and wrote."""
        for key, node in run.view.items():
            # Keys with these prefixes aren't the chat's data.
            if key[:1] not in _BESIDE_DATA:
                self.data[key] = None if node is ABSENT else node

    def sends(self, id: Id, operation: Operation[object]) -> None:
        self.sent[str(id)] = operation

    def charges(self, number: RefId, stands: ChargeStands | None) -> None:
        if stands is None:
            self.charging.pop(number, None)
        else:
            self.charging[number] = stands


def _data_of(by_then: Stored, whole: Stored, heard: _Heard) -> dict[str, str | None]:
    """Return the chat's data at the notch: values accessed before its end, and values first read later."""
    later: dict[str, str | None] = {}
    known = {id(record) for record in by_then.records}
    for record in whole.records:
        if record[0] == READ and id(record) not in known:
            later.setdefault(record[3], record[4] if len(record) > 4 else None)
    return {**later, **heard.data}


def _charge_at(
    heard: _Heard,
    by_then: Stored,
    whole: Stored,
    looks: Collection[str],
    number: RefId,
    asked: Charge,
    paid: bool,
) -> OpenCharge:
    done = {str(record[2]): record for record in by_then.records if record[0] == DONE}
    made_at = next(
        (time_of(r) for r in done.values() if r[3] == _CHARGE and r[5] == number), time_at(by_then)
    )
    charge = OpenCharge(number, asked, made_at)
    for id, operation in heard.sent.items():
        if id in done and done[id][3] == _CHARGE and _asks_for(operation, charge):
            outcome = CODEC.value_of(done[id][5])
            message = outcome.id if isinstance(outcome, Sent) else getattr(operation, "message_id", None)
            charge = attrs.evolve(charge, sent=True, message=message)
    if paid:
        found = (money for record in by_then.records for money in captured_in(record))
        return attrs.evolve(charge, captured=next((one for one in found if one.id == number), None))
    later = (notice for r in whole.records if str(r[2]) in looks for notice in notices_in(r))
    return attrs.evolve(charge, claimed=bool(looks), notice=next(later, None))


def _asks_for(operation: Operation[object], charge: OpenCharge) -> bool:
    """Whether the operation shows the charge to the user who is to pay."""
    match operation:
        case (
            SendMessage(inline_keyboard=InlineKeyboard() as keyboard)
            | EditMessage(inline_keyboard=InlineKeyboard() as keyboard)
        ):
            buttons = (button for row in keyboard.rows for button in row)
            return any(isinstance(one, PayButton) and one.ref_id == charge.id for one in buttons)
        case CreateInvoice():
            return operation.amount == charge.asked.amount and operation.description == charge.asked.text
        case _:
            return False


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
