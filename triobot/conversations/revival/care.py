"""Care: whose code was at work when the program was killed is counted, and parked the third time.

What kills the whole process (a crash in C, all memory eaten, a loop without an ``await``) kills it again when
it is revived. So the store is told at each step of a conversation's tasks whose code runs now, and whose work
is in a thread: memory that outlives the process, and costs no commit. The next run finds there who may have
killed it. Who only waited, in a step of hours or for a verification, is not there, and is not counted.

A conversation's own task says so itself (`Care.drive`). Its children, and threads, are seen by an instrument,
which costs each step of every task something, and is there only while a conversation has any.

Only a filter runs before there is a conversation to count: then the event itself is counted, and put away.

What was parked by count is tried again, once the program has lived for a while, after an hour and then at
distances that double: a guilty one costs one death each time.
"""

from __future__ import annotations

import hashlib
import logging
import shlex
import sys
from collections import Counter
from collections.abc import Callable, Coroutine, Generator, Sequence
from functools import cache
from math import inf
from pathlib import Path
from types import coroutine
from typing import Any, Final, TypeVar, cast, final

import trio
from trio.lowlevel import current_task

from ...base.alarm_kinds import Alarm
from ...base.authors import came_by_signal, kind_of, split
from ...errors import BreakdownError, StoreError
from ...seams.inbox import InboxRow
from ...seams.journals import ConversationRow, TakeInHand
from ...seams.rooms import is_chat, told
from ...seams.values import reading
from ...seams.writes import WORK_SLOTS, Consume, KeepRaw, PutSetting, Write
from ...wire.ids import ChatId
from ...wire.operations import SendMessage
from ...wire.rules import LARGEST_INTEGER
from ..data import of_authors, words_for
from ..questions.tidying import Tidying
from ..running.branches import code_tasks, step_tasks
from ..running.lines import failing_line, frames_of, steps_inner
from ..services import Services
from ..workload import Workload

T = TypeVar("T")
log: Final = logging.getLogger("triobot.conversations")
CRASHES: Final = 3
"""A conversation whose code was at work at so many kills, without having come to rest, is parked."""
DEATHS: Final = 5
"""So many deaths in a row are a crash loop though nobody's code was at work: a person may have killed it."""
LIVED: Final = 300.0
"""A process that lives so many seconds is no crash loop."""
FIRST_RETRY: Final = 3_600_000
"""Milliseconds after which what was parked by count is tried again; twice as many after each further kill."""
LAST_RETRY: Final = 7 * 24 * FIRST_RETRY
BETWEEN_RETRIES: Final = 60.0
"""Seconds from one to the next."""
_REASONS: Final = 3
_PAGE: Final = 256
LIVED_AT: Final = "lived"
"""The setting that says which run has lived for a while, or was to stop, and how many have died since."""
ROUTING: Final = "routing"
"""The setting that says which event filters looked at when the program was killed, and how often that was."""
EARLY: Final = "killed_early"
"""The setting with the counts of kills of what had not been written down, by the number of its event."""
_THREAD: Final = trio.to_thread.run_sync.__code__
_IDLE: Final = 1_000
"""Steps of other tasks after which the instrument goes: to put it there costs as much as many of them."""


@cache
def current_build() -> str:
    """Return a name that changes with every file of code that is loaded, be it the bot's or a library's."""
    digest = hashlib.blake2b(sys.version.encode(), digest_size=6)
    files = {getattr(module, "__file__", None) for module in list(sys.modules.values())}
    for file in sorted(file for file in files if isinstance(file, str)):
        try:
            found = Path(file).stat()
        except OSError:
            continue
        digest.update(f"{file}:{found.st_size}:{found.st_mtime_ns}".encode("utf-8", "replace"))
    return f"build {digest.hexdigest()}"


# What is noted in which slot: numbers of conversations, but for a row of the inbox and a chat.
RUNS: Final = 0
"""The conversation whose code runs."""
LOOKED_AT: Final = 1
"""The row of the inbox that filters look at."""
CLAIMED: Final = 2
"""The chat of which filters look at an event that isn't stored."""
_THREADS: Final = 3


