"""Sends operations from their lanes to the platform, as the pure modules decide.

The platform's client may be able to begin a request without a task of its own (`seams.BeginsRequests`). The
caller's task then sends its own operation when the operation starts; with a separate task an echo takes 40 %
longer. The caller's task uses no cancel scope for that: the outbox's timer task calls `expire` to end late
requests.

A *courier* is a task of the outbox's own for one attempt. Couriers handle everything that callers can't send
themselves: files, operations that have to wait in their position, probes, operations without a waiting task,
and every operation if the client can't begin requests. A courier also takes over a cancelled caller's request
if the request may have been sent. So the lane starts its next operation only when the platform has answered.

`retry` and `breaker` decide what follows from an attempt. No courier raises a platform error.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Hashable
from typing import Any, Final, final

import outcome
import trio
from trio.lowlevel import checkpoint_if_cancelled, current_task, reschedule, wait_task_rescheduled
from typing_extensions import TypeVar

from ..base.alarm_kinds import RaiseAlarm
from ..errors import (
    BadRequestError,
    DeliveryUnknownError,
    NotDeliveredError,
    RefusedError,
)
from ..seams.outbox import BeginsRequests, Begun, OnUnknown, Platform, Urgency
from ..wire.content import Descriptor, Media
from ..wire.ids import Recipient
from ..wire.operations import (
    AnswerCallback,
    Operation,
    SendAction,
    Upload,
    repeatable,
)
from .delivery import (
    Call,
    Delivery,
    Unrecorded,
    beside,
    chat_of,
    has_file,
    is_followed,
    lane_of,
    left,
    take_place,
    to_upload,
    way_of,
    with_media,
)
from .lanes import NEVER, Lanes
from .pacing import Pace
from .retry import (
    Again,
    GiveUp,
    Random,
    Suspect,
    copy_for,
    is_limit,
    is_never_repeated,
    is_push_back,
    is_token_or_chat,
    judge,
    retry_after,
    took_no_effect,
    unanswered,
)
from .rules import OutboxRules, OutboxStatistics
from .suspects import QUESTION, Suspects
from .uploads import UploadedMedia, Uploads

_SILENCE_TEXT: Final = (
    "the platform asks for silence (Retry-After), in several chats: all but money waits for %.0f s"
)

R = TypeVar("R")

AGAIN: Final = object()
"""Placeholder for a result that doesn't exist yet."""

_log = logging.getLogger("triobot.outbox")


