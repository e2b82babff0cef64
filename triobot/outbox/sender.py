"""Sends the lanes' operations, in callers' tasks and in couriers.

If the platform's client can begin a request without a separate task (`requests`), the caller's task sends its
own operation as soon as the operation may start. With a separate task, a reply to a message would take 40 %
longer.

A *courier* is a task of the outbox that makes one attempt. Couriers make the attempts that callers can't make
themselves: probes, and attempts of operations that send a file, wait for an earlier operation's outcome to be
durable, or have no waiting task. If the client can't begin requests, couriers make all attempts. A courier
also takes over a cancelled caller's request if the request may have been sent. So the lane starts its next
operation only when the platform has answered.

`attempts` applies the result of each attempt. No courier raises a platform error.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Hashable
from typing import Any, Final, final

import trio
from trio.lowlevel import checkpoint_if_cancelled, current_task, reschedule, wait_task_rescheduled
from typing_extensions import TypeVar

from ..errors import NotDeliveredError
from ..seams.outbox import OnUnknown, Urgency
from ..wire.ids import Recipient
from ..wire.operations import Operation, SendAction, Upload
from .attempts import Attempts
from .delivery import (
    Delivery,
    Unrecorded,
    beside,
    choose_lane,
    has_file,
    lane_of,
    left,
    to_upload,
    way_of,
    with_media,
)
from .lanes import NEVER, Lanes
from .requests import Requests
from .suspects import Suspects
from .timer import Timer

R = TypeVar("R")

AGAIN: Final = object()
"""Placeholder for a result that doesn't exist yet."""


