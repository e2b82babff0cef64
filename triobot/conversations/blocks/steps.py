"""A step: an author's side effect, done at least once, and never again once its outcome is recorded."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, TypeVar

import trio

from ...errors import ConfigError, ConversationError, StepError
from ..inspection.fingerprint import fingerprint_of_call
from ..questions.arguments import check_raises
from ..running.branches import OperationKind, branch_of

if TYPE_CHECKING:
    from ..conversation import Conversation

T = TypeVar("T")


async def step(
    there: Conversation,
    fn: Callable[..., Awaitable[T]],
    args: tuple[object, ...],
    raises: type[Exception] | tuple[type[Exception], ...],
) -> T:
    """Run a side effect; chat operations inside it are refused."""
    if not callable(fn):
        raise ConfigError("step() takes an async function and its arguments, not what calling it returned")
    own = check_raises(raises)
    there.enter(OperationKind.STEP)

    async def body() -> T:
        branch = branch_of(trio.lowlevel.current_task())
        assert branch is not None
        branch.in_step = True
        try:
            begun = fn(*args)
            if inspect.isawaitable(begun):
                return await begun
        except own:
            raise
        except ConversationError:
            # The author's mistake, not the step's failure.
            raise
        except Exception as error:
            raise StepError(type(error).__name__, str(error)) from error
        finally:
            branch.in_step = False
        raise ConfigError("step() takes an async function; this one returned without being awaited")

    done: T = await there.run.effect("step", body, print=fingerprint_of_call(fn, args), raises=own)
    return done