@final
class LaneSender:
    """The lanes, the breaker, the uploads, and the requests' tasks, including callers' tasks.

    Args:
        platform: performs the operations.
        rules: the settings.
        random: returns a number from 0 to 1.
        raise_alarm: called when everything is held.
        start: starts a task in the outbox's nursery.

    Attributes:
        takes: whether operations are accepted and started.
        suspects: the breaker, and the deliveries that wait for its decision.
        on_landing: called after each attempt while a task waits for the outbox to be idle; otherwise None.
    """

    def __init__(
        self,
        platform: Platform,
        rules: OutboxRules,
        *,
        random: Random,
        raise_alarm: RaiseAlarm,
        start: Callable[[Callable[[], Awaitable[None]]], None],
    ) -> None:
        self.takes = False
        self.on_landing: Callable[[], None] | None = None
        self.lanes: Lanes[Delivery] = Lanes(
            rules.parallel, rules.connections - rules.answers.parallel, Pace(rules.pace)
        )
        # The clock's method: `trio.current_time` would look up the loop and the clock in each call.
        self._time = trio.lowlevel.current_clock().current_time
        self._platform = platform
        self._rules = rules
        self._random = random
        self._wake = trio.Event()
        self._wakes_at = NEVER
        self._typing: dict[Hashable, Delivery] = {}
        self._begin = platform.begin if isinstance(platform, BeginsRequests) else None
        # Deadlines of the requests in callers' tasks, the earliest first.
        self._carried: dict[Delivery, float] = {}
        self._ended = False
        self.suspects = Suspects(
            self.lanes,
            rules.breaker,
            raise_alarm,
            time=self._time,
            ask=lambda: self._request(QUESTION, rules.answer_within),
        )
        self._breaker = self.suspects.breaker
        self._start = start
        self._unrecorded = Unrecorded()
        self._uploads = Uploads(self._upload, remembered=rules.descriptors)
        self._uploading = trio.CapacityLimiter(rules.uploads)
        self._done = self._failed = self._retries = self._possible_repeats = 0
        self._typing_sent = self._typing_failed = 0

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
        of queueing, one at a time, and a file is uploaded in its operation's position. The waiting callers
        bound the queue's length.

        Verify and inquiry don't wait for the chat's messages. A phone number and its owner's chat id have
        different lanes. An edit with `Urgency.BESIDE` has no position in its chat's order, and the chat's
        messages never wait for the edit. Such an edit keeps its order with other edits of the same message.
        An edit queued directly after an edit of the same message replaces the earlier edit.

        Args:
            doubted: called, and not awaited, when the operation is sent again although it may have arrived.
            recorded: event that the caller must set once the outcome is durable; the lane's next operation
                with a `recorded` waits for the event in its position.

        Raises:
            RefusedError: the platform refused the operation. 403 only if the chat is the cause, not the
                token.
            NotDeliveredError: the lane only failed for `RetryRules.patience`, or the outbox closed.
            DeliveryUnknownError: the operation may have taken effect: an invoice, `OnUnknown.RAISE`, or the
                end of the patience.
            ForbiddenError: the user left the chat meanwhile (`drop`).
            LocalProtocolError: the operation can't be sent.
            OSError: a file can't be read.

        Cancellation: *atomic* while queued, uploading, or between attempts whose results are known.
        *Ambiguous* in flight: the request continues, its result is dropped, and the operation is not retried.
        """
        if not self.takes:
            await trio.lowlevel.checkpoint()
            raise NotDeliveredError(operation.path, "the outbox is closed")
        call = Call(operation, on_unknown, True, doubted, recorded)
        if self._typing and urgency is not Urgency.BESIDE:
            lane, chat = way_of(operation)
            if lane == ("chat", chat):
                self.hide_typing(chat)
        if self._enter(call, urgency):
            self.go_on()

        def abort(_: object) -> trio.lowlevel.Abort:
            self.abandon(call)
            return trio.lowlevel.Abort.SUCCEEDED

        result: Any = AGAIN
        while result is AGAIN:
            if not call.turn:
                if call.error is not None:
                    raise call.error
                call.task = current_task()
                result = await wait_task_rescheduled(abort)
            if call.turn:
                result = await self._carry(call)
        return result  # type: ignore[no-any-return]

    # --- into the lanes, and out of them

    def _enter(self, call: Call, urgency: Urgency) -> bool:
        """Queue a caller's own operation; return whether `pump` may start an operation now."""
        now = self._time()
        lane, chat = way_of(call.operation)
        delivery = call.delivery = Delivery(lane, urgency, chat, [call], now, now)
        may_start = take_place(self.lanes, delivery, now, self.suspects.cleared)
        return may_start or not self._breaker.is_untroubled()

    def queue(self, call: Call, urgency: Urgency) -> Delivery:
        """Queue a call that no task waits for, without starting it; `pump` does."""
        lane, chat = way_of(call.operation)
        delivery = call.delivery = Delivery(lane, urgency, chat, [call])
        take_place(self.lanes, delivery, self._time(), self.suspects.cleared)
        return delivery

    def abandon(self, call: Call) -> None:
        """Drop a call that its caller no longer waits for; a request that was sent continues."""
        call.wanted = False
        call.task = None
        if (delivery := call.delivery) is None:
            return
        if delivery.wanted:
            # The replaced edit becomes valid again, unless this edit is already in flight.
            if not delivery.sending:
                delivery.calls.remove(call)
        elif self.lanes.withdraw(delivery, self._time()):
            self.suspects.cleared(delivery)
            self.stir()
        elif delivery.uploading is not None:
            delivery.uploading.cancel()

    def drop(self, lane: Hashable, chat: Hashable) -> None:
        """Fail all queued operations of a chat that the user has left; don't retry those in flight."""
        self.suspects.left(chat, self._time())
        for own in (lane, beside(chat)):
            for delivery in self.lanes.drop(own, self._time()):
                self.suspects.cleared(delivery)
                self._reject(delivery, left(delivery))
            lane = self.lanes.standing(own)
            for delivery in lane.places[: lane.flying]:
                delivery.dropped = True
        self.suspects.tell()

    def refuse_waiting(self, lane: Hashable, urgency: Urgency) -> None:
        """Fail the waiting calls of a class in a lane, with an error that fits their earlier attempts."""
        now = self._time()
        for delivery in self.lanes.standing(lane).places:
            if delivery.urgency is urgency and self.lanes.withdraw(delivery, now):
                self.suspects.cleared(delivery)
                self._refuse(delivery)

    def expire(self, now: float) -> None:
        """End the requests in callers' tasks that are past their deadline."""
        while self.expires_at <= now:
            delivery = next(iter(self._carried))
            del self._carried[delivery]
            self._expire(delivery)

    @property
    def expires_at(self) -> float:
        """When `expire` next has a request to end."""
        return next(iter(self._carried.values()), NEVER)

    def _expire(self, delivery: Delivery) -> None:
        assert delivery.begun is not None
        delivery.begun.expire(min(delivery.begun.within, self._rules.answer_within))

    def refuse_the_rest(self) -> None:
        """Fail all waiting calls at the outbox's end, with an error that fits their earlier attempts."""
        self._ended = True
        for delivery in list(self.lanes.places()):
            self._refuse(delivery)
            if self._carried.pop(delivery, None) is not None:
                self._expire(delivery)

    def _refuse(self, delivery: Delivery) -> None:
        path = delivery.call.operation.path
        if delivery.written or delivery.doubtful:
            self._reject(delivery, DeliveryUnknownError(path, "the outbox was closed meanwhile"))
        else:
            self._reject(delivery, NotDeliveredError(path, "the outbox was closed before it was sent"))

    # --- typing

    def show_typing(self, chat: Recipient) -> None:
        """Queue a typing indicator, unless an operation of the chat is queued or in flight."""
        self.hide_typing(chat)
        if not self.lanes.standing(lane_of(chat)).places:
            self._typing[chat] = self.queue(Call(SendAction(chat)), Urgency.TYPING)

    def hide_typing(self, chat: Hashable) -> None:
        """Withdraw a queued typing indicator."""
        delivery = self._typing.pop(chat, None)
        if delivery is not None:
            self.abandon(delivery.call)

    # --- starting operations

    def go_on(self) -> None:
        """Start the operations that may start, after a change of the lanes or at the end of an attempt."""
        if self.takes and not self.is_at_rest():
            self.pump()
            if not self.is_at_rest():
                self.mind(self.suspects.look_again(self._time()))
        if self.on_landing is not None:
            self.on_landing()

    def mind(self, at: float) -> None:
        """Make `wait_due` return by the time `at`."""
        if at < self._wakes_at:
            self.stir()

    def stir(self) -> None:
        """Make `wait_due` return now. Instant, so functions that abort a wait may call `stir`."""
        self._wake.set()

    async def wait_due(self, at: float) -> None:
        """Wait until `at`, or until `mind` or `stir` ends the wait earlier."""
        self._wake, self._wakes_at = trio.Event(), at
        with trio.move_on_at(at):
            await self._wake.wait()

    def pump(self) -> None:
        """Start every operation that may start now."""
        now = self._time()
        if self.lanes.held or self.suspects.told is not None or not self._breaker.is_untroubled():
            self._let_breaker_judge(now)
        while (delivery := self.suspects.take(now)) is not None:
            self._unrecorded.heed(delivery)
            self._launch(delivery, now)

    def _let_breaker_judge(self, now: float) -> None:
        for delivery in self.suspects.judge(now):
            assert delivery.refusal is not None
            self._reject(delivery, delivery.refusal)
        if self._breaker.may_ask(now):
            self._breaker.ask_started(now)
            self._start(self._ask)
        self.suspects.tell()

    def _launch(self, delivery: Delivery, now: float) -> None:
        call = delivery.call
        if (
            call.own
            and len(delivery.calls) == 1
            and self._begin is not None
            and delivery.after is None
            and not delivery.probe
            and not has_file(call.operation)
        ):
            call.turn, delivery.began = True, now
            if call.task is not None:
                reschedule(call.task)
                call.task = None
        else:
            self._send_courier(delivery)

    def is_at_rest(self) -> bool:
        """Return whether `pump` would start nothing and judge nothing."""
        return self.lanes.is_quiet() and self._breaker.is_untroubled()

    # --- one attempt

    async def _carry(self, call: Call) -> object:
        """Make an attempt in the caller's task.

        Returns:
            The operation's result; `AGAIN` if the operation is retried later, or if a courier took over the
            attempt.

        Cancellation: *atomic* until the request is sent; afterwards a courier continues the request.
        """
        delivery, call.turn = call.delivery, False
        assert delivery is not None and self._begin is not None
        if self.suspects.waiting:
            self.suspects.cleared(delivery)
        try:
            await checkpoint_if_cancelled()
            if self._ended:
                self._refuse(delivery)
            if call.error is not None:
                raise call.error
            delivery.sending = delivery.written = True
            request = self._write_out(call, delivery, call.operation)
            if request is None:
                delivery.sending = delivery.written = False
                self._send_courier(delivery)
                return AGAIN
            delivery.attempts += 1
            self._retries += delivery.attempts > 1
            result = await request.result()
        except Exception as error:
            self._carried.pop(delivery, None)
            if call.error is None:
                self._ended_badly(delivery, call.operation, error)
        except BaseException:
            call.wanted, request = False, delivery.begun
            if request is not None and request.may_have_left and delivery in self._carried:
                self._send_courier(delivery)
                raise
            self._carried.pop(delivery, None)
            if request is not None:
                request.close()
            if call.error is None:
                self._land(delivery, self._time())
                self.go_on()
            raise
        else:
            self._carried.pop(delivery, None)  # absent if expired: an answer without its body's end counts
            self._ended_well(delivery, call.operation, result)
            self.go_on()
            return result
        self.go_on()
        if call.error is not None:
            raise call.error
        return AGAIN

    def _write_out(self, call: Call, delivery: Delivery, asked: Operation[object]) -> Begun[object] | None:
        assert self._begin is not None
        last = is_never_repeated(asked, call.on_unknown)
        request = delivery.begun = self._begin(asked, fresh=True) if last else self._begin(asked)
        if request is not None:
            deadline = delivery.began + min(request.within, self._rules.answer_within)
            if not self._carried:  # equal time limits: the first deadline is the earliest
                self.mind(deadline)
            self._carried[delivery] = deadline
        return request

    def _send_courier(self, delivery: Delivery) -> None:
        async def serve() -> None:
            if delivery.begun is not None or await self._is_ready(delivery):
                await self._serve(delivery)
            self.go_on()

        self._start(serve)

    async def _is_ready(self, delivery: Delivery) -> bool:
        """Wait for the operation's turn; return False, with nothing sent, if no call wants it any more."""
        self.suspects.cleared(delivery)
        if delivery.wanted and delivery.after is not None:
            await delivery.after.wait()
            delivery.after = None
            self.lanes.began(delivery, self._time())
        if not delivery.wanted:
            self._land(delivery, self._time())
            return False
        delivery.attempts += 1
        self._retries += delivery.attempts > 1
        delivery.sending, delivery.began = True, self._time()
        return True

    async def _serve(self, delivery: Delivery) -> None:
        """Make an attempt, or finish the attempt of a cancelled caller."""
        operation = delivery.call.operation
        try:
            if (media := to_upload(operation)) is not None:
                send = operation
                operation = Upload.of(media)
                uploaded = await self._resolve(delivery, media)
                if uploaded is None or not delivery.wanted:
                    self._land(delivery, self._time())
                    return
                delivery.cached = uploaded.cached
                operation = with_media(send, uploaded.media)
                took, delivery.began = self._time() - delivery.began, self._time()
                for waiting in self.lanes.standing(delivery.key).places:  # an upload isn't waiting
                    waiting.since = min(delivery.began, waiting.since + took)
                self.lanes.began(delivery, delivery.began)
            delivery.written = True
            last = is_never_repeated(operation, delivery.call.on_unknown)
            if last and delivery.begun is None and self._begin is not None:
                self._write_out(delivery.call, delivery, operation)
            if delivery.begun is not None:
                result = await delivery.begun.result()
            else:
                rules = self._rules
                within = rules.upload_within if isinstance(operation, Upload) else rules.answer_within
                result = await self._request(operation, within)
        except Exception as error:
            self._carried.pop(delivery, None)
            self._ended_badly(delivery, operation, error)
        else:
            self._carried.pop(delivery, None)
            self._ended_well(delivery, operation, result)

    async def perform_aside(self, operation: AnswerCallback) -> None:
        """Make one attempt outside the lanes; the breaker counts a success."""
        began = self._time()
        if self.lanes.limited_until > began:
            raise NotDeliveredError(operation.path, "the platform asked for silence")
        await self._request(operation, min(self._rules.answers.within, self._rules.answer_within))
        self.suspects.worked(chat_of(operation.chat_id), began, self._time())

    def works(self) -> bool:
        """Return whether the platform accepts requests; if unknown, send a question in the background."""
        if self._breaker.may_ask_first():
            self._breaker.ask_started(self._time())
            self._start(self._ask)
        return self._breaker.accepts

    async def _ask(self) -> None:
        await self.suspects.ask()
        self.stir()

    async def _resolve(self, delivery: Delivery, media: Media) -> UploadedMedia | None:
        with trio.CancelScope() as delivery.uploading:
            try:
                return await self._uploads.resolve(media)
            finally:
                delivery.uploading = None
        return None

    async def _upload(self, operation: Upload) -> Descriptor:
        async with self._uploading:
            return await self._request(operation, self._rules.upload_within)

    async def _request(self, operation: Operation[R], within: float) -> R:
        with trio.move_on_after(within):
            return await self._platform.perform(operation)
        raise unanswered(operation, within)

    def _land(self, delivery: Delivery, now: float) -> None:
        self._landing(delivery)
        self.lanes.finish(delivery, now)

    def _landing(self, delivery: Delivery) -> None:
        delivery.sending = delivery.written = False
        delivery.begun = None
        if delivery.landed is not None:
            delivery.landed.set()
            delivery.landed = None
        if delivery.probe:
            delivery.probe = False
            self._breaker.probe_ended()

    # --- outcomes of attempts

    def _ended_well(self, delivery: Delivery, operation: Operation[object], result: object) -> None:
        now = self._time()
        self._possible_repeats += delivery.doubtful
        self._landing(delivery)
        self.lanes.answered(delivery, now)
        self.lanes.finish(delivery, now)
        if isinstance(operation, SendAction):
            self._typing_sent += 1
        self._done += 1
        for call in delivery.calls:
            call.delivery = None
            if call.task is not None:
                reschedule(call.task, outcome.Value(result))
                call.task = None
        self.suspects.worked(delivery.chat, delivery.began, now)

    def _ended_badly(self, delivery: Delivery, operation: Operation[object], error: Exception) -> None:
        now = self._time()
        self._landing(delivery)
        failing_since = now
        if is_push_back(error):
            failing_since = self._pushed_back(delivery, error, now)
        elif isinstance(error, RefusedError) and not is_token_or_chat(error):
            self.lanes.answered(delivery, now)
        if isinstance(operation, SendAction):
            self._typing_failed += 1
            if is_token_or_chat(error):
                self._breaker.refused(delivery.chat, now)
        if delivery.doubtful and not repeatable(operation) and not took_no_effect(error):
            self._possible_repeats += 1
        if isinstance(error, BadRequestError) and delivery.cached is not None and not delivery.refreshed:
            # The platform no longer has the file. The author isn't at fault, so the file is uploaded again,
            # once.
            self._uploads.forget(delivery.cached)
            delivery.refreshed = True
            self._put_back(delivery, now, now)
            return
        verdict = judge(
            operation,
            error,
            on_unknown=delivery.call.on_unknown,
            attempts=delivery.attempts,
            failing_for=now - failing_since,
            doubtful=delivery.doubtful,
            rules=self._rules.retry,
            random=self._random,
        )
        match verdict:
            case Again(pause, possible_repeat, unknown):
                delivery.doubtful = delivery.doubtful or possible_repeat
                for call in delivery.calls:
                    if unknown and call.doubted is not None:
                        call.doubted()
                self._put_back(delivery, now + pause, now)
            case Suspect(refusal):
                own = self._breaker.refused(
                    delivery.chat, now, broadcast=delivery.urgency is Urgency.BROADCAST
                )
                if own or not delivery.wanted or delivery.dropped:
                    self._give_up(delivery, refusal)
                elif not is_followed(self.lanes, delivery, now):
                    self.suspects.suspend(delivery, refusal, now)
            case GiveUp(final_error):
                self._give_up(delivery, final_error)
        self.suspects.tell()

    def _pushed_back(self, delivery: Delivery, error: Exception, now: float) -> float:
        lanes, until = self.lanes, self.lanes.limited_until
        since = lanes.pushed_back(delivery, now, limited=is_limit(error), rests=retry_after(error))
        if lanes.limited_until > max(until, now):
            _log.warning(_SILENCE_TEXT, lanes.limited_until - now)
        return since

    def _put_back(self, delivery: Delivery, until: float, now: float) -> None:
        if delivery.dropped:
            self._give_up(delivery, left(delivery))
        elif not delivery.wanted:
            self.lanes.finish(delivery, now)
        elif not is_followed(self.lanes, delivery, now):
            self.lanes.postpone(delivery, until, now)

    def _give_up(self, delivery: Delivery, error: Exception) -> None:
        self.lanes.finish(delivery, self._time())
        self._reject(delivery, error)

    def _reject(self, delivery: Delivery, error: Exception) -> None:
        own = error
        for call in delivery.calls:
            if call.task is not None:
                reschedule(call.task, outcome.Error(own))
                call.task = None
            elif call.own and call.wanted and call.error is None:
                call.error = own
            else:
                continue
            self._failed += 1
            own = copy_for(error)

    # --- state

    def statistics(self, *, answers_sent: int, answers_failed: int) -> OutboxStatistics:
        """Return the outbox's state and counters."""
        return OutboxStatistics(
            queued=self.lanes.queued,
            in_flight=self.lanes.in_flight,
            lanes=self.lanes.known,
            suspended=self.lanes.suspended,
            held=self._breaker.held is not None,
            token_refused=self._breaker.refused_all,
            rate=self.lanes.pace.rate,
            done=self._done,
            failed=self._failed,
            retries=self._retries,
            possible_repeats=self._possible_repeats,
            typing_sent=self._typing_sent,
            typing_failed=self._typing_failed,
            answers_sent=answers_sent,
            answers_failed=answers_failed,
        )
