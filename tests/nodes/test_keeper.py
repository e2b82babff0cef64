"""Nodes that keep shards, on a database of the test's, in virtual time: shards come, move, fail, are lost."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from typing import Any, cast

import attrs
import pytest
import trio
from trio.testing import MockClock

from tests.bot.rig import FORM
from tests.loopback import text_event
from triobot.alarm_kinds import Alarm
from triobot.errors import StoreAwayError, StoreCorruptError, StoreError
from triobot.logs import Speaker
from triobot.nodes.directory import Directory
from triobot.nodes.doors import Doors
from triobot.nodes.frames import Frame, RaiseAtHome
from triobot.nodes.keeper import Keeper
from triobot.nodes.node import Node
from triobot.nodes.owners import Owner
from triobot.nodes.placement import HOLD_SECONDS
from triobot.runtime import Intake, Runtime
from triobot.seams import LeaseLostError, WallClock
from triobot.secrets import Secret
from triobot.settings import Settings
from triobot.shards import read_shards, shard_of
from triobot.store import MemoryRows, Retention, Stamp, Store
from triobot.store.members import NodeRow, OwnerRow, Roster
from triobot.testing.virtual import VirtualWallClock
from triobot.webhook.answers import Readiness
from triobot.webhook.inbox import EventStored, Unreached
from triobot.webhook.secrets import Secrets
from triobot.wire.ids import ChatId

SHARDS = 4
LEASE = 3.0


@attrs.define(eq=False)
class Row:
    """A node, in the database."""

    name: str
    since: float
    until: float
    drained: bool = False
    build: int = 0
    failing: bool = False
    clock_off: int = 0
    cut: list[trio.CancelScope] = attrs.Factory(list[trio.CancelScope])


@attrs.define(eq=False)
class Database:
    """What all nodes see: rows, and the stores of the shards.

    Attributes:
        gaps: for how long each shard was at work nowhere, each time that it was.
        away: it can't be reached.
        shut: these shards can't be opened, since that takes a new session.
    """

    nodes: dict[int, Row] = attrs.Factory(dict[int, Row])
    owners: dict[int, tuple[int | None, float, bool]] = attrs.Factory(
        lambda: dict.fromkeys(range(SHARDS), (None, 0.0, False))
    )
    rows: list[MemoryRows] = attrs.Factory(lambda: [MemoryRows() for _ in range(SHARDS)])
    news: trio.Event = attrs.Factory(trio.Event)
    away: bool = False
    shut: set[int] = attrs.Factory(set[int])
    made: int = 0

    def ring(self) -> None:
        news, self.news = self.news, trio.Event()
        news.set()

    def lives(self, node: int | None) -> bool:
        return node in self.nodes and self.nodes[node].until > trio.current_time()

    def put(self, shard: int, owner: int | None, *, works: bool = False) -> None:
        self.owners[shard] = owner, trio.current_time(), works
        self.ring()

    def shares(self) -> dict[str, list[int]]:
        """Which shards are at work where."""
        found: dict[str, list[int]] = {row.name: [] for row in self.nodes.values()}
        for shard, (owner, _, works) in self.owners.items():
            if owner is not None and works and self.lives(owner):
                found[self.nodes[owner].name].append(shard)
        return found


class Member:
    """`triobot.store.members.Membership` over it."""

    def __init__(self, database: Database, name: str) -> None:
        self.database = database
        self.name = name
        self.id = 0
        self.frozen = False

    @property
    def lost(self) -> bool:
        return self.id not in self.database.nodes

    def held(self) -> bool:
        return self.database.lives(self.id)

    def check(self) -> None:
        if self.database.away:
            raise StoreAwayError("the server is away")

    async def host(self) -> str:
        raise AssertionError

    async def common(self, stamp: Stamp, names: Sequence[str]) -> Mapping[str, str]:
        raise AssertionError

    async def join(self, door: str, build: str | None, prepare: object = None) -> None:
        await trio.lowlevel.checkpoint()
        self.check()
        self.database.made += 1
        self.id = self.database.made
        now = trio.current_time()
        self.database.nodes[self.id] = Row(self.name, now, now + LEASE, build=int(build or 0))
        self.database.ring()

    async def renew(self) -> None:
        while True:
            await trio.sleep(LEASE / 4)
            if not self.frozen and not self.database.away and not self.lost:
                self.database.nodes[self.id].until = trio.current_time() + LEASE

    async def leave(self) -> None:
        await trio.lowlevel.checkpoint()
        self.database.nodes.pop(self.id, None)
        self.database.ring()

    async def look(self) -> Roster:
        await trio.lowlevel.checkpoint()
        self.check()
        now, database = trio.current_time(), self.database
        return Roster(
            [
                NodeRow(
                    node,
                    row.name,
                    f"{row.name}:1",
                    "1",
                    now - row.since,
                    row.drained,
                    str(row.build),
                    row.build,
                    row.failing,
                    row.clock_off,
                )
                for node, row in database.nodes.items()
                if database.lives(node)
            ],
            [
                OwnerRow(shard, owner if database.lives(owner) else None, "", now - since, works)
                for shard, (owner, since, works) in database.owners.items()
            ],
        )

    async def wait(self, seconds: float) -> None:
        with trio.move_on_after(seconds):
            await self.database.news.wait()

    async def say_works(self, shard: int) -> None:
        await trio.lowlevel.checkpoint()
        self.check()
        owner, since, _ = self.database.owners[shard]
        if owner == self.id:
            self.database.owners[shard] = owner, since, True
            self.database.ring()

    async def say_failing(self, failing: bool) -> None:
        await trio.lowlevel.checkpoint()
        self.check()
        self.database.nodes[self.id].failing = failing
        self.database.ring()

    async def say_drained(self) -> None:
        await trio.lowlevel.checkpoint()
        self.check()
        self.database.nodes[self.id].drained = True
        self.database.ring()

    async def now(self) -> int:
        raise AssertionError

    async def say_clock(self, off: int) -> None:
        await trio.lowlevel.checkpoint()
        self.check()
        self.database.nodes[self.id].clock_off = off
        self.database.ring()

    async def let_go(self, shard: int) -> None:
        await trio.lowlevel.checkpoint()
        self.database.put(shard, None)

    @asynccontextmanager
    async def open_store(
        self, url: str, *, stamp: Stamp, clock: WallClock, retention: Retention
    ) -> AsyncGenerator[Store]:
        share, database, me = read_shards(url).share, self.database, self.id
        assert share is not None
        await trio.lowlevel.checkpoint()
        self.check()
        if share.number in database.shut:
            raise StoreAwayError("two servers take writes")
        owner = database.owners[share.number][0]
        if owner is not None and owner != me:
            assert not database.lives(owner), "somebody else has it"
            # Whoever is taken from has lost everything.
            if (gone := database.nodes.pop(owner, None)) is not None:
                for scope in gone.cut:
                    scope.cancel()
        database.put(share.number, me)
        store = database.rows[share.number].open(clock, retention, share)
        with trio.CancelScope() as scope:
            database.nodes[me].cut.append(scope)
            yield store
        if me not in database.nodes:
            raise LeaseLostError("another process has it")
        database.rows[share.number].close(clock.now())
        database.put(share.number, None)


@attrs.define(eq=False)
class Running:
    """One node that runs."""

    node: Node
    keeper: Keeper
    member: Member
    stop: trio.Event = attrs.Factory(trio.Event)
    gone: trio.Event = attrs.Factory(trio.Event)


@attrs.define(eq=False)
class Rig:
    """The nodes on one database.

    Attributes:
        fails: the work of these shards fails, at the node of this name.
        breaks: the same, a moment after it has begun.
        begun: which shards' work has begun.
        wrong: the clocks of these nodes are three seconds behind.
    """

    database: Database
    nursery: trio.Nursery
    fails: set[tuple[str, int]] = attrs.Factory(set[tuple[str, int]])
    breaks: set[tuple[str, int]] = attrs.Factory(set[tuple[str, int]])
    begun: list[int] = attrs.Factory(list[int])
    wrong: set[str] = attrs.Factory(set[str])
    idle: list[tuple[int, float]] = attrs.Factory(list[tuple[int, float]])
    _ended: dict[int, float] = attrs.Factory(dict[int, float])

    async def start(self, name: str, build: int = 0) -> Running:
        running: Running = await self.nursery.start(self._run, name, build)
        return running

    async def _run(
        self, name: str, build: int, *, task_status: trio.TaskStatus[Running] = trio.TASK_STATUS_IGNORED
    ) -> None:
        settings = Settings(
            token=Secret("t"), base_url="http://127.0.0.1:9", store=f"memory:?shards={SHARDS}",
            allow_insecure=True, build=str(build), webhook_secret=Secret("a-secret-of-the-keeper-test-1"),
        )  # fmt: skip
        member, clock = Member(self.database, name), VirtualWallClock()
        await member.join(name, settings.build)
        directory, owners = Directory(member, b"k", connect=no_network), dict[int, Owner]()
        voice = Speaker(name, "k", lambda text: text)
        secrets = Secrets.parse("a-secret-of-the-keeper-test-1")
        doors = Doors(SHARDS, owners, directory.peers)
        node = Node(settings, doors, owners, voice, secrets, directory.peers)
        node.inbox.certain, node.inbox.hold_seconds = member.held, 5.0
        node.keeper = keeper = Keeper(node, member, directory, settings, clock, None, name)
        keeper.clock_off = lambda: -3_000 if name in self.wrong else 0
        running = Running(node, keeper, member)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(member.renew)
            await nursery.start(directory.run)
            async with trio.open_nursery() as work:
                await work.start(keeper.run, partial(self._work, name))
                task_status.started(running)
                await running.stop.wait()
                keeper.stop()
            nursery.cancel_scope.cancel()
        await member.leave()
        running.gone.set()

    @asynccontextmanager
    async def _work(self, name: str, intake: Intake, *, neighbours: Any) -> AsyncGenerator[Runtime]:
        shard = neighbours._own
        if (name, shard) in self.fails:
            raise StoreCorruptError("its work failed")
        if shard in self._ended:
            self.idle.append((shard, trio.current_time() - self._ended[shard]))
        intake.readiness = lambda: Readiness(True, {})  # type: ignore[method-assign]
        self.begun.append(shard)
        try:
            async with trio.open_nursery() as inside:
                inside.start_soon(self._break, name, shard)
                yield cast("Runtime", object())
                inside.cancel_scope.cancel()
        finally:
            self._ended[shard] = trio.current_time()

    async def _break(self, name: str, shard: int) -> None:
        await trio.sleep(0.2)
        if (name, shard) in self.breaks:
            raise StoreCorruptError("its work failed")

    async def until(self, says: Callable[[], bool], seconds: float = 120.0) -> None:
        with trio.fail_after(seconds):
            while not says():
                await trio.sleep(0.05)

    async def shares(self, **wanted: int) -> None:
        """Wait until so many shards are at work at each node, and no other nodes live."""
        await self.until(lambda: {who: len(has) for who, has in self.database.shares().items()} == wanted)


@asynccontextmanager
async def rigged() -> AsyncGenerator[Rig]:
    async with trio.open_nursery() as nursery:
        yield Rig(Database(), nursery)
        nursery.cancel_scope.cancel()


async def no_network(door: str) -> trio.abc.Stream:
    await trio.lowlevel.checkpoint()
    raise OSError(door)


def chat_of(shard: int) -> int:
    return next(n for n in range(1, 1000) if shard_of(ChatId(n), SHARDS) == shard)


async def test_a_node_by_itself_has_all_shards_when_it_is_started(autojump_clock: MockClock) -> None:
    async with rigged() as rig:
        began = trio.current_time()
        one = await rig.start("one")
        assert trio.current_time() - began < 2
        await rig.shares(one=SHARDS)
        assert sorted(one.node.intakes) == list(range(SHARDS))
        assert one.node.readiness().ready


async def test_shards_move_one_at_a_time_to_a_node_that_comes(autojump_clock: MockClock) -> None:
    async with rigged() as rig:
        one = await rig.start("one")
        await rig.shares(one=SHARDS)
        outcomes = [
            await one.node.inbox.accept(FORM, text_event(chat_of(shard), "hi")) for shard in range(SHARDS)
        ]
        assert all(isinstance(outcome, EventStored) for outcome in outcomes)
        two = await rig.start("two")
        came = trio.current_time()
        assert two.node.readiness().ready  # it hands events on meanwhile

        def moved() -> bool:
            works = sum(len(has) for has in rig.database.shares().values())
            assert works >= SHARDS - 1
            return {who: len(has) for who, has in rig.database.shares().items()} == {"one": 2, "two": 2}

        await rig.until(moved)
        assert trio.current_time() - came >= HOLD_SECONDS
        assert len(rig.idle) == 2
        assert max(seconds for _, seconds in rig.idle) < 0.5
        for intake in two.node.intakes.values():
            assert len(await intake.store.backlog(after=0, limit=9)) == 1
        assert sorted([*one.node.intakes, *two.node.intakes]) == list(range(SHARDS))


async def test_a_stop_hands_all_shards_over_at_once(autojump_clock: MockClock) -> None:
    async with rigged() as rig:
        one = await rig.start("one")
        two = await rig.start("two")
        await rig.shares(one=2, two=2)
        rig.idle.clear()
        one.stop.set()
        await one.gone.wait()
        await rig.shares(two=SHARDS)
        assert len(rig.idle) == 2
        assert max(seconds for _, seconds in rig.idle) < 1
        two.stop.set()
        await two.gone.wait()
        assert rig.database.nodes == {}
        assert {owner for owner, _, _ in rig.database.owners.values()} == {None}


async def test_a_node_that_stops_takes_no_shard_while_it_leaves(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its row is there until all of its shards have come to rest, and it has fewer and fewer of them."""
    leave = Member.leave

    async def leave_late(self: Member) -> None:
        with trio.CancelScope(shield=True):
            await trio.sleep(5)
        await leave(self)

    async with rigged() as rig:
        one = await rig.start("one")
        await rig.start("two")
        await rig.start("three")
        await rig.shares(one=2, two=1, three=1)
        rig.idle.clear()
        monkeypatch.setattr(Member, "leave", leave_late)
        one.stop.set()
        await rig.shares(one=0, two=2, three=2)
        assert len(rig.database.nodes) == 3
        assert len(rig.idle) == 2
        assert max(seconds for _, seconds in rig.idle) < 1


