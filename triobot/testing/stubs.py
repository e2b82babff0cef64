"""Results of steps, in place of running them: what a test says, or what was recorded once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import final

import trio

from ..conversations.inspection.closed import Closed
from ..conversations.services import StepCall
from ..seams.values import decode_value


def recorded(text: str) -> object:
    """Return a value that was written down, as a kept test has it.

    Raises:
        UnreadableRecordError: this program knows no such value.
    """
    return decode_value(text)


@final
class StepResults:
    """Gives each step the next of its results, the last again and again; an error is raised.

    A step that has none runs itself.

    Args:
        results: by the name of the step's function, with or without what it is defined in.
    """

    def __init__(self, results: Mapping[str, Sequence[object]]) -> None:
        self._left = {name: list(given) for name, given in results.items()}

    async def __call__(self, call: StepCall) -> object:
        """Give a step its result."""
        if not (left := self._results(name_of(call))):
            return await call.fn(*call.args)
        await trio.lowlevel.checkpoint()
        result = left[0] if len(left) == 1 else left.pop(0)
        if isinstance(result, Exception):
            raise result
        return result

    def _results(self, name: str) -> list[object]:
        last = name.rpartition(".")[2]
        same = [left for key, left in self._left.items() if key.rpartition(".")[2] == last]
        return self._left.get(name) or (same[0] if same else [])


def name_of(call: StepCall) -> str:
    """Return the name of a step's function, as an author would write it down."""
    if isinstance(call.fn, Closed):
        return closed_name(call.fn)
    return str(getattr(call.fn, "__qualname__", type(call.fn).__name__))


def closed_name(closed: Closed) -> str:
    """Return the name of a resource that isn't open, with what is meant of it."""
    return closed._name  # pyright: ignore[reportPrivateUsage]
