"""A branch: another continuation of a conversation from a notch, on the real runtime, in virtual time.

A branch starts the bot as after a restart, at the time of the notch. The store in memory contains the journal
up to the notch, and the emulated platform contains the chat. A journal lacks the ledger's rows, so a branch
can't begin while a payment is under way. From a notch within a charge, the branch begins before the charge,
and the code charges again. A branch sends nothing to the outside and changes nothing outside. The branch is
discarded when the block of `open_branch` ends.

Between two calls, the caller must wait for a thread, so that virtual time stands still. Virtual time jumps
when all tasks wait, except while a task waits for a thread (`triobot.testing.virtual`).
"""

from __future__ import annotations

import random
import tempfile
from collections.abc import AsyncGenerator, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final, cast, final

import attrs
import trio
from trio.testing import wait_all_tasks_blocked

from ...base.alarm_kinds import Alarm
from ...base.authors import only_of
from ...base.clock import JUMPED, StoppedClock
from ...base.frozen import guarded
from ...base.secrets import Secret
from ...cli.tracebacks import authors_words
from ...conversations.calls.signals import Call, asked_of, room_of
from ...conversations.inspection.portrait import Portrait
from ...conversations.revival.code import Code
from ...conversations.revival.stored import Stored, read_opening
from ...emulator.chats import Change, Edited, Shown
from ...emulator.exchange import Exchange, ShiftedClock
from ...emulator.person import InsideControl
from ...emulator.server import make_app, make_exchange
from ...emulator.views import JsonObject, view_change, view_entry
from ...engine import Record, encode_record
from ...engine.records import DONE, FAILED, FIRED, INTERRUPTED, time_of, times_of
from ...errors import ConfigError
from ...runtime.bot import Bot, apart
from ...runtime.settings import Settings
from ...runtime.work import Runtime
from ...seams.inbox import Arrival, InboxRow, Quota
from ...seams.journals import (
    FITS,
    AppendRecords,
    BeginConversation,
    ContinueConversation,
    Journal,
    PutRested,
    PutStanding,
)
from ...seams.money import Captured
from ...seams.writes import Consume, PutData, PutSetting, Write
from ...store import Store
from ...store.memory import MemoryRows, open_memory
from ...testing.process import DrivenProcess, InsideTransport
from ...testing.virtual import VirtualWallClock, virtual_time
from ...wire.ids import ChatId, SenderId
from ...wire.platform_side import Body
from ...wire.rules import JsonValue
from .fence import Fence, FencedStore, WouldLeave
from .past import Past, is_charging, is_over, look_back, notch_starts, time_at, up_to
from .staging import ChatStage, events_in
from .steps import AskedStep, DoneStep, Steps

_AUTHORITY: Final = "127.0.0.1:9"
_TOKEN: Final = "token-of-a-branch"
_SECRET: Final = "secret-in-the-address-of-a-branch"

MOST: Final = 3
"""Maximum number of open branches."""
PATIENCE: Final = 60.0
"""Virtual seconds to wait until the bot has nothing to do. After this time the bot is left running, since its
code may wait for something outside the chat.
"""
_STRIDE: Final = 0.02
_KEPT: Final = 256


@final
@guarded
class Broke:
    """An error of the bot's own code in a branch.

    Attributes:
        text: traceback in Python's format, with only the author's frames.
    """

    error: Exception = attrs.field(repr=False)
    text: str = attrs.field(repr=False)


@final
@guarded
class Did:
    """An act of the developer in a branch.

    Attributes:
        after: number of the platform's newest change before the act.
        name: name of the act in the control API; ``wait`` if time passed; ``tell`` for a signal.
        given: arguments of the act.
    """

    after: int
    at: int
    name: str
    given: Mapping[str, Any] = attrs.field(repr=False)
    user_id: SenderId | None = None