async def test_a_node_that_stood_still_is_cut_and_joins_anew(autojump_clock: MockClock) -> None:
    async with rigged() as rig:
        one = await rig.start("one")
        await rig.start("two")
        await rig.shares(one=2, two=2)
        before = one.member.id
        one.member.frozen = True
        await rig.until(lambda: len(rig.database.shares().get("two", ())) == SHARDS)
        assert one.node.intakes == {}
        # What it reads then may have been repeated elsewhere, and answered there.
        assert await one.node.inbox.accept(FORM, text_event(chat_of(0), "late")) == Unreached()
        one.member.frozen = False
        await rig.shares(one=2, two=2)
        assert one.member.id != before
        assert one.node.readiness().ready


async def test_a_shard_whose_work_fails_at_one_node_goes_to_another(autojump_clock: MockClock) -> None:
    async with rigged() as rig:
        await rig.start("one")
        await rig.start("two")
        await rig.shares(one=2, two=2)
        (failing, *_) = rig.database.shares()["two"]
        rig.fails.add(("one", failing))
        rig.database.nodes[2].drained = True
        rig.database.ring()
        await rig.until(lambda: len(rig.database.shares()["one"]) == SHARDS - 1)
        # The drained one takes none, and so it waits for the other to be mended.
        assert failing not in rig.database.shares()["two"]
        rig.fails.clear()
        await rig.shares(one=SHARDS, two=0)


