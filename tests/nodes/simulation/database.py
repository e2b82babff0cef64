"""The database of the nodes, on a clock of its own: their rows, the shards, and what asks for them.

What it answers is decided in one moment, as by a transaction that has the shard's row. A question may be on
its way for long, and its answer; either may be lost. The rows of a shard are SQLite's, in memory, so that its
statements and its writer are the real ones. The fence is looked at as the PostgreSQL engine does.
"""

from __future__ import annotations

import random
import threading
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any, Final, TypeVar, final

import attrs
import outcome
import trio

from tests.nodes.simulation.findings import Findings
from tests.nodes.simulation.machines import Machine
from tests.nodes.simulation.network import Link, LostError, ask
from triobot.errors import StoreAwayError, StoreCorruptError, StoreError, StoreLockedError
from triobot.journals import Lease, Opening
from triobot.logs import KEY
from triobot.nodes.node import DOOR_KEY
from triobot.seams import LeaseLostError, WallClock
from triobot.shards import Share, read_shards
from triobot.store import MemoryRows, Retention, Stamp, Store
from triobot.store.belief import SECONDS, LeaseBelief
from triobot.store.file import take_over
from triobot.store.members import NodeRow, OwnerRow, Roster
from triobot.store.notes import WorkNotes
from triobot.store.schema import get_meta, put_meta
from triobot.store.statements import Tables
from triobot.store.table_store import serve
from triobot.store.writer import Job, Noted, Transactions
from triobot.testing.virtual import MORNING

R = TypeVar("R")

_SETTLE_SECONDS: Final = 30.0
_FIRST_PAUSE, _LONGEST_PAUSE = 0.05, 1.0
_JOIN_PAUSE: Final = 0.1


@attrs.define(eq=False)
class _NodeRow:
    name: str
    machine: Machine
    since: float
    until: float
    drained: bool = False
    failing: bool = False
    clock_off: int = 0


@attrs.define(eq=False)
class ShardRow:
    """A shard: its row, what the nodes see of it, and all that it holds."""

    since: float = 0.0
    owner: int | None = None
    seen_owner: int | None = None
    works: bool = False
    fence: int = 0
    commits: int = 0
    rows: MemoryRows = attrs.Factory(MemoryRows)


@attrs.define(eq=False)
class Database:
    """The rows that the nodes share.

    Attributes:
        over: the simulation ends, and nothing is answered any more.
        unfenced: says of which batches the fence isn't looked at: a planted fault.
    """

    nursery: trio.Nursery
    chance: random.Random
    findings: Findings
    shards: list[ShardRow]
    nodes: dict[int, _NodeRow] = attrs.Factory(dict[int, _NodeRow])
    over: bool = False
    unfenced: Callable[[Sequence[Job[Any]]], bool] = lambda _: False
    made: int = 0
    news: trio.Event = attrs.Factory(trio.Event)

    def lives(self, node: int | None) -> bool:
        """Return whether a node's lease isn't over."""
        return node in self.nodes and self.nodes[node].until > trio.current_time()

    def owns(self, node: int, shard: int) -> bool:
        """Return whether a shard is this node's, and nobody else can have it."""
        return self.lives(node) and self.shards[shard].owner == node

    def ring(self) -> None:
        """Tell all that something has changed."""
        news, self.news = self.news, trio.Event()
        news.set()

    def working(self) -> dict[int, int]:
        """Return which node each shard is at work at."""
        return {
            number: row.owner
            for number, row in enumerate(self.shards)
            if row.owner is not None and row.works and self.lives(row.owner)
        }

    async def ask(self, link: Link, effect: Callable[[], R]) -> R:
        """Have this done here.

        Raises:
            StoreAwayError: it was done, or not.
        """
        try:
            return await self.ask_once(link, effect)
        except LostError:
            raise StoreAwayError("the connection to the server was lost") from None

    async def ask_once(self, link: Link, effect: Callable[[], R]) -> R:
        """Have this done here; raises LostError if there is no answer."""
        if self.over:
            await trio.lowlevel.checkpoint()
            raise LostError
        return await ask(self.nursery, link, self.chance, effect)

    # --- what a transaction does

    def take(self, shard: int, node: int) -> tuple[int, int]:
        """Give a shard to a node, and return its fence and count.

        Raises:
            StoreLockedError: its owner lives.
        """
        row = self.shards[shard]
        if row.owner is not None and row.owner != node:
            if self.lives(row.owner):
                raise StoreLockedError("another process has it")
            if self.nodes.pop(row.owner, None) is not None:
                self.findings.count("lease ended by another")
            for other in self.shards:
                if other.seen_owner == row.owner:
                    other.seen_owner, other.since = None, trio.current_time()
            self.findings.count("shard taken over")
        row.fence, row.commits = row.fence + 1, row.commits + 1
        row.owner = row.seen_owner = node
        row.since, row.works = trio.current_time(), False
        return row.fence, row.commits

    def free(self, shard: int) -> None:
        """Let others have it."""
        row = self.shards[shard]
        row.owner, row.seen_owner, row.since = None, None, trio.current_time()
        self.ring()

    def roster(self) -> Roster:
        """Return who is there, and who has what."""
        now = trio.current_time()
        return Roster(
            [
                NodeRow(
                    node,
                    row.name,
                    f"{row.name}:1",
                    "1",
                    now - row.since,
                    row.drained,
                    "1",
                    1,
                    row.failing,
                    row.clock_off,
                )
                for node, row in self.nodes.items()
                if row.until > now
            ],
            [
                OwnerRow(
                    number,
                    row.seen_owner if self.lives(row.seen_owner) else None,
                    "",
                    now - self._free_since(row),
                    row.works,
                )
                for number, row in enumerate(self.shards)
            ],
            self.now(),
        )

    def now(self) -> int:
        """Return its time of day."""
        return MORNING + int(trio.current_time() * 1000)

    def _free_since(self, row: ShardRow) -> float:
        owner = None if row.seen_owner is None else self.nodes.get(row.seen_owner)
        return owner.until if owner is not None and owner.until <= trio.current_time() else row.since


