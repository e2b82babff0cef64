"""A world of lists: a disk that survives crashes, an inbox, a transcript of what people saw, and a killer.

A crash comes at a random *action* of the engine: an append, a commit, just before or after an effect. From
then on nothing that the dead process does counts.
"""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

import attrs
import trio

from triobot.journal.faults import record_value
from triobot.journal.incarnation import Incarnation
from triobot.journal.records import Done, OperationId, Unended, decode_record, encode_record
from triobot.journal.world import Entry, Waiting
from triobot.seams import Consume

EPOCH = 1_000_000


def wall() -> int:
    """Trio's virtual time as wall milliseconds: one of its seconds is one, so no float is rounded."""
    return EPOCH + int(trio.current_time())


@attrs.define
class Disk:
    """What survives: lines, as a store would keep them."""

    journal: list[str] = attrs.Factory(list)
    rows: list[str] = attrs.Factory(list)
    data: dict[str, str] = attrs.Factory(dict)
    consumed: set[int] = attrs.Factory(set)
    jumped: int = 0
    promise: tuple[int, Done] | None = None

    def restart(self) -> bool:
        """What an event's own row said is written out, unless something else became durable in its place."""
        promise, self.promise = self.promise, None
        if promise is None or promise[0] != len(self.journal):
            return False
        self.journal += map(encode_record, [promise[1], Unended(promise[1].time)])
        assert promise[1].event is not None
        self.consumed.add(promise[1].event)
        return True

    def keep(self, entry: Entry) -> None:
        self.journal += [encode_record(record) for record in entry.records]
        self.rows += [encode_record(row) for row in entry.rows]
        for key, value in entry.data.items():
            if value is None:
                self.data.pop(key, None)
            else:
                self.data[key] = value
        for move in entry.moves:
            self.consumed.update(move.seqs)

    def records(self) -> list[Any]:
        return [decode_record(line) for line in self.journal]

    def rows_read(self) -> list[Any]:
        return [decode_record(line) for line in self.rows]


@attrs.define
class People:
    """What outlives the process besides the disk: the platform's side.

    Attributes:
        events: what was said, when, and whether it is an interrupt; accepted once its time has come.
        seen: what was sent, with the operation's id, in order.
    """

    events: list[tuple[int, str]]
    seen: list[tuple[str, str]] = attrs.Factory(list)
    texts: dict[str, str] = attrs.Factory(dict)
    contradictions: list[str] = attrs.Factory(list)
    repeats: int = 0

    def see(self, id: str, text: str) -> None:
        if id in self.texts:
            self.repeats += 1
            if self.texts[id] != text:
                self.contradictions.append(f"{id}: {self.texts[id]!r}, then {text!r}")
        else:
            self.texts[id] = text
            self.seen.append((id, text))


class Dead(BaseException):
    """The process is no more: nothing goes on from here, shielded or not."""


