"""The promises that a simulation checks, and the journals in which a broken promise can be inspected."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, cast, final

from ..base.alarm_kinds import Alarm, AlarmKind
from ..base.frozen import guarded
from ..conversations.revival.stored import begun_journal
from ..emulator.chats import PlatformChat, Pressed
from ..errors import PaymentDeclinedError
from ..operator.api import Filing, journal_lines
from ..runtime.bot import Bot
from ..seams.inbox import InboxRow
from ..seams.journals import ConversationRow
from ..seams.rooms import is_chat
from ..wire.ids import ChatId
from .driving import DrivenWorld

_LIVES: Final = 1_000_000
_ROWS: Final = 1_000
# Longest delay of the platform plus the bot's retries, in milliseconds.
_LATE: Final = 60_000
# Alarms that faults of the platform may cause without an error in the bot. An alarm about money breaks no
# promise: the alarm informs an operator in time about a payment that the bot could not check or must not
# take.
_OF_FAULTS: Final[frozenset[AlarmKind]] = frozenset(
    {
        "outbox_held",
        "inbox_half_full",
        "sweep_blind",
        "paid_maybe_unverified",
        "lapsed_after_hint",
        "callback_after_end",
        "maybe_paid_again",
    }
)
# Alarms that people's acts may cause: for example, a person pays for something that is over, a payment is
# declined, or a person leaves a chat that still shows a payment button.
_OF_PEOPLE: Final[frozenset[AlarmKind]] = frozenset(
    {"inbox_half_full", "paid_will_lapse", "declined_by_code", "button_still_live"}
)


PROMISES: Final = {
    "handled": "each accepted event was handled",
    "answered": "each press was answered",
    "captured": "no money was captured twice",
    "alarms": "no alarm was rung without reason",
}
"""The checked promises, in words."""


@final
@guarded
class BrokenPromise:
    """A violation of a promise.

    Attributes:
        name: name of the promise, a key of `PROMISES`.
        text: description of the violation.
        chat_id: chat of the violation; None if unknown.
        at: time of the violation, in wall milliseconds; None if unknown.
        alarm: the alarm that reported the violation, if there was an alarm.
    """

    name: str
    text: str
    chat_id: ChatId | None = None
    at: int | None = None
    alarm: Alarm | None = None


@final
@guarded(kw_only=True)
class Circumstances:
    """People's acts and the platform's faults, which may explain an apparent violation.

    Attributes:
        outages: begin and end of each outage, in wall milliseconds.
        left: times at which people left, by chat, in wall milliseconds.
        faults: whether any fault of the platform was planned.
    """

    outages: Sequence[tuple[int, int]]
    left: Mapping[ChatId, Sequence[int]]
    faults: bool


def broken_so_far(world: DrivenWorld, around: Circumstances) -> Iterator[BrokenPromise]:
    """Yield the violations that later events can't repair: money captured twice, and unexplained alarms."""
    for bill in world.exchange.world.bills:
        captures = sorted(taking.captured_at for taking in bill.takings if taking.captured_at is not None)
        if len(captures) > 1:
            what = f"the {bill.kind} {bill.id} was captured {len(captures)} times"
            yield BrokenPromise("captured", what, bill.chat_id, captures[1])
    unwanted = {alarm.key for alarm in world.alarms if alarm.kind == "paid_will_lapse"}
    for alarm in world.alarms:
        if not (_explained(alarm, around) or (alarm.kind == "lapsed_after_hint" and alarm.key in unwanted)):
            yield BrokenPromise("alarms", f"alarm {alarm.kind}: {alarm.text}", alarm=alarm)


async def broken_in_the_end(bot: Bot, world: DrivenWorld, around: Circumstances) -> Sequence[BrokenPromise]:
    """Return all violations, with an entry for each occurrence. Call this after a period without faults."""
    return [*await _unhandled(bot), *_unanswered(world, around), *broken_so_far(world, around)]


async def _unhandled(bot: Bot) -> Sequence[BrokenPromise]:
    statistics, work = bot.statistics(), bot._work  # pyright: ignore[reportPrivateUsage]
    kept = statistics.counts.get("signal_kept", 0) + _waits_in_rooms(bot)
    if (left := statistics.store.inbox) <= kept:
        return []
    rows = list[InboxRow]() if work is None else await work.store.backlog(after=0, limit=_ROWS)
    first = next((row.chat_id for row in rows if is_chat(row.chat_id)), None)
    return [BrokenPromise("handled", f"{left} events were accepted and never handled", first)]


