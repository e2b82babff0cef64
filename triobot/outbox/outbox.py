"""The outbox that the rest of the runtime talks to, and the nursery that its tasks live in.

Callers carry their operations themselves (`sender`, whose `perform` is the outbox's). One task keeps the
time; one task for each request that its caller doesn't carry, and a few more for answers to presses. These
live in one nursery inside `open_outbox`. It is shielded, because a request that has been written can't be
taken back: when the outbox closes it gets `OutboxRules.grace` to be answered.
"""

from __future__ import annotations

import random as system_random
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from contextlib import asynccontextmanager, contextmanager
from typing import Final, final

import trio
from typing_extensions import TypeVar

from ..base.alarm_kinds import RaiseAlarm
from ..seams.outbox import Platform, Urgency
from ..wire.events import Press
from ..wire.ids import Recipient
from ..wire.operations import AnswerCallback
from .answers import Answers
from .backlog import is_stuck, oldest_wait
from .delivery import chat_of, lane_of
from .lanes import NEVER
from .retry import Random
from .rules import LaneReport, OutboxRules, OutboxStatistics
from .sender import LaneSender
from .typing import Typists

R = TypeVar("R")

# Of a lane in which hundreds wait, nobody reads more.
_SHOWN: Final = 20


@asynccontextmanager
async def open_outbox(
    platform: Platform,
    *,
    raise_alarm: RaiseAlarm,
    rules: OutboxRules | None = None,
    random: Random = system_random.random,
) -> AsyncGenerator[LaneOutbox, None]:
    """Run an outbox while the block runs.

    At the end nothing more is started; requests in flight get `OutboxRules.grace`. Await `LaneOutbox.drain`
    before the end to send what is queued. Callers that still wait get NotDeliveredError for what never left,
    DeliveryUnknownError for what may have arrived.

    Args:
        platform: where operations go.
        raise_alarm: called when everything is held; must be quick and must not raise.
        rules: the constants.
        random: a number from 0 to 1, for the jitter of pauses.

    Cancellation: the block is cancelled as usual; the outbox itself ends after the grace.
    """
    outbox = LaneOutbox(platform, raise_alarm, rules or OutboxRules(), random)
    async with trio.open_nursery() as nursery:
        # Shielded: a cancelled start waits for its task to end, and this task waits to be closed.
        with trio.CancelScope(shield=True):
            await nursery.start(outbox.live)
        try:
            yield outbox
        finally:
            outbox.close()


