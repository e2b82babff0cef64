"""A world for random programs: a disk that keeps what was committed, people, and a process that dies.

A disk's crash ends a commit at any of its entries. Everything that a run does to its host is an *action*,
after which the process may be killed.
"""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import Any

import trio
from trio.testing import MockClock

from triobot.engine import (
    ABSENT,
    Diverged,
    End,
    Evicted,
    Host,
    Put,
    Record,
    Run,
    RunOwner,
    begun,
    decode_record,
    encode_record,
)
from triobot.engine.records import ENDS, INTERRUPTED, TURNS

from .plain import JSON

EPOCH = 1_000_000
LIMIT = 3_000_000
COVERED: Counter[str] = Counter()

Main = Callable[[Run, "ListHost"], Any]


def wall() -> int:
    return EPOCH + int(trio.current_time())


class DeadError(BaseException):
    """The process is gone."""


class Plan:
    """What happens to one program: its events, its kills, its commits that fail."""

    def __init__(
        self,
        seed: int,
        events: Sequence[tuple[int, str]],
        *,
        race: bool = False,
        instant: bool = False,
        kills: Iterable[int] = (),
        fails: Iterable[int] = (),
        down: int = 0,
        behind: bool = False,
    ) -> None:
        self.r = random.Random(f"world {seed}")
        self.seed = seed
        self.events = events
        self.race = race
        self.instant = instant
        self.kills = set(kills)
        self.fails = set(fails)
        self.down = down
        self.behind = behind
        self.actions = self.commits = 0
        early = random.Random(f"early {seed}")
        self.early = [early.random() < 0.5 for _ in events]


class Disk:
    """What survives, and what people have seen."""

    def __init__(self) -> None:
        self.journals: list[list[str]] = []
        self.accepted: set[int] = set()
        self.taken: set[int] = set()
        self.data: dict[str, Any] = {}
        self.states: dict[tuple[int, int], tuple[str, ...]] = {}
        self.seen: list[tuple[Any, str]] = []
        self.certain: set[Any] = set()
        self.texts: dict[Any, str] = {}
        self.repeats = self.crashes = 0
        self.problems: list[str] = []

    def see(self, id: Any, text: str) -> None:
        if id in self.certain:
            self.problems.append(f"REPEATED although its outcome was durable: {id}")
        if id not in self.texts:
            self.texts[id] = text
            self.seen.append((id, text))
            return
        self.repeats += 1
        if self.texts[id] != text:
            self.problems.append(f"CONTRADICTION {id}: {self.texts[id]!r}, then {text!r}")

    def records(self) -> list[Record]:
        return [decode_record(line) for line in self.journals[-1]]