class ListWorld:
    """The world of one incarnation.

    Args:
        early: by which chance an event is stored together with the record of its being taken.
    """

    def __init__(
        self,
        disk: Disk,
        people: People,
        nursery: trio.Nursery,
        *,
        crash_at: int | None,
        race: random.Random | None,
        write_behind: bool = False,
        early: random.Random | None = None,
    ) -> None:
        self.disk = disk
        self.people = people
        self.incarnation: Incarnation | None = None
        self.dead = False
        self.actions = 0
        self.problems: list[str] = []
        self.snapshots: dict[int, object] = {}
        self.state: Callable[[], object] = lambda: None
        self.came = -1
        self.write_behind = write_behind
        self.race = race
        self._nursery = nursery
        self._crash_at = crash_at
        self._pending: list[Entry] = []
        self.memory = dict(disk.data)
        self._looks: list[Callable[[], None]] = []
        self._armed: dict[str, Waiting] = {}
        self._taken: set[int] = set()
        self._some = trio.Event()
        self._timer: trio.CancelScope | None = None
        self._appended = len(disk.journal)
        # What was appended and stands in an event's row: nobody need wait for it.
        self._covered: Entry | None = None
        self._early = early
        self.taken_early = 0

    # --- crashes

    def action(self) -> None:
        """Something that a crash may come at."""
        self.actions += 1
        if self.actions == self._crash_at:
            self.die()

    def die(self) -> None:
        if not self.dead:
            self.dead = True
            assert self.incarnation is not None
            self.incarnation.evict()
            self._nursery.cancel_scope.cancel()

    # --- World

    def now(self) -> int:
        return wall()

    def jumped(self) -> int:
        return self.disk.jumped

    def moved(self, by: int) -> None:
        pass

    def append(self, entry: Entry) -> None:
        if self.dead:
            return
        self._appended += len(entry.records)
        if self.disk.promise is not None and entry.records:
            position, done = self.disk.promise
            if position + 1 == self._appended and entry.records == (done,) and not entry.data:
                self._covered = entry
                self.taken_early += 1
        self._pending.append(entry)
        self._some.set()
        if entry.records and self.incarnation is not None:
            self.snapshots[self._appended] = (self.incarnation.standing(), self.state())
        self.action()

    def before_writing(self, look: Callable[[], None]) -> None:
        self._looks.append(look)
        self._some.set()

    async def commit(self) -> None:
        if self.write_behind or self._pending[-1:] == [self._covered]:
            return
        await self.flush()

    async def flush(self) -> None:
        self.action()
        looks, self._looks = self._looks, []
        for look in looks:
            look()
        batch = list(self._pending)
        if self.race is not None:
            await trio.sleep(3)
        else:
            await trio.lowlevel.checkpoint()
        for entry in batch:
            if self.dead:
                break
            if self._pending and self._pending[0] is entry:
                self.disk.keep(self._pending.pop(0))
        self.action()
        if self.dead:
            raise Dead

    def live(self) -> None:
        if self.dead:
            return
        known = self.snapshots.get(len(self.disk.journal))
        assert self.incarnation is not None
        now = (self.incarnation.standing(), self.state())
        if known is not None and known != now:
            self.problems.append(f"before the crash {known}, after replay {now}")
        if self._appended and (kept := self.kept("n")) != self.incarnation.data.get("n"):
            self.incarnation.put("n", kept, stamp=0)
        if self.race is None:
            # A result that outlived a crash and an event that was accepted before it may go in either order;
            # where two runs are compared it is to be that of their stamps, and not of the scheduler.
            self.came = max(self.came, sum(at <= wall() for at, _ in self.people.events) - 1)
        # An interrupt that came during the replay needs no wait that would look for it.
        self.route()

    def arm(self, waiting: Waiting) -> None:
        self._armed[waiting.id] = waiting
        self.route()

    def disarm(self, waiting: Waiting) -> None:
        self._armed.pop(waiting.id, None)

    def wake_at(self, when: int | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if when is not None and not self.dead:
            scope = self._timer = trio.CancelScope()

            async def wake() -> None:
                with scope:
                    await trio.sleep(max(0, when - wall()))
                    if self._timer is scope:
                        self._timer = None
                    self._tick()

            self._nursery.start_soon(wake)

    def _tick(self) -> None:
        if self.incarnation is not None:
            self.incarnation.tick()

    def all_came(self, before: int) -> bool:
        return all(number <= self.came for number, (at, _) in enumerate(self.people.events) if at <= before)

    def comes_to(self, turn: int) -> None:
        pass

    def start_soon(self, work: Callable[[], Awaitable[None]]) -> None:
        self._nursery.start_soon(work)

    def repeated(self, kind: str) -> None:
        pass

    def reworded(self, id: str, kind: str) -> None:
        self.problems.append(f"{kind} {id} has other arguments on replay")

    def stuck(self, id: str, task: object) -> None:
        pass

    def swallowed(self, id: str) -> None:
        self.problems.append(f"swallowed in {id}")

    # --- what happens

    async def feed(self) -> None:
        """Bring the events, each when its time has come."""
        for number, (at, _) in enumerate(self.people.events):
            if at > wall():
                await trio.sleep(at - wall())
            if self.dead:
                return
            self.came = number
            self.route()
            self._tick()

    async def write(self, others: random.Random) -> None:
        """Let others write into what the chat keeps, at any time."""
        for _ in range(100):
            await trio.sleep(others.randrange(1, 1_000_000))
            if self.dead or self.incarnation is None or self.incarnation.over:
                return
            value = str(others.randrange(100, 1000))
            if others.random() < 0.5 and (kept := self.kept("n")) is not None:
                value = str(int(kept) + 1)
            self.memory["n"] = value
            self._pending.append(Entry(data={"n": value}))
            self._some.set()
            self.incarnation.put("n", value, stamp=wall())

    def kept(self, key: str) -> str | None:
        """What the chat keeps, durable or not."""
        return self.memory.get(key)

    async def keep_flushing(self) -> None:
        """Write behind: what nobody waits for becomes durable a little later."""
        while True:
            await self._some.wait()
            self._some = trio.Event()
            await trio.sleep(0 if self.race is None else self.race.randrange(1000))
            if self._pending or self._looks:
                with suppress(Dead):
                    await self.flush()

    def route(self) -> None:
        """Offer what has come to the wait that was armed first."""
        if self.dead or self.incarnation is None or not self.incarnation.live:
            return
        for number in range(self.came + 1):
            if number in self.disk.consumed or number in self._taken:
                continue
            at, text = self.people.events[number]
            moves = (Consume((number,)),)
            if text == "!":
                self._taken.add(number)
                self.incarnation.interrupt(stamp=at, event=number, moves=moves)
                continue
            for waiting in list(self._armed.values()):
                if waiting.subject in ("", text[0]):
                    del self._armed[waiting.id]
                    self._taken.add(number)

                    def withdraw(number: int = number) -> None:
                        self._taken.discard(number)
                        self._nursery.start_soon(self._route_again)

                    time = self._take_early(waiting.id, text, number)
                    if not self.incarnation.complete(
                        waiting.id, text, stamp=at, event=number, moves=moves, withdraw=withdraw, time=time
                    ):
                        self._taken.discard(number)
                    break

    def _take_early(self, id: OperationId, text: str, number: int) -> int | None:
        """The event was stored just now, together with who takes it; the time of that turn."""
        assert self.incarnation is not None
        if self._early is None or self._early.random() < 0.3 or self._pending:
            return None
        if (time := self.incarnation.next_turn(id)) is not None:
            done = Done(time, id, "receive", "", record_value(text), number)
            self.disk.promise = (len(self.disk.journal), done)
            self.action()
        return time

    async def _route_again(self) -> None:
        await trio.lowlevel.checkpoint()
        self.route()

    async def send(self, id: str, text: str) -> int:
        self.action()
        if self.dead:
            raise Dead
        if self.race is not None:
            if self.race.random() < 0.5:
                await trio.sleep(self.race.randrange(2000))
            if self.dead:
                raise Dead
        self.people.see(id, text)
        self.action()
        await trio.lowlevel.checkpoint()
        return len(text)