@final
class LaneOutbox:
    """`seams.Outbox` over one platform, in memory. Made by `open_outbox`."""

    def __init__(
        self, platform: Platform, raise_alarm: RaiseAlarm, rules: OutboxRules, random: Random
    ) -> None:
        self._rules = rules
        self._sender = LaneSender(platform, rules, random=random, raise_alarm=raise_alarm, start=self._start)
        # The caller's task goes straight there: see `LaneSender.perform`.
        self.perform = self._sender.perform
        self._answers = Answers(self._perform_answer, self._start, rules.answers)
        self._typists = Typists(rules.typing_every)
        self._nursery: trio.Nursery | None = None
        self._closing = trio.Event()
        self._patience = trio.CancelScope()
        # Set when nothing is queued, in flight or unanswered, or when it closes; None: no task waits for it.
        self._idle: trio.Event | None = None

    # --- what others call

    @contextmanager
    def typing(self, chat: Recipient) -> Generator[None]:
        """Show typing in a chat while the block runs: at once, then every few seconds.

        It is skipped while a message of the chat is on its way, gives way to one that is queued, and never
        starts after the block's end. Blocks of one chat may overlap. Never raises on the platform's account.
        """
        chat = chat_of(chat)
        if self._typists.begin(chat, trio.current_time()) and not self._closing.is_set():
            self._sender.show_typing(chat)
            self._pump()
        try:
            yield
        finally:
            if self._typists.end(chat):
                self._sender.hide_typing(chat)

    def press_taken(self, press: Press[object]) -> None:
        """Answer this press within a second, unless the author does: a conversation took it."""
        self._answers.take(press.chat_id, press.callback_id, trio.current_time())
        self._sender.mind(self._look_again())

    def press_due(self, press: Press[object]) -> None:
        """Answer this press now, without a word, unless it has been answered."""
        self._answer_soon(press, "")

    async def answer(self, press: Press[object], text: str, *, alert: bool) -> bool:
        """Answer a press with the author's words, on a path that waits for no message.

        Returns:
            False if it had been answered. True says nothing of success: late or failed answers are counted.

        Raises:
            LocalProtocolError: the text can't be sent.

        Cancellation: *atomic* while it waits (the press is then answered without a word), else *ambiguous*.
        """
        if not self._sender.takes:
            await trio.lowlevel.checkpoint()
            return False
        return await self._answers.answer(press.chat_id, press.callback_id, text, alert=alert)

    def refuse_press(self, press: Press[object], text: str) -> None:
        """Answer a press that no conversation takes, unless it has been answered."""
        self._answer_soon(press, text)

    def drop(self, chat: Recipient) -> None:
        """Forget what is queued for a chat that was left; its callers get ForbiddenError.

        A request in flight ends as it ends, but is not tried again. Verify and inquiry go on.
        """
        self._sender.drop(lane_of(chat), chat_of(chat))
        self._pump()

    def refuse_waiting(self, chat: Recipient, urgency: Urgency) -> None:
        """Withdraw what of a class waits for its turn in a chat's lane. What is in flight goes on.

        Its callers get NotDeliveredError, or DeliveryUnknownError if an attempt may have arrived.
        """
        self._sender.refuse_waiting(lane_of(chat), urgency)
        self._pump()

    async def drain(self) -> None:
        """Wait until nothing is queued, in flight or unanswered; presses are answered at once.

        New operations are still taken, and waited for. While the token is refused that can be for ever:
        the caller's scope bounds it.
        """
        await trio.lowlevel.checkpoint()
        self._answers.answer_due(NEVER)
        while not self._is_idle():
            await self._wait_idle()

    @property
    def oldest(self) -> float:
        """Return for how many seconds the oldest awaited operation has waited; 0 while everything is held."""
        return oldest_wait(self._sender.lanes, trio.current_time())

    @property
    def rate(self) -> float | None:
        """Return how many requests may start in a second; None for no limit."""
        return self._sender.lanes.pace.rate

    def works(self) -> bool:
        """Return whether the platform takes requests; if that isn't known, ask it for the next time."""
        return self._sender.works()

    @property
    def stuck(self) -> bool:
        """Return whether `drain` waits only for the platform's recovery, or for a pace that is too low."""
        return self._answers.idle and is_stuck(self._sender.lanes, trio.current_time())

    def statistics(self) -> OutboxStatistics:
        """Return where the outbox stands, and what it has done so far."""
        return self._sender.statistics(answers_sent=self._answers.sent, answers_failed=self._answers.failed)

    def lane(self, chat: Recipient) -> LaneReport:
        """Report what a chat is yet to be told."""
        lane = self._sender.lanes.standing(lane_of(chat))
        return LaneReport(
            tuple(delivery.call.operation.path for delivery in lane.places[:_SHOWN]),
            len(lane.places),
            lane.flying,
            lane.places[0].attempts if lane.places else 0,
            max(0.0, lane.not_before - trio.current_time()),
            lane.suspended,
        )

    # --- life

    async def live(self, task_status: trio.TaskStatus[None]) -> None:
        """Run the tasks until `close`, and through the grace after it. `open_outbox` does both."""
        with trio.CancelScope(shield=True):
            try:
                async with trio.open_nursery() as nursery:
                    self._nursery, self._sender.takes = nursery, not self._closing.is_set()
                    nursery.start_soon(self._keep_time)
                    task_status.started()
                    await self._closing.wait()
                    self._patience.deadline = trio.current_time() + self._rules.grace
                    with self._patience:
                        while self._sender.lanes.in_flight or not self._answers.idle:
                            await self._wait_idle()
                    # Before the nursery ends: a caller that is cancelled later hands nothing over to it.
                    self._sender.refuse_the_rest()
                    nursery.cancel_scope.cancel()
            finally:
                self.close()
                self._sender.refuse_the_rest()

    def close(self) -> None:
        """Start nothing more, and let `live` end."""
        self._closing.set()
        self._sender.takes = False
        self._answers.close()
        self._tell_idle()

    def cut(self) -> None:
        """Close, and give requests in flight no time to be answered: how they end stays unknown."""
        self.close()
        self._patience.cancel()

    async def _keep_time(self) -> None:
        while True:
            self._pump()
            await self._sender.wait_due(self._look_again())

    def _look_again(self) -> float:
        if self._closing.is_set():
            return self._sender.expires_at
        return min(
            self._sender.expires_at,
            self._sender.suspects.look_again(trio.current_time()),
            self._typists.look_again(),
            self._answers.look_again(),
        )

    def _pump(self) -> None:
        """End what is late, and start whatever may start now."""
        self._sender.expire(trio.current_time())
        if not self._closing.is_set():
            now = trio.current_time()
            self._answers.answer_due(now)
            for chat in self._typists.due(now):
                self._sender.show_typing(chat)
        self._sender.go_on()
        self._sender.mind(self._look_again())

    def _start(self, task: Callable[[], Awaitable[None]]) -> None:
        assert self._nursery is not None
        self._nursery.start_soon(task)

    async def _wait_idle(self) -> None:
        """Wait until `_is_idle` may say so, or the outbox closes."""
        if self._idle is None:
            self._idle, self._sender.on_landing = trio.Event(), self._look_whether_idle
        await self._idle.wait()

    def _look_whether_idle(self) -> None:
        if self._is_idle() or self._closing.is_set():
            self._tell_idle()

    def _tell_idle(self) -> None:
        if self._idle is not None:
            self._idle.set()
            self._idle = self._sender.on_landing = None

    def _is_idle(self) -> bool:
        lanes = self._sender.lanes
        return not lanes.queued and not lanes.in_flight and self._answers.idle

    # --- answers

    def _answer_soon(self, press: Press[object], text: str) -> None:
        if not self._closing.is_set():
            self._answers.answer_soon(press.chat_id, press.callback_id, text)

    async def _perform_answer(self, operation: AnswerCallback) -> None:
        try:
            await self._sender.perform_aside(operation)
        finally:
            self._sender.stir()
