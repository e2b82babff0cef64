"""What a simulation finds: promises that were broken, and how often what it is for has happened."""

from __future__ import annotations

from collections import Counter

import attrs
import trio


@attrs.define(eq=False)
class Findings:
    """What has been found so far.

    Attributes:
        broken: in words, the first first.
        counts: how often something happened, by word.
        some: set when there is something broken.
    """

    broken: list[str] = attrs.Factory(list[str])
    counts: Counter[str] = attrs.Factory(Counter[str])
    some: trio.Event = attrs.Factory(trio.Event)

    def count(self, what: str) -> None:
        """Note that this has happened once more."""
        self.counts[what] += 1

    def fail(self, what: str) -> None:
        """Note that a promise was broken."""
        self.broken.append(f"{trio.current_time():.3f}: {what}")
        self.some.set()
