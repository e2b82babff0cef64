"""Letting hours pass that nobody wants to wait for, on the platform and in the bot's process alike.

They pass in strides, first in the bot and then here: so a bot that looks after an unverified payment every
twenty minutes still does, and a reminder that is due before a refund comes before it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final

# What is due within one stride may happen in any order. More of them would take longer than a person waits.
STRIDES: Final = 60
SHORTEST: Final = 1_000


def strides(milliseconds: int) -> list[int]:
    """The parts in which a time passes: at most `STRIDES`, none shorter than needed."""
    stride = max(SHORTEST, -(-milliseconds // STRIDES))
    whole, rest = divmod(milliseconds, stride)
    return [stride] * whole + ([rest] if rest else [])


async def skip(
    milliseconds: int, *, there: Callable[[int], Awaitable[None]], here: Callable[[int], None]
) -> None:
    """Let time pass, stride by stride.

    Args:
        there: lets it pass in the bot's process, and returns once that has done what was due.
        here: lets it pass on the platform.
    """
    for stride in strides(milliseconds):
        await there(stride)
        here(stride)
