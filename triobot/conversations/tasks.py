"""The tasks of the running conversations: each conversation runs in a task of its own, from start to end."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from typing import final

import trio

from ..errors import NotDeliveredError, TriobotError
from ..seams.patience import await_store
from ..wire.operations import SendMessage
from .beginnings import Carried
from .chat import handle_of
from .conversation import Conversation
from .jobs import JobClock
from .notices import Refused
from .revival.crash_counts import RUNS
from .running.failures import CRASHED, GONE, Ending, log, report
from .shared import Shared
from .workload import holds


@final
class ConversationTasks:
    """Runs conversations, each in a task of its own.

    Attributes:
        running: the conversations with a task, whether busy or waiting.
        fewer: the tasks that wait here are woken whenever a conversation leaves `running`.
        jobs: checks the jobs when a job's run ends; None if there are no jobs.
    """

    def __init__(self, shared: Shared) -> None:
        self._shared, self._work = shared, shared.work
        self.running: set[Conversation] = set()
        self.fewer = trio.lowlevel.ParkingLot()
        self.jobs: JobClock | None = None

    @property
    def waits_for_platform(self) -> bool:
        """Whether every conversation waits, or is busy with nothing but requests to the platform."""
        return all(conversation.waits_for_platform for conversation in self.running)

    def start(self, conversation: Conversation) -> None:
        """Start a conversation's task."""
        if self._work.nursery is None or self._work.stopping:
            return
        self._work.count("started")
        self.running.add(conversation)
        self._work.start(partial(self._live, conversation), conversation.route.name)
        self._work.working(1)

    async def _live(self, conversation: Conversation, scope: trio.CancelScope) -> None:
        """Run a conversation's coroutine to its end; an author's error is never raised.

        Args:
            scope: the task's own scope, which is cancelled with the conversation. The scope is shielded,
                except while the task waits for something other than the coroutine.
        """
        crashes, actor, words = self._shared.crashes, conversation.actor, ""
        failure: Exception | None = None
        try:
            try:
                # No local variable may keep `begin`: it may be large, and the task may wait for months.
                written = conversation.begin.written if isinstance(conversation.begin, Carried) else None
                if (unread := actor.kept.is_unread) or written is not None or crashes.early:
                    scope.shield = False
                if unread:
                    await await_store(actor.kept.load)
                if conversation.evicted:
                    return  # the conversation's event isn't stored
                conversation.make_run()
                if written is not None:
                    # Without this wait, a chain of `continue_as` that never waits would run ahead of the disk
                    # and block all other tasks.
                    with suppress(trio.ClosedResourceError):  # the bot stops
                        await self._work.commits.wait_for(written)
                if crashes.early:
                    revived, writer = conversation.stored is not None, conversation.writer
                    await crashes.begins(conversation.seq, None if revived or not writer else writer.counted)
                if self._work.cut or conversation.evicted:
                    return  # the row of the conversation's event is in the inbox
                inner = conversation.go_over(handle_of(conversation), scope)
                if conversation.services.tracing is not None:
                    inner = conversation.services.tracing.drive(conversation, inner)
                try:
                    end = await crashes.drive(conversation.seq, inner)
                finally:
                    conversation.operations.report_copies()
                failure = conversation.came_to(end)
            finally:
                if conversation.settled is not None:
                    conversation.settled.set()
                conversation.stirred(busy=False)
                # The author's failure handler and filters run here, and count as this conversation's code.
                crashes.at_work[RUNS] = conversation.seq
                words = "" if failure is None else _report(conversation, failure)
                # Called before the apology is sent: the chat must not wait for the apology.
                actor.ended(conversation)
                crashes.at_work[RUNS] = 0
            if words and conversation.ending is Ending.FAILED:
                scope.shield = False
                taken = conversation.ahead
                if taken is None or await holds(taken):
                    await _apologize(conversation, words)
            conversation.is_done()
        except BaseException as error:
            crashes.ends_process(error, conversation.seq, conversation.route.name, conversation.told_place)
            raise
        finally:
            self.gone(conversation)

    def gone(self, conversation: Conversation) -> None:
        """Remove a conversation from `running`: its task ends, or nothing waits for the task any more."""
        self.running.discard(conversation)
        if conversation.route.job is not None and self.jobs is not None:
            self.jobs.look_again()
        self._shared.timers.wake_at(conversation, None)
        if self.fewer:
            self.fewer.unpark_all()

    async def or_cut(self, work: Callable[[], Awaitable[None]]) -> None:
        """Run a task that every conversation needs. If it fails, evict all conversations, and re-raise."""
        try:
            await work()
        except BaseException:
            self.cut_all()
            raise

    def cut_all(self) -> None:
        """Evict all conversations, because the program stops, or because a task that all need has failed."""
        self._work.stopping = self._work.cut = True
        for conversation in list(self.running):
            conversation.evict()


def _report(conversation: Conversation, failure: Exception) -> str:
    """Log and count a failure. Return the message for the user; "" for none.

    No crash is reported if the user has left, blocked the bot or not paid.
    """
    services, route, chat_id = conversation.services, conversation.route, conversation.actor.chat_id
    what, words = conversation.verdict(failure)
    conversation.work.count(what)
    if what == CRASHED:
        gives = None if (giving := conversation.operations.giving) is None else giving.becomes
        told = services, route.name, chat_id, f"{conversation.seq}"
        report(failure, *told, place=conversation.told_place, gives=gives, job=route.job is not None)
    elif what == GONE and conversation.operations.refused and services.notice is not None:
        services.notice(Refused(route.name, chat_id))
    return words


async def _apologize(conversation: Conversation, words: str) -> None:
    """Send the failure message that was stored with the conversation's end."""
    work, chat_id = conversation.work, conversation.actor.chat_id
    work.working(1)
    recorded = trio.Event()
    try:
        # Queued at once, so that it is sent before the chat's next message.
        await conversation.services.outbox.perform(SendMessage(chat_id, words), recorded=recorded)
    except TriobotError as error:
        log.warning("the apology to chat %s was not sent: %s", chat_id, type(error).__name__)
        if isinstance(error, NotDeliveredError) and work.stopping:
            return  # the next start sends it
    finally:
        work.working(-1)
        work.commits.when_written(recorded.set)
    conversation.shared.cleanup.said(chat_id, conversation.seq)
