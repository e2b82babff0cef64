"""Carries operations from their lanes to the platform, as the pure files decide.

Where the platform's client can begin a request without a task of its own (`seams.BeginsRequests`), the
caller's task carries its operation when it is its turn. It has no scope for that: whoever keeps the outbox's
time closes what is late (`expire`). A caller that is cancelled hands a request that may have left over to a
courier, so that the lane goes on with the next operation only when the platform has answered.

A courier is a task of the outbox's own, for one attempt. It carries what callers can't: files, what has to
wait in its place, probes, what no task waits for, and everything over another transport.

What an attempt's end means, `retry` and `breaker` say. No courier raises on the platform's account.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Hashable, Iterable, Iterator
from typing import Final, final
from weakref import WeakValueDictionary

import outcome
import trio
from typing_extensions import TypeVar

from ..errors import (
    BadRequestError,
    DeliveryUnknownError,
    ForbiddenError,
    NotDeliveredError,
    RefusedError,
    TriobotError,
)
from ..seams import Alarm, BeginsRequests, Begun, Platform, RaiseAlarm, Urgency
from ..wire.content import Descriptor, File, Media
from ..wire.operations import (
    AnswerCallback,
    EditMessage,
    Operation,
    SendAction,
    SendMessage,
    Upload,
    repeatable,
)
from .breaker import Breaker, Held
from .delivery import Address, Call, Delivery, chat_of, media_of, with_media
from .lanes import NEVER, Lanes, Place
from .pacing import Pace
from .retry import (
    Again,
    GiveUp,
    Random,
    Suspect,
    copy_for,
    is_limit,
    is_push_back,
    is_token_or_chat,
    is_unreadable,
    judge,
    took_no_effect,
)
from .rules import OutboxRules, OutboxStatistics
from .uploads import UploadedMedia, Uploads

# Addressed to nobody, and seen by nobody: only the token decides whether it is refused (gap 37).
_QUESTION: Final = Upload.of(File.from_bytes(b"triobot\n", "triobot.txt"))
_HELD_TEXT: Final = (
    "The platform refuses what is sent with 403 and nothing succeeds: the token is probably not valid any "
    "more. Everything waits, nothing is lost; a probe goes out every {every:g} seconds. Check the token."
)
_DOUBT_TEXT: Final = (
    "A chat that worked minutes ago was refused with 403, and nothing has succeeded since: this person may "
    "have left, or the token is not valid any more. Sending waits until another chat tells which."
)

R = TypeVar("R")


AGAIN: Final = object()
"""In place of a result: there is none yet."""

_log = logging.getLogger("triobot.outbox")


@final
class LaneSender:
    """The lanes, the breaker and the uploads, and the tasks that serve them.

    Args:
        platform: where operations go.
        rules: the constants.
        random: a number from 0 to 1.
        raise_alarm: called when everything is held.
        start: starts a task in the outbox's nursery.
        changed: called when something may start that could not before; must be instant.
        landed: the same, behind an attempt: it may start it.
        due: called with the time at which `expire` has to be called.
    """

    def __init__(
        self,
        platform: Platform,
        rules: OutboxRules,
        *,
        random: Random,
        raise_alarm: RaiseAlarm,
        start: Callable[[Callable[[], Awaitable[None]]], None],
        changed: Callable[[], None],
        landed: Callable[[], None],
        due: Callable[[float], None],
    ) -> None:
        self.lanes: Lanes[Delivery] = Lanes(
            rules.parallel, rules.connections - rules.answers.parallel, Pace(rules.pace)
        )
        self._platform = platform
        self._rules = rules
        self._random = random
        self._raise_alarm = raise_alarm
        self._changed = changed
        self._landed = landed
        self._due = due
        self._begin = platform.begin if isinstance(platform, BeginsRequests) else None
        # What callers carry, and until when: the first one's time is over first.
        self._carried: dict[Place[Delivery], float] = {}
        self._ended = False
        self._breaker = Breaker(rules.breaker)
        self._told: Held | None = None
        self._start = start
        self._refused: dict[Hashable, dict[Place[Delivery], None]] = {}
        # Of each lane the last. Whoever is to set it holds it until then, and from there on nobody need.
        self._unnoted: WeakValueDictionary[Hashable, trio.Event] = WeakValueDictionary()
        self._uploads = Uploads(self._upload, remembered=rules.descriptors)
        self._uploading = trio.CapacityLimiter(rules.uploads)
        self._done = self._failed = self._retries = self._possible_repeats = 0
        self._typing_sent = self._typing_failed = 0

    # --- into the lanes, and out of them

    def enter(self, call: Call, address: Address, urgency: Urgency) -> None:
        """Take a place for a caller's own operation; it is its turn at once if nothing stands before it."""
        operation, noted = call.operation, call.noted
        earlier = None if noted is None else self._unnoted.get(address.lane)
        if (
            self._begin is None
            or isinstance(operation, EditMessage)
            or _has_file(operation)
            or not self._breaker.untroubled
            or (earlier is not None and not earlier.is_set())
        ):
            self.queue(call, address, urgency)
            return
        now = trio.current_time()
        delivery = Delivery(address, [call], since=now, began=now)
        call.delivery = delivery
        place = delivery.place = self.lanes.start_at_once(address.lane, delivery, urgency, now)
        if place is None:
            delivery.place = self.lanes.queue(address.lane, delivery, urgency, now)
            return
        if noted is not None:
            self._unnoted[address.lane] = noted
        call.turn = place

    def queue(self, call: Call, address: Address, urgency: Urgency) -> Place[Delivery]:
        """Take a place for a call, or the place of the edit that it replaces. `pump` starts it."""
        now = trio.current_time()
        after: Delivery | None = None
        if isinstance(call.operation, EditMessage):
            if urgency is not Urgency.BESIDE:
                after = self._put_before(call.operation, address, urgency, now)
            elif not any(self._edits(address.lane, call.operation)):
                address = address.beside
        last = self.lanes.last(address.lane)
        if last is not None and last.work.takes(call.operation):
            place = last
            self.lanes.hasten(place, urgency, now)
        else:
            place = self._queue(Delivery(address), urgency, now)
        place.work.join(call)
        if after is not None:
            self._let_wait(place.work, after)
        return place

    def _let_wait(self, later: Delivery, earlier: Delivery) -> None:
        """Send an edit only when the attempt at an earlier one of the same message has ended."""
        if later.after is None:
            if earlier.landed is None:
                earlier.landed = trio.Event()
            earlier.followers.append(later)
            later.after = earlier.landed

    def _queue(self, delivery: Delivery, urgency: Urgency, now: float) -> Place[Delivery]:
        delivery.since = delivery.since or now
        delivery.place = self.lanes.queue(delivery.address.lane, delivery, urgency, now)
        return delivery.place

    def _edits(self, lane: Hashable, edit: EditMessage) -> Iterator[Delivery]:
        """Iterate over the edits of the same message in a lane."""
        return (delivery for delivery in self.lanes.standing(lane).work if delivery.edits_with(edit))

    def _put_before(
        self, edit: EditMessage, address: Address, urgency: Urgency, now: float
    ) -> Delivery | None:
        """Let an edit find the same message's edits of the lane beside before it, in its own lane.

        Returns: the one that is in flight there, which has to be waited for.
        """
        after: Delivery | None = None
        moved: list[Delivery] = []
        for earlier in list(self._edits(address.beside.lane, edit)):
            assert earlier.place is not None
            if self.lanes.withdraw(earlier.place, now):
                self._cleared(earlier.place)
                earlier.address, earlier.attempts = address, 0
                self._queue(earlier, urgency, now)
                moved.append(earlier)
            else:
                after = earlier
        if after is not None:
            for earlier in moved:
                self._let_wait(earlier, after)
        return after

    def abandon(self, call: Call) -> None:
        """Give up a call whose caller waits no more; a request that has left goes on."""
        delivery = call.delivery
        assert delivery is not None
        place = delivery.place
        assert place is not None
        call.wanted = False
        call.task = None
        if delivery.wanted:
            # The edit that it had replaced is the last word again, unless this one is on its way.
            if not delivery.sending:
                delivery.calls.remove(call)
        elif self.lanes.withdraw(place, trio.current_time()):
            self._cleared(place)
            self._changed()
        elif delivery.uploading is not None:
            delivery.uploading.cancel()

    def drop(self, lane: Hashable, chat: Hashable) -> None:
        """Empty a lane: its chat was left."""
        self._breaker.left(chat)
        # What is refused in other lanes of the chat, such as money's, is tried again, and told then.
        self._try_again((chat,), trio.current_time())
        for own in (lane, ("beside", chat)):
            for place in self.lanes.drop(own, trio.current_time()):
                self._cleared(place)
                self._reject(place.work, _left(place.work))
            flying = self.lanes.flying(own)
            if flying is not None:
                flying.work.dropped = True
        self._heed_breaker()

    def expire(self, now: float) -> None:
        """End the requests in callers' tasks whose time is over."""
        while self.expires_at <= now:
            place = next(iter(self._carried))
            del self._carried[place]
            self._expire(place)

    @property
    def expires_at(self) -> float:
        """Return when `expire` has something to end."""
        return next(iter(self._carried.values()), NEVER)

    def _expire(self, place: Place[Delivery]) -> None:
        assert place.work.begun is not None
        place.work.begun.expire(self._patience_with(place.work.begun))

    def refuse_the_rest(self) -> None:
        """Fail each call that still waits, since the outbox ends, with what is known of it."""
        self._ended = True
        for place in list(self.lanes.places()):
            self._refuse(place)
            if self._carried.pop(place, None) is not None:
                self._expire(place)

    def _refuse(self, place: Place[Delivery]) -> None:
        path = place.work.call.operation.path
        if place.work.written or place.work.doubtful:
            self._reject(place.work, DeliveryUnknownError(path, "the outbox was closed meanwhile"))
        else:
            self._reject(place.work, NotDeliveredError(path, "the outbox was closed before it was sent"))

    # --- what may start

    def pump(self) -> None:
        """Start whatever may start now."""
        now = trio.current_time()
        if judged := self._breaker.judge(now):
            self._believe(judged, now)
        if self._breaker.may_ask(now):
            self._breaker.ask_started(now)
            self._start(self._ask)
        self._heed_breaker()
        while (place := self._take(now)) is not None:
            self._heed_unnoted(place)
            self._launch(place, now)

    def _launch(self, place: Place[Delivery], now: float) -> None:
        delivery = place.work
        call = delivery.call
        if (
            call.own
            and len(delivery.calls) == 1
            and self._begin is not None
            and delivery.after is None
            and not delivery.probe
            and not _has_file(call.operation)
        ):
            call.turn, delivery.began = place, now
            if call.task is not None:
                trio.lowlevel.reschedule(call.task)
                call.task = None
        else:
            self._send_courier(place)

    def look_again(self) -> float:
        """Return when `pump` may start something, if nothing else happens."""
        now = trio.current_time()
        breaker_at = self._breaker.look_again(now)
        if self._breaker.held is not None and breaker_at <= now:
            # A probe may go and nothing can be one: news helps, or the end of some lane's pause.
            breaker_at = NEVER
        return min(self.lanes.look_again(now), breaker_at, self.expires_at)

    @property
    def at_rest(self) -> bool:
        """Return whether `pump` would find nothing to start, and nothing to judge."""
        return self.lanes.quiet and self._breaker.untroubled

    def _take(self, now: float) -> Place[Delivery] | None:
        if self._breaker.held is None:
            return self.lanes.start(now)
        place: Place[Delivery] | None = None
        if self._breaker.may_probe(now):
            place = self.lanes.start_probe(now, untried_only=False)
        elif self._breaker.may_probe_untried():
            place = self.lanes.start_probe(now, untried_only=True)
        if place is not None:
            self._breaker.probe_started(now)
            place.work.probe = True
        return place

    def _heed_unnoted(self, place: Place[Delivery]) -> None:
        """Hold a place back until what came of the one before it is durable, if both have a `noted`."""
        if (noted := place.work.call.noted) is None:
            return
        earlier = self._unnoted.get(place.key)
        if earlier is not noted:  # else it is tried again
            self._unnoted[place.key] = noted
            if earlier is not None and not earlier.is_set():
                place.work.after = earlier

    # --- one attempt

    async def carry(self, call: Call) -> object:
        """Make the attempt whose turn it is, in the caller's task; return its result.

        Returns:
            `AGAIN` if it is to be tried once more, or if a courier has it now.

        Cancellation: *atomic* as long as nothing has left; then a courier goes on with the request.
        """
        place, call.turn = call.turn, None
        assert place is not None and self._begin is not None
        delivery = place.work
        began = delivery.began
        if self._refused:
            self._cleared(place)
        try:
            await trio.lowlevel.checkpoint_if_cancelled()
            if self._ended:
                self._refuse(place)
            if call.error is not None:
                raise call.error
            delivery.sending = delivery.written = True
            request = delivery.begun = self._begin(call.operation)
            if request is None:
                delivery.sending = delivery.written = False
                self._send_courier(place)
                return AGAIN
            delivery.attempts += 1
            self._retries += delivery.attempts > 1
            self._carried[place] = deadline = began + self._patience_with(request)
            self._due(deadline)
            result = await request.result()
        except Exception as error:
            self._carried.pop(place, None)
            if call.error is None:
                self._ended_badly(place, call.operation, error)
        except BaseException:
            call.wanted, request = False, delivery.begun
            if request is not None and request.may_have_left and place in self._carried:
                self._send_courier(place)
                raise
            self._carried.pop(place, None)
            if request is not None:
                request.close()
            if call.error is None:
                self._land(place, trio.current_time())
                self._landed()
            raise
        else:
            self._carried.pop(place, None)  # it may be over: an answer whose body did not end counts
            self._ended_well(place, call.operation, result, began)
            self._landed()
            return result
        self._landed()
        if call.error is not None:
            raise call.error
        return AGAIN

    def _patience_with(self, request: Begun[object]) -> float:
        return min(request.within, self._rules.answer_within)

    def _send_courier(self, place: Place[Delivery]) -> None:
        async def serve() -> None:
            if place.work.begun is not None or await self._is_ready(place):
                await self._carry(place)
            self._landed()

        self._start(serve)

    async def _is_ready(self, place: Place[Delivery]) -> bool:
        """Wait for what has to come first; False if the operation isn't wanted any more: nothing has left."""
        delivery = place.work
        self._cleared(place)
        if delivery.wanted and delivery.after is not None:
            await delivery.after.wait()
            delivery.after = None
            self.lanes.began(place, trio.current_time())
        if not delivery.wanted:
            self._land(place, trio.current_time())
            return False
        delivery.attempts += 1
        self._retries += delivery.attempts > 1
        delivery.sending, delivery.began = True, trio.current_time()
        return True

    async def _carry(self, place: Place[Delivery]) -> None:
        """Make an attempt, or see one through whose caller was cancelled."""
        delivery, operation = place.work, place.work.call.operation
        try:
            media = _to_upload(operation)
            if media is not None:
                send = operation
                operation = Upload.of(media)
                uploaded = await self._resolve(delivery, media)
                if uploaded is None or not delivery.wanted:
                    self._land(place, trio.current_time())
                    return
                delivery.cached = uploaded.cached
                operation = with_media(send, uploaded.media)
                self._spare(place.key, trio.current_time() - delivery.began)
                delivery.began = trio.current_time()
                self.lanes.began(place, delivery.began)
            delivery.written = True
            if delivery.begun is not None:
                result = await delivery.begun.result()
            else:
                upload, rules = isinstance(operation, Upload), self._rules
                within = rules.upload_within if upload else rules.answer_within
                result = await self._request(operation, within)
        except Exception as error:
            self._carried.pop(place, None)
            self._ended_badly(place, operation, error)
        else:
            self._carried.pop(place, None)
            self._ended_well(place, operation, result, delivery.began)

    async def perform_aside(self, operation: AnswerCallback) -> None:
        """Make one attempt outside the lanes; its success is good news for the breaker."""
        began = trio.current_time()
        await self._request(operation, min(self._rules.answers.within, self._rules.answer_within))
        self._worked(chat_of(operation.chat_id), began, trio.current_time())

    def works(self) -> bool:
        """Return whether the platform takes requests; if that isn't known, ask it for the next time."""
        if self._breaker.may_ask_first():
            self._breaker.ask_started(trio.current_time())
            self._start(self._ask)
        return self._breaker.accepts

    async def _ask(self) -> None:
        """Find out about the token while nothing else tells; the answer itself is of no interest."""
        began, good, denied = trio.current_time(), True, False
        try:
            await self._request(_QUESTION, self._rules.answer_within)
        except (TriobotError, OSError) as error:
            denied = is_token_or_chat(error)
            good = is_unreadable(error) or not (denied or is_push_back(error))
        finally:
            self._breaker.ask_ended(denied=denied)
        if good:
            now = trio.current_time()
            self._accepted(self._breaker.accepted(began, now), now)
        self._heed_breaker()
        self._changed()

    async def _resolve(self, delivery: Delivery, media: Media) -> UploadedMedia | None:
        with trio.CancelScope() as delivery.uploading:
            try:
                return await self._uploads.resolve(media)
            finally:
                delivery.uploading = None
        return None

    def _spare(self, lane: Hashable, seconds: float) -> None:
        """Leave the time that a file took out of what the lane has waited: its size is no backlog."""
        now = trio.current_time()
        for delivery in self.lanes.standing(lane).work:
            delivery.since = min(now, delivery.since + seconds)

    async def _upload(self, operation: Upload) -> Descriptor:
        async with self._uploading:
            return await self._request(operation, self._rules.upload_within)

    async def _request(self, operation: Operation[R], within: float) -> R:
        with trio.move_on_after(within):
            return await self._platform.perform(operation)
        raise _unanswered(operation, within)

    def _land(self, place: Place[Delivery], now: float) -> None:
        self._landing(place)
        self.lanes.finish(place, now)

    def _landing(self, place: Place[Delivery]) -> None:
        place.work.sending = place.work.written = False
        place.work.begun = None
        if place.work.landed is not None:
            place.work.landed.set()
            place.work.landed = None
        if place.work.probe:
            place.work.probe = False
            self._breaker.probe_ended()

    # --- how it ended

    def _ended_well(
        self, place: Place[Delivery], operation: Operation[object], result: object, began: float
    ) -> None:
        delivery, now = place.work, trio.current_time()
        self._possible_repeats += delivery.doubtful
        self.lanes.answered(place, now)
        self._land(place, now)
        if isinstance(operation, SendAction):
            self._typing_sent += 1
        self._done += 1
        for call in delivery.calls:
            if call.task is not None:
                trio.lowlevel.reschedule(call.task, outcome.Value(result))
                call.task = None
        self._worked(delivery.address.chat, began, now)

    def _ended_badly(self, place: Place[Delivery], operation: Operation[object], error: Exception) -> None:
        delivery = place.work
        now = trio.current_time()
        self._landing(place)
        failing_since = now
        if is_push_back(error):
            failing_since = self.lanes.pushed_back(place, now, limited=is_limit(error))
        elif isinstance(error, RefusedError) and not is_token_or_chat(error):
            self.lanes.answered(place, now)
        if isinstance(operation, SendAction):
            self._typing_failed += 1
            if is_token_or_chat(error):
                self._breaker.refused(delivery.address.chat, now)
        if delivery.doubtful and not repeatable(operation) and not took_no_effect(error):
            self._possible_repeats += 1
        if isinstance(error, BadRequestError) and delivery.cached is not None and not delivery.refreshed:
            # The platform has forgotten the file; that is not the author's fault, so once it is mended here.
            self._uploads.forget(delivery.cached)
            delivery.refreshed = True
            self._put_back(place, now, now)
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
            case Again(pause, possible_repeat):
                delivery.doubtful = delivery.doubtful or possible_repeat
                for call in delivery.calls:
                    if possible_repeat and call.doubted is not None:
                        call.doubted()
                self._put_back(place, now + pause, now)
            case Suspect(refusal):
                own = self._breaker.refused(
                    delivery.address.chat, now, broadcast=place.urgency is Urgency.BROADCAST
                )
                if own or not delivery.wanted or delivery.dropped:
                    self._give_up(place, refusal)
                elif not self._followed(place, now):
                    delivery.refusal = refusal
                    self._refused.setdefault(delivery.address.chat, {})[place] = None
                    self.lanes.suspend(place, now)
            case GiveUp(final_error):
                self._give_up(place, final_error)
        self._heed_breaker()

    def _put_back(self, place: Place[Delivery], until: float, now: float) -> None:
        if place.work.dropped:
            self._give_up(place, _left(place.work))
        elif not place.work.wanted:
            self.lanes.finish(place, now)
        elif not self._followed(place, now):
            self.lanes.postpone(place, until, now)

    def _followed(self, place: Place[Delivery], now: float) -> bool:
        """Leave an edit that failed to the later one of the same message that waits for its end, if any."""
        followers = [follower for follower in place.work.followers if follower.wanted]
        place.work.followers = []
        if not followers:
            return False
        followers[-1].follow(place.work)
        self.lanes.finish(place, now)
        return True

    def _give_up(self, place: Place[Delivery], error: Exception) -> None:
        self.lanes.finish(place, trio.current_time())
        self._reject(place.work, error)

    def _reject(self, delivery: Delivery, error: Exception) -> None:
        own = error
        for call in delivery.calls:
            if call.task is not None:
                trio.lowlevel.reschedule(call.task, outcome.Error(own))
                call.task = None
            elif call.own and call.wanted and call.error is None:
                call.error = own
            else:
                continue
            self._failed += 1
            own = copy_for(error)

    # --- the breaker's word

    def _worked(self, chat: Hashable, began: float, now: float) -> None:
        troubled = not self._breaker.untroubled
        waiting = self._breaker.succeeded(chat, began, now)
        if troubled:
            self._accepted(waiting, now)

    def _accepted(self, waiting: Iterable[Hashable], now: float) -> None:
        self._try_again(waiting, now)
        self._heed_breaker()

    def _try_again(self, chats: Iterable[Hashable], now: float) -> None:
        for chat in chats:
            for place in self._refused.pop(chat, {}):
                self.lanes.resume(place, now)

    def _believe(self, chats: Iterable[Hashable], now: float) -> None:
        for chat in chats:
            for place in self._refused.pop(chat, {}):
                if self.lanes.withdraw(place, now):
                    assert place.work.refusal is not None
                    self._reject(place.work, place.work.refusal)

    def _cleared(self, place: Place[Delivery]) -> None:
        chat = place.work.address.chat
        waiting = self._refused.get(chat)
        if waiting is not None and waiting.pop(place, waiting) is None and not waiting:
            del self._refused[chat]

    def _heed_breaker(self) -> None:
        self.lanes.held = self._breaker.held is not None
        held = None if self._breaker.undecided else self._breaker.held
        was, self._told = self._told, held
        if held == was:
            return
        if held is None:
            _log.warning("the platform takes our requests again; what was held goes out")
        elif was is None or held.sure != was.sure:
            text = _HELD_TEXT.format(every=self._rules.breaker.probe_every) if held.sure else _DOUBT_TEXT
            self._raise_alarm(Alarm("token_refused" if held.sure else "outbox_held", "outbox", text))

    # --- looking

    @property
    def oldest(self) -> float:
        """Return for how many seconds the oldest awaited operation has waited; 0 while everything is held.

        A first attempt that is under way doesn't count, nor does what is behind a file being uploaded.
        """
        if self._breaker.held is not None:
            return 0.0  # that has an alarm of its own
        oldest, uploading = trio.current_time(), None
        for place in self.lanes.places():
            delivery = place.work
            first = delivery.sending and delivery.attempts == 1
            if first and delivery.uploading is not None:
                uploading = place.key
            elif place.urgency in (Urgency.MONEY, Urgency.REPLY) and not first and place.key != uploading:
                oldest = min(oldest, delivery.since)
        return trio.current_time() - oldest

    @property
    def stuck(self) -> bool:
        """Return whether something is queued, nothing in flight, and all held or waiting to be repeated."""
        if self.lanes.in_flight or not self.lanes.queued:
            return False
        if self._breaker.held is not None:
            return True
        first: dict[Hashable, Delivery] = {}
        for place in self.lanes.places():
            first.setdefault(place.key, place.work)
        return all(delivery.attempts for delivery in first.values())

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


def _to_upload(operation: Operation[object]) -> Media | None:
    media = media_of(operation)
    return None if media is None or isinstance(media.source, Descriptor) else media


def _has_file(operation: Operation[object]) -> bool:
    if type(operation) is SendMessage and type(operation.content) is str:
        return False
    return isinstance(operation, Upload) or _to_upload(operation) is not None


def _unanswered(operation: Operation[object], within: float) -> DeliveryUnknownError:
    return DeliveryUnknownError(operation.path, f"no answer within {within:g} seconds")


def _left(delivery: Delivery) -> ForbiddenError:
    return ForbiddenError(delivery.call.operation.path, 403, "the user has left")
