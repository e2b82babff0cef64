"""Attempts: applies the result of an attempt to the delivery, the lane and the caller. Instant.

After a success, the delivery leaves its lane, and the caller gets the result. After a failure, `retry` and
the breaker decide: the caller gets the error, or the delivery returns to its lane for another attempt.
"""

from __future__ import annotations

import logging
from typing import Final, final

import outcome
from trio.lowlevel import reschedule

from ..errors import BadRequestError, DeliveryUnknownError, NotDeliveredError, RefusedError
from ..seams.outbox import Urgency
from ..wire.operations import Operation, SendAction, repeatable
from . import retry
from .delivery import Delivery, left
from .lanes import Lanes
from .requests import Requests
from .retry import Random, RetryRules
from .suspects import Suspects

_SILENCE_TEXT: Final = (
    "the platform asks for silence (Retry-After), in several chats: all but money waits for %.0f s"
)

_log = logging.getLogger("triobot.outbox")


@final
class Attempts:
    """Applies the retry rules at the end of each attempt, and counts the outcomes.

    Args:
        lanes: the lanes of the deliveries.
        suspects: the breaker, and the deliveries that wait for its decision.
        requests: the requests of the attempts, and the descriptors of the uploaded files.
        rules: pauses and time limits of retries.
        dice: returns a number from 0 to 1.

    Attributes:
        done, failed, retries, possible_repeats: see `OutboxStatistics`.
    """

    def __init__(
        self, lanes: Lanes[Delivery], suspects: Suspects, requests: Requests, rules: RetryRules, dice: Random
    ) -> None:
        self.done = self.failed = self.retries = self.possible_repeats = 0
        self._lanes = lanes
        self._suspects = suspects
        self._requests = requests
        self._rules = rules
        self._dice = dice

    def begin(self, delivery: Delivery) -> None:
        """Register the start of an attempt."""
        delivery.sending = True
        delivery.attempts += 1
        self.retries += delivery.attempts > 1

    # --- how an attempt ends

    def land(self, delivery: Delivery, now: float) -> None:
        """End the attempt of a delivery that no caller awaits any more; remove the delivery from its lane."""
        self._landed(delivery)
        self._lanes.finish(delivery, now)

    def succeed(self, delivery: Delivery, result: object, now: float) -> None:
        """End a successful attempt, and return the operation's result to the caller."""
        self.possible_repeats += delivery.doubtful
        self._landed(delivery)
        self._lanes.answered(delivery, now)
        self._lanes.finish(delivery, now)
        self.done += 1
        if delivery.task is not None:
            reschedule(delivery.task, outcome.Value(result))
            delivery.task = None
        self._suspects.worked(delivery.chat, delivery.began, now)

    def fail(self, delivery: Delivery, operation: Operation[object], error: Exception, now: float) -> None:
        """End an attempt in which `operation` failed with `error`; retry, suspend or reject the delivery.

        Args:
            operation: the delivery's own operation, or the upload of its file.
        """
        self._landed(delivery)
        failing_since = now
        if retry.is_push_back(error):
            failing_since = self._pushed_back(delivery, error, now)
        elif isinstance(error, RefusedError) and not retry.is_token_or_chat(error):
            self._lanes.answered(delivery, now)
        if isinstance(operation, SendAction) and retry.is_token_or_chat(error):
            self._suspects.breaker.refused(delivery.chat, now)
        if delivery.doubtful and not repeatable(operation) and not retry.took_no_effect(error):
            self.possible_repeats += 1
        if isinstance(error, BadRequestError) and delivery.cached is not None and not delivery.refreshed:
            # The platform no longer has the file. The author isn't at fault, so the file is uploaded again,
            # once.
            self._requests.uploads.forget(delivery.cached)
            delivery.refreshed = True
            self._put_back(delivery, now, now)
            return
        verdict = retry.judge(
            operation,
            error,
            on_unknown=delivery.on_unknown,
            attempts=delivery.attempts,
            failing_for=now - failing_since,
            doubtful=delivery.doubtful,
            rules=self._rules,
            random=self._dice,
        )
        match verdict:
            case retry.Again(pause, possible_repeat, unknown):
                delivery.doubtful = delivery.doubtful or possible_repeat
                if unknown and delivery.doubted is not None:
                    delivery.doubted()
                self._put_back(delivery, now + pause, now)
            case retry.Suspect(refusal):
                own = self._suspects.breaker.refused(
                    delivery.chat, now, broadcast=delivery.urgency is Urgency.BROADCAST
                )
                if own or not delivery.wanted or delivery.dropped:
                    self._give_up(delivery, refusal, now)
                else:
                    self._suspects.suspend(delivery, refusal, now)
            case retry.GiveUp(final_error):
                self._give_up(delivery, final_error, now)
        self._suspects.tell()

    # --- errors for the callers

    def refuse(self, delivery: Delivery) -> None:
        """Fail a delivery because the outbox closes.

        The caller gets DeliveryUnknownError if an attempt may have arrived, otherwise NotDeliveredError.
        """
        path = delivery.operation.path
        if delivery.written or delivery.doubtful:
            self.reject(delivery, DeliveryUnknownError(path, "the outbox was closed meanwhile"))
        else:
            self.reject(delivery, NotDeliveredError(path, "the outbox was closed before it was sent"))

    def reject(self, delivery: Delivery, error: Exception) -> None:
        """Fail a delivery."""
        if delivery.task is not None:
            reschedule(delivery.task, outcome.Error(error))
            delivery.task = None
        elif delivery.own and delivery.wanted and delivery.error is None:
            delivery.error = error
        else:
            return
        self.failed += 1

    # --- internals

    def _landed(self, delivery: Delivery) -> None:
        self._requests.ended(delivery)
        delivery.sending = delivery.written = False
        delivery.uploading = None
        if delivery.probe:
            delivery.probe = False
            self._suspects.breaker.probe_ended()

    def _pushed_back(self, delivery: Delivery, error: Exception, now: float) -> float:
        lanes, until = self._lanes, self._lanes.limited_until
        since = lanes.pushed_back(
            delivery, now, limited=retry.is_limit(error), rests=retry.retry_after(error)
        )
        if lanes.limited_until > max(until, now):
            _log.warning(_SILENCE_TEXT, lanes.limited_until - now)
        return since

    def _put_back(self, delivery: Delivery, until: float, now: float) -> None:
        if delivery.dropped:
            self._give_up(delivery, left(delivery), now)
        elif not delivery.wanted:
            self._lanes.finish(delivery, now)
        else:
            self._lanes.postpone(delivery, until, now)

    def _give_up(self, delivery: Delivery, error: Exception, now: float) -> None:
        self._lanes.finish(delivery, now)
        self.reject(delivery, error)
