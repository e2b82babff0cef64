"""What a turn leaves behind, until everything rests: then it becomes durable as one, or not at all.

A turn and what it brings about within the conversation (children that start, cancellations that are felt)
are never torn apart: replay always ends where everybody was parked.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import final

from ..seams import Write
from .records import Done, OperationId, Record, Result
from .world import Entry, World


@final
class Draft:
    """The records, moves and data of the present turn."""

    def __init__(self, world: World, *, opened: bool = False) -> None:
        self._world = world
        self._opened = opened
        self._records: list[Record] = []
        self._moves: list[Write] = []
        self._outcomes: list[Done] = []
        self._data: dict[str, str | None] = {}

    def add(self, record: Record, moves: Sequence[Write] = ()) -> None:
        """This was taken, and these move with it."""
        self._records.append(record)
        self._moves.extend(moves)

    def add_before(self, turn: OperationId, record: Record) -> bool:
        """This goes before the turn that was given last; False if that has no record of its own."""
        last = self._records[-1] if self._records else None
        if not isinstance(last, Done) or last.id != turn:
            return False
        self._records.insert(-1, record)
        return True

    def finish(self, record: Done, moves: Sequence[Write]) -> None:
        """An effect's outcome was taken; it is kept nowhere else."""
        self._outcomes.append(record)
        self.add(record, moves)

    def give_up(self) -> None:
        """The turn will not come to its end."""
        self._records, self._moves, self._data = [], [], {}
        self.keep_outcomes()

    def keep_outcomes(self) -> None:
        """The turn has not come to its end: but what was done outside must not be done again."""
        known = tuple(Result(one.id, one.time, one.outcome) for one in self._outcomes)
        self._outcomes = []
        if known:
            self._world.append(Entry(rows=known))

    def also(self, moves: Sequence[Write]) -> None:
        """These move with the turn, whatever else becomes of it."""
        self._moves.extend(moves)

    def put(self, key: str, value: str | None) -> None:
        """The conversation keeps this."""
        self._data[key] = value

    def withdraw(self, key: str) -> None:
        """Somebody else keeps another value under this key, and that is stored first."""
        self._data.pop(key, None)

    def puts(self, key: str) -> bool:
        """Whether the present turn has written this."""
        return key in self._data

    @property
    def empty(self) -> bool:
        """There is nothing to be told."""
        return not (self._records or self._opened or self._moves or self._data)

    def hand_over(self, *, unfinished: bool, wake: int | None) -> None:
        """Give it to the world, if there is anything; see `Entry`."""
        # Who has begun elsewhere is known as under way, and with no deadline.
        opened, self._opened = self._opened, False
        if self._records or self._moves or self._data:
            records, moves, data = tuple(self._records), tuple(self._moves), self._data
            self._records, self._moves, self._data, self._outcomes = [], [], {}, []
            self._world.append(Entry(records, moves, data, unfinished=unfinished, wake=wake))
        elif opened and (wake is not None or not unfinished):
            self._world.append(Entry(unfinished=unfinished, wake=wake, standing=True))
