"""How often a program that is a bot's own looks for garbage in circles."""

from __future__ import annotations

import gc
from collections.abc import Generator
from contextlib import contextmanager
from typing import Final

# Python's 700 new objects are a handful of events. At 10,000 a collection of the youngest is still below a
# millisecond, and an echo costs a tenth less.
_THRESHOLDS: Final = (10_000, 20, 20)


@contextmanager
def rarely_collected() -> Generator[None]:
    """Collect more rarely while the block runs, and never look at what was there before: modules and classes.

    For a program that does nothing else; inside somebody else's it is not ours to say.
    """
    before = gc.get_threshold()
    gc.collect()
    gc.freeze()
    gc.set_threshold(*_THRESHOLDS)
    try:
        yield
    finally:
        gc.set_threshold(*before)
        gc.unfreeze()
