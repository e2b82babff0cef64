"""Brings shards to this node and gives them up, as `placement` says, while the bot runs.

A shard that comes is opened, one at a time: the start after a stop, or after a kill. One that goes is brought
to rest and closed, and so it is free. If its work fails, the node lets the shard go and goes on with the
others. If the lease is lost, the work of all shards is cut, and the node joins anew, with nothing.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from typing import Any, Final, final

import attrs
import trio

from ..alarm_kinds import Alarm, text_of
from ..authors import leaves, run_contained
from ..conversations.data import Speech
from ..conversations.routes.router import Table
from ..errors import StoreAwayError, StoreError, StoreLockedError, TriobotError
from ..runtime import Intake, Runtime, open_intake, open_work
from ..seams import LeaseLostError, OnAlarm, WallClock
from ..settings import Settings
from ..shards import read_shards
from ..store.members import Membership
from ..webhook.answers import Readiness
from .clocks import how_far
from .directory import LOOK_SECONDS, Directory
from .node import Node
from .owners import Owner
from .placement import Placement

_log: Final = logging.getLogger("triobot.nodes")
Opens = Callable[..., AbstractAsyncContextManager[Runtime]]
_PASSING: Final = (LeaseLostError, StoreAwayError, StoreLockedError)
# How long a shard is left alone whose work has failed here so many times in a row.
_PAUSES: Final = (0.5, 5.0, 30.0)
_LONG_ENOUGH: Final = 60.0
_LET_GO_SECONDS: Final = 2.0
_LAST_SECONDS: Final = 0.5


@attrs.define(eq=False)
class _Life:
    """A shard that is here, or comes, or goes.

    Attributes:
        stop: it is to go.
        settled: it works, or has failed before it could.
        over: it is not here any more.
    """

    shard: int
    works: bool = False
    stop: trio.Event = attrs.field(factory=trio.Event)
    settled: trio.Event = attrs.field(factory=trio.Event)
    over: trio.Event = attrs.field(factory=trio.Event)


@final
class Keeper:
    """Keeps the shards of a node.

    Attributes:
        background: the bot's own tasks, which run where its home shard is.
        clock_off: returns by how much this machine's clock differs from the server's; see `NodeRow`.
        stopping: all shards go.
    """

    def __init__(
        self,
        node: Node,
        membership: Membership,
        directory: Directory,
        settings: Settings,
        clock: WallClock,
        on_alarm: OnAlarm | None,
        door: str,
    ) -> None:
        self._node = node
        self._membership = membership
        self._directory = directory
        self._settings = settings
        self._each = read_shards(settings.store).each
        self._clock = clock
        self._on_alarm = on_alarm
        self._door = door
        self._lives: dict[int, _Life] = {}
        self._failures: dict[int, tuple[int, float]] = {}
        # Of these the nodes know that their work has failed here.
        self._let_go: set[int] = set()
        # Why these can't be opened now, as the log has it.
        self._unopened: dict[int, str] = {}
        self._started = False
        self._at_rest = 0
        self._all_at_rest = trio.Event()
        self.clock_off: Callable[[], int] = lambda: 0
        self.background: Sequence[Callable[[], Awaitable[None]]] = ()
        self.stopping = False
        self._acting = trio.CancelScope()

    def readiness(self) -> Readiness:
        """Return whether events are taken, wherever their shards are."""
        for shard, intake in self._node.intakes.items():
            life = self._lives.get(shard)
            if life is not None and life.works and not life.stop.is_set():
                said = intake.readiness()
                if not said.ready:
                    return said
        held = self._membership.held() > 0
        return Readiness(
            self._started and held and not self.stopping,
            {"store": "ok" if held else "away", "conversations": "working" if self._started else "stopped"},
        )

    async def run(
        self, opens: Opens, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
    ) -> None:
        """Keep the shards until all have gone, after `stop`; started once it has what is free and its own.

        Args:
            opens: opens the work of an intake.

        Raises:
            ConfigError, StoreError: the store can't be used at all; only before it is started.
        """
        async with trio.open_nursery() as lives:
            with self._acting:
                while True:
                    self._tell_clocks()
                    if self._membership.lost:
                        await self._join_again()
                    elif not await self._act(lives, opens):
                        if self._directory.placement is not None:
                            self._started = True
                            task_status.started()
                            task_status = trio.TASK_STATUS_IGNORED
                        await self._directory.wait_news()
            # Else the shards would wait for this node to take them, which has the fewest.
            with trio.move_on_after(_LAST_SECONDS), suppress(StoreAwayError):
                await self._membership.say_drained()
            # All at once: nobody has to wait for a shard that goes last.
            for life in self._lives.values():
                life.stop.set()

    def stop(self) -> None:
        """Have all shards go, and `run` return."""
        self.stopping = True
        if self._directory.alone:
            # Nobody takes the shards: events that come now wait for nothing.
            self._node.inbox.hold_seconds = _LAST_SECONDS
        self._acting.cancel()

    async def _act(self, lives: trio.Nursery, opens: Opens) -> bool:
        """Do the next thing that is to be done, and look what has come of it; False if there is none."""
        placement, me = self._directory.placement, self._membership.id
        if placement is None or self._directory.away or not self._membership.held():
            return False
        try:
            for holding in placement.holdings:
                life = self._lives.get(holding.shard)
                if holding.owner == me and not holding.works and life is not None and life.works:
                    await self._membership.say_works(holding.shard)
                    await self._directory.look_again()
                    return True
            if await self._say_state(placement, me):
                await self._directory.look_again()
                return True
        except StoreAwayError:
            return False
        leave = {*self._lives, *(shard for shard in self._failures if not self._may_try(shard))}
        own = (one.shard for one in placement.holdings if one.owner == me and one.shard not in leave)
        coming = next(own, None)
        if coming is None and not self.clock_off():
            coming = placement.to_take(me, leave)
        if coming is not None:
            life = self._lives[coming] = _Life(coming)
            lives.start_soon(self._live, life, opens)
            await life.settled.wait()
        elif (going := placement.to_give(me)) is not None and going in self._lives:
            _log.info("shard %d goes to another node", going)
            life = self._lives[going]
            life.stop.set()
            await life.over.wait()
        else:
            return False
        await self._directory.look_again()
        return True

    async def _say_state(self, placement: Placement, me: int) -> bool:
        """Say what the others don't know of this node; False if they know it."""
        if (failing := bool(self._let_go)) != placement.is_failing(me):
            await self._membership.say_failing(failing)
            return True
        if bool(off := self.clock_off()) == placement.is_aside(me):
            return False
        await self._membership.say_clock(off)
        if off:
            _log.error(
                "this machine's clock is %s the database server's: no shards are taken here", how_far(off)
            )
        else:
            _log.warning("this machine's clock is right again")
        return True

    def _tell_clocks(self) -> None:
        """Raise an alarm for each machine whose clock is wrong, if the bot's home shard is here."""
        intake = self._node.intakes.get(self._node.doors.home)
        for node in () if intake is None else self._directory.nodes:
            if intake is not None and node.clock_off:
                machine = node.name.rpartition(":")[0] or node.name
                said = f"{node.name}: its machine's clock is {how_far(node.clock_off)} the database server's."
                intake.bell.ring(Alarm("clock_differs", machine, f"{said} {text_of('clock_differs', '')}"))

    def _may_try(self, shard: int) -> bool:
        times, at = self._failures.get(shard, (0, 0.0))
        return not times or trio.current_time() >= at + _PAUSES[min(times, len(_PAUSES)) - 1]

    async def _join_again(self) -> None:
        for life in list(self._lives.values()):
            await life.over.wait()
        try:
            await self._membership.join(self._door, self._settings.build)
        except StoreAwayError:
            await trio.sleep(LOOK_SECONDS)
            return
        _log.warning(
            "other nodes have taken over what this one had; the work here was cut, and goes on there"
        )
        await self._directory.look_again()

    # --- one shard

    async def _live(self, life: _Life, opens: Opens) -> None:
        began = trio.current_time()
        try:
            await self._work(life, opens)
        except BaseException as error:
            # Together with a cancellation it is one of the whole process.
            failures = BaseExceptionGroup("", [error])
            if failures.split(Exception)[1] is not None:
                raise
            if not self._started and failures.split(_PASSING)[1] is not None:
                raise
            if trio.current_time() - began >= _LONG_ENOUGH:
                self._failures.pop(life.shard, None)
            await self._note_failure(life, failures)
        finally:
            del self._lives[life.shard]
            life.settled.set()
            life.over.set()
            self._directory.look_soon()

    async def _work(self, life: _Life, opens: Opens) -> None:
        shard, node = life.shard, self._node
        settings = attrs.evolve(self._settings, store=self._each[shard])
        opening = open_intake(
            settings,
            self._clock,
            self._on_alarm,
            # All go by the server's clock: if that is set, the home shard tells it for all nodes.
            tells_jumps=shard == node.doors.home,
            opens=self._membership.open_store,
        )
        async with opening as intake, trio.open_nursery() as captures:
            node.add(shard, intake, Owner(intake, captures))
            try:
                async with node.open_work_of(shard, self, opens), self._at_home(shard):
                    self._let_go.discard(shard)
                    self._unopened.pop(shard, None)
                    life.works = True
                    life.settled.set()
                    await life.stop.wait()
            finally:
                node.remove(shard)
                captures.cancel_scope.cancel()

    @asynccontextmanager
    async def _at_home(self, shard: int) -> AsyncGenerator[None]:
        """Run the bot's own tasks while the block runs, if this is its home shard."""
        async with trio.open_nursery() as nursery:
            for run in self.background if shard == self._node.doors.home else ():
                nursery.start_soon(run_contained, run, name=getattr(run, "__qualname__", None))
            yield
            nursery.cancel_scope.cancel()

    async def wait(self) -> None:
        """Wait, where a shard has come to rest, until the others here have, if nobody else takes them.

        Else a conversation that asks one of them would wait for a node that doesn't come.
        """
        self._at_rest += 1
        if not self.stopping or not self._directory.alone:
            self._at_rest -= 1
            await trio.lowlevel.checkpoint()
            return
        if self._at_rest >= len(self._lives):
            self._all_at_rest.set()
        await self._all_at_rest.wait()

    async def _note_failure(self, life: _Life, failures: BaseExceptionGroup[BaseException]) -> None:
        shard, why = life.shard, _told(failures)
        # What passes by itself is tried again soon, however often.
        more = int(failures.split(_PASSING)[1] is not None)
        times = max(self._failures.get(shard, (0, 0.0))[0] + more, 1)
        self._failures[shard] = times, trio.current_time()
        if failures.subgroup(LeaseLostError) is not None or failures.split(StoreLockedError)[1] is None:
            return
        if failures.split(_PASSING)[1] is None:
            if life.works:
                _log.warning("work on shard %d was cut, and begins anew: %s", shard, why)
            elif self._unopened.get(shard) != why:
                self._unopened[shard] = why
                _log.warning("work on shard %d can't begin, and is tried again: %s", shard, why)
            return
        _log.error(
            "shard %d can't be worked on here: %s; another node may take it", shard, why,
            exc_info=None if failures.split(TriobotError)[1] is None else failures,
        )  # fmt: skip
        self._let_go.add(shard)
        with trio.move_on_after(_LET_GO_SECONDS), suppress(StoreError):
            await self._membership.let_go(shard)


def _told(failures: BaseExceptionGroup[BaseException]) -> str:
    """Return what the first of these says, or of which class it is if it isn't for people."""
    first: BaseException = next(leaves(failures))
    return str(first) if isinstance(first, TriobotError) else type(first).__name__


def keeps(node: Node) -> Keeper:
    """Return what keeps the shards of a node in a cluster."""
    assert isinstance(node.keeper, Keeper)
    return node.keeper


@asynccontextmanager
async def open_kept_work(node: Node, table: Table, texts: Speech, **named: Any) -> AsyncGenerator[None]:
    """Handle events of the shards that this node comes to have, while the block runs; then let all go.

    Args:
        table, texts, named: as for `open_work`, of each shard.

    Raises:
        ConfigError, StoreError: the store can't be used.
    """
    keeper = keeps(node)

    def opens(intake: Intake, **more: Any) -> AbstractAsyncContextManager[Runtime]:
        return open_work(intake, table, texts, **named, **more)

    async with trio.open_nursery() as nursery:
        await nursery.start(keeper.run, opens)
        yield
        keeper.stop()
