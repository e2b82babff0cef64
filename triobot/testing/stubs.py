"""Results that replace the execution of steps. A test chooses these results, or uses recorded results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import final

import trio

from ..conversations.inspection.closed import Closed
from ..conversations.services import StepCall
from ..seams.values import decode_value


def recorded(text: str) -> object:
    """Decode a serialised value; generated tests contain such values.

    Raises:
        UnreadableRecordError: this program can't read the value.
    """
    return decode_value(text)


@final
class StepResults:
    """Returns a step's results in turn, then repeats the last result; a result that is an exception is
    raised.

    A step without results is executed.

    Args:
        results: results by the name of the step's function, with or without its class or outer function.
    """

    def __init__(self, results: Mapping[str, Sequence[object]]) -> None:
        self._left = {name: list(given) for name, given in results.items()}

    async def __call__(self, call: StepCall) -> object:
        """Return or raise the step's next result."""
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
    """Return the qualified name of a step's function."""
    if isinstance(call.fn, Closed):
        return closed_name(call.fn)
    return str(getattr(call.fn, "__qualname__", type(call.fn).__name__))


def closed_name(closed: Closed) -> str:
    """Return the name of a resource that isn't open, followed by the attribute that was read from it."""
    return closed._name  # pyright: ignore[reportPrivateUsage]