@final
class LiveBranch:
    """A conversation that continues from a notch; made by `open_branch`.

    Attributes:
        past: the conversation's state at the notch.
        people: the people of the conversation's chat.
        exchange: the branch's platform, with its `world`.
        failures: errors of the bot's own code so far.
        alarms: alarms that an operator would have received.
        fence: separates the branch from the outside.
        diary: the developer's acts, oldest first.
        began: number of the platform's newest change when the branch began.
        stage: the chat as of the notch.
        process: runs the bot from the state at the notch.
    """

    def __init__(
        self,
        past: Past,
        exchange: Exchange,
        clock: VirtualWallClock,
        steps: Steps,
        stage: ChatStage,
        fence: Fence,
    ) -> None:
        self.past = past
        self.exchange = exchange
        self.failures: list[Broke] = []
        self.alarms: list[Alarm] = []
        self.diary: list[Did] = []
        self.began = exchange.world.seq
        self.stage = stage
        self.fence = fence
        self.process: DrivenProcess | None = None
        self._clock = clock
        self._steps = steps
        self._control = InsideControl(exchange)
        self._opening: object = read_opening(past.whole.records[0]).event
        self.people = list(stage.people.values())

    # --- the branch's state

    @property
    def now(self) -> int:
        """The branch's time, in wall milliseconds."""
        return self._clock.now()

    @property
    def asked(self) -> Sequence[AskedStep]:
        """Steps that wait for the developer to decide their outcome."""
        return list(self._steps.asked.values())

    @property
    def steps(self) -> Sequence[DoneStep]:
        """Steps that are done."""
        return self._steps.done

    @property
    def left(self) -> Sequence[WouldLeave]:
        """Effects, such as messages and signals, that would have left the branch."""
        return self.fence.left

    def chat(self) -> list[JsonObject]:
        """Return the chat as its people see it, oldest first: messages, and lines for other changes.

        ``kind`` is one of ``message``, ``press``, ``form``, ``money``, ``answer`` (to a press), ``join``,
        ``leave`` and ``time``. A message has the control API's format; ``said`` contains all versions of the
        message. A line ``time`` means that the developer let ``seconds`` pass; times below 1 s get no line.
        ``new`` is true if the line was added in the branch.
        """
        found: list[tuple[int, JsonObject]] = []
        said: dict[int, list[JsonValue]] = {}
        for change in self.exchange.world.changes(0):
            line = None if change.what.chat_id != self.past.chat_id else self._line(change, said)
            if line is not None:
                found.append((change.seq, {**line, "at": change.at, "new": change.seq > self.began}))
        for did in self.diary:
            if did.name == "wait" and (seconds := did.given["seconds"]) >= 1:
                line = {"kind": "time", "seconds": seconds, "at": did.at, "new": True}
                found.append((did.after, line))
        return [line for _, line in sorted(found, key=lambda one: one[0])]

    def _line(self, change: Change, said: dict[int, list[JsonValue]]) -> JsonObject | None:
        chat = self.exchange.world.chat(self.past.chat_id)
        match change.what:
            case Shown(entry=entry):
                versions = said[entry.id] = [view_entry(entry)]
                return {"kind": "message", **view_entry(chat.entries.get(entry.id, entry)), "said": versions}
            case Edited(entry=entry):
                said.get(entry.id, []).append(view_entry(entry))
                return None
            case _:
                return None if change.after is None else view_change(change)

    def stands(self) -> Sequence[Portrait]:
        """Return the state of each conversation of the chat: see `portray`."""
        portraits = self._work.dispatcher.chats.portraits(_KEPT)
        mine = [one for one in portraits if one["chat_id"] == self.past.chat_id]
        return [one for chat in mine for one in cast("Sequence[Portrait]", chat["conversations"])]

    @property
    def code(self) -> Code | None:
        """The code that the branch runs."""
        return self._work.dispatcher.services.code

    @property
    def ended(self) -> bool:
        """Whether the conversation has ended."""
        return all(one["id"] != self.past.stored.row.id for one in self.stands())

    async def journal(self) -> Journal | None:
        """Return the conversation's current journal; None if the journal was deleted."""
        await self.settle()
        return await self._work.store.journal(self.past.stored.row.id)

    async def data(self) -> Mapping[str, str]:
        """Return the chat's data, serialised, by key."""
        return await self._work.store.data(self.past.chat_id)

    async def asks_money(self) -> bool:
        """Whether the branch has payments."""
        await self.settle()
        return bool(await self._work.store.payments.find(chat_id=self.past.chat_id, limit=1))

    # --- the developer's acts

    async def act(self, name: str, given: Mapping[str, Any], user_id: int | None = None) -> Any:
        """Carry out a person's act in the app, and wait until the bot has nothing left to do.

        Args:
            name: name of the act in the emulator's control API.
            given: arguments of the act.
            user_id: the person who acts; by default the chat's first person.

        Raises:
            AppError: the app doesn't offer this act.
        """
        user = next((one for one in self.people if user_id in (None, one.id)), None)
        if user is None:
            raise ConfigError("nobody of this chat has this id")
        own = {} if user.chat_id == self.past.chat_id else {"chat": self.past.chat_id}
        did = Did(self.exchange.world.seq, self.now, name, dict(given), user.id)
        answer = await self._control.post(f"users/{user.id}/{name}", {**given, **own})
        self.diary.append(did)
        await self.settle()
        return answer

    async def pays(self, *, code: int | None = None, user_id: int | None = None) -> None:
        """Pay the newest payment button or invoice; with `code`, the payment fails with that code."""
        buttons = any(bill.kind == "payment" for bill in self.exchange.world.bills)
        given: dict[str, Any] = {} if code is None else {"code": code}
        await self.act("pay", given if buttons else {**given, "newest_invoice": True}, user_id)

    async def tells(self, value: object) -> None:
        """Send the conversation's chat or room a signal, as another program would."""
        self.diary.append(Did(self.exchange.world.seq, self.now, "tell", {"value": value}))
        calls, room = self._work.dispatcher.chat_calls, room_of(self._opening)
        await calls.signal(self.past.chat_id, value, None, room)
        await self.settle()

    async def waits(self, seconds: float) -> None:
        """Let `seconds` pass, and a moment more for the work that becomes due."""
        self.diary.append(Did(self.exchange.world.seq, self.now, "wait", {"seconds": seconds}))
        await trio.sleep(seconds + _STRIDE)
        self.exchange.pass_time(0)
        await self.settle()

    async def returns(self, value: object, step: int | None = None) -> None:
        """Make the waiting step number `step` return `value`; by default the first waiting step.

        Raises:
            LocalProtocolError: no such step waits, or the value can't be recorded.
        """
        self._steps.returns(step, value)
        await self.settle()

    async def raises(self, kind: str, text: str = "", step: int | None = None) -> None:
        """Make the waiting step number `step` raise a `kind` error; by default the first waiting step.

        Raises:
            LocalProtocolError: no such step waits.
        """
        self._steps.raises(step, kind, text)
        await self.settle()

    async def runs(self, step: int | None = None) -> None:
        """Run the real code of the waiting step number `step`; by default of the first waiting step.

        The code may reach the outside world.

        Raises:
            LocalProtocolError: no such step waits.
        """
        self._steps.runs(step)
        await self.settle()

    # --- running

    def failed(self, error: Exception, name: str, chat_id: ChatId, reference: str) -> None:
        self.failures.append(Broke(error, authors_words(error, variables=True)))

    async def settle(self) -> None:
        """Let time pass until the bot has nothing left to do, or a step waits for the developer.

        At most `PATIENCE` seconds pass.
        """
        with trio.move_on_after(PATIENCE):
            while True:
                await wait_all_tasks_blocked()
                if self._rests or self.asked:
                    return
                await trio.sleep(_STRIDE)

    @property
    def _rests(self) -> bool:
        outbox, dispatcher = self._work.outbox.statistics(), self._work.dispatcher
        commits = dispatcher.commits
        busy = self.exchange.pusher.pending or outbox.queued or outbox.in_flight or dispatcher.work.busy
        return not busy and commits.written == commits.added

    @property
    def _work(self) -> Runtime:
        assert self.process is not None, "the branch is opened"
        intake = self.process.intake
        assert intake is not None
        assert intake.work is not None
        return intake.work


