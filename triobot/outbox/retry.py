"""What a failed attempt means, and whether to try again. Pure.

| the attempt ended with | it | then |
|---|---|---|
| NotDeliveredError, 429 | took no effect | again, after a pause; `Retry-After` makes it longer |
| DeliveryUnknownError, 5xx, 408 | may have taken effect | again if repeatable, else as chosen |
| 401, 403 | took no effect | the breaker says whose fault it is |
| any other refusal or error | is final | to the caller |
| an upload's 200 that can't be read | is final | to the caller: each repeat would bring it again |

An invoice whose creation is in doubt is never created again, and a verify in doubt never repeated, whatever
was chosen. Typing and answers to presses are worth nothing when late: they are never tried again.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from typing import Final, TypeAlias, final

from ..base.frozen import guarded
from ..errors import (
    DeliveryUnknownError,
    NotDeliveredError,
    RefusedError,
    RemoteProtocolError,
    TriobotError,
)
from ..seams.outbox import OnUnknown
from ..wire.operations import Operation, Upload, repeatable

Random: TypeAlias = Callable[[], float]
"""A number from 0 to 1, such as `random.random`."""

_TOO_MANY: Final = 429
_TIMED_OUT: Final = 408
_TOKEN_OR_CHAT: Final = (401, 403)


@final
@guarded
class RetryRules:
    """How long to go on.

    Attributes:
        first_pause: seconds before the second attempt, on average; doubles each time.
        longest_pause: where the doubling ends.
        patience: seconds of nothing but failures in one lane after which its operations fail. Minutes of a
            dead platform must lose nothing; an hour is where a reply has lost its sense.
        money_patience: the same for verify and inquiry, whose own schedule belongs to the ledger.
    """

    first_pause: float = 0.5
    longest_pause: float = 30.0
    patience: float = 3600.0
    money_patience: float = 30.0


@final
@guarded
class Again:
    """Try again after `pause` seconds.

    Attributes:
        possible_repeat: the user may see it twice.
        unknown: this attempt may have taken effect.
    """

    pause: float
    possible_repeat: bool
    unknown: bool


@final
@guarded
class GiveUp:
    """Hand this error to the callers."""

    error: Exception


@final
@guarded
class Suspect:
    """Ask the breaker: the token is refused, or this chat is."""

    error: RefusedError


Verdict: TypeAlias = Again | GiveUp | Suspect


def is_push_back(error: Exception) -> bool:
    """Return whether the platform is overloaded, failing or not there, as opposed to answering."""
    if isinstance(error, RefusedError):
        return error.status in (_TOO_MANY, _TIMED_OUT) or error.status >= 500
    return isinstance(error, NotDeliveredError | DeliveryUnknownError)


def is_limit(error: Exception) -> bool:
    """Return whether the platform asked for a slower pace (429)."""
    return isinstance(error, RefusedError) and error.status == _TOO_MANY


def retry_after(error: Exception) -> float:
    """Return for how many seconds the platform asked not to be asked again; 0 if it named none."""
    return (error.retry_after or 0.0) if isinstance(error, RefusedError) else 0.0


def is_never_repeated(operation: Operation[object], on_unknown: OnUnknown) -> bool:
    """Return whether an attempt that may have taken effect is the last one."""
    repeat = operation.traits.repeat
    return repeat == "never" or (repeat == "as chosen" and on_unknown is OnUnknown.RAISE)


def is_unreadable(error: Exception) -> bool:
    """Return whether the platform did answer, in a way that can't be read."""
    return isinstance(error, DeliveryUnknownError) and isinstance(error.__cause__, RemoteProtocolError)


def is_token_or_chat(error: Exception) -> bool:
    """Return whether the platform refused the token, or this chat: the statuses are the same."""
    return isinstance(error, RefusedError) and error.status in _TOKEN_OR_CHAT


def took_no_effect(error: Exception) -> bool:
    """Return whether it is certain that the platform did nothing."""
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
    """Say what follows from a failed attempt.

    Args:
        attempts: how many were made, this one included.
        failing_for: seconds for which this lane has known nothing but push-backs.
        doubtful: an earlier attempt may have taken effect.
        random: full jitter needs one draw.
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
        # "Never left" would be a lie when an earlier attempt may have arrived.
        return GiveUp(as_unknown(operation, error) if doubtful and not may_repeat else error)
    return Again(pause, unknown and not may_repeat, unknown)


def as_unknown(operation: Operation[object], error: Exception) -> DeliveryUnknownError:
    """Return a DeliveryUnknownError: `error` itself if it is one, else a new one that it caused."""
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
    """Copy an error of ours for a second caller, so that two tasks never add to one traceback."""
    if not isinstance(error, TriobotError):
        return error
    copied = copy(error)
    copied.__cause__ = error.__cause__
    return copied


def _patience(operation: Operation[object], rules: RetryRules) -> float:
    return rules.money_patience if operation.traits.money else rules.patience
