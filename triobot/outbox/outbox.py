"""The outbox's interface to the runtime, and the nursery of its tasks.

Callers send their own requests: the outbox's `perform` is `sender.LaneSender.perform`. The nursery inside
`open_outbox` runs one timer task, one task for each request that the caller's task can't send, and a few
senders of answers to presses. The nursery is shielded, because a written request can't be withdrawn. When the
outbox closes, it waits up to `OutboxRules.grace` for the answers to requests in flight.
"""

from __future__ import annotations

import random as system_random
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from typing import Final, final

import attrs
import trio
from typing_extensions import TypeVar

from ..base.alarm_kinds import RaiseAlarm
from ..errors import NotDeliveredError
from ..seams.outbox import Platform, Urgency
from ..wire.events import Press
from ..wire.ids import Recipient
from ..wire.operations import AnswerCallback
from .answers import Answers
from .attempts import Attempts
from .backlog import is_stuck, oldest_wait
from .delivery import Delivery, chat_of, lane_of
from .lanes import NEVER, Lanes
from .pacing import Pace
from .requests import Requests
from .retry import Random
from .rules import LaneReport, OutboxRules, OutboxStatistics
from .sender import LaneSender
from .suspects import Suspects
from .timer import Timer

R = TypeVar("R")

# Largest number of operations in a lane report; a longer list isn't useful.
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

    At the end of the block no further request is started, and the outbox waits up to `OutboxRules.grace` for
    requests in flight. Await `LaneOutbox.drain` before the end to send the queued operations. Callers that
    still wait get NotDeliveredError for an operation that was never sent, and DeliveryUnknownError for an
    operation that may have arrived.

    Args:
        platform: performs the operations.
        raise_alarm: called when everything is held; must be quick and must not raise.
        rules: the settings.
        random: returns a number from 0 to 1, for the jitter of pauses.

    Cancellation: the block is cancelled as usual; the outbox itself ends after the grace.
    """
    outbox = LaneOutbox(platform, raise_alarm, rules or OutboxRules(), random)
    async with trio.open_nursery() as nursery:
        # Shielded: a cancelled `nursery.start` waits until its task ends, and this task only ends after
        # `close`.
        with trio.CancelScope(shield=True):
            await nursery.start(outbox.live)
        try:
            yield outbox
        finally:
            outbox.close()


@final
@attrs.define(eq=False)
class _Typing:
    """The number of a chat's typing blocks, and the scope of the task that shows typing during the blocks."""

    blocks: int = 0
    scope: trio.CancelScope = attrs.field(factory=trio.CancelScope)