@final
class Member:
    """`triobot.store.members.Membership` of one machine."""

    def __init__(self, database: Database, machine: Machine, link: Link, nursery: trio.Nursery) -> None:
        self._database = database
        self.machine = machine
        self._link = link
        self._nursery = nursery
        self._belief: LeaseBelief | None = None
        self._leaving = False
        self.id = 0
        # In how many stands of its machine a task was last told that the lease is certain.
        self.told: dict[trio.lowlevel.Task, int] = {}

    @property
    def belief(self) -> LeaseBelief:
        """Return what it believes."""
        assert self._belief is not None
        return self._belief

    def held(self) -> float:
        """Return for how many seconds its lease is certain; if it is not, that breaks a promise."""
        if self._belief is None or not (seconds := self._belief.held()):
            return 0.0
        if not self._database.lives(self.id):
            self._database.findings.fail(f"{self.machine.name} believes in a lease that is over")
        self.told[trio.lowlevel.current_task()] = self.machine.stood
        return seconds

    @property
    def lost(self) -> bool:
        """Return whether others may have taken all that it had."""
        return self.belief.lost

    async def host(self) -> str:
        """Return nothing: the door is known."""
        raise AssertionError

    async def common(self, stamp: Stamp, names: Sequence[str]) -> Mapping[str, str]:
        """Return the settings of the whole bot."""
        await trio.lowlevel.checkpoint()
        return {KEY: "00" * 16, DOOR_KEY: "00" * 32}

    async def join(
        self, door: str, build: str | None, prepare: Callable[[], Awaitable[None]] | None = None
    ) -> None:
        """Be a node from now on."""
        database, asked = self._database, self.machine.steady()

        def joined() -> int:
            database.made += 1
            now = trio.current_time()
            database.nodes[database.made] = _NodeRow(self.machine.name, self.machine, now, now + SECONDS)
            database.ring()
            return database.made

        self.id = await self._ask(joined)
        self._belief = LeaseBelief(asked, self.machine.steady)
        self._nursery.start_soon(self._keep_lease, self._belief, self.id)

    async def _keep_lease(self, belief: LeaseBelief, node: int) -> None:
        database = self._database

        def renewed() -> bool:
            if (row := database.nodes.get(node)) is not None:
                row.until = trio.current_time() + SECONDS
            return row is not None

        while not self._leaving:
            await trio.sleep(belief.pause)
            asked = belief.before()
            try:
                lives = await self._ask(renewed)
            except StoreAwayError:
                belief.unanswered()
            else:
                if not lives:
                    database.findings.count("lease lost")
                    belief.lose()
                    return
                belief.renewed(asked)

    async def leave(self) -> None:
        """Be none any more."""
        self._leaving = True
        await self._ask(lambda: self._database.nodes.pop(self.id, None))
        await self._ask(self._database.ring)

    async def look(self) -> Roster:
        """Return who is there, and who has what."""
        return await self._ask(self._database.roster)

    async def wait(self, seconds: float) -> None:
        """Wait for news."""
        news = self._database.news
        with trio.move_on_after(seconds):
            await news.wait()
            await trio.sleep(self._link.delay())
            await self._link.wait_up()

    async def say_works(self, shard: int) -> None:
        """Say that a shard's events are handled here."""

        def works() -> None:
            row = self._database.shards[shard]
            if row.seen_owner == self.id:
                row.works = True
            self._database.ring()

        await self._ask(works)

    async def now(self) -> int:
        """Return the server's time of day."""
        return await self._ask(self._database.now)

    async def say_failing(self, failing: bool) -> None:
        """Say whether a shard's work has failed here."""
        await self._say("failing", failing)

    async def say_drained(self) -> None:
        """Say that this node is to have no shards."""
        await self._say("drained", True)

    async def say_clock(self, off: int) -> None:
        """Say by how much this machine's clock differs."""
        await self._say("clock_off", off)

    async def _say(self, name: str, value: int) -> None:
        def said() -> None:
            if (row := self._database.nodes.get(self.id)) is not None:
                setattr(row, name, value)
            self._database.ring()

        await self._ask(said)

    async def let_go(self, shard: int) -> None:
        """Let others have a shard that this node has by its row alone."""

        def release() -> None:
            if self._database.shards[shard].owner == self.id:
                self._database.free(shard)

        await self._ask(release)

    async def _ask(self, effect: Callable[[], R]) -> R:
        return await self._database.ask(self._link, effect)

    @asynccontextmanager
    async def open_store(
        self, url: str, *, stamp: Stamp, clock: WallClock, retention: Retention
    ) -> AsyncGenerator[Store]:
        """Open a shard."""
        share = read_shards(url).share
        assert share is not None
        shard = Shard(self._database, self, self._link, share)
        await self._ask(lambda: shard.open(retention, clock.now()))
        self._database.findings.count("shard opened")
        self.belief.listen(shard.lose)
        _CARRIED.set(shard)
        try:
            async with serve(shard, clock, back_up=_back_up, held=self.held, on_loss=shard.on_loss) as store:
                yield store
        finally:
            self.belief.forget(shard.lose)


