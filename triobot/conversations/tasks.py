"""The tasks of the running conversations: each conversation runs in a task of its own, from start to end."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from typing import final

import trio

from ..seams.patience import await_store
from .beginnings import Carried
from .chat import handle_of
from .chat_actor import ChatActor
from .conversation import Conversation
from .jobs import JobClock
from .notices import Refused
from .operations import Operations
from .revival.crash_counts import RUNS
from .running.failures import CRASHED, GONE, Ending, report
from .shared import Shared


@final
class ConversationTasks:
    """Runs conversations, each in a task of its own.

    Attributes:
        running: the conversations with a task, whether busy or waiting, and the chat of each.
        fewer: the tasks that wait here are woken whenever a conversation leaves `running`.
        jobs: checks the jobs when a job's run ends; None if there are no jobs.
    """

    def __init__(self, shared: Shared) -> None:
        self._shared, self._work = shared, shared.work
        self._let_go_of = self._let_go  # one object for all conversations
        self.running: dict[Conversation, ChatActor] = {}
        self.fewer = trio.lowlevel.ParkingLot()
        self.jobs: JobClock | None = None

    @property
    def waits_for_platform(self) -> bool:
        """Whether every conversation waits, or is busy with nothing but requests to the platform."""
        return all(conversation.waits_for_platform for conversation in self.running)

    def start(self, actor: ChatActor, conversation: Conversation) -> None:
        """Start the task of a chat's conversation."""
        if self._work.nursery is None or self._work.stopping:
            return
        self._work.count("started")
        self.running[conversation] = actor
        self._work.start(partial(self._live, actor, conversation), conversation.facts.route.name)
        self._work.working(1)

    async def _live(self, actor: ChatActor, conversation: Conversation, scope: trio.CancelScope) -> None:
        """Run a conversation's coroutine to its end; an author's error is never raised.

        Args:
            scope: the task's own scope, which is cancelled with the conversation. The scope is shielded,
                except while the task waits for something other than the coroutine.
        """
        crashes, tracing, words = self._shared.crashes, actor.services.tracing, ""
        facts = conversation.facts
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
                conversation.make_run(actor)
                if written is not None:
                    # Without this wait, a chain of `continue_as` that never waits would run ahead of the disk
                    # and block all other tasks.
                    with suppress(trio.ClosedResourceError):  # the bot stops
                        await self._work.commits.wait_for(written)
                if facts.seq in crashes.early and (writer := conversation.writer) and not self._work.cut:
                    # The row must exist before the code runs again, to count further crashes.
                    crashes.early.discard(facts.seq)
                    self._work.commits.add(writer.counted(1))
                    await self._work.commits.wait_for()
                if self._work.cut or conversation.evicted:
                    return  # the row of the conversation's event is in the inbox
                operations = Operations(actor, conversation)
                inner = conversation.go_over(operations.begin, handle_of(operations), scope, self._let_go_of)
                if tracing is not None:
                    inner = tracing.drive(conversation, inner)
                try:
                    end = await crashes.drive(facts.seq, inner)
                finally:
                    operations.report_copies()
                failure = actor.came_to(conversation, end)
            finally:
                if (replay := conversation.replay) is not None and replay.settled is not None:
                    replay.settled.set()
                conversation.stirred(busy=False)
                # The author's failure handler and filters run here, and count as this conversation's code.
                crashes.at_work[RUNS] = facts.seq
                words = "" if failure is None else _report(actor, conversation, failure)
                # Called before the apology is sent: the chat must not wait for the apology.
                actor.ended(conversation)
                crashes.at_work[RUNS] = 0
                self._work.commits.end_step()
            if words and conversation.ending is Ending.FAILED:
                scope.shield = False
                taken = None if (writer := conversation.writer) is None else writer.ahead
                await self._shared.cleanup.say_owed(actor.chat_id, facts.seq, taken)
            conversation.is_done()
        except BaseException as error:
            crashes.ends_process(error, facts.seq, facts.route.name, facts.told_place)
            raise
        finally:
            self.gone(conversation)

    def gone(self, conversation: Conversation) -> None:
        """Remove a conversation from `running`: its task ends, or nothing waits for the task any more."""
        self.running.pop(conversation, None)
        if conversation.facts.route.job is not None and self.jobs is not None:
            self.jobs.look_again()
        self._shared.timers.wake_at(conversation, None)
        if self.fewer:
            self.fewer.unpark_all()

    def _let_go(self, conversation: Conversation) -> None:
        """Stop waiting for a coroutine that doesn't end, and park its conversation: the chat can go on."""
        actor = self.running.get(conversation)
        self.gone(conversation)
        if actor is not None and not (self._work.cut or conversation.evicted):
            actor.park(conversation, "its code catches every cancellation (BaseException), and does not end")

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


def _report(actor: ChatActor, conversation: Conversation, failure: Exception) -> str:
    """Log and count a failure. Return the message for the user; "" for none.

    No crash is reported if the user has left, blocked the bot or not paid.
    """
    services, facts, chat_id = actor.services, conversation.facts, actor.chat_id
    route = facts.route
    what, words = conversation.verdict(failure)
    actor.work.count(what)
    if what == CRASHED:
        gives = None if (giving := conversation.giving) is None else giving.becomes
        told = services, route.name, chat_id, f"{facts.seq}"
        report(failure, *told, place=facts.told_place, gives=gives, job=route.job is not None)
    elif what == GONE and conversation.refused and services.notice is not None:
        services.notice(Refused(route.name, chat_id))
    return words