@final
class LaneOutbox:
    """In-memory implementation of `seams.Outbox` over one platform; `open_outbox` creates the object."""

    def __init__(
        self, platform: Platform, raise_alarm: RaiseAlarm, rules: OutboxRules, random: Random
    ) -> None:
        self._rules = rules
        self._timer = Timer()
        self._lanes: Lanes[Delivery] = Lanes(
            rules.parallel, rules.connections - rules.answers.parallel, Pace(rules.pace)
        )
        self._requests = Requests(platform, rules, self._timer)
        self._suspects = Suspects(self._lanes, self._requests, rules.breaker, raise_alarm)
        self._attempts = Attempts(self._lanes, self._suspects, self._requests, rules.retry, random)
        self._sender = LaneSender(
            self._lanes, self._suspects, self._requests, self._attempts, self._timer, self._start
        )
        # The sender's bound method: a wrapper would cost one more call. See `LaneSender.perform`.
        self.perform = self._sender.perform
        self._answers = Answers(self._perform_answer, self._start, rules.answers)
        self._typing: dict[Recipient, _Typing] = {}
        self._nursery: trio.Nursery | None = None
        self._closing = trio.Event()
        self._patience = trio.CancelScope()
        # Event that is set when nothing is queued, in flight or unanswered, or when the outbox closes. None
        # if no task waits for the event.
        self._idle: trio.Event | None = None

    # --- calls by other modules

    @contextmanager
    def typing(self, chat: Recipient) -> Generator[None]:
        """Show typing in a chat while the block runs: at once, and again every few seconds.

        The indicator isn't sent while a message of the chat is in flight, or after the block's end. A queued
        indicator is withdrawn when a message is queued. Several typing blocks of one chat may overlap.
        Platform errors are never raised.
        """
        chat = chat_of(chat)
        if (shown := self._typing.get(chat)) is None:
            shown = self._typing[chat] = _Typing()
            if not self._closing.is_set():
                self._start(partial(self._keep_typing, chat, shown.scope))
        shown.blocks += 1
        try:
            yield
        finally:
            shown.blocks -= 1
            if not shown.blocks:
                del self._typing[chat]
                shown.scope.cancel()
                self._sender.hide_typing(chat)

    async def _keep_typing(self, chat: Recipient, scope: trio.CancelScope) -> None:
        with scope:
            while not (scope.cancel_called or self._closing.is_set()):
                self._sender.show_typing(chat)
                self._pump()
                await trio.sleep(self._rules.typing_every)

    def press_taken(self, press: Press[object]) -> None:
        """Register that a conversation took a press.

        Without an answer by the author, an empty answer is sent after a second.
        """
        self._answers.take(press.chat_id, press.callback_id, trio.current_time())
        self._timer.mind(self._look_again())

    def press_due(self, press: Press[object]) -> None:
        """Answer a press now with an empty text, unless the press was already answered."""
        self._answer_soon(press, "")

    async def answer(self, press: Press[object], text: str, *, alert: bool) -> bool:
        """Answer a press with the author's text, without waiting for the chat's messages.

        Returns:
            False if the press was already answered, or the outbox is closed. True doesn't mean that the
            platform accepted the answer: late or failed answers are only counted.

        Raises:
            LocalProtocolError: the text can't be sent.

        Cancellation: *atomic* while the answer is queued (the press then gets an empty answer), else
        *ambiguous*.
        """
        if not self._sender.takes:
            await trio.lowlevel.checkpoint()
            return False
        return await self._answers.answer(press.chat_id, press.callback_id, text, alert=alert)

    def refuse_press(self, press: Press[object], text: str) -> None:
        """Answer a press that no conversation accepts, unless the press was already answered."""
        self._answer_soon(press, text)

    def drop(self, chat: Recipient) -> None:
        """Delete the queued operations of a chat that the user left; the callers get ForbiddenError.

        A request in flight continues, but is not retried. The chat's verify and inquiry operations stay
        queued.
        """
        self._sender.drop(lane_of(chat), chat_of(chat))
        self._pump()

    def refuse_waiting(self, chat: Recipient, urgency: Urgency) -> None:
        """Withdraw the waiting operations with this urgency from a chat's lane. Requests in flight continue.

        The callers get NotDeliveredError, or DeliveryUnknownError if an attempt may have arrived.
        """
        self._sender.refuse_waiting(lane_of(chat), urgency)
        self._pump()

    async def drain(self) -> None:
        """Wait until nothing is queued, in flight or unanswered; taken presses are answered at once.

        The outbox still accepts new operations, and `drain` also waits for the new operations. While the
        token is refused the wait can be endless, so the caller needs a cancel scope.
        """
        await trio.lowlevel.checkpoint()
        self._answers.answer_due(NEVER)
        while not self._is_idle():
            await self._wait_idle()

    @property
    def oldest(self) -> float:
        """Age in seconds of the oldest waiting operation for money or a reply; 0 while everything is held."""
        return oldest_wait(self._lanes, trio.current_time())

    @property
    def rate(self) -> float | None:
        """Largest number of requests that may start in a second; None: no limit."""
        return self._lanes.pace.rate

    def works(self) -> bool:
        """Return whether the platform accepts requests.

        Before the first success, also send the breaker's token check in the background.
        """
        breaker = self._suspects.breaker
        if breaker.may_ask_first():
            breaker.ask_started(trio.current_time())
            self._start(self._suspects.ask)
        return breaker.accepts

    @property
    def stuck(self) -> bool:
        """Whether `drain` makes no progress until the platform recovers or allows a higher pace."""
        return self._answers.idle and is_stuck(self._lanes, trio.current_time())

    def statistics(self) -> OutboxStatistics:
        lanes, breaker, attempts, answers = self._lanes, self._suspects.breaker, self._attempts, self._answers
        return OutboxStatistics(
            queued=lanes.queued,
            in_flight=lanes.in_flight,
            lanes=lanes.known,
            suspended=lanes.suspended,
            held=breaker.held is not None,
            token_refused=breaker.refused_all,
            rate=self.rate,
            done=attempts.done,
            failed=attempts.failed,
            retries=attempts.retries,
            possible_repeats=attempts.possible_repeats,
            answers_sent=answers.sent,
            answers_failed=answers.failed,
        )

    def lane(self, chat: Recipient) -> LaneReport:
        lane = self._lanes.standing(lane_of(chat))
        return LaneReport(
            tuple(delivery.operation.path for delivery in lane.places[:_SHOWN]),
            len(lane.places),
            lane.flying,
            lane.places[0].attempts if lane.places else 0,
            max(0.0, lane.not_before - trio.current_time()),
            lane.suspended,
        )

    # --- running

    async def live(self, task_status: trio.TaskStatus[None]) -> None:
        """Run the outbox's tasks until the call of `close`, and during the grace period after this call.

        `open_outbox` calls `live` and `close`.
        """
        with trio.CancelScope(shield=True):
            try:
                async with trio.open_nursery() as nursery:
                    self._nursery, self._sender.takes = nursery, not self._closing.is_set()
                    nursery.start_soon(self._keep_time)
                    task_status.started()
                    await self._closing.wait()
                    self._patience.deadline = trio.current_time() + self._rules.grace
                    with self._patience:
                        while self._lanes.in_flight or not self._answers.idle:
                            await self._wait_idle()
                    # Refuse the waiting calls before the nursery ends. Otherwise a caller that is cancelled
                    # later would start a task in the ended nursery.
                    self._sender.refuse_the_rest()
                    nursery.cancel_scope.cancel()
            finally:
                self.close()
                self._sender.refuse_the_rest()

    def close(self) -> None:
        """Start no further request, and make `live` end after the grace period."""
        self._closing.set()
        self._sender.takes = False
        self._answers.close()
        self._tell_idle()

    def cut(self) -> None:
        """Close the outbox without the grace period; the outcomes of requests in flight stay unknown."""
        self.close()
        self._patience.cancel()

    async def _keep_time(self) -> None:
        while True:
            self._pump()
            await self._timer.wait_due(self._look_again())

    def _look_again(self) -> float:
        if self._closing.is_set():
            return self._requests.expires_at
        return min(
            self._requests.expires_at,
            self._suspects.look_again(trio.current_time()),
            self._answers.look_again(),
        )

    def _pump(self) -> None:
        """End the requests that are past their deadline, and start every operation that may start now."""
        self._requests.expire(trio.current_time())
        if not self._closing.is_set():
            self._answers.answer_due(trio.current_time())
        self._sender.go_on()
        self._timer.mind(self._look_again())

    def _start(self, task: Callable[[], Awaitable[None]]) -> None:
        assert self._nursery is not None
        self._nursery.start_soon(task)

    async def _wait_idle(self) -> None:
        """Wait until the outbox may be idle, or is closed."""
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
        return not self._lanes.queued and not self._lanes.in_flight and self._answers.idle

    # --- answers

    def _answer_soon(self, press: Press[object], text: str) -> None:
        if not self._closing.is_set():
            self._answers.answer_soon(press.chat_id, press.callback_id, text)

    async def _perform_answer(self, operation: AnswerCallback) -> None:
        """Send an answer outside the lanes, and report a success to the breaker."""
        began = trio.current_time()
        try:
            if self._lanes.limited_until > began:
                raise NotDeliveredError(operation.path, "the platform asked for silence")
            within = min(self._rules.answers.within, self._rules.answer_within)
            await self._requests.perform(operation, within)
            self._suspects.worked(chat_of(operation.chat_id), began, trio.current_time())
        finally:
            self._timer.stir()
