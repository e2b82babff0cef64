"""The outbox that the rest of the runtime talks to, and the nursery that its tasks live in.

Callers carry their operations themselves (`sender`). One task keeps the time; one task for each request that
its caller doesn't carry, and a few more for answers to presses. These live in one nursery inside
`open_outbox`. It is shielded, because a request that has been written can't be taken back: when the outbox
closes it gets `OutboxRules.grace` to be answered.
"""

from __future__ import annotations

import random as system_random
from collections.abc import AsyncGenerator, Awaitable, Callable, Hashable
from contextlib import asynccontextmanager
from typing import Any, Final, final

import trio
from typing_extensions import TypeVar

from ..errors import NotDeliveredError
from ..seams import OnUnknown, Platform, RaiseAlarm, Urgency
from ..wire.events import Press
from ..wire.ids import Recipient
from ..wire.operations import AnswerCallback, Operation, SendAction
from .answers import Answers
from .delivery import Call, Delivery, chat_of, lane_of, way_of
from .lanes import NEVER
from .retry import Random
from .rules import LaneReport, OutboxRules, OutboxStatistics
from .sender import AGAIN, LaneSender
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
        self._sender = LaneSender(
            platform,
            rules,
            random=random,
            raise_alarm=raise_alarm,
            start=self._start,
            changed=self._stir,
            landed=self._go_on,
            due=self._mind,
        )
        self._answers = Answers(self._perform_answer, self._start, rules.answers)
        self._typists = Typists(rules.typing_every)
        self._typing: dict[Hashable, Delivery] = {}
        self._nursery: trio.Nursery | None = None
        self._closing = trio.Event()
        # Between the start of `live` and `close`.
        self._takes = False
        self._patience = trio.CancelScope()
        self._wake = trio.Event()
        self._wakes_at = NEVER
        # Set when nothing is queued, in flight or unanswered, or when it closes; None: no task waits for it.
        self._idle: trio.Event | None = None

    # --- what others call

    async def perform(
        self,
        operation: Operation[R],
        *,
        urgency: Urgency = Urgency.REPLY,
        on_unknown: OnUnknown = OnUnknown.RESEND,
        doubted: Callable[[], None] | None = None,
        recorded: trio.Event | None = None,
    ) -> R:
        """Queue an operation in its recipient's lane, and wait for its result.

        The place in the lane is taken before the first checkpoint. Operations of one recipient leave in the
        order in which they were queued, one at a time, and a file is uploaded within its place. How much
        may be queued is bounded by the callers: each queued operation is one call of this.

        Verify and inquiry don't queue behind what the chat is told, and a phone number's lane is not that of
        its owner's chat id. An edit with `Urgency.BESIDE` has no place in its chat's order: what the chat is
        told never waits for it. It keeps its order with other edits of the same message, though. An edit
        right behind an edit of the same message replaces it.

        Args:
            doubted: called, and not awaited, when it is sent again although it may have arrived.
            recorded: set by the caller, who must, once what came of it is durable; the next operation of the
                lane that has one waits for that in its place.

        Raises:
            RefusedError: the platform said no. 403 only if it is this chat's, not the token's.
            NotDeliveredError: nothing else happened for `RetryRules.patience`, or the outbox closed.
            DeliveryUnknownError: it may have taken effect: an invoice, `OnUnknown.RAISE`, or patience ended.
            ForbiddenError: the chat was left meanwhile (`drop`).
            LocalProtocolError: the operation can't be sent.
            OSError: a file can't be read.

        Cancellation: *atomic* while queued, uploading or between attempts none of which was unknown.
        *Ambiguous* in flight: the request goes on, its result is dropped, and it is not tried again.
        """
        if not self._takes:
            await trio.lowlevel.checkpoint()
            raise NotDeliveredError(operation.path, "the outbox is closed")
        call = Call(operation, on_unknown, own=True, doubted=doubted, recorded=recorded)
        if self._typing and urgency is not Urgency.BESIDE:
            lane, chat = way_of(operation)
            if lane == ("chat", chat):
                self._hide_typing(chat)
        if self._sender.enter(call, urgency):
            self._go_on()

        def abort(_: object) -> trio.lowlevel.Abort:
            self._sender.abandon(call)
            return trio.lowlevel.Abort.SUCCEEDED

        result: Any = AGAIN
        while result is AGAIN:
            if not call.turn:
                if call.error is not None:
                    raise call.error
                call.task = trio.lowlevel.current_task()
                result = await trio.lowlevel.wait_task_rescheduled(abort)
            if call.turn:
                result = await self._sender.carry(call)
        return result  # type: ignore[no-any-return]

    @asynccontextmanager
    async def typing(self, chat: Recipient) -> AsyncGenerator[None, None]:
        """Show typing in a chat while the block runs: at once, then every few seconds.

        It is skipped while a message of the chat is on its way, gives way to one that is queued, and never
        starts after the block's end. Blocks of one chat may overlap. Never raises on the platform's account.
        """
        await trio.lowlevel.checkpoint()
        chat = chat_of(chat)
        if self._typists.begin(chat, trio.current_time()) and not self._closing.is_set():
            self._show_typing(chat)
            self._pump()
        try:
            yield
        finally:
            if self._typists.end(chat):
                self._hide_typing(chat)

    def press_taken(self, press: Press[object]) -> None:
        """Answer this press within a second, unless the author does: a conversation took it."""
        self._answers.take(press.chat_id, press.callback_id, trio.current_time())
        self._mind(self._look_again())

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
        if not self._takes:
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
        return self._sender.oldest

    def works(self) -> bool:
        """Return whether the platform takes requests; if that isn't known, ask it for the next time."""
        return self._sender.works()

    @property
    def stuck(self) -> bool:
        """Return whether only the platform's recovery would let `drain` come to an end."""
        return self._answers.idle and self._sender.stuck

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
                    self._nursery, self._takes = nursery, not self._closing.is_set()
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
        self._takes = False
        self._answers.close()
        self._tell_idle()

    def cut(self) -> None:
        """Close, and give requests in flight no time to be answered: how they end stays unknown."""
        self.close()
        self._patience.cancel()

    async def _keep_time(self) -> None:
        while True:
            self._pump()
            self._wake = trio.Event()
            self._wakes_at = self._look_again()
            with trio.move_on_at(self._wakes_at):
                await self._wake.wait()

    def _look_again(self) -> float:
        if self._closing.is_set():
            return self._sender.expires_at
        return min(
            self._sender.expires_at,
            self._sender.look_again(),
            self._typists.look_again(),
            self._answers.look_again(),
        )

    def _stir(self) -> None:
        # Called from abort functions too, where only what is instant and can't fail may run.
        self._wake.set()

    def _mind(self, at: float) -> None:
        if at < self._wakes_at:
            self._wake.set()

    def _pump(self) -> None:
        """End what is late, and start whatever may start now."""
        self._sender.expire(trio.current_time())
        if not self._closing.is_set():
            now = trio.current_time()
            self._answers.answer_due(now)
            for chat in self._typists.due(now):
                self._show_typing(chat)
        self._go_on()
        self._mind(self._look_again())

    def _go_on(self) -> None:
        """Start what the lanes have: typing and answers start by the time, and when there is one more."""
        if self._takes and not self._sender.at_rest:
            self._sender.pump()
            if not self._sender.at_rest:
                self._mind(self._sender.look_again())
        if self._idle is not None and (self._is_idle() or self._closing.is_set()):
            self._tell_idle()

    def _start(self, task: Callable[[], Awaitable[None]]) -> None:
        assert self._nursery is not None
        self._nursery.start_soon(task)

    async def _wait_idle(self) -> None:
        """Wait until `_is_idle` may say so, or the outbox closes."""
        if self._idle is None:
            self._idle = trio.Event()
        await self._idle.wait()

    def _tell_idle(self) -> None:
        if self._idle is not None:
            self._idle.set()
            self._idle = None

    def _is_idle(self) -> bool:
        lanes = self._sender.lanes
        return not lanes.queued and not lanes.in_flight and self._answers.idle

    # --- typing and answers

    def _show_typing(self, chat: Recipient) -> None:
        self._hide_typing(chat)
        if not self._sender.lanes.busy(lane_of(chat)):
            action = SendAction(chat)
            self._typing[chat] = self._sender.queue(Call(action), Urgency.TYPING)

    def _hide_typing(self, chat: Hashable) -> None:
        delivery = self._typing.pop(chat, None)
        if delivery is not None:
            self._sender.abandon(delivery.call)

    def _answer_soon(self, press: Press[object], text: str) -> None:
        if not self._closing.is_set():
            self._answers.answer_soon(press.chat_id, press.callback_id, text)

    async def _perform_answer(self, operation: AnswerCallback) -> None:
        try:
            await self._sender.perform_aside(operation)
        finally:
            self._stir()