@asynccontextmanager
async def open_branch(
    bot: Bot,
    stored: Stored,
    notch: int,
    *,
    beside: Sequence[Stored] = (),
    group: bool | None = None,
    settings: Settings | None = None,
    numbers: int = 0,
    asks: Collection[str] = (),
    sent: Mapping[str, str] | None = None,
) -> AsyncGenerator[LiveBranch]:
    """Continue a conversation from a notch while the block runs, then discard the branch.

    If a payment is under way at the notch, the branch begins at the last notch before its charge.

    Args:
        stored: the conversation's journal.
        beside: journals of the chat's other conversations, which are restored as of the notch too.
            Conversations that waited for a payment at that time, or gave a payment's goods, are left out.
        group: whether the chat is a group; None: the journal decides. With True, the store of the branch
            has seen all people of the journal, also those who act after the notch.
        settings: the bot's settings; the branch uses only those that the bot's code reads. None: the
            defaults.
        numbers: the branch's messages get numbers above this number.
        asks: names of step functions whose recorded results aren't used: the developer decides the outcomes.
        sent: texts of the sent messages, by operation; the current code may have other texts.

    Raises:
        ConfigError: there is no such notch, the conversation is a payment's aside, or time isn't virtual.
        NondeterminismError: the code differs from the journal before the notch.
    """
    settings = settings or Settings()
    past = await look_back(bot, stored, notch, settings=settings, group=bool(group))
    if past.before_charge is not None:
        past = await look_back(bot, stored, past.before_charge, settings=settings, group=bool(group))
    if _gives(stored):
        raise ConfigError(
            "this conversation gives for a payment: open the branch in the conversation that charges, "
            "and pay in the branch"
        )
    others = [then for one in beside if one.row.id != stored.row.id and (then := _by(one, past.at))]
    others = [
        one for one in others if is_over(one) or not (_gives(one) or await is_charging(bot, one, settings))
    ]
    own, provided = apart(bot)
    later = [record for one in (stored, *beside) for record in _behind(one, past)]
    steps = Steps(later, [cast("Any", one.resource) for one in provided], asks)
    try:
        with virtual_time(), tempfile.TemporaryDirectory(prefix="triobot-branch-") as folder:
            clock = VirtualWallClock(past.at)

            async def post(body: Body) -> int | None:
                return await process.take(body)

            exchange = make_exchange(
                Path(folder),
                post,
                base_url=f"http://{_AUTHORITY}",
                chance=random.Random(0),
                clock=ShiftedClock(VirtualWallClock(past.at)),
            )
            door = make_app(exchange, token=_TOKEN, control_token=None, authorities=[_AUTHORITY])
            fence = Fence(past.chat_id, exchange.world, clock.now)
            stage = ChatStage(exchange.world, past, fence, group=group, numbers=numbers, sent=sent)
            stage.play()
            rows = await _planted(past, list(stage.people) if group else _senders(past, others), others)
            fence.begin()
            exchange.hear_operation = fence.welcome
            branch = LiveBranch(past, exchange, clock, steps, stage, fence)
            async with trio.open_nursery() as nursery:
                process = branch.process = DrivenProcess(
                    nursery,
                    own,
                    None,
                    settings=_settings_of(settings, exchange),
                    clock=clock,
                    transport=InsideTransport(door, exchange.outage),
                    rows=rows,
                    on_alarm=branch.alarms.append,
                    on_failure=branch.failed,
                    provided=provided,
                    instead=steps,
                    fenced=lambda store: cast("Store", FencedStore(store, fence)),
                )
                nursery.start_soon(exchange.pusher.run)
                await process.start()
                await branch.settle()
                yield branch
                nursery.cancel_scope.cancel()
    except BaseExceptionGroup as group_:
        raise only_of(group_) from None