def _unanswered(world: DrivenWorld, around: Circumstances) -> Iterator[BrokenPromise]:
    now = world.exchange.clock.now()
    for chat in world.exchange.world.chats():
        silent = [
            one.at
            for one in chat.pressed.values()
            if one.reply is None
            and now - one.at > 60_000
            and not _of_form(chat, one)
            and not any(begin <= one.at <= end for begin, end in around.outages)
            # The event or the answer may have been late: the platform refuses answers to people who have
            # left.
            and not any(one.at <= at <= one.at + _LATE for at in around.left.get(chat.id, ()))
        ]
        # A person who has left gets no answers.
        if silent and chat.members:
            what = f"{len(silent)} presses in chat {chat.id} were never answered"
            yield BrokenPromise("answered", what, chat.id, silent[0])


def in_words(broken: Sequence[BrokenPromise]) -> list[str]:
    """Return the descriptions of violations with their counts, in the order of the promises."""
    found = Counter(one.text for one in sorted(broken, key=lambda one: [*PROMISES].index(one.name)))
    return [what if times == 1 else f"{what} ({times} times)" for what, times in found.items()]


def kept_by(broken: Sequence[BrokenPromise]) -> list[str]:
    """Return the descriptions of the promises that were kept."""
    return [words for name, words in PROMISES.items() if name not in {one.name for one in broken}]


def _waits_in_rooms(bot: Bot) -> int:
    """Return the number of signals in the mailboxes of running rooms."""
    work = bot._work  # pyright: ignore[reportPrivateUsage]
    lives = list[Mapping[str, object]]() if work is None else work.dispatcher.chats.portraits(_LIVES)
    rooms = [life for life in lives if not is_chat(ChatId(cast("int", life["chat_id"])))]
    return sum(len(cast("list[object]", room["mailbox"])) for room in rooms)


def _explained(alarm: Alarm, around: Circumstances) -> bool:
    """Return whether faults or people's acts explain the alarm, so that no promise is broken."""
    if alarm.kind == "token_refused":
        # If several people have left and the bot writes to no other chat, the refusals look like a refused
        # token.
        return len(around.left) > 1
    # The author could not have prevented the platform's decline.
    declined = alarm.kind == "conversation_crashed" and PaymentDeclinedError.__name__ in alarm.text
    return declined or alarm.kind in _OF_PEOPLE or (around.faults and alarm.kind in _OF_FAULTS)


def _of_form(chat: PlatformChat, pressed: Pressed) -> bool:
    """Return whether the press sent a form. Such a press has an id, but gets no answer (interface section
    4.1).
    """
    entry = chat.entries.get(pressed.message_id)
    return entry is not None and entry.form is not None


# --- the journals of a violation


async def journals_of(bot: Bot, broken: BrokenPromise) -> list[list[Mapping[str, object]]]:
    """Return the journals of a violation's chat, in the operator's format.

    The first journal belongs to the conversation that broke the promise. The result is empty if no
    conversation broke the promise, or if that conversation has since ended without an error.
    """
    work = bot._work  # pyright: ignore[reportPrivateUsage]
    if work is None:
        return []
    filing = Filing(work.store, begun_journal)
    rows, after = list[ConversationRow](), 0
    while True:
        page, end = await filing.rows(after)
        rows += page
        if end is None:
            break
        after = end
    if (chosen := _conversation_of(broken, rows)) is None:
        return []
    beside = [row for row in rows if row.chat_id == chosen.chat_id and row.id != chosen.id]
    found = [await filing.journal(row.id) for row in (chosen, *beside)]
    return [list(journal_lines(journal)) for journal in found if journal is not None]


def _conversation_of(broken: BrokenPromise, rows: Sequence[ConversationRow]) -> ConversationRow | None:
    if (alarm := broken.alarm) is not None:
        words = f"{alarm.key} {alarm.text}".split()
        ill = (row for row in rows if (row.error or row.parked_because) and row.route in words)
        # The first failure raised the alarm.
        return min(ill, key=lambda row: row.updated_at, default=None)
    of_chat = [row for row in rows if row.chat_id == broken.chat_id]
    before = [row for row in of_chat if broken.at is None or row.started_at <= broken.at]
    return before[-1] if before else None
