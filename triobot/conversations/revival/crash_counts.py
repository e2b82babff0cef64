"""Crash tracking: count process crashes during a conversation's code; park the conversation at the third.

Code that kills the process (a crash in C, memory exhaustion, a loop without an ``await``) kills the process
again after each revival. So while Trio runs a conversation's task, or a thread works for the conversation,
the conversation's number is in memory that outlives the process. Writing the number needs no commit. After a
crash, the next start reads the suspects from this memory. A conversation that only waits is not a suspect,
even during a step of several hours or during a payment's verification.

A conversation's own task writes the conversation's number itself (`CrashCounts.drive`). Child tasks and
threads are tracked by a Trio instrument, which slows every task. So the instrument is installed only while a
conversation has child tasks or a running step.

Filters run before a conversation exists. So crashes in filters are counted for the event, which is discarded
at the third crash.

A conversation parked by its crash count is tried again once the program has run for a while: after an hour,
then after intervals that double. A conversation that still crashes the process causes one crash for each try.
"""

from __future__ import annotations

import logging
import shlex
from collections import Counter
from collections.abc import Callable, Coroutine, Generator, Sequence
from functools import cached_property
from math import inf
from types import coroutine
from typing import Any, Final, TypeVar, cast, final

import trio
from trio.lowlevel import current_task

from ...base.alarm_kinds import Alarm
from ...base.authors import came_by_signal, kind_of, split
from ...errors import BreakdownError, StoreError
from ...seams.inbox import InboxRow
from ...seams.journals import ConversationRow, ParkConversation, TakeInHand
from ...seams.rooms import is_chat, place_name
from ...seams.writes import WORK_SLOTS, Consume, KeepRaw, PutSetting, Write
from ...wire.ids import ChatId
from ...wire.operations import SendMessage
from ...wire.rules import LARGEST_INTEGER
from ..data import of_authors, words_for
from ..questions.cleanup import Cleanup
from ..running.branches import code_tasks, step_tasks
from ..running.lines import failing_line, frames_of, steps_inner
from ..services import Services
from ..workload import Workload

T = TypeVar("T")
log: Final = logging.getLogger("triobot.conversations")
CRASHES: Final = 3
"""Number of crashes, with no wait reached in between, after which a conversation is parked."""
DEATHS: Final = 5
"""Number of crashes in a row that raise an alarm if there is no suspect. Fewer may be manual kills."""
LIVED: Final = 300.0
"""Seconds after which a process is stable: a later crash does not count for a crash loop."""
FIRST_RETRY: Final = 3_600_000
"""Milliseconds until a conversation parked by its crash count is tried again; doubles with each crash."""
LAST_RETRY: Final = 7 * 24 * FIRST_RETRY
BETWEEN_RETRIES: Final = 60.0
"""Seconds between two tries."""
_REASONS: Final = 3
_PAGE: Final = 256
EARLY_CRASHES: Final = "crashes"
"""Setting: number of processes in a row that crashed before they were stable."""
ROUTING: Final = "routing"
"""Setting: the event that filters read at the last crash, and the number of crashes for this event."""
_THREAD: Final = trio.to_thread.run_sync.__code__


# Slots of the memory that outlives the process.
RUNS: Final = 0
"""Slot for the number of the conversation whose code runs."""
LOOKED_AT: Final = 1
"""Slot for the inbox row that filters read; `UNSTORED` for an event that isn't stored yet."""
UNSTORED: Final = -1
_THREADS: Final = 2