async def test_the_log_says_once_why_a_shard_can_not_be_opened(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    """As after a failover whose old primary is back: what has its sessions goes on, nothing new begins."""
    async with rigged() as rig:
        await rig.start("one")
        two = await rig.start("two")
        await rig.shares(one=2, two=2)
        orphans = rig.database.shares()["two"]
        rig.database.shut = set(range(SHARDS))
        two.member.frozen = True
        await trio.sleep(60)
        assert rig.database.shares()["one"] == [shard for shard in range(SHARDS) if shard not in orphans]
        said = [record.getMessage() for record in caplog.records if "can't begin" in record.getMessage()]
        assert sorted(said) == [
            f"work on shard {shard} can't begin, and is tried again: two servers take writes"
            for shard in sorted(orphans)
        ]
        rig.database.shut = set()
        await rig.until(lambda: len(rig.database.shares()["one"]) == SHARDS)


async def test_work_that_fails_soon_after_it_has_begun_is_tried_more_and_more_seldom(
    autojump_clock: MockClock,
) -> None:
    """After half a second, five, and then each thirty, as if it had not begun."""
    async with rigged() as rig:
        rig.breaks.add(("one", 2))
        await rig.start("one")
        await trio.sleep(120)
        assert 5 <= rig.begun.count(2) <= 7
        rig.breaks.clear()
        await rig.shares(one=SHARDS)


@pytest.mark.slow
async def test_shards_go_to_a_newer_build_and_stop_where_it_can_not_work_on_one(
    autojump_clock: MockClock,
) -> None:
    async with rigged() as rig:
        await rig.start("old", build=1)
        await rig.shares(old=SHARDS)
        new = await rig.start("new", build=2)
        await rig.shares(old=0, new=SHARDS)
        assert max(seconds for _, seconds in rig.idle) < 0.5
        new.stop.set()
        await rig.shares(old=SHARDS)
        rig.fails |= {("newer", shard) for shard in range(SHARDS)}
        newer = await rig.start("newer", build=3)
        failed = newer.member.id
        await rig.until(lambda: rig.database.nodes[failed].failing)
        await rig.shares(old=SHARDS, newer=0)
        rig.idle.clear()
        await trio.sleep(100)
        await rig.shares(old=SHARDS, newer=0)
        assert rig.idle == []
        mended = await rig.start("mended", build=3)
        await rig.shares(old=0, newer=0, mended=SHARDS)
        mended.stop.set()
        # It may have been mended meanwhile, as when a column was missing that is there now.
        rig.fails.clear()
        rig.database.nodes[1].drained = True
        rig.database.ring()
        await rig.until(lambda: not rig.database.nodes[failed].failing)
        await rig.shares(old=0, newer=SHARDS)


async def test_a_drained_node_gives_its_shards_up_and_takes_none(autojump_clock: MockClock) -> None:
    async with rigged() as rig:
        one = await rig.start("one")
        await rig.start("two")
        await rig.shares(one=2, two=2)
        rig.database.nodes[one.member.id].drained = True
        rig.database.ring()
        await rig.shares(one=0, two=SHARDS)
        await trio.sleep(10 * HOLD_SECONDS)
        await rig.shares(one=0, two=SHARDS)


async def test_a_node_whose_clock_is_wrong_gives_its_shards_up_until_it_is_right(
    autojump_clock: MockClock,
) -> None:
    async with rigged() as rig:
        await rig.start("one:1")
        two = await rig.start("two:2")
        await rig.shares(**{"one:1": 2, "two:2": 2})
        rig.wrong.add("one:1")
        await rig.shares(**{"one:1": 0, "two:2": SHARDS})
        await trio.sleep(10 * HOLD_SECONDS)
        await rig.shares(**{"one:1": 0, "two:2": SHARDS})
        (told,) = await two.node.intakes[two.node.doors.home].store.alarms.open(limit=9)
        assert (told.kind, told.key) == ("clock_differs", "one")
        assert told.text.startswith("one:1: its machine's clock is 3.0 s behind the database server's.")
        rig.wrong.clear()
        await rig.shares(**{"one:1": 2, "two:2": 2})


async def test_a_node_that_comes_with_a_wrong_clock_takes_nothing_even_if_it_is_alone(
    autojump_clock: MockClock,
) -> None:
    async with rigged() as rig:
        rig.wrong.add("one")
        await rig.start("one")
        await trio.sleep(10 * HOLD_SECONDS)
        await rig.shares(one=0)
        rig.wrong.clear()
        await rig.shares(one=SHARDS)
        # What it has by then nobody else could take.
        rig.wrong.add("one")
        await trio.sleep(10 * HOLD_SECONDS)
        await rig.shares(one=SHARDS)


async def test_nothing_moves_while_the_database_is_away(autojump_clock: MockClock) -> None:
    async with rigged() as rig:
        one = await rig.start("one")
        await rig.shares(one=SHARDS)
        rig.database.away = True
        await trio.sleep(60)
        assert sorted(one.node.intakes) == list(range(SHARDS))
        assert not one.node.readiness().ready
        rig.database.away = False
        await rig.until(lambda: one.node.readiness().ready)
        await rig.shares(one=SHARDS)


async def test_the_bot_s_own_tasks_run_where_its_home_shard_is(autojump_clock: MockClock) -> None:
    runs: list[str] = []

    def task(name: str) -> Callable[[], Any]:
        async def run() -> None:
            runs.append(name)
            try:
                await trio.sleep_forever()
            finally:
                runs.remove(name)

        return run

    async with rigged() as rig, AsyncExitStack():
        one = await rig.start("one")
        two = await rig.start("two")
        one.keeper.background, two.keeper.background = [task("one")], [task("two")]
        await rig.shares(one=2, two=2)
        for running, other in ((one, "two"), (two, "one")):
            row = rig.database.nodes[running.member.id]
            row.drained = True
            rig.database.ring()
            await rig.shares(**{row.name: 0, other: SHARDS})
            assert runs == [other]
            row.drained = False


@pytest.mark.parametrize("how", ["answers", "has no owner", "fails"])
async def test_an_alarm_of_the_whole_bot_is_the_home_shard_s_or_else_our_own(
    autojump_clock: MockClock, how: str
) -> None:
    async with rigged() as rig:
        one = await rig.start("one")
        owner, asked = one.node.owners[0], list[Frame]()

        async def ask(frame: Frame) -> object:
            await trio.lowlevel.checkpoint()
            asked.append(frame)
            if how == "has no owner":
                await trio.sleep_forever()
            if how == "fails":
                raise StoreError("the home shard failed")
            return None

        owner.pass_on(Alarm("token_refused", "outbox", "text"), ask)
        await trio.sleep(11)
        assert asked == [RaiseAtHome("token_refused", "outbox", "text")]
        assert owner.intake.bell.has_rung("token_refused", "outbox") == (how != "answers")
