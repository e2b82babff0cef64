"""Carries operations from their lanes to the platform, as the pure files decide.

Where the platform's client can begin a request without a task of its own (`seams.BeginsRequests`), the
caller's task carries its operation when it is its turn: with couriers an echo takes four tenths more. It has
no scope for that: whoever keeps the outbox's time closes what is late (`expire`). A caller that is cancelled
hands a request that may have left over to a courier, so that the lane goes on with the next operation only
when the platform has answered.

A courier is a task of the outbox's own, for one attempt. It carries what callers can't: files, what has to
wait in its place, probes, what no task waits for, and everything over another transport.

What an attempt's end means, `retry` and `breaker` say. No courier raises on the platform's account.
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
"""In place of a result: there is none yet."""

_log = logging.getLogger("triobot.outbox")


@final
class LaneSender:
    """The lanes, the breaker and the uploads, and the tasks that serve them; callers' own among them.

    Args:
        platform: where operations go.
        rules: the constants.
        random: a number from 0 to 1.
        raise_alarm: called when everything is held.
        start: starts a task in the outbox's nursery.

    Attributes:
        takes: operations are taken, and started.
        suspects: what waits for the breaker's word.
        on_landing: called behind each attempt, by whoever waits for the last; None: nobody does.
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
        # What `trio.current_time` asks, which looks for the loop and its clock each time.
        self._time = trio.lowlevel.current_clock().current_time
        self._platform = platform
        self._rules = rules
        self._random = random
        self._wake = trio.Event()
        self._wakes_at = NEVER
        self._typing: dict[Hashable, Delivery] = {}
        self._begin = platform.begin if isinstance(platform, BeginsRequests) else None
        # What callers carry, and until when: the first one's time is over first.
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

    # --- what the rest of the bot calls

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
        order in which they were queued, one at a time, and a file is uploaded within its place. The callers
        bound how much is queued.

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
        """Take a place for a caller's own operation; return whether `pump` may start something now."""
        now = self._time()
        lane, chat = way_of(call.operation)
        delivery = call.delivery = Delivery(lane, urgency, chat, [call], now, now)
        may_start = take_place(self.lanes, delivery, now, self.suspects.cleared)
        return may_start or not self._breaker.is_untroubled()

    def queue(self, call: Call, urgency: Urgency) -> Delivery:
        """Take a place for a call that no task waits for. `pump` starts it."""
        lane, chat = way_of(call.operation)
        delivery = call.delivery = Delivery(lane, urgency, chat, [call])
        take_place(self.lanes, delivery, self._time(), self.suspects.cleared)
        return delivery

    def abandon(self, call: Call) -> None:
        """Give up a call whose caller waits no more; a request that has left goes on."""
        call.wanted = False
        call.task = None
        if (delivery := call.delivery) is None:
            return
        if delivery.wanted:
            # The edit that it had replaced is the last word again, unless this one is on its way.
            if not delivery.sending:
                delivery.calls.remove(call)
        elif self.lanes.withdraw(delivery, self._time()):
            self.suspects.cleared(delivery)
            self.stir()
        elif delivery.uploading is not None:
            delivery.uploading.cancel()

    def drop(self, lane: Hashable, chat: Hashable) -> None:
        """Empty a lane: its chat was left."""
        self.suspects.left(chat, self._time())
        for own in (lane, beside(chat)):
            for delivery in self.lanes.drop(own, self._time()):
                self.suspects.cleared(delivery)
                self._reject(delivery, left(delivery))
            flying = self.lanes.flying(own)
            if flying is not None:
                flying.dropped = True
        self.suspects.tell()

    def refuse_waiting(self, lane: Hashable, urgency: Urgency) -> None:
        """Fail the calls of a class that wait for their turn in a lane, with what is known of them."""
        now = self._time()
        for delivery in self.lanes.standing(lane).places:
            if delivery.urgency is urgency and self.lanes.withdraw(delivery, now):
                self.suspects.cleared(delivery)
                self._refuse(delivery)

    def expire(self, now: float) -> None:
        """End the requests in callers' tasks whose time is over."""
        while self.expires_at <= now:
            delivery = next(iter(self._carried))
            del self._carried[delivery]
            self._expire(delivery)

    @property
    def expires_at(self) -> float:
        """Return when `expire` has something to end."""
        return next(iter(self._carried.values()), NEVER)

    def _expire(self, delivery: Delivery) -> None:
        assert delivery.begun is not None
        delivery.begun.expire(min(delivery.begun.within, self._rules.answer_within))

    def refuse_the_rest(self) -> None:
        """Fail each call that still waits, since the outbox ends, with what is known of it."""
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
        """Queue a sign of typing, unless something of the chat is on its way."""
        self.hide_typing(chat)
        if not self.lanes.busy(lane_of(chat)):
            self._typing[chat] = self.queue(Call(SendAction(chat)), Urgency.TYPING)

    def hide_typing(self, chat: Hashable) -> None:
        """Withdraw a sign of typing that is queued."""
        delivery = self._typing.pop(chat, None)
        if delivery is not None:
            self.abandon(delivery.call)

    # --- what may start

    def go_on(self) -> None:
        """Start what the lanes have, since there is something new, or one is less in flight."""
        if self.takes and not self.is_at_rest():
            self.pump()
            if not self.is_at_rest():
                self.mind(self.suspects.look_again(self._time()))
        if self.on_landing is not None:
            self.on_landing()

    def mind(self, at: float) -> None:
        """Let `wait_due` return by this time."""
        if at < self._wakes_at:
            self.stir()

    def stir(self) -> None:
        """Let `wait_due` return now. Instant: functions that abort a wait call it, too."""
        self._wake.set()

    async def wait_due(self, at: float) -> None:
        """Wait until this time, or until something is due before it, or may start that could not."""
        self._wake, self._wakes_at = trio.Event(), at
        with trio.move_on_at(at):
            await self._wake.wait()

    def pump(self) -> None:
        """Start whatever may start now."""
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
        """Return whether `pump` would find nothing to start, and nothing to judge."""
        return self.lanes.is_quiet() and self._breaker.is_untroubled()

    # --- one attempt

    async def _carry(self, call: Call) -> object:
        """Make the attempt whose turn it is, in the caller's task; return its result.

        Returns:
            `AGAIN` if it is to be tried once more, or if a courier has it now.

        Cancellation: *atomic* as long as nothing has left; then a courier goes on with the request.
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
            self._carried.pop(delivery, None)  # it may be over: an answer whose body did not end counts
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
            if not self._carried:  # all have the same time: the first one's is over first
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
        """Wait for what has to come first; False if the operation isn't wanted any more: nothing has left."""
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
        """Make an attempt, or see one through whose caller was cancelled."""
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
                for waiting in self.lanes.standing(delivery.key).places:  # a file's size is no backlog
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
        """Make one attempt outside the lanes; its success is good news for the breaker."""
        began = self._time()
        if self.lanes.limited_until > began:
            raise NotDeliveredError(operation.path, "the platform asked for silence")
        await self._request(operation, min(self._rules.answers.within, self._rules.answer_within))
        self.suspects.worked(chat_of(operation.chat_id), began, self._time())

    def works(self) -> bool:
        """Return whether the platform takes requests; if that isn't known, ask it for the next time."""
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

    # --- how it ended

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
            # The platform has forgotten the file; that is not the author's fault, so once it is mended here.
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

    # --- looking

    def statistics(self, *, answers_sent: int, answers_failed: int) -> OutboxStatistics:
        """Return where the outbox stands, and what it has done so far."""
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
