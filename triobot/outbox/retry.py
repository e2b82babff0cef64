"""The verdict on a failed attempt: a retry, an error, or the breaker's judgement. Pure.

| result of the attempt | effect | what follows |
|---|---|---|
| NotDeliveredError, 429 | none | a retry after a pause; `Retry-After` lengthens the pause |
| DeliveryUnknownError, 5xx, 408 | unknown | a retry if repeatable, otherwise as `on_unknown` says |
| 401, 403 | none | the breaker decides whether the token or the chat is the cause |
| other refusal or error | any | the caller gets the error |
| an unreadable 200 to an upload | done | the caller gets the error: every retry would get the same answer |

The creation of an invoice and a verify are never repeated after an unknown result, whatever `on_unknown`
says. Late typing indicators and late answers to presses are useless, and are never retried.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from typing import Final, TypeAlias, final

from ..base.frozen import guarded
from ..errors import DeliveryUnknownError, NotDeliveredError, RefusedError, RemoteProtocolError, TriobotError
from ..seams.outbox import OnUnknown
from ..wire.operations import Operation, Upload, repeatable

Random: TypeAlias = Callable[[], float]
"""A function that returns a number from 0 to 1, such as `random.random`."""

_TOO_MANY: Final = 429
_TIMED_OUT: Final = 408
_TOKEN_OR_CHAT: Final = (401, 403)


@final
@guarded
class RetryRules:
    """Pauses and time limits of retries.

    Attributes:
        first_pause: mean pause in seconds before the second attempt; doubles with each attempt.
        longest_pause: longest mean pause in seconds.
        patience: seconds of failures without a success in a lane, after which the lane's operations fail. An
            outage of minutes must lose no operation; after an hour, a reply is pointless.
        money_patience: the patience for verify and inquiry; shorter, since the ledger repeats both by its own
            schedule.
    """

    first_pause: float = 0.5
    longest_pause: float = 30.0
    patience: float = 3600.0
    money_patience: float = 30.0


@final
@guarded
class Again:
    """The verdict to retry after `pause` seconds.

    Attributes:
        possible_repeat: whether the user may see the operation's effect twice.
        unknown: whether this attempt may have taken effect.
    """

    pause: float
    possible_repeat: bool
    unknown: bool


@final
@guarded
class GiveUp:
    """The verdict to pass an error to the callers."""

    error: Exception


@final
@guarded
class Suspect:
    """The verdict that the breaker must decide whether the token or the chat is refused."""

    error: RefusedError


Verdict: TypeAlias = Again | GiveUp | Suspect


def is_push_back(error: Exception) -> bool:
    """Return whether the platform is overloaded, failing or unreachable; False for a plain refusal."""
    if isinstance(error, RefusedError):
        return error.status in (_TOO_MANY, _TIMED_OUT) or error.status >= 500
    return isinstance(error, NotDeliveredError | DeliveryUnknownError)


def is_limit(error: Exception) -> bool:
    """Return whether the platform asked for a slower pace (429)."""
    return isinstance(error, RefusedError) and error.status == _TOO_MANY


def retry_after(error: Exception) -> float:
    """Return the pause in seconds that the platform asked for; 0 if there is none."""
    return (error.retry_after or 0.0) if isinstance(error, RefusedError) else 0.0


def is_never_repeated(operation: Operation[object], on_unknown: OnUnknown) -> bool:
    """Return whether an attempt with an unknown result is the last attempt."""
    repeat = operation.traits.repeat
    return repeat == "never" or (repeat == "as chosen" and on_unknown is OnUnknown.RAISE)


def is_unreadable(error: Exception) -> bool:
    """Return whether the platform sent an answer that can't be parsed."""
    return isinstance(error, DeliveryUnknownError) and isinstance(error.__cause__, RemoteProtocolError)


def is_token_or_chat(error: Exception) -> bool:
    """Return whether the platform refused the token or the chat; both have the same statuses."""
    return isinstance(error, RefusedError) and error.status in _TOKEN_OR_CHAT


def took_no_effect(error: Exception) -> bool:
    """Return whether the attempt certainly had no effect."""
    if isinstance(error, RefusedError):
        return error.status < 500 and error.status != _TIMED_OUT
    return isinstance(error, NotDeliveredError)


def judge(
    operation: Operation[object],
    error: Exception,
    *,
    on_unknown: OnUnknown,
    attempts: int,
    failing_for: float,
    doubtful: bool,
    rules: RetryRules,
    random: Random,
) -> Verdict:
    """Return the verdict on a failed attempt.

    Args:
        attempts: number of attempts, including this attempt.
        failing_for: seconds since the lane's first failure after its last success.
        doubtful: whether an earlier attempt may have taken effect.
        random: returns a number from 0 to 1, for the jitter of the pause; called at most once.
    """
    if not operation.traits.late:
        return GiveUp(error)
    if isinstance(error, RefusedError) and error.status in _TOKEN_OR_CHAT:
        return Suspect(error)
    if not is_push_back(error) or (isinstance(operation, Upload) and is_unreadable(error)):
        return GiveUp(error)
    unknown = not took_no_effect(error)
    may_repeat = repeatable(operation)
    if unknown and is_never_repeated(operation, on_unknown):
        return GiveUp(as_unknown(operation, error))
    pause = min(rules.longest_pause, rules.first_pause * 2.0 ** min(attempts - 1, 32)) * (0.5 + random())
    pause = max(pause, retry_after(error))
    if failing_for + pause > _patience(operation, rules):
        # An earlier attempt may have arrived, so a NotDeliveredError would be wrong.
        return GiveUp(as_unknown(operation, error) if doubtful and not may_repeat else error)
    return Again(pause, unknown and not may_repeat, unknown)


def as_unknown(operation: Operation[object], error: Exception) -> DeliveryUnknownError:
    """Return `error` itself if it is a DeliveryUnknownError, else a new DeliveryUnknownError caused by
    `error`.
    """
    if isinstance(error, DeliveryUnknownError):
        return error
    said = (
        f"status {error.status}" if isinstance(error, RefusedError) else "no connection at the last attempt"
    )
    unknown = DeliveryUnknownError(operation.path, f"it may have taken effect: {said}")
    unknown.__cause__ = error
    return unknown


def unanswered(operation: Operation[object], within: float) -> DeliveryUnknownError:
    return DeliveryUnknownError(operation.path, f"no answer within {within:g} seconds")


def copy_for(error: Exception) -> Exception:
    """Copy a triobot error for a second caller, so that two tasks don't extend the same traceback."""
    if not isinstance(error, TriobotError):
        return error
    copied = copy(error)
    copied.__cause__ = error.__cause__
    return copied


def _patience(operation: Operation[object], rules: RetryRules) -> float:
    return rules.money_patience if operation.traits.money else rules.patience
