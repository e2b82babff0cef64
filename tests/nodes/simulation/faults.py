"""Faults that are planted, so that it is seen that the simulation would find them."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Generator, Mapping, Sequence
from contextlib import (
    AbstractContextManager,
    asynccontextmanager,
    contextmanager,
)
from typing import Any, Final
from unittest.mock import patch

import attrs
import trio

from tests.nodes.simulation.machines import this_machine
from tests.nodes.simulation.world import (
    Trouble,
    World,
    is_cut_from_the_database,
    is_killed,
    is_slow,
    stands_still,
    stands_still_in_a_commit,
)
from triobot import holding
from triobot.nodes.inbox import NodeInbox
from triobot.seams import Begun
from triobot.store.belief import LeaseBelief
from triobot.store.writer import Arriving, Job
from triobot.wire.operations import Operation


@contextmanager
def no_fence_in_one_write(world: World) -> Generator[None]:
    """An event that comes in is stored whoever has the shard."""

    def of_arrivals(batch: Sequence[Job[Any]]) -> bool:
        return any(isinstance(job, Arriving) for job in batch)

    world.database.unfenced = of_arrivals
    yield


@contextmanager
def a_held_event_is_overtaken(world: World) -> Generator[None]:
    """Events of a chat wait for no earlier ones."""

    @asynccontextmanager
    async def at_once(self: NodeInbox, chat_id: int) -> AsyncGenerator[None]:
        await trio.lowlevel.checkpoint()
        yield

    with patch.object(NodeInbox, "_turn_of", at_once):
        yield


@contextmanager
def a_lease_is_counted_from_the_answer(world: World) -> Generator[None]:
    """A lease is believed in from when the answer came, however late that was."""
    renewed = LeaseBelief.renewed

    def late(self: LeaseBelief, asked: int) -> None:
        renewed(self, self.before())

    with patch.object(LeaseBelief, "renewed", late):
        yield


@contextmanager
def a_deadline_is_on_the_wall_clock(world: World) -> Generator[None]:
    """A lease is believed in by the time of day, which may be set back."""

    def made(self: LeaseBelief, asked: int, clock: Callable[[], int]) -> None:
        wall = this_machine().wall
        init(self, wall.now() - (clock() - asked), wall.now)

    init = LeaseBelief.__init__
    with patch.object(LeaseBelief, "__init__", made):
        yield


@contextmanager
def requests_begin_without_a_lease(world: World) -> Generator[None]:
    """Nobody looks at the lease before a request to the platform, or a step."""

    async def at_once(held: Callable[[], float]) -> None:
        held()

    def begin(platform: Any, operation: Operation[object]) -> Begun[object] | None:
        return None if platform._begin is None else platform._begin(operation)

    with patch.object(holding, "wait_held", at_once), patch.object(holding.HeldPlatform, "begin", begin):
        yield


@attrs.frozen
class Planted:
    """A fault, and where it shows soon.

    Attributes:
        seed: finds it.
        troubles: among these.
        says: a part of what is found then.
    """

    plant: Callable[[World], AbstractContextManager[None]]
    seed: int
    troubles: Sequence[Trouble]
    says: str


FAULTS: Final[Mapping[str, Planted]] = {
    "no fence in one write": Planted(
        no_fence_in_one_write, 4, [stands_still_in_a_commit], "what a loser wrote was stored"
    ),
    "a held event is overtaken by a later one": Planted(
        a_held_event_is_overtaken, 4, [stands_still, is_killed], "was overtaken by"
    ),
    "a lease is counted from the answer": Planted(
        a_lease_is_counted_from_the_answer, 4, [is_slow], "believes in a lease that is over"
    ),
    "a deadline is on the wall clock": Planted(
        a_deadline_is_on_the_wall_clock, 5, [is_cut_from_the_database], "believes in a lease that is over"
    ),
    "a request begins without a lease": Planted(
        requests_begin_without_a_lease, 5, [is_cut_from_the_database], "and another one may have shard"
    ),
}
"""What may be wrong."""
