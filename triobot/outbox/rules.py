"""The outbox's constants in one value, and where it stands in another."""

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
    """How an outbox behaves; the defaults suit a platform whose limits nobody knows.

    Attributes:
        parallel: how many lanes have an operation in flight that may still be answered as quickly as usual.
        connections: how many requests are under way at a time, those that wait for a stuck chat included; the
            client needs as many.
        uploads: how many files are uploaded at a time.
        typing_every: seconds after which a typing indicator is shown again.
        answer_within: seconds after which an attempt that wasn't answered counts as unknown. The client's own
            limits should be shorter; this one keeps a lane from waiting for ever.
        upload_within: the same for an upload.
        grace: seconds that requests in flight get when the outbox closes.
        descriptors: how many uploaded files are remembered.
    """

    parallel: int = 40
    # The listener leaves as many descriptors; of the usual 1,024 of a process it is less than a half.
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
    """What a chat is yet to be told.

    Attributes:
        operations: the platform's names of what waits, in the order in which it leaves; a long queue is cut.
        queued: how many wait, those in flight included.
        in_flight: how many of them, from the front, the platform is working on.
        attempts: of the first.
        rests_for: seconds until the next attempt may begin.
        suspended: the first was refused, and it isn't known yet whose fault that is.
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
    """Where an outbox stands.

    Attributes:
        queued: operations that wait, those between two attempts included.
        in_flight: operations that the platform is working on.
        lanes: recipients that are remembered.
        suspended: lanes whose head was refused, and isn't judged yet.
        held: everything waits, because the token may be refused.
        token_refused: it is, as far as is known.
        rate: starts a second that are allowed, or None for no limit.
        done: operations that ended well.
        failed: operations whose caller got an error.
        retries: attempts after the first.
        possible_repeats: attempts of what must not repeat, after one whose outcome nobody knows.
        typing_sent, typing_failed: typing indicators.
        answers_sent, answers_failed: answers to presses; those that were given up count as failed.
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
    typing_sent: int
    typing_failed: int
    answers_sent: int
    answers_failed: int
