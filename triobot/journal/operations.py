"""What a wait, a sleep and an effect do: take an id, park, and go on with what they are given.

The body of an effect or a step runs in the author's own task, outside of any turn: other branches go on
meanwhile. It starts once everything before it is durable (*output commit*): what the outside world sees must
never come from turns that a crash takes back. What only the store sees need not wait for that.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final, NoReturn, TypeVar, assert_never

import trio

from ..errors import NonDurableCancelError, UnreadableRecordError
from ..values import decode_value
from .branches import Branch, Felt, Given, Nature, Parked, Passed, RaiseCancel, Signal
from .faults import Raises, record_error, record_value, recorded_error
from .records import CutShort, Failed, Intended, OperationId, Outcome, Value
from .refusal import heed, refuse
from .turns import Turns
from .world import Entry

T = TypeVar("T")

# A conversation that replays, or has everything at hand, must not keep the others from running.
_BREATH: Final = 64


async def enter(
    turns: Turns,
    branch: Branch,
    kind: str,
    nature: Nature,
    fingerprint: str = "",
    due: int | None = None,
    *,
    steady: bool = False,
) -> Parked:
    """Begin an operation: it has its id, and hasn't parked yet."""
    id = branch.next_id()
    key = (*branch.key, branch.count)
    if branch.count % _BREATH == 0:
        await trio.lowlevel.cancel_shielded_checkpoint()
    if turns.dying:
        await refuse(turns, branch)
    try:
        await trio.lowlevel.checkpoint_if_cancelled()
    except trio.Cancelled:
        if turns.dying:
            await refuse(turns, branch)
        if branch.cut:
            turns.feel()
            await heed(turns, branch)
            raise
        raise NonDurableCancelError(id) from None
    branch.heedless = 0
    recorded = turns.history.kind_of(id)
    if recorded not in (None, kind):
        turns.get_stuck(id, f"a {recorded} was recorded here; now it is a {kind}")
        await refuse(turns, branch)
    task = trio.lowlevel.current_task()
    return Parked(id, key, kind, fingerprint, nature, branch, task, due=due, steady=steady)


async def park(turns: Turns, parked: Parked) -> object:
    """Park until it is over; returns its value, or raises its error."""
    turns.park(parked)
    return await take(turns, parked, await _sleep(turns, parked))


async def perform(
    turns: Turns,
    parked: Parked,
    body: Callable[[], Awaitable[object]],
    raises: Raises,
    *,
    intend: bool,
    inside: bool,
) -> object:
    """Park an effect, run its body if it has no outcome yet, and go on with that.

    Args:
        inside: nobody but the store sees what it does.
    """
    turns.park(parked)
    given = await _sleep(turns, parked)
    if given is Signal.GO:
        if intend:
            row = Intended(parked.id, parked.kind, parked.fingerprint)
            turns.world.append(Entry(rows=(row,), unfinished=True))
        turns.finish(parked, await _outcome(turns, parked, body, raises, inside=inside))
        given = await _sleep(turns, parked)
    return await take(turns, parked, given, raises)


async def _sleep(turns: Turns, parked: Parked) -> Given:
    """Wait for what it is given; no trip through the scheduler if that is there already."""
    if parked.given is None and turns.dying and parked.nature is not Nature.JOIN:
        return Signal.GONE
    if parked.given is None:
        parked.asleep = True
        await trio.lowlevel.wait_task_rescheduled(partial(_abort, turns, parked))
    given, parked.given = parked.given, None
    assert given is not None
    return given


def _abort(turns: Turns, parked: Parked, raise_cancel: RaiseCancel) -> trio.lowlevel.Abort:
    return turns.strike(parked, raise_cancel)


async def take(turns: Turns, parked: Parked, given: Given, raises: Raises = ()) -> object:
    """What an operation comes to."""
    match given:
        case Value():
            # Decoded live as well: what can be changed must not be the very object that was recorded.
            if given.is_plain:
                return given.plain
            return await _read(turns, parked, partial(decode_value, given.text))
        case Failed():
            raise await _read(turns, parked, partial(recorded_error, given, raises))
        case Felt(raise_cancel):
            turns.feel()
            return raise_cancel()
        case Passed(value):
            return value
        case Signal.GONE | Signal.GO:
            return await refuse(turns, parked.branch)
        case _:
            assert_never(given)


async def _read(turns: Turns, parked: Parked, read: Callable[[], T]) -> T:
    """What is recorded; a conversation goes no further than what this program can read."""
    try:
        return read()
    except UnreadableRecordError as error:
        turns.get_stuck(parked.id, str(error))
        await refuse(turns, parked.branch)


async def _outcome(
    turns: Turns, parked: Parked, body: Callable[[], Awaitable[object]], raises: Raises, *, inside: bool
) -> Outcome:
    """Run a body to its end, whatever that is."""
    branch = parked.branch
    try:
        with trio.CancelScope() as branch.body:
            if not inside:
                await turns.world.commit()
            return record_value(await body())
    except Exception as error:
        return record_error(error, raises)
    except BaseException as error:
        if turns.dying:
            await refuse(turns, branch)
        outcome = _of_cancellation(error, parked, raises)
        if outcome is None:
            # Ctrl-C and the like: the process ends, and the conversation isn't over.
            turns.evict()
            raise
        return outcome
    finally:
        branch.body = None
    # The incarnation dies, and this body was under a shield that isn't ours.
    return await refuse(turns, branch)


def _of_cancellation(error: BaseException, parked: Parked, raises: Raises) -> Outcome | None:
    cancelled, rest = _split(error)
    if rest is not None:
        return record_error(rest, raises) if isinstance(rest, Exception) else None
    if cancelled is None:
        return None
    if not parked.branch.cut:
        return record_error(NonDurableCancelError(parked.id))
    parked.felt = partial(_raise, cancelled)
    return CutShort()


def _split(error: BaseException) -> tuple[BaseException | None, BaseException | None]:
    if isinstance(error, BaseExceptionGroup):
        return error.split(trio.Cancelled)  # pyright: ignore[reportUnknownMemberType,reportUnknownVariableType]
    return (error, None) if isinstance(error, trio.Cancelled) else (None, error)


def _raise(error: BaseException) -> NoReturn:
    raise error


TORN: Final = record_error(NonDurableCancelError(OperationId("?")))
"""What an operation gets that a scope cancelled which isn't ours."""
