"""Which node is to have which shard: pure, and the same for each node that sees the same rows.

A shard that nobody has goes to the node that has the fewest. If all have an owner, and one node has two
more than another one, one shard moves: its owner gives it up, and so it goes to the one with the fewest.
Until it works there nothing else moves. Neither a node nor a shard moves anything before it has stood for
`HOLD_SECONDS`: a node that comes and dies again and again pulls no shards about.

A node that is to be drained gives up its shards one by one, and takes none, unless all are drained.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from typing import Final, final

import attrs

HOLD_SECONDS: Final = 5.0
"""How long a node is there, and a shard is with it, before a shard moves for the sake of fair shares."""
STUCK_SECONDS: Final = 15.0
"""After so long a shard that works nowhere keeps the others from moving no more."""
TURN_SECONDS: Final = 2.0
"""How long a shard waits for the node that is to take it, before it is the next one's."""


@final
@attrs.frozen
class Candidate:
    """A node that lives.

    Attributes:
        seconds: for how long it has been there.
        drained: it is to have no shards.
    """

    id: int
    seconds: float
    drained: bool = False


@final
@attrs.frozen
class ShardStanding:
    """A shard, as the database says.

    Attributes:
        owner: who has it, a member or somebody else that lives; None: nobody.
        seconds: for how long that has been so.
        works: its events are handled; not yet, while it is being opened.
    """

    shard: int
    owner: int | None
    seconds: float
    works: bool = True


@final
@attrs.frozen
class Placement:
    """Who is there and who has what, at one moment."""

    members: Sequence[Candidate]
    holdings: Sequence[ShardStanding]

    def to_take(self, me: int, leave: Collection[int] = ()) -> int | None:
        """Return the shard that this node is to take now; None: none.

        Args:
            leave: shards that it doesn't take now, even if it is to.
        """
        counts = self._counts()
        for holding in self.holdings:
            if holding.owner is not None or not counts:
                continue
            # Whoever doesn't come for it lets the next one have its turn.
            turn = int(holding.seconds / TURN_SECONDS) % len(counts)
            taker = sorted(counts, key=lambda one: (counts[one], one))[turn]
            if taker == me and holding.shard not in leave:
                return holding.shard
            counts[taker] += 1
        return None

    def to_give(self, me: int) -> int | None:
        """Return the shard that this node is to give up now; None: none."""
        if any(
            (holding.owner is None or not holding.works) and holding.seconds < STUCK_SECONDS
            for holding in self.holdings
        ):
            return None
        counts = self._counts()
        member = next((one for one in self.members if one.id == me), None)
        if member is None or not counts:
            return None
        own = sorted(
            (one for one in self.holdings if one.owner == me and one.works),
            key=lambda one: (-one.seconds, one.shard),
        )
        if me not in counts:
            return own[0].shard if own and me == self._first_drained() else None
        settled = {one.id for one in self.members if one.seconds >= HOLD_SECONDS}
        least = min((one for one in counts if one in settled), key=lambda one: (counts[one], one), default=me)
        most = max(counts, key=lambda one: (counts[one], one))
        if most != me or counts[most] - counts[least] < 2 or self._first_drained() is not None:
            return None
        return own[0].shard if own[0].seconds >= HOLD_SECONDS else None

    def _counts(self) -> Counter[int]:
        """Return how many shards each node has that may have some."""
        takers = [one.id for one in self.members if not one.drained] or [one.id for one in self.members]
        held = Counter(one.owner for one in self.holdings)
        return Counter({taker: held[taker] for taker in takers})

    def _first_drained(self) -> int | None:
        """Return the first of the nodes that have shards and are to have none, if others may have them."""
        if all(one.drained for one in self.members):
            return None
        owners = {one.owner for one in self.holdings}
        return min((one.id for one in self.members if one.drained and one.id in owners), default=None)