@final
class CrashCounts(trio.abc.Instrument):
    """Crash tracking of a process.

    Args:
        reload: loads a chat from the store once more.

    Attributes:
        at_work: slots of memory that outlives the process; 0 in an empty slot.
        early: inbox rows of conversations that crashed the last process before their first record was stored.
        claims: whether filters may read events that aren't stored yet. If a filter crashed while it read such
            an event, `claims` is False until the process is stable. So another crash is counted for the
            event's row.
    """

    def __init__(
        self, services: Services, work: Workload, cleanup: Cleanup, reload: Callable[[ChatId], None]
    ) -> None:
        self._services = services
        self._work = work
        self._cleanup = cleanup
        self._reload = reload
        self.at_work = services.store.at_work
        # Conversations' numbers, by each conversation's own task.
        self._own: dict[trio.lowlevel.Task, int] = {}
        # Tasks with children or a running step. The instrument is installed while there are such tasks.
        self._wide: set[trio.lowlevel.Task] = set()
        self._looks = False
        # Conversation of the task that Trio runs now, if the instrument tracks this task.
        self._stepping: int | None = None
        self._opening = services.store.opening()
        self._in_threads: dict[trio.lowlevel.Task, int] = {}
        self._free = list(range(WORK_SLOTS - 1, _THREADS - 1, -1))
        self.early: set[int] = set()
        self.claims = True
        self._tried: set[int] = set()
        self._condemned = trio.Event()
        # Reasons for which this process parked conversations, by route and conversation number.
        self._parked: dict[str, dict[int, str]] = {}

    # --- conversations whose code runs now

    @steps_inner
    @coroutine
    def drive(self, seq: int, inner: Coroutine[Any, Any, T]) -> Generator[Any, Any, T]:
        """Await a conversation's code in this task. While the code runs, a slot has the number `seq`."""
        at_work, commits, task = self.at_work, self._work.commits, current_task()
        sent: Any = None
        error: BaseException | None = None
        self._own[task] = seq
        code_tasks[task] = seq
        try:
            while True:
                at_work[RUNS], commits.in_step = seq, True
                try:
                    trap = inner.send(sent) if error is None else inner.throw(error)
                except StopIteration as stopped:
                    return cast("T", stopped.value)
                finally:
                    at_work[RUNS] = 0
                commits.end_step()
                if task in step_tasks or task.child_nurseries:
                    self._wide.add(task)
                    self._stepping = seq
                    if not self._looks:
                        self._looks = True
                        trio.lowlevel.add_instrument(self)
                elif self._wide:
                    self._wide.discard(task)
                sent = error = None
                try:
                    sent = yield trap
                except BaseException as raised:  # the inner coroutine may catch the error
                    error = raised
        finally:
            self._wide.discard(task)
            self._stepping = None
            del code_tasks[task], self._own[task]

    def ends_process(self, error: BaseException, seq: int, route: str, place: str) -> None:
        """Blame a conversation for an error that ends the process.

        A stop, an OS signal or an error of the store blames no conversation.

        Raises:
            BreakdownError: an author's code has failed; the error names the conversation and the line.
        """
        rest = split(error)[1]
        if rest is None or isinstance(rest, StoreError) or came_by_signal(rest):
            return
        if self._free:  # not the slot `RUNS`, because other conversations still run
            self.at_work[self._free.pop()] = seq
        line = failing_line(rest.__traceback__)
        raise BreakdownError(
            f"conversation {route} (reference {seq}) of {place} ended the process: {kind_of(rest)} at {line}"
        ) from rest

    def acquit(self) -> None:
        """Clear all slots, because the process ends for a reason outside of the conversations' code."""
        for slot in range(WORK_SLOTS):
            self.at_work[slot] = 0

    def look_no_more(self) -> None:
        """Remove the instrument, if it is installed."""
        if self._looks:
            self._looks = False
            trio.lowlevel.remove_instrument(self)

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        """Write the number of the task's conversation to the slot: the task may crash the process now."""
        if not self._wide:  # each conversation's own task writes its number itself
            self.look_no_more()
            return
        self._stepping = seq = self._within(task)
        if seq is None:
            return
        self.at_work[RUNS] = seq
        if (slot := self._in_threads.pop(task, None)) is not None:
            self.at_work[slot] = 0
            self._free.append(slot)

    def after_task_step(self, task: trio.lowlevel.Task) -> None:
        """Clear the slot, because the task waits now. If a thread still runs the conversation's code, write
        the conversation's number to another slot.
        """
        seq, self._stepping = self._stepping, None
        if seq is None:
            return
        self.at_work[RUNS] = 0
        if self._free and _is_in_thread(task):
            slot = self._in_threads[task] = self._free.pop()
            self.at_work[slot] = seq

    def _within(self, task: trio.lowlevel.Task) -> int | None:
        """Return the number of the task's conversation, found at the task or a parent task; else None."""
        above: trio.lowlevel.Task | None = task
        while above is not None:
            if (seq := self._own.get(above)) is not None:
                return seq
            nursery = above.parent_nursery
            above = None if nursery is None else nursery.parent_task
        return None

    # --- conversations whose code ran at the last crash

    async def begin(self) -> None:
        """Count the last process's crash for all suspects, before any conversation runs again."""
        opening, store = self._opening, self._services.store
        if not opening.unclean:
            return
        noted = [*opening.at_work, *[0] * WORK_SLOTS][:WORK_SLOTS]
        self.claims = noted[LOOKED_AT] != UNSTORED
        writes: list[Write] = []
        routes: list[str] = []
        for number in sorted(n for n in {noted[RUNS], *noted[_THREADS:]} if 0 < n <= LARGEST_INTEGER):
            rows = await store.all_conversations(after=number - 1, limit=1)
            row = next((row for row in rows if row.id == number and row.ended_at is None), None)
            if row is not None:
                routes.append(f"{row.route} (conversation {number})")
                now = self._services.clock.now()
                writes.append(TakeInHand(row.id, now))
                if row.in_hand + 1 >= CRASHES:
                    # Store the parking now: another conversation may crash the process before the revival.
                    writes.append(ParkConversation(row.id, now, row.parked_because, self.build))
            elif await self._inbox_row(number) is not None:
                routes.append(f"what event {number} starts")
                self.early.add(number)
        writes += await self._count_filters(noted[LOOKED_AT])
        if writes:
            self._work.commits.add(writes)
            await self._work.commits.wait_for()
        await self._tell_loop(routes)

    async def _count_filters(self, seq: int) -> Sequence[Write]:
        """Return writes that count a crash for the row `seq`, or discard the row after too many crashes."""
        before, _, count = (await self._services.store.setting(ROUTING) or "").partition(" ")
        row = await self._inbox_row(seq) if 0 < seq <= LARGEST_INTEGER else None
        if row is None:
            return [PutSetting(ROUTING, "")] if before else []
        times = 1 + (int(count) if before == str(seq) else 0)
        if times < CRASHES:
            return [PutSetting(ROUTING, f"{seq} {times}")]
        text = (
            f"event {row.seq} of {place_name(row.chat_id)} was put away, since the program died each time "
            "its filters looked at it: one of them doesn't return"
        )
        log.error("%s", text)
        self._services.raise_alarm(Alarm("crash_loop", str(row.seq), text))
        kept = of_authors(await self._services.store.data(row.chat_id))
        if (said := words_for(self._services.texts, kept.get).apology) and is_chat(row.chat_id):
            self._cleanup.tidy(row.chat_id, SendMessage(row.chat_id, said))
        raw = KeepRaw(row.at, "kills the program", row.content_type, row.body)
        return [raw, Consume((row.seq,)), PutSetting(ROUTING, "")]

    async def _inbox_row(self, seq: int) -> InboxRow | None:
        rows = await self._services.store.backlog(after=seq - 1, limit=1)
        return rows[0] if rows and rows[0].seq == seq else None

    async def _tell_loop(self, routes: Sequence[str]) -> None:
        """Raise an alarm if several processes in a row crashed soon after their start."""
        opening = self._opening
        before = int(await self._services.store.setting(EARLY_CRASHES) or 0)
        deaths = min(before + 1, opening.unclean)
        self._work.commits.add([PutSetting(EARLY_CRASHES, str(deaths))])
        if deaths < (CRASHES if routes else DEATHS):
            return
        who = f"at work was {', '.join(routes)}" if routes else "no conversation's code was at work"
        text = f"the program died {deaths} times in a row, soon after its start; {who}; look at the log's end"
        self._services.raise_alarm(Alarm("crash_loop", "start", text))

    # --- parked conversations

    @cached_property
    def build(self) -> str:
        """Name of the code that this process began with; changes with the bot's code and its libraries."""
        return f"build {0 if (code := self._services.code) is None else code.build}"

    def condemns(self, row: ConversationRow) -> bool:
        """Whether this build must not run the conversation, which has crashed the process too often."""
        # Changed code may run the conversation once, and so causes at most one more crash.
        return row.in_hand >= CRASHES and row.id not in self._tried and row.error == self.build

    def retry(self, seq: int, chat_id: ChatId) -> None:
        """Try a parked conversation again, whatever its crash count is."""
        self._tried.add(seq)
        self._reload(chat_id)

    def note_lived(self) -> None:
        """Reset the count of early crashes, because the process is stable or is being stopped."""
        if self._opening.unclean:
            self._work.commits.add([PutSetting(EARLY_CRASHES, "0")])

    async def live_on(self) -> None:
        """Once the process is stable, retry conversations parked by their crash count, one at a time."""
        if self._opening.unclean:
            await trio.sleep(LIVED)
            self.note_lived()
            self.claims = True
        while True:
            self._condemned = trio.Event()
            pause = await self._retry_due()
            with trio.move_on_after(pause):
                await self._condemned.wait()

    async def _retry_due(self) -> float:
        """Retry the first conversation that is due; return the number of seconds until the next try."""
        after, now, next_at = 0, self._services.clock.now(), inf
        while rows := await self._services.store.parked(after=after, limit=_PAGE):
            after = rows[-1].id
            for row in rows:
                if not self.condemns(row):
                    continue
                distance = min(FIRST_RETRY << min(row.in_hand - CRASHES, 16), LAST_RETRY)
                at = max(row.updated_at + distance, self._opening.at + int(LIVED * 1000))
                if at <= now:
                    log.warning("conversation %d, which killed the program, is tried again", row.id)
                    self.retry(row.id, row.chat_id)
                    return BETWEEN_RETRIES
                next_at = min(next_at, at)
        return max((next_at - now) / 1000, 0)

    def tell_parked(self, name: str, seq: int, because: str, todo: str) -> None:
        """Alert an operator that a conversation is parked. The alarm counts the parked conversations.

        For each route, an alarm is raised for the first conversation that this process parks, for the tenth,
        for the hundredth, etc.

        Args:
            name: stored name of the route, which the operator's commands use; the route may have another name
                now.
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
        """Forget a parked conversation that goes on or has ended."""
        for mine in self._parked.values():
            mine.pop(seq, None)


def _is_in_thread(task: trio.lowlevel.Task) -> bool:
    if task in code_tasks and task not in step_tasks:
        return False
    return any(frame.f_code is _THREAD for frame, _ in frames_of(task))
