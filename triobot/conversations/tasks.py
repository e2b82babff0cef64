"""The tasks of the running conversations: each conversation runs in a task of its own, from start to end."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from typing import Final, final

import trio

from ..engine import Run
from ..engine.records import Id
from ..seams.journals import ConversationId, TakeInHand
from ..seams.patience import await_store
from .beginnings import Successor
from .chat import handle_of
from .chat_actor import ChatActor
from .conversation import Conversation
from .jobs import JobClock
from .notices import Refused
from .operations import Operations
from .revival.crash_counts import RUNS
from .running.branches import OperationKind
from .running.failures import CRASHED, GONE, Ending, report
from .running.lines import calling_line
from .shared import Shared

log: Final = logging.getLogger("triobot.conversations")

_OF_PLATFORM: Final = frozenset(
    kind.value for kind in (OperationKind.SEND, OperationKind.ANSWER, OperationKind.CHARGE)
)


@final
class ConversationTasks:
    """Runs conversations, each in a task of its own.

    Attributes:
        running: the conversations with a task, whether busy or waiting, and the chat of each.
        fewer: parking lot, with tasks that are woken whenever a conversation leaves `running`.
        jobs: the jobs' clock, which is notified when a job's run ends; None if there are no jobs.
    """

    def __init__(self, shared: Shared) -> None:
        self._shared, self._work = shared, shared.work
        self._work.let_go = self._let_go
        self.running: dict[Conversation, ChatActor] = {}
        self.fewer = trio.lowlevel.ParkingLot()
        self.jobs: JobClock | None = None

    @property
    def waits_for_platform(self) -> bool:
        """Whether every conversation waits, or is busy with nothing but requests to the platform."""
        return all(one.is_waiting or _waits_for_platform(one.run) for one in self.running)

    def start(self, actor: ChatActor, conversation: Conversation) -> None:
        """Register a conversation in its chat, and start its task."""
        actor.running.take(conversation)
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
        crashes, tracing = self._shared.crashes, actor.services.tracing
        facts = conversation.facts
        failure: Exception | None = None
        try:
            try:
                # No local variable may keep `begin`: it may be large, and the task may wait for months.
                carried = isinstance(conversation.begin, Successor)
                if (unread := actor.kept.is_unread) or carried or crashes.early:
                    scope.shield = False
                if unread:
                    await await_store(actor.kept.load)
                if conversation.evicted:
                    return  # the conversation's event isn't stored
                conversation.make_run(actor)
                if carried:
                    # Without this wait, a chain of `continue_as` that never waits would add writes faster
                    # than the disk stores them, and would block all other tasks.
                    with suppress(trio.ClosedResourceError):  # the bot stops
                        await self._work.commits.wait_for()
                if facts.seq in crashes.early and (writer := conversation.writer) and not self._work.cut:
                    # The conversation's row must exist before the code runs again, because the row has the
                    # crash count.
                    crashes.early.discard(facts.seq)
                    writer.write([TakeInHand(ConversationId(facts.seq), actor.services.clock.now())])
                    await self._work.commits.wait_for()
                if self._work.cut or conversation.evicted:
                    return  # the row of the conversation's event is in the inbox
                operations = Operations(actor, conversation)
                inner = conversation.go_over(operations.begin, handle_of(operations), scope)
                if tracing is not None:
                    inner = tracing.drive(conversation, inner)
                try:
                    end = await crashes.drive(facts.seq, inner)
                finally:
                    operations.report_copies()
                failure = actor.came_to(conversation, end)
            finally:
                if conversation.replay is not None:
                    conversation.replay.settled.set()
                conversation.stirred(busy=False)
                # The author's failure handler and filters run here, and count as this conversation's code.
                crashes.at_work[RUNS] = facts.seq
                if failure is not None:
                    _report(actor, conversation, failure)
                # Called before the apology is sent: the chat must not wait for the apology.
                actor.ended(conversation)
                crashes.at_work[RUNS] = 0
                self._work.commits.end_step()
            if conversation.ending is Ending.FAILED:
                scope.shield = False
                taken = None if (writer := conversation.writer) is None else writer.ahead
                await self._shared.cleanup.say_owed(actor.chat_id, facts.seq, taken)
            conversation.is_done()
        except BaseException as error:
            crashes.ends_process(error, facts.seq, facts.route.name, facts.place_name)
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

    def _let_go(self, conversation: Conversation, id: Id) -> None:
        """Stop waiting for a coroutine that doesn't end, and park its conversation: the chat can go on."""
        self._work.count("swallowed_cancellation")
        log.error(
            "conversation %s of %s catches every cancellation (BaseException) near operation %s, "
            "and can't be put to rest: it is given up at %s",
            conversation.facts.route.name,
            conversation.facts.place_name,
            id,
            calling_line(),
        )
        actor = self.running.get(conversation)
        self.gone(conversation)
        if actor is not None and not (self._work.cut or conversation.evicted):
            actor.park(conversation, "its code catches every cancellation (BaseException), and does not end")

    async def or_cut(self, work: Callable[[], Awaitable[None]]) -> None:
        """Run `work`, which all conversations need.

        If `work` fails, evict all conversations, and raise the error again.
        """
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


def _waits_for_platform(run: Run | None) -> bool:
    """Return whether a run is over, waits, or is busy with nothing but requests to the platform."""
    if run is None or run.over or run.is_waiting:
        return run is not None
    kinds = {kind.partition(" ")[0] for kind in run.effects}
    return bool(kinds) and kinds <= _OF_PLATFORM and run.holder is None


def _report(actor: ChatActor, conversation: Conversation, failure: Exception) -> None:
    """Log and count a failure.

    No crash is reported if the user has left, blocked the bot or not paid.
    """
    services, facts, chat_id = actor.services, conversation.facts, actor.chat_id
    route = facts.route
    what, _ = conversation.verdict(failure)
    actor.work.count(what)
    if what == CRASHED:
        gives = None if (giving := conversation.giving) is None else giving.becomes
        about = services, route.name, chat_id, f"{facts.seq}"
        report(failure, *about, place=facts.place_name, gives=gives, job=route.job is not None)
    elif what == GONE and conversation.refused and services.notice is not None:
        services.notice(Refused(route.name, chat_id))