@final
class Care(trio.abc.Instrument):
    """Notes whose code is at work, and counts who was when the program was killed.

    Args:
        retry: brings a chat back from the store once more.

    Attributes:
        at_work: where it is noted, 0 for nothing.
        early: kills at which a conversation was at work that had not been written down, by its row.
    """

    def __init__(
        self, services: Services, work: Workload, tidying: Tidying, retry: Callable[[ChatId], None]
    ) -> None:
        self._services = services
        self._work = work
        self._tidying = tidying
        self.retry = retry
        self.at_work = services.store.at_work
        self._noted = False
        # Of each conversation's own task its number.
        self._own: dict[trio.lowlevel.Task, int] = {}
        # The tasks that have children, or are in a step; while there are some, this is an instrument.
        self._wide: set[trio.lowlevel.Task] = set()
        self._looks = False
        self._idle = 0
        self._opening = services.store.opening()
        self._in_threads: dict[trio.lowlevel.Task, int] = {}
        self._free = list(range(WORK_SLOTS - 1, _THREADS - 1, -1))
        # Who was at work at the last kill.
        self._suspects: frozenset[int] = frozenset()
        self.early: dict[int, int] = {}
        self._unclaimed: ChatId | None = None
        self._tried: set[int] = set()
        self._condemned = trio.Event()
        # Those of this run, by route: why.
        self._parked: dict[str, dict[int, str]] = {}

    # --- who is at work

    @steps_inner
    @coroutine
    def drive(self, seq: int, inner: Coroutine[Any, Any, T]) -> Generator[Any, Any, T]:
        """Await what a conversation does in the current task; note whose it is at each step of its tasks."""
        at_work, task = self.at_work, current_task()
        sent: Any = None
        error: BaseException | None = None
        self._own[task] = seq
        code_tasks[task] = seq
        try:
            while True:
                at_work[RUNS] = seq
                try:
                    trap = inner.send(sent) if error is None else inner.throw(error)
                except StopIteration as stopped:
                    return cast("T", stopped.value)
                finally:
                    at_work[RUNS] = 0
                if task in step_tasks or task.child_nurseries:
                    self._look_at(task)
                elif self._wide:
                    self._wide.discard(task)
                sent = error = None
                try:
                    sent = yield trap
                except BaseException as raised:  # it is the inner coroutine's to catch
                    error = raised
        finally:
            self._wide.discard(task)
            del code_tasks[task], self._own[task]

    def ends_process(self, error: BaseException, seq: int, route: str, place: str) -> None:
        """Note whose code ends the process with this error, unless a stop, a signal or the store does.

        Raises:
            BreakdownError: says so.
        """
        rest = split(error)[1]
        if rest is None or isinstance(rest, StoreError) or came_by_signal(rest):
            return
        if self._free:  # of its own: others come to their ends before the process does
            self.at_work[self._free.pop()] = seq
        line = failing_line(rest.__traceback__)
        raise BreakdownError(
            f"conversation {route} (reference {seq}) of {place} ended the process: {kind_of(rest)} at {line}"
        ) from rest

    def acquit(self) -> None:
        """Note that nobody's code ends the process."""
        for slot in range(WORK_SLOTS):
            self.at_work[slot] = 0

    def _look_at(self, task: trio.lowlevel.Task) -> None:
        """Look at each step of every task from now on; and at what this one waits for."""
        self._wide.add(task)
        self._noted = True
        if not self._looks:
            self._looks = True
            trio.lowlevel.add_instrument(self)

    def look_no_more(self) -> None:
        """Look at no other tasks' steps."""
        if self._looks:
            self._looks = False
            trio.lowlevel.remove_instrument(self)

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        """Note whose work a task goes on with, if it is a conversation's: it may kill the program now."""
        if not self._wide:  # then all that is at work says so itself
            self._idle += 1
            if self._idle > _IDLE:
                self.look_no_more()
            return
        self._idle = 0
        seq = self._within(task)
        if seq is None:
            return
        self._noted = True
        self.at_work[RUNS] = seq
        if (slot := self._in_threads.pop(task, None)) is not None:
            self.at_work[slot] = 0
            self._free.append(slot)

    def after_task_step(self, task: trio.lowlevel.Task) -> None:
        """Note that the task waits, or has ended; a thread may go on for it."""
        if not self._noted:
            return
        self._noted = False
        self.at_work[RUNS] = 0
        seq = self._within(task)
        if seq is not None and self._free and _is_in_thread(task):
            slot = self._in_threads[task] = self._free.pop()
            self.at_work[slot] = seq

    def _within(self, task: trio.lowlevel.Task) -> int | None:
        """Return the number of the conversation whose own task this is, or is above it."""
        above: trio.lowlevel.Task | None = task
        while above is not None:
            if (seq := self._own.get(above)) is not None:
                return seq
            nursery = above.parent_nursery
            above = None if nursery is None else nursery.parent_task
        return None

    def may_claim(self, chat_id: ChatId) -> bool:
        """Return whether filters may look at an event of this chat before it is stored."""
        return chat_id != self._unclaimed

    # --- who was

    async def begin(self) -> None:
        """Count who was at work when the program was killed, before anybody is at work again."""
        opening, store = self._opening, self._services.store
        self.early = _read_counts(await store.setting(EARLY))
        if not opening.unclean:
            return
        noted = [*opening.at_work, *[0] * WORK_SLOTS][:WORK_SLOTS]
        numbers = sorted(n for n in {noted[RUNS], *noted[_THREADS:]} if 0 < n <= LARGEST_INTEGER)
        self._suspects = frozenset(numbers)
        self._unclaimed = ChatId(noted[CLAIMED]) if noted[CLAIMED] else None
        writes: list[Write] = []
        routes: list[str] = []
        for number in numbers:
            rows = await store.all_conversations(after=number - 1, limit=1)
            row = next((row for row in rows if row.id == number and row.ended_at is None), None)
            if row is not None:
                routes.append(f"{row.route} (conversation {number})")
                writes.append(TakeInHand(row.lease, row.id, self._services.clock.now()))
            elif await self._inbox_row(number) is not None:
                routes.append(f"what event {number} starts")
                self.early[number] = self.early.get(number, 0) + 1
                writes.append(self._put_early())
        writes += await self._count_filters(noted[LOOKED_AT])
        if writes:
            self._work.commits.add(writes)
            await self._work.commits.wait_for()
        await self._tell_loop(routes)

    async def _count_filters(self, seq: int) -> Sequence[Write]:
        """Count a row that filters looked at; one that has killed too often is put away."""
        before, _, count = (await self._services.store.setting(ROUTING) or "").partition(" ")
        row = await self._inbox_row(seq) if 0 < seq <= LARGEST_INTEGER else None
        if row is None:
            return [PutSetting(ROUTING, "")] if before else []
        times = 1 + (int(count) if before == str(seq) else 0)
        if times < CRASHES:
            return [PutSetting(ROUTING, f"{seq} {times}")]
        text = (
            f"event {row.seq} of {told(row.chat_id)} was put away, since the program died each time its "
            "filters looked at it: one of them doesn't return"
        )
        log.error("%s", text)
        self._services.raise_alarm(Alarm("crash_loop", str(row.seq), text))
        kept = of_authors(await self._services.store.data(row.chat_id))
        if (said := words_for(self._services.texts, kept.get).apology) and is_chat(row.chat_id):
            self._tidying.tidy(row.chat_id, SendMessage(row.chat_id, said))
        raw = KeepRaw(row.at, "kills the program", row.content_type, row.body)
        return [raw, Consume((row.seq,)), PutSetting(ROUTING, "")]

    async def _inbox_row(self, seq: int) -> InboxRow | None:
        rows = await self._services.store.backlog(after=seq - 1, limit=1)
        return rows[0] if rows and rows[0].seq == seq else None

    async def _tell_loop(self, routes: Sequence[str]) -> None:
        """Tell an operator when several runs died young, one after the other."""
        opening = self._opening
        lived, _, before = (await self._services.store.setting(LIVED_AT) or "").partition(" ")
        deaths = 0 if lived == str(opening.previous_at) else min(int(before or 0) + 1, opening.unclean)
        self._work.commits.add([PutSetting(LIVED_AT, f"{lived} {deaths}")])
        if deaths < (CRASHES if routes else DEATHS):
            return
        who = f"at work was {', '.join(routes)}" if routes else "no conversation's code was at work"
        text = f"the program died {deaths} times in a row, soon after its start; {who}; look at the log's end"
        self._services.raise_alarm(Alarm("crash_loop", "start", text))

    def _put_early(self) -> PutSetting:
        return PutSetting(EARLY, " ".join(f"{seq}:{count}" for seq, count in self.early.items()))

    async def begins(self, seq: int, counted: Callable[[int], Sequence[Write]] | None) -> None:
        """What killed the program before it was written down is written down first, with its count.

        Args:
            counted: returns what writes a conversation down that begins, and counts so many kills.
        """
        count = self.early.pop(seq, 0)
        if count and counted is not None and not self._work.cut:
            self._work.commits.add([*counted(count), self._put_early()])
            await self._work.commits.wait_for()

    # --- who is parked

    def condemns(self, row: ConversationRow) -> bool:
        """Return whether this code may not run this conversation, which has killed the program too often."""
        if row.in_hand < CRASHES or row.id in self._tried:
            return False
        # Other code gets a try, which costs one kill if it is no better.
        return row.id in self._suspects or (row.parked_because is not None and row.error == current_build())

    def note_lived(self) -> None:
        """Note that what kills this process from now on is no crash loop: it has lived, or is to stop."""
        if self._opening.unclean:
            self._work.commits.add([PutSetting(LIVED_AT, str(self._opening.at))])

    async def live_on(self) -> None:
        """Try what was parked by count, one after the other, once the program has lived for a while."""
        if self._opening.unclean:
            await trio.sleep(LIVED)
            self.note_lived()
        while True:
            self._condemned = trio.Event()
            pause = await self._retry_due()
            with trio.move_on_after(pause):
                await self._condemned.wait()

    async def _retry_due(self) -> float:
        """Try the first whose time has come; returns how many seconds to wait then."""
        after, now, next_at = 0, self._services.clock.now(), inf
        while rows := await self._services.store.parked(after=after, limit=_PAGE):
            after = rows[-1].id
            for row in rows:
                if row.in_hand < CRASHES or not self.condemns(row):
                    continue
                distance = min(FIRST_RETRY << min(row.in_hand - CRASHES, 16), LAST_RETRY)
                at = max(row.updated_at + distance, self._opening.at + int(LIVED * 1000))
                if at <= now:
                    log.warning("conversation %d, which killed the program, is tried again", row.id)
                    self._tried.add(row.id)
                    self.retry(row.chat_id)
                    return BETWEEN_RETRIES
                next_at = min(next_at, at)
        return max((next_at - now) / 1000, 0)

    def tell_parked(self, name: str, seq: int, because: str, todo: str) -> None:
        """Tell an operator that a conversation is parked, and how many others are.

        At the first of its route in this run, and whenever there are ten times as many.

        Args:
            name: of the route, as it is stored, which is what the commands go by: it may have another by now.
        """
        mine = self._parked.setdefault(name, {})
        mine[seq] = because
        self._condemned.set()
        count = len(mine)
        if str(count).strip("0") != "1":
            return
        reasons = Counter(mine.values()).most_common(_REASONS)
        parts = [f"{count} of {name} since the start"]
        if len(reasons) > 1:
            parts += [f"{times} since {reason}" for reason, times in reasons]
        stored = max(self._services.store.statistics().parked, count)
        route = shlex.quote(name)
        text = (
            f"conversation {name} is parked: {because}; {todo}. Parked: {stored} in all, {', '.join(parts)}. "
            f"`triobot journal retry --route {route}` and `triobot journal end --route {route} --say TEXT` "
            "count them first, and with --yes try them again or end them"
        )
        key = name if count == 1 else f"{name} {count}"
        self._services.raise_alarm(Alarm("conversation_parked", key, text))

    def parked_no_more(self, seq: int) -> None:
        """Forget a parked conversation, which goes on or has ended."""
        for mine in self._parked.values():
            mine.pop(seq, None)


def _is_in_thread(task: trio.lowlevel.Task) -> bool:
    """Return whether a task in a step waits for a thread."""
    if task in code_tasks and task not in step_tasks:
        return False
    return any(frame.f_code is _THREAD for frame, _ in frames_of(task))


@reading("what the store keeps of events that killed the program")
def _read_counts(text: str | None) -> dict[int, int]:
    pairs = (part.split(":") for part in (text or "").split())
    return {int(seq): int(count) for seq, count in pairs}