async def _back_up(path: Path) -> None:
    raise AssertionError


# --- a shard that is open


@final
class Shard:
    """A shard that a node has open; `triobot.store.table_store.Opened`, and what runs its batches."""

    def __init__(self, database: Database, member: Member, link: Link, share: Share) -> None:
        self._database = database
        self._member = member
        self._link = link
        self._row = database.shards[share.number]
        self._number = share.number
        self._node = member.id
        self._machine = member.machine.name
        self._fence = self._commits = 0
        self._lost = self._away = False
        self._broken: Callable[[], StoreError] | None = None
        self._done: outcome.Outcome[object] | None = None
        self._tell: Callable[[], None] = lambda: None
        self.name = f"shard {share.number}"
        self.turn = threading.Lock()
        self.notes = WorkNotes()
        self.tables = Tables(self._row.rows.sql)
        self.tables.share = share
        self._inner = Transactions(self._row.rows.sql, self.tables, Path(":memory:"))
        self.opening = Opening(boot=0, at=0)

    @property
    def transactions(self) -> Shard:
        """Return what runs batches."""
        return self

    def open(self, retention: Retention, now: int) -> None:
        """Take it; in the database."""
        self._fence, self._commits = self._database.take(self._number, self._node)
        self.opening = take_over(self._row.rows.sql, self.tables, self.notes, machine=self._machine, now=now)
        self.tables.retention = retention
        self.tables.journals.lease = Lease(0, self.opening.boot)
        self.tables.count_everything()

    def on_loss(self, tell: Callable[[], None]) -> None:
        """Have this called when another process has it."""
        self._tell = tell
        if self._broken is not None:
            tell()

    def lose(self) -> None:
        """Hear that the lease is gone."""
        self._taken_over()
        self._tell()

    def _taken_over(self) -> None:
        self._broken = self._broken or (lambda: LeaseLostError(f"{self.name} was taken over"))

    @property
    def broken(self) -> StoreError | None:
        """Return why nothing may be asked any more."""
        return None if self._broken is None else self._broken()

    def checkpoint(self) -> None:
        """Do nothing."""

    def erase_log(self) -> None:
        """Do nothing."""

    def run(self, batch: Sequence[Job[Any]]) -> list[Exception | None]:
        """Run a batch, in the database; or tell why not."""
        if self._broken is not None or self._away:
            if consumed := [seq for job in batch if isinstance(job, Noted) for seq in job.consumed]:
                self.tables.read_no_more(consumed)
            away = StoreAwayError(f"{self.name} is away")
            return [self.broken or away for _ in batch]
        writes = any(job.writes for job in batch)
        if writes and self._row.fence != self._fence:
            self._database.findings.count("write refused by the fence")
            if not self._database.unfenced(batch):
                self._taken_over()
                return [self.broken for _ in batch]
            self._database.findings.fail(f"{self.name}: what a loser wrote was stored")
        verdicts = self._inner.run(batch)
        self._row.commits += writes
        return verdicts

    async def carry(self, work: Callable[[], object]) -> outcome.Outcome[object]:
        """Have the database do a batch, and return what comes of it; see `ShardTransactions`."""
        self._away = False
        if self._broken is None:
            self._away = not self._member.held()
            await self._member.machine.about_to_send()
            self._away = self._away or not await self._carried(work)
        if self._broken is None and not self._away:
            assert self._done is not None
            return self._done
        return outcome.capture(work)

    async def _carried(self, work: Callable[[], object]) -> bool:
        """Return whether the database has an answer, or this shard is lost."""
        try:
            if not self._lost and await self._tried(work):
                return True
            await self._come_back()
            return self._broken is not None or await self._tried(work)
        except LostError:
            self._lost = True
            return False

    async def _tried(self, work: Callable[[], object]) -> bool:
        """Return whether it is done; if not, nothing of it is stored, and the connection is lost."""

        def done() -> int:
            self._done = outcome.capture(work)
            return self._row.commits

        self._done = None
        try:
            self._commits = await self._database.ask_once(self._link, done)
        except LostError:
            self._lost = True
        else:
            return True
        return await self._settle()

    async def _settle(self) -> bool:
        """Find out by the count whether a batch was done of which no answer came."""
        until, pause, before = trio.current_time() + _SETTLE_SECONDS, _FIRST_PAUSE, self._commits
        while self._broken is None:
            try:
                await self._come_back()
            except LostError:
                if trio.current_time() >= until or self._database.over:
                    self._broken = lambda: StoreCorruptError(f"{self.name} went away in a commit")
                await trio.sleep(pause)
                pause = min(2 * pause, _LONGEST_PAUSE)
            else:
                break
        stored = self._commits == before + 1
        if self._broken is None:
            self._database.findings.count(f"lost answer, {'stored' if stored else 'not stored'}")
        return self._broken is not None or stored

    async def _come_back(self) -> None:
        fence, self._commits = await self._database.ask_once(
            self._link, lambda: (self._row.fence, self._row.commits)
        )
        self._lost = False
        if fence != self._fence:
            self._taken_over()

    async def close(self, *, clean: bool, now: int) -> None:
        """Let the next one in."""

        def let_go() -> None:
            if self._row.fence == self._fence:
                if clean:
                    put_meta(self._row.rows.sql, "clean", str(now))
                self._database.free(self._number)

        def acquit() -> None:
            sql = self._row.rows.sql
            if self._row.fence == self._fence:
                put_meta(sql, "clean", str(now))
            else:
                put_meta(sql, "unclean", str(max(0, int(get_meta(sql, "unclean") or 0) - 1)))

        try:
            await self._database.ask(self._link, let_go if self._broken is None else acquit)
        except StoreAwayError:
            self._database.findings.count("shard not closed cleanly")


