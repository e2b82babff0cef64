"""Which node is to have which shard: pure, and the same for each node that sees the same rows.

Shards go to the nodes of the newest build that lives, and no other build gets any. A shard that nobody has
goes to the one of them that has the fewest. If all have an owner, one moves at a time: from a node of an
older build; then, from a node that has two more than another one of its build. Its owner gives it up, and so
it goes to the one with the fewest. Until it works there nothing else moves. Neither a node nor a shard moves
anything before it has stood for `HOLD_SECONDS`: a node that comes and dies again and again pulls no shards
about.

A node that is to be drained gives up its shards one by one, and takes none, unless all of the newest build
are drained. A node where the work of a shard has failed gets no more if another one may have them, so that a
build that can't work on the first shard stops there; it keeps what it has. A node that takes no part, since
its clock is wrong, is drained and counts for no build; it keeps only what nobody else may have.
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
        build: the number of the build that it runs; a newer one has a higher one.
        failing: the work of a shard has failed there.
        aside: it takes no part: it takes nothing, and is to have nothing if another one may have it.
    """

    id: int
    seconds: float
    drained: bool = False
    build: int = 0
    failing: bool = False
    aside: bool = False


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
        takers = self._takers()
        counts = self._counts(takers)
        for holding in self.holdings:
            if holding.owner is not None or not takers:
                continue
            # Whoever doesn't come for it lets the next one have its turn.
            turn = int(holding.seconds / TURN_SECONDS) % len(takers)
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
        own = sorted(
            (one for one in self.holdings if one.owner == me and one.works),
            key=lambda one: (-one.seconds, one.shard),
        )
        if not own:
            return None
        if (drained := self._first_drained()) is not None:
            return own[0].shard if drained == me else None
        return own[0].shard if self._giver() == me and own[0].seconds >= HOLD_SECONDS else None

    def is_failing(self, me: int) -> bool:
        """Return whether all know that the work of a shard has failed at this node."""
        return any(one.id == me and one.failing for one in self.members)

    def is_aside(self, me: int) -> bool:
        """Return whether all know that this node takes no part."""
        return any(one.id == me and one.aside for one in self.members)

    def _takers(self) -> Sequence[Candidate]:
        """Return the nodes that may be given shards: of the newest build; of an older one if that fails."""
        builds = self._builds()
        newest = [one for one in self._present if one.build in builds[:1]]
        chosen = _undrained(newest) or newest
        older = (_undrained([one for one in self._present if one.build == build]) for build in builds[1:])
        for group in (chosen, *older):
            if able := [one for one in group if not one.failing]:
                return able
        return chosen

    def _builds(self) -> Sequence[int]:
        """Return the builds that live, the newest first."""
        return sorted({one.build for one in self._present}, reverse=True)

    @property
    def _present(self) -> Sequence[Candidate]:
        """Return the nodes that take part."""
        return [one for one in self.members if not one.aside]

    def _counts(self, nodes: Sequence[Candidate]) -> Counter[int]:
        """Return how many shards each of these nodes has."""
        held = Counter(one.owner for one in self.holdings)
        return Counter({one.id: held[one.id] for one in nodes})

    def _first_drained(self) -> int | None:
        """Return the first of the nodes that have shards and are to have none, if others may have them."""
        takers, owners = self._takers(), {one.owner for one in self.holdings}
        leaving = [one for one in self.members if (one.drained or one.aside) and one not in takers]
        return min((one.id for one in leaving if one.id in owners), default=None) if takers else None

    def _giver(self) -> int | None:
        """Return the node that has one too many, for the sake of the newest build or of fair shares."""
        builds = self._builds()
        older = self._counts([one for one in self._present if one.build < builds[0]])
        if older.total() and any(one.build == builds[0] and _is_settled(one) for one in self._takers()):
            return max(older, key=lambda one: (older[one], one))
        for build in builds:
            there = _undrained([one for one in self._present if one.build == build])
            counts, settled = self._counts(there), [one for one in there if _is_settled(one)]
            least = min((counts[one.id] for one in settled), default=None)
            most = max(counts, key=lambda one: (counts[one], one), default=None)
            if most is not None and least is not None and counts[most] - least >= 2:
                return most
        return None


def _undrained(nodes: Sequence[Candidate]) -> Sequence[Candidate]:
    return [one for one in nodes if not one.drained]


def _is_settled(node: Candidate) -> bool:
    """Return whether a shard may be moved for this node's sake."""
    return node.seconds >= HOLD_SECONDS and not node.failing