@final
class LaneSender:
    """The callers that wait in the lanes, and the tasks that send their operations.

    Args:
        lanes: the lanes of the deliveries.
        suspects: the breaker, and the deliveries that wait for its decision.
        requests: sends operations.
        attempts: applies the result of each attempt.
        timer: wakes the task that calls `go_on`.
        start: starts a task in the outbox's nursery.

    Attributes:
        takes: whether operations are accepted and started.
        on_landing: called after each attempt while a task waits for the outbox to be idle; otherwise None.
    """

    def __init__(
        self,
        lanes: Lanes[Delivery],
        suspects: Suspects,
        requests: Requests,
        attempts: Attempts,
        timer: Timer,
        start: Callable[[Callable[[], Awaitable[None]]], None],
    ) -> None:
        self.takes = False
        self.on_landing: Callable[[], None] | None = None
        self._lanes = lanes
        self._suspects = suspects
        self._breaker = suspects.breaker
        self._requests = requests
        self._attempts = attempts
        self._timer = timer
        self._start = start
        # The clock's method: `trio.current_time` would look up the loop and the clock in each call.
        self._time = trio.lowlevel.current_clock().current_time
        self._typing: dict[Hashable, Delivery] = {}
        self._unrecorded = Unrecorded()
        self._ended = False

    # --- calls by other modules

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

        The operation is queued before the first checkpoint. Operations of one recipient are sent in the order
        of queueing, one at a time, and a file is uploaded only when its operation is next. The number of
        waiting callers bounds the queue's length.

        Verify and inquiry don't wait for the chat's messages. A phone number and its owner's chat id have
        different lanes. An edit with `Urgency.BESIDE` has no position in its chat's order, and the chat's
        messages never wait for the edit. Such an edit keeps its order with other edits of the same message.

        Args:
            doubted: called, and not awaited, when the operation is sent again although an earlier attempt may
                have arrived.
            recorded: event that the caller must set once the outcome is durable. If the lane's next operation
                also has a `recorded` event, the next operation waits for this event before it is sent.

        Raises:
            RefusedError: the platform refused the operation. A 403 is raised only if the chat, and not the
                token, is the cause.
            NotDeliveredError: every attempt in the lane failed for `RetryRules.patience`, or the outbox
                closed.
            DeliveryUnknownError: the operation may have taken effect, and isn't sent again, for one of these
                reasons: the operation creates an invoice, `on_unknown` is `OnUnknown.RAISE`, or the lane's
                patience is over.
            ForbiddenError: the user left the chat while the operation was queued (`drop`).
            LocalProtocolError: the operation can't be sent.
            OSError: a file can't be read.

        Cancellation: *atomic* while the operation is queued, uploads its file, or waits after an attempt with
        a known result. *Ambiguous* in flight: the request continues, its result is dropped, and the operation
        is not retried.
        """
        if not self.takes:
            await trio.lowlevel.checkpoint()
            raise NotDeliveredError(operation.path, "the outbox is closed")
        lane, chat = way_of(operation)
        delivery = Delivery(lane, urgency, chat, operation, on_unknown, True, doubted, recorded)
        if self._queue(delivery):
            self.go_on()

        def abort(_: object) -> trio.lowlevel.Abort:
            self._abandon(delivery)
            return trio.lowlevel.Abort.SUCCEEDED

        result: Any = AGAIN
        while result is AGAIN:
            if not delivery.turn:
                if delivery.error is not None:
                    raise delivery.error
                delivery.task = current_task()
                result = await wait_task_rescheduled(abort)
            if delivery.turn:
                result = await self._carry(delivery)
        return result  # type: ignore[no-any-return]

    # --- into the lanes, and out of them

    def _queue(self, delivery: Delivery) -> bool:
        # Returns whether `go_on` may start an operation now.
        chat = delivery.chat
        if self._typing and delivery.urgency is not Urgency.BESIDE and delivery.key == ("chat", chat):
            self.hide_typing(chat)
        choose_lane(self._lanes, delivery)
        delivery.since = now = self._time()
        return self._lanes.queue(delivery, now) or not self._breaker.is_untroubled()

    def _abandon(self, delivery: Delivery) -> None:
        """Drop a delivery whose caller no longer waits; a request that was sent continues."""
        delivery.wanted = False
        delivery.task = None
        if self._lanes.withdraw(delivery, self._time()):
            self._suspects.cleared(delivery)
            self._timer.stir()
        elif delivery.uploading is not None:
            delivery.uploading.cancel()

    def drop(self, lane: Hashable, chat: Hashable) -> None:
        """Fail all queued operations of a chat that the user has left; don't retry operations in flight."""
        now = self._time()
        self._suspects.left(chat, now)
        for delivery in (*self._lanes.standing(lane).places, *self._lanes.standing(beside(chat)).places):
            if self._lanes.withdraw(delivery, now):
                self._suspects.cleared(delivery)
                self._attempts.reject(delivery, left(delivery))
            else:
                delivery.dropped = True
        self._suspects.tell()

    def refuse_waiting(self, lane: Hashable, urgency: Urgency) -> None:
        """Fail the waiting calls with this urgency in a lane, with the error that `Attempts.refuse`
        selects.
        """
        now = self._time()
        for delivery in self._lanes.standing(lane).places:
            if delivery.urgency is urgency and self._lanes.withdraw(delivery, now):
                self._suspects.cleared(delivery)
                self._attempts.refuse(delivery)

    def refuse_the_rest(self) -> None:
        """Fail all waiting calls at the outbox's end, with the error that `Attempts.refuse` selects."""
        self._ended = True
        for delivery in list(self._lanes.places()):
            self._attempts.refuse(delivery)
        self._requests.expire(NEVER)

    # --- typing

    def show_typing(self, chat: Recipient) -> None:
        """Queue a typing indicator, unless an operation of the chat is queued or in flight."""
        self.hide_typing(chat)
        if not self._lanes.standing(lane_of(chat)).places:
            action = SendAction(chat)
            lane, _ = way_of(action)
            self._typing[chat] = delivery = Delivery(lane, Urgency.TYPING, chat, action)
            self._queue(delivery)

    def hide_typing(self, chat: Hashable) -> None:
        if (delivery := self._typing.pop(chat, None)) is not None:
            self._abandon(delivery)

    # --- starting operations

    def go_on(self) -> None:
        """Start the operations that may start now; called after a change of the lanes and at the end of
        an attempt.
        """
        if self.takes and not self._is_at_rest():
            now = self._time()
            if self._lanes.held or self._suspects.reported is not None or not self._breaker.is_untroubled():
                self._let_breaker_judge(now)
            while (delivery := self._suspects.take(now)) is not None:
                self._unrecorded.heed(delivery)
                self._launch(delivery, now)
            if not self._is_at_rest():
                self._timer.mind(self._suspects.look_again(now))
        if self.on_landing is not None:
            self.on_landing()

    def _is_at_rest(self) -> bool:
        return self._lanes.is_quiet() and self._breaker.is_untroubled()

    def _let_breaker_judge(self, now: float) -> None:
        for delivery in self._suspects.judge(now):
            assert delivery.refusal is not None
            self._attempts.reject(delivery, delivery.refusal)
        if self._breaker.may_ask(now):
            self._breaker.ask_started(now)
            self._start(self._suspects.ask)
        self._suspects.tell()

    def _launch(self, delivery: Delivery, now: float) -> None:
        if (
            delivery.own
            and self._requests.begins
            and delivery.after is None
            and not delivery.probe
            and not has_file(delivery.operation)
        ):
            delivery.turn, delivery.began = True, now
            if delivery.task is not None:
                reschedule(delivery.task)
                delivery.task = None
        else:
            self._send_courier(delivery)

    # --- one attempt

    async def _carry(self, delivery: Delivery) -> object:
        """Make an attempt in the caller's task.

        Returns:
            The operation's result; `AGAIN` if the operation is retried later, or if a courier took over the
            attempt.

        Cancellation: *atomic* until the request is sent; afterwards a courier continues the request.
        """
        delivery.turn = False
        if self._suspects.waiting:
            self._suspects.cleared(delivery)
        result: object = AGAIN
        try:
            await checkpoint_if_cancelled()
            if self._ended:
                self._attempts.refuse(delivery)
                return AGAIN
            request = self._requests.begin(delivery, delivery.operation)
            if request is None:
                self._send_courier(delivery)
                return AGAIN
            self._attempts.begin(delivery)
            delivery.written = True
            result = await request.result()
        except Exception as error:
            if delivery.error is None:
                self._attempts.fail(delivery, delivery.operation, error, self._time())
        except BaseException:
            delivery.wanted = False
            if not self._requests.close(delivery):
                self._send_courier(delivery)
            elif delivery.error is None:
                self._attempts.land(delivery, self._time())
                self.go_on()
            raise
        else:
            self._attempts.succeed(delivery, result, self._time())
        self.go_on()
        return result

    def _send_courier(self, delivery: Delivery) -> None:
        async def serve() -> None:
            if delivery.begun is not None or await self._is_ready(delivery):
                await self._serve(delivery)
            self.go_on()

        self._start(serve)

    async def _is_ready(self, delivery: Delivery) -> bool:
        """Wait until the lane's earlier outcome is durable; return False if no caller awaits the delivery."""
        self._suspects.cleared(delivery)
        if delivery.wanted and delivery.after is not None:
            await delivery.after.wait()
            delivery.after = None
            self._lanes.began(delivery, self._time())
        if not delivery.wanted:
            self._attempts.land(delivery, self._time())
            return False
        self._attempts.begin(delivery)
        delivery.began = self._time()
        return True

    async def _serve(self, delivery: Delivery) -> None:
        """Make an attempt in a courier, or finish the attempt of a cancelled caller."""
        operation = delivery.operation
        try:
            if (media := to_upload(operation)) is not None:
                send = operation
                operation = Upload.of(media)
                uploaded = None
                with trio.CancelScope() as delivery.uploading:
                    uploaded = await self._requests.uploads.resolve(media)
                delivery.uploading = None
                if uploaded is None or not delivery.wanted:
                    self._attempts.land(delivery, self._time())
                    return
                delivery.cached = uploaded.cached
                operation = with_media(send, uploaded.media)
                took, delivery.began = self._time() - delivery.began, self._time()
                for waiting in self._lanes.standing(delivery.key).places:  # uploading isn't waiting
                    waiting.since = min(delivery.began, waiting.since + took)
                self._lanes.began(delivery, delivery.began)
            delivery.written = True
            result = await self._requests.send(delivery, operation)
        except Exception as error:
            self._attempts.fail(delivery, operation, error, self._time())
        else:
            self._attempts.succeed(delivery, result, self._time())