_CARRIED: ContextVar[Shard] = ContextVar("carried")


@final
class CarriedHop:
    """In place of a writer's thread: what it would do is carried to the database, in virtual time."""

    def __init__(self, name: str) -> None:
        self._shard = _CARRIED.get()
        self._nursery = self._shard._member._nursery
        self._answers: list[outcome.Outcome[object]] = []
        self._some = trio.Event()

    def begin(self, work: Callable[[], object]) -> None:
        """Have this done; `wait` returns what comes of it."""
        self._nursery.start_soon(self._carry, work)

    async def _carry(self, work: Callable[[], object]) -> None:
        with trio.CancelScope(shield=True):  # a thread isn't cancelled either
            self._answers.append(await self._shard.carry(work))
        self.wake()

    def wake(self) -> None:
        """Let `wait` return."""
        self._some.set()

    async def wait(self) -> outcome.Outcome[object] | None:
        """Wait for what comes of what was begun; None if it was only woken."""
        await self._some.wait()
        self._some = trio.Event()
        return self._answers.pop(0) if self._answers else None

    async def run(self, work: Callable[[], R]) -> R:
        """Do this at once."""
        await trio.lowlevel.checkpoint()
        return work()

    def close(self) -> None:
        """Do nothing: there is no thread."""


async def in_thread(work: Callable[..., Any], *args: Any, thread_name: str | None = None, **_: Any) -> Any:
    """In place of `trio.to_thread.run_sync`: do it at once; what asks the database is waited for."""
    await trio.lowlevel.checkpoint()
    done = work(*args)
    return await done if isinstance(done, Awaitable) else done
