"""The bookkeeping of connections: against a model that looks at all of them, and against its own promises."""

from __future__ import annotations

from typing import Any

import attrs
import hypothesis.strategies as st
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from tests.samples import examples
from triobot.http.connections import Connections, Origin, Waiter

ORIGINS = [Origin("http", "a", 1), Origin("http", "b", 1), Origin("https", "a", 1)]
MOST, KEEP = 4, 10.0


@attrs.define(eq=False)
class Fake:
    origin: Origin
    closed: bool = False

    def close(self) -> None:
        assert not self.closed
        self.closed = True


class PoolMachine(RuleBasedStateMachine):
    """Everything a transport may do, in any order."""

    def __init__(self) -> None:
        super().__init__()
        self.pool: Any = Connections(most=MOST, keep_seconds=KEEP)
        self.now = 0.0
        self.used: list[Fake] = []
        self.opening: list[Origin] = []
        self.idle: list[tuple[Fake, float]] = []
        self.line: list[Waiter] = []

    @rule(seconds=st.floats(0, 6))
    def time_passes(self, seconds: float) -> None:
        self.now += seconds

    @rule(origin=st.sampled_from(ORIGINS))
    def ask(self, origin: Origin) -> None:
        fresh = [(fake, at) for fake, at in self.idle if self.now - at <= KEEP]
        expired = [fake for fake, at in self.idle if self.now - at > KEEP]
        best = [fake for fake, _ in fresh if fake.origin == origin]
        got = self.pool.take(origin, self.now)
        assert all(fake.closed for fake in expired)
        self.idle = fresh
        assert got is (best[-1] if best else None), "the one that was used last"
        if got is not None:
            self.idle = [(fake, at) for fake, at in self.idle if fake is not got]
            self.used.append(got)
        elif self.pool.claim():
            if len(self.used) + len(self.opening) + len(self.idle) == MOST:
                oldest, _ = self.idle.pop(0)
                assert oldest.closed
            self.opening.append(origin)
        else:
            assert len(self.used) + len(self.opening) == MOST, "nobody waits while there is a place"
            waiter: Waiter = Waiter(origin, lambda fake: self.woken(waiter, fake))
            self.pool.line_up(waiter)
            self.line.append(waiter)

    def woken(self, waiter: Waiter, fake: Fake | None) -> None:
        assert waiter is self.line.pop(0), "first come, first served"
        if fake is None:
            self.opening.append(waiter.origin)
        else:
            assert fake.origin == waiter.origin and not fake.closed
            self.used.append(fake)

    @precondition(lambda self: self.opening)
    @rule(data=st.data(), works=st.booleans())
    def opened(self, data: st.DataObject, works: bool) -> None:
        origin = self.opening.pop(data.draw(st.integers(0, len(self.opening) - 1)))
        if works:
            self.used.append(Fake(origin))
        else:
            self.pool.free()

    @precondition(lambda self: self.used)
    @rule(data=st.data(), again=st.booleans())
    def done(self, data: st.DataObject, again: bool) -> None:
        fake = self.used.pop(data.draw(st.integers(0, len(self.used) - 1)))
        first = self.line[0] if self.line else None
        if not again:
            fake.close()
            self.pool.free()
            return
        self.pool.give_back(fake, self.now)
        if first is None:
            self.idle.append((fake, self.now))
        else:
            assert fake.closed == (first.origin != fake.origin)

    @precondition(lambda self: self.line)
    @rule(data=st.data())
    def give_up(self, data: st.DataObject) -> None:
        self.pool.leave(self.line.pop(data.draw(st.integers(0, len(self.line) - 1))))

    @rule()
    def close_idle(self) -> None:
        self.pool.close_idle()
        assert all(fake.closed for fake, _ in self.idle)
        self.idle = []

    @invariant()
    def nothing_is_lost(self) -> None:
        assert self.pool.taken == len(self.used) + len(self.opening) + len(self.idle) <= MOST
        assert len(self.pool._idle) == len(self.idle)
        assert len(self.pool._line) == len(self.line)
        assert not any(fake.closed for fake, _ in self.idle)


PoolMachine.TestCase.settings = settings(
    max_examples=examples(100, every=8), stateful_step_count=40, deadline=None
)
TestPool = PoolMachine.TestCase


def test_a_question_costs_the_same_however_many_are_idle() -> None:
    """Counted in connections that are looked at: one."""
    looked = 0

    class Counting:
        closed = False

        @property
        def origin(self) -> Origin:
            nonlocal looked
            looked += 1
            return ORIGINS[0]

        def close(self) -> None:
            self.closed = True

    pool: Any = Connections(most=1000, keep_seconds=KEEP)
    for connection in [Counting() for _ in range(1000)]:
        assert pool.claim()
        pool.give_back(connection, 0.0)
    looked = 0
    taken = pool.take(ORIGINS[0], 1.0)
    assert taken is not None
    pool.give_back(taken, 1.0)

    assert looked <= 2
