"""The promises that a simulation checks: what broke one, and where that can be looked at."""

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
# The platform's longest delays and our retries, in milliseconds.
_LATE: Final = 60_000
# What goes wrong on the platform's side may ring these; they are not the bot's fault. Those about money are
# the promise kept: an operator is told in time of what the bot could not find out, or was not to take.
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
# And these what people do: they pay for what is over, the platform declines a payment, they leave with a
# button on their screen.
_OF_PEOPLE: Final[frozenset[AlarmKind]] = frozenset(
    {"inbox_half_full", "paid_will_lapse", "declined_by_code", "button_still_live"}
)


PROMISES: Final = {
    "handled": "each accepted event was handled",
    "answered": "each press was answered",
    "captured": "no money was captured twice",
    "alarms": "no alarm was rung without reason",
}
"""What is looked at in the end, in words."""


@final
@guarded
class BrokenPromise:
    """What broke a promise.

    Attributes:
        name: of the promise, in `PROMISES`.
        text: what broke it, in words.
        chat_id: where; None where that isn't known.
        at: when, in wall milliseconds; None for where the conversation stands.
        alarm: which alarm tells of it.
    """

    name: str
    text: str
    chat_id: ChatId | None = None
    at: int | None = None
    alarm: Alarm | None = None


@final
@guarded(kw_only=True)
class Circumstances:
    """What people did and the platform failed at, which explains some of what would else be a broken promise.

    Attributes:
        outages: from when until when, in wall milliseconds.
        left: when people left their chats.
        faults: whether anything went wrong on the platform's side.
    """

    outages: Sequence[tuple[int, int]]
    left: Mapping[ChatId, Sequence[int]]
    faults: bool


def broken_so_far(world: DrivenWorld, around: Circumstances) -> Iterator[BrokenPromise]:
    """Yield what is broken whatever comes: money that was taken twice, and alarms."""
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
    """Return what is broken when all has been well for a while; the same as often as it was."""
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
            # Its event was late, or the answer: by then the platform refused it.
            and not any(one.at <= at <= one.at + _LATE for at in around.left.get(chat.id, ()))
        ]
        # A person who has left hears nothing any more.
        if silent and chat.members:
            what = f"{len(silent)} presses in chat {chat.id} were never answered"
            yield BrokenPromise("answered", what, chat.id, silent[0])


def in_words(broken: Sequence[BrokenPromise]) -> list[str]:
    """Return what broke promises, each once and how often; in the order of the promises."""
    found = Counter(one.text for one in sorted(broken, key=lambda one: [*PROMISES].index(one.name)))
    return [what if times == 1 else f"{what} ({times} times)" for what, times in found.items()]


def kept_by(broken: Sequence[BrokenPromise]) -> list[str]:
    """Return the promises that held, in words."""
    return [words for name, words in PROMISES.items() if name not in {one.name for one in broken}]


def _waits_in_rooms(bot: Bot) -> int:
    """Count the signals that rooms which run have not asked for yet."""
    work = bot._work  # pyright: ignore[reportPrivateUsage]
    lives = list[Mapping[str, object]]() if work is None else work.dispatcher.portraits(_LIVES)
    rooms = [life for life in lives if not is_chat(ChatId(cast("int", life["chat_id"])))]
    return sum(len(cast("list[object]", room["mailbox"])) for room in rooms)


def _explained(alarm: Alarm, around: Circumstances) -> bool:
    """Return whether the faults or the people account for this alarm, so that it breaks no promise."""
    if alarm.kind == "token_refused":
        # When several have left, and no other chat is written to, it looks just like a refused token.
        return len(around.left) > 1
    # Nothing that the bot's author could have done would have made the platform take it.
    declined = alarm.kind == "conversation_crashed" and PaymentDeclinedError.__name__ in alarm.text
    return declined or alarm.kind in _OF_PEOPLE or (around.faults and alarm.kind in _OF_FAULTS)


def _of_form(chat: PlatformChat, pressed: Pressed) -> bool:
    """Return whether a form was sent: it has an id, too, but no bot answers it (interface section 4.1)."""
    entry = chat.entries.get(pressed.message_id)
    return entry is not None and entry.form is not None


# --- where it broke


async def journals_of(bot: Bot, broken: BrokenPromise) -> list[list[Mapping[str, object]]]:
    """Return the journals of the chat in which it broke, as an operator is told them.

    The first is that of the conversation that broke it. There are none where no conversation did, or where it
    has ended well since.
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
        # Whichever came first rang it.
        return min(ill, key=lambda row: row.updated_at, default=None)
    of_chat = [row for row in rows if row.chat_id == broken.chat_id]
    before = [row for row in of_chat if broken.at is None or row.started_at <= broken.at]
    return before[-1] if before else None