class ListHost(Host, RunOwner):
    """The host of one incarnation."""

    run: Run

    def __init__(self, disk: Disk, plan: Plan, nursery: trio.Nursery) -> None:
        self.disk = disk
        self.plan = plan
        self.race = plan.race
        self.instant = plan.instant
        self.r = plan.r
        self.dead = False
        self.pending: list[tuple[str | int, Sequence[int], Any, str]] = []
        self.state: Callable[[], tuple[str, ...]] = tuple
        self.generation = len(disk.journals) - 1
        self.turns = sum(record[0] in TURNS for record in disk.records())
        self._nursery = nursery
        self._timer: trio.CancelScope | None = None
        self._some = trio.Event()
        self._came: set[int] = set()
        self._finished: set[Any] = set()

    # --- kills

    def action(self) -> None:
        self.plan.actions += 1
        if self.plan.actions in self.plan.kills and not self.dead:
            self.dead = True
            self.run.evict()
            self._nursery.cancel_scope.cancel()

    # --- the protocol

    def now(self) -> int:
        return wall()

    def append(self, record: Record, rows: Sequence[int] = (), write: object = None) -> None:
        if self.dead:
            return
        if record[0] == INTERRUPTED and record[3] is not None:
            self.turns += 1  # it cuts a turn, wherever that is
        elif record[0] in TURNS:
            at, state = (self.generation, self.turns), self.state()
            self.turns += 1
            known = self.disk.states.setdefault(at, state)
            if known != state:
                self.disk.problems.append(f"STATE at {at}: before the crash {known}, after replay {state}")
        self.pending.append((encode_record(record), rows, write, record[0]))
        self._some.set()
        self.action()

    async def commit(self) -> None:
        if not self.plan.behind:
            await self.flush()

    async def flush(self) -> None:
        self.action()
        self.plan.commits += 1
        many, finished = len(self.pending), set(self._finished)
        if self.race:
            await trio.sleep(3)
        if self.plan.commits in self.plan.fails and not self.dead:
            # Memory is ahead of the disk: all that had something in it is revived from there.
            COVERED["failed commits"] += 1
            self.dead = True
            self.run.evict()
            raise OSError("the disk is full")
        for _ in range(min(many, len(self.pending))):
            if self.dead:
                break
            line, rows, write, _ = self.pending.pop(0)
            if isinstance(line, int):
                self.disk.accepted.add(line)
            else:
                self.disk.journals[self.generation].append(line)
            self.disk.taken.update(rows)
            if isinstance(write, Put):
                self.disk.data[write.key] = write.node
            self.action()
        if self.dead:
            raise DeadError
        self.disk.certain |= finished

    def rests(self, wake: int | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if wake is None or self.dead:
            return
        scope = self._timer = trio.CancelScope()

        async def sleep() -> None:
            with scope:
                await trio.sleep(max(0, wake - wall()))
                if self._timer is scope:
                    self._timer = None
                    self.run.tick()

        self._nursery.start_soon(sleep)

    def read(self, key: str) -> Any:
        for _, _, write, _ in reversed(self.pending):
            if isinstance(write, Put) and write.key == key:
                return write.node
        return self.disk.data.get(key, ABSENT)

    # --- what effects do

    async def send(self, id: Any, text: str) -> dict[str, int]:
        self.action()
        if self.race and self.r.random() < 0.6:
            await trio.sleep(self.r.choice([0, 100, 400, 1300]))
        if self.dead:
            raise DeadError
        self.disk.see((self.generation, id), text)
        self.action()
        await trio.lowlevel.checkpoint()
        self._finished.add((self.generation, id))
        return {"length": len(text)}

    async def body(self) -> int:
        self.action()
        if not self.race:
            return 42
        await trio.sleep(self.r.choice([0, 100, 1300]))
        return self.r.randint(0, 99)

    async def failing(self) -> None:
        if self.race and self.r.random() < 0.5:
            raise KeyError("x")
        raise ValueError(3)

    # --- what happens

    def bring(self, number: int, at: int, text: str) -> None:
        if number in self._came or number in self.disk.taken:
            return
        self._came.add(number)
        if number not in self.disk.accepted:
            if self.plan.early[number]:
                self.pending.append((number, (), None, ""))  # durable with what it leads to
                self._some.set()
                COVERED["early"] += 1
            else:
                self.disk.accepted.add(number)
        if text == "!":
            self.run.interrupt(at, number)
        else:
            self.run.deliver(number, at, text)

    async def feed(self) -> None:
        for number, (at, text) in enumerate(self.plan.events):
            if at > wall():
                await trio.sleep(at - wall())
            if self.dead:
                return
            self.bring(number, at, text)

    async def others(self) -> None:
        """Write what the run writes, too."""
        for _ in range(40):
            await trio.sleep(self.r.randrange(1, 3000))
            if self.dead:
                return
            if not any(isinstance(write, Put) for _, _, write, _ in self.pending):
                self.disk.data["n"] = self.r.randrange(100, 1000)

    async def keep_flushing(self) -> None:
        while True:
            await self._some.wait()
            self._some = trio.Event()
            if self.race:
                await trio.sleep(self.r.choice([0, 50, 2000]))
            if self.pending:
                try:
                    await self.flush()
                except (DeadError, OSError):
                    return


class Lived:
    """How a program came to its end.

    Attributes:
        end: of its last incarnation.
        last: its last record, if it ended.
        log: what its code remembered, as far as that matters.
    """

    def __init__(self, disk: Disk, plan: Plan, end: End | str, log: Sequence[Any]) -> None:
        self.disk = disk
        self.plan = plan
        self.end = end
        last = decode_record(disk.journals[-1][-1])
        self.last = last if last[0] in ENDS else None
        self.log = None if self.last else [str(one) for one in log]

    @property
    def journals(self) -> list[list[str]]:
        """The journals but for outcomes that wait, which depend on who has the turn."""
        return [[line for line in lines if not line.startswith('["R"')] for lines in self.disk.journals]

    @property
    def lines(self) -> list[str]:
        """The journals, one after the other."""
        return [line for lines in self.journals for line in lines]

    def problem(self) -> str | None:
        """Return what is wrong, whatever the program is."""
        if self.disk.problems:
            return self.disk.problems[0]
        for lines in self.disk.journals:
            records = list(map(json.loads, lines))
            notes = [str([record[0], *record[2:5]]) for record in records if record[0] == "P"]
            notes += [str([record[0], *record[2:4]]) for record in records if record[0] in "NO"]
            if len(notes) != len(set(notes)):
                return f"NOTED twice {[one for one, n in Counter(notes).items() if n > 1][:2]}"
        if isinstance(self.end, Diverged):
            return f"STUCK {self.end.error}"
        return "HANG" if self.end == "hang" else None


async def live(main: Callable[[ListHost], Any], plan: Plan) -> Lived:
    """Run a program through as many processes as it takes.

    Args:
        main: makes the code of one incarnation; its `log` is what must be the same after a crash.
    """
    disk = Disk()
    disk.journals.append([encode_record(begun("main", 0, time=wall(), seed=f"seed{plan.seed}", codec=JSON))])
    while True:
        end, host, log = await _process(main, plan, disk)
        if host.dead:
            _forget(disk, host)
            if plan.race:
                await trio.sleep(plan.down or plan.r.choice([0, 0, 500, 4000]))
            if decode_record(disk.journals[-1][-1])[0] not in ENDS:
                continue
        last = decode_record(disk.journals[-1][-1])
        if last[0] == "A" and len(disk.journals) < 4:
            seed = f"seed{plan.seed}.{len(disk.journals)}"
            disk.journals.append(
                [encode_record(begun(last[2], *last[3], time=last[1], seed=seed, codec=JSON))]
            )
            continue
        return Lived(disk, plan, end, log)


async def _process(
    main: Callable[[ListHost], Any], plan: Plan, disk: Disk
) -> tuple[End | str, ListHost, Sequence[Any]]:
    end: End | str = Evicted()
    async with trio.open_nursery() as nursery:
        host = ListHost(disk, plan, nursery)
        run = host.run = Run(host, disk.records(), JSON, host)
        code = main(host)
        host.state = lambda: tuple(map(str, code.log))
        for number, (at, text) in enumerate(plan.events):
            if at <= wall():
                host.bring(number, at, text)
        for task in (host.feed, host.keep_flushing, *((host.others,) if plan.race else ())):
            nursery.start_soon(task)
        with trio.move_on_at(LIMIT) as limit:
            async with trio.open_nursery() as inner:

                async def stop() -> None:
                    await trio.sleep_until(LIMIT - 1000)
                    run.evict()

                inner.start_soon(stop)
                end = await run.run(code)
                inner.cancel_scope.cancel()
        if limit.cancelled_caught:
            end = "hang"
        if not host.dead and not isinstance(end, Evicted | Diverged | str):
            with suppress(DeadError, OSError):
                await host.flush()
        nursery.cancel_scope.cancel()
    return end, host, code.log


def _forget(disk: Disk, host: ListHost) -> None:
    """Forget the states that the crash has taken back."""
    disk.crashes += 1
    generation = len(disk.journals) - 1
    kept = sum(record[0] in TURNS for record in disk.records())
    torn = any(tag in ("N", "P", "O") for _, _, _, tag in host.pending)  # a note that will not be remembered
    for at in [at for at in disk.states if at[0] == generation and at[1] >= kept + (not torn)]:
        del disk.states[at]


def go(main: Callable[[ListHost], Any], plan: Plan) -> Lived:
    """Run a program in a virtual time of its own."""

    async def lives() -> Lived:
        return await live(main, plan)

    return trio.run(lives, clock=MockClock(autojump_threshold=0))