def _settings_of(settings: Settings, exchange: Exchange) -> Settings:
    """Return settings without access to the outside. The values that the bot's code uses stay unchanged."""
    return Settings(
        development=True,
        token=Secret(_TOKEN),
        base_url=exchange.world.uploads.base_url,
        webhook_secret=Secret(_SECRET),
        store="memory:",
        charge_hosts=settings.charge_hosts,
        max_amount=settings.max_amount,
        username=settings.username,
    )


def _gives(stored: Stored) -> bool:
    """Whether a conversation is the aside that gives a payment's goods."""
    event = asked_of(read_opening(stored.records[0]).event)
    return isinstance(event, Call) and isinstance(event.value, Captured)


def _by(stored: Stored, at: int) -> Stored | None:
    """Return the journal up to time `at`; None if the conversation began at `at` or later."""
    begins = notch_starts(stored.records)
    if time_of(stored.records[0]) >= at:
        return None
    by_then = [n for n, place in enumerate(begins) if time_of(stored.records[place]) <= at]
    return up_to(stored, by_then[-1]) if by_then else None


def _behind(stored: Stored, past: Past) -> Sequence[Record]:
    """Return the records that begin the turns after the notch."""
    then = past.stored if stored is past.whole else _by(stored, past.at)
    many = 0 if then is None else len(notch_starts(then.records))
    return [stored.records[place] for place in notch_starts(stored.records)[many:]]


