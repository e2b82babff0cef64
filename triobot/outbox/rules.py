"""The outbox's settings, and its reports and statistics."""

from __future__ import annotations

from typing import final

import attrs

from ..base.frozen import guarded
from .answers import AnswerRules
from .breaker import BreakerRules
from .pacing import PaceRules
from .retry import RetryRules


@final
@guarded
class OutboxRules:
    """Settings of an outbox; the defaults suit a platform with unknown limits.

    Attributes:
        parallel: number of slots. An operation in flight occupies a slot until its answer takes longer than
            usual.
        connections: requests in flight at a time, including requests to stuck chats; the client needs this
            number of connections.
        uploads: file uploads at a time.
        typing_every: seconds after which a typing indicator is sent again.
        answer_within: seconds after which an unanswered attempt counts as unknown. The platform client's own
            limits should be shorter; this limit prevents a lane from waiting for ever.
        upload_within: seconds after which an unanswered upload counts as unknown.
        grace: seconds for which a closing outbox waits for requests in flight.
        descriptors: largest number of descriptors of uploaded files in memory.
    """

    parallel: int = 40
    # The webhook's listener reserves file descriptors for these connections. So the number is less than half
    # of a process's usual limit of 1,024 descriptors.
    connections: int = 480
    uploads: int = 16
    typing_every: float = 4.0
    answer_within: float = 60.0
    upload_within: float = 600.0
    grace: float = 5.0
    descriptors: int = 1024
    pace: PaceRules = attrs.field(factory=PaceRules)
    retry: RetryRules = attrs.field(factory=RetryRules)
    breaker: BreakerRules = attrs.field(factory=BreakerRules)
    answers: AnswerRules = attrs.field(factory=AnswerRules)


@final
@guarded
class LaneReport:
    """A report on the lane of one chat.

    Attributes:
        operations: the platform's names of the lane's operations, in sending order; a long list is cut.
        queued: number of operations in the lane, including those in flight.
        in_flight: number of operations in flight, from the front.
        attempts: attempts of the first operation.
        rests_for: seconds until the next attempt may begin.
        suspended: whether the platform refused the first operation, and the breaker hasn't decided about the
            cause yet.
    """

    operations: tuple[str, ...]
    queued: int
    in_flight: int
    attempts: int
    rests_for: float
    suspended: bool


@final
@guarded
class OutboxStatistics:
    """State and counters of an outbox.

    Attributes:
        queued: operations that wait, including those between two attempts.
        in_flight: operations in flight.
        lanes: lanes in memory.
        suspended: number of lanes with a refused first operation that waits for the breaker's decision.
        held: whether everything waits, because the token may be refused.
        token_refused: whether the token is refused, as far as is known.
        rate: largest number of starts a second; None: no limit.
        done: operations that succeeded.
        failed: calls of `perform` that ended with an error.
        retries: attempts after the first.
        possible_repeats: attempts of unrepeatable operations after an attempt with an unknown result.
        answers_sent, answers_failed: answers to presses; discarded answers count as failed.
    """

    queued: int
    in_flight: int
    lanes: int
    suspended: int
    held: bool
    token_refused: bool
    rate: float | None
    done: int
    failed: int
    retries: int
    possible_repeats: int
    answers_sent: int
    answers_failed: int