def _newest_row(journals: Sequence[Stored]) -> int:
    """Return the highest inbox row number in these journals."""
    rows: list[int] = [stored.row.id for stored in journals]
    for record in (record for stored in journals for record in stored.records):
        if record[0] in (DONE, FAILED):
            rows += record[6:7]
        elif record[0] in (FIRED, INTERRUPTED):
            rows.append(record[3 if record[0] == FIRED else 2] or 0)
    return max(rows)


def _senders(past: Past, beside: Sequence[Stored]) -> list[SenderId | None]:
    """Return the ids of the people who acted before the notch in conversations that the branch restores."""
    journals = [past.stored, *(one for one in beside if not is_over(one))]
    events = [event for stored in journals for _, event in events_in(stored.records)]
    return list({event.sender.id: None for event in events if event.sender is not None})


async def _planted(past: Past, senders: Sequence[SenderId | None], beside: Sequence[Stored]) -> MemoryRows:
    """Return a store with the state at the notch."""
    rows = MemoryRows()
    rows.number_from(_newest_row([past.whole, *beside]))
    async with open_memory(clock=StoppedClock(past.at), rows=rows) as store:
        _, set_by, unseen = times_of(past.stored.records)
        writes: list[Write] = [PutSetting(JUMPED, f"{set_by - unseen} {past.at}")]
        # Conversations that are over aren't restored: the current code may not fit their journals.
        for stored in [one for one in (past.stored, *beside) if not is_over(one)]:
            writes += written_down(stored)
            # This store lacks the sources of old builds, so the journal must not be compared with old builds
            # again.
            writes.append(PutRested(stored.row.id, None, FITS))
        writes += [PutData(past.chat_id, key, text) for key, text in past.data.items() if text is not None]
        await store.commit(*writes)
        for sender in senders[:2]:  # a second one makes the chat a group
            arrival = Arrival(past.chat_id, sender, past.at, "text/plain", b"")
            if isinstance(row := await store.accept(arrival, quota=Quota()), InboxRow):
                await store.commit(Consume((row.seq,)))
    return rows


def written_down(stored: Stored) -> list[Write]:
    """Return the writes that restore a conversation.

    The conversation is marked as unfinished, so that the bot revives the conversation at once.
    """
    row, records = stored.row, tuple(map(encode_record, stored.records))
    run = row.route, row.version, row.started_at, row.kind
    begin = BeginConversation(row.id, row.chat_id, *run, row.sender_id, row.key)
    position, writes = 0, list[Write]()
    if row.run > 1:
        # Each continuation of a conversation by another function increases the run number, and deletes the
        # records of earlier runs.
        for number in range(row.run - 1):
            position = number + 1
            writes.append(ContinueConversation(row.id, number, records[:1], *run))
        records = records[1:]
    if records:
        writes.append(AppendRecords(row.id, position, records))
    return [begin, *writes, PutStanding(row.id, time_at(stored), unfinished=True, wake_at=row.wake_at)]
