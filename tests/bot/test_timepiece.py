"""The clock of a running bot, which detects changes of the machine's time of day."""

from __future__ import annotations

import pytest
import trio
from trio.testing import MockClock

from triobot.base.clock import Steady, SystemClock, Timepiece
from triobot.studio.commands.dev_bot import HurriedClock
from triobot.testing.virtual import VirtualWallClock


class Machine:
    """A machine's clocks; it may be stopped after each reading of the time of day."""

    wall = 1_700_000_000_000
    passed = 0
    stops = 0

    def now(self) -> int:
        now, stops, self.stops = self.wall, self.stops, 0
        self.sleeps(stops)
        return now

    def steady(self) -> int:
        return self.passed

    def sleeps(self, milliseconds: int) -> None:
        self.wall += milliseconds
        self.passed += milliseconds


def test_only_what_is_set_is_a_jump() -> None:
    """Neither the time that passes, a machine that sleeps, nor a time service's corrections."""
    machine, told = Machine(), list[int]()
    piece = Timepiece(machine)
    assert piece.now() == machine.wall
    with piece.telling(told.append):
        machine.sleeps(8 * 3_600_000)
        machine.wall += 4_000
        assert piece.now() == machine.wall
        machine.wall -= 4_000
        assert piece.now() == machine.wall
        assert (piece.jumped(), told) == (0, [])
        machine.wall -= 7_200_000
        machine.sleeps(1_000)
        assert piece.now() == machine.wall
        assert (piece.jumped(), told) == (-7_200_000, [-7_200_000])
        assert piece.now() == machine.wall
        machine.wall += 3_600_000
        assert piece.now() == machine.wall
        assert (piece.jumped(), told) == (-3_600_000, [-7_200_000, 3_600_000])
    machine.wall += 3_600_000
    piece.now()
    assert (piece.jumped(), len(told)) == (0, 2)


def test_this_machines_clock_is_compared_when_a_tenth_of_a_second_has_passed_on_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Compare it again also when it shows an earlier time."""
    machine, compared = Machine(), list[int]()

    def read_steady(_: int = 0) -> int:
        compared.append(machine.wall)
        return machine.passed * 1_000_000

    monkeypatch.setattr("triobot.base.clock.time.time_ns", lambda: machine.wall * 1_000_000)
    monkeypatch.setattr("triobot.base.clock.time.clock_gettime_ns", read_steady)
    monkeypatch.setattr("triobot.base.clock.time.monotonic_ns", read_steady)
    piece = Timepiece(SystemClock())
    began = piece.now()
    compared.clear()
    for by in (33, 33, 33, 1, 99, 1):
        machine.sleeps(by)
        assert piece.now() == machine.wall
    assert compared == [began + 100, began + 200]
    machine.wall -= 50
    assert piece.now() == machine.wall
    assert compared[2:] == [began + 150]
    assert piece.jumped() == 0
    for by, jumped in ((-3_600_000, -3_600_000), (7_200_000, 3_600_000), (-3_600_000, 0), (-6_000, -6_000)):
        machine.wall += by
        assert piece.now() == machine.wall
        assert piece.jumped() == jumped


async def test_who_has_waited_compares_this_machines_clock(
    monkeypatch: pytest.MonkeyPatch, autojump_clock: MockClock
) -> None:
    """Else one that goes back by all that has passed, again and again, would never be seen to."""
    wall = 1_700_000_000_000
    monkeypatch.setattr("triobot.base.clock.time.time_ns", lambda: wall * 1_000_000)
    for name in ("clock_gettime_ns", "monotonic_ns"):
        monkeypatch.setattr(f"triobot.base.clock.time.{name}", lambda *_: int(trio.current_time() * 1e9))
    piece = Timepiece(SystemClock())
    piece.now()
    await piece.wait(trio.Event(), 60)
    piece.now()
    assert piece.jumped() == -60_000


def test_a_program_that_is_stopped_while_it_looks_sees_no_jump() -> None:
    """As in a debugger, or on a machine with too much to do."""
    machine = Machine()
    piece = Timepiece(machine)
    for _ in range(2):
        machine.stops = 60_000
        assert piece.now() == machine.wall
        assert piece.now() == machine.wall
        assert piece.jumped() == 0


def test_it_goes_on_from_what_it_knew() -> None:
    """A clock that shows less than it did in the run before was set back meanwhile."""
    machine, told = Machine(), list[int]()
    piece = Timepiece(machine)
    piece.take_up(1_000_000)
    with piece.telling(told.append):
        piece.was_seen(machine.wall + 4_000)
        piece.was_seen(machine.wall - 90_000_000)
        assert piece.jumped() == 1_000_000
        piece.was_seen(machine.wall + 60_000)
    assert (piece.jumped(), told) == (940_000, [-60_000])


def test_a_jump_before_it_goes_on_counts() -> None:
    """The store that says what it knew is opened by the same clock."""
    machine = Machine()
    piece = Timepiece(machine)
    piece.now()
    machine.wall += 60_000
    piece.now()
    piece.take_up(1_000_000)
    assert (piece.before, piece.jumped()) == (1_000_000, 1_060_000)


async def test_virtual_time_is_no_jump(autojump_clock: MockClock) -> None:
    clock = VirtualWallClock()
    piece = Timepiece(clock)
    piece.now()
    await trio.sleep(86_400)
    piece.now()
    assert piece.jumped() == 0
    clock.set_by(86_400_000)
    piece.now()
    assert piece.jumped() == 86_400_000


def test_time_that_is_skipped_is_no_jump() -> None:
    """It has passed for Trio's clock, too."""

    async def skip() -> int:
        piece = Timepiece(clock)
        piece.now()
        clock.hurry(86_400_000)
        piece.now()
        return piece.jumped()

    clock = HurriedClock()
    assert trio.run(skip, clock=clock) == 0


async def test_a_clock_of_ones_own_is_compared_with_trios(autojump_clock: MockClock) -> None:
    class Own:
        ahead = 0

        def now(self) -> int:
            return 1_700_000_000_000 + self.ahead + int(trio.current_time() * 1000)

    own = Own()
    piece = Timepiece(own)
    piece.now()
    await trio.sleep(3600)
    piece.now()
    assert piece.jumped() == 0
    own.ahead -= 60_000
    piece.now()
    assert piece.jumped() == -60_000


def test_this_machines_clock_comes_with_one_that_nobody_sets() -> None:
    clock = SystemClock()
    assert isinstance(clock, Steady)
    assert 0 <= clock.steady() <= clock.steady()


@pytest.mark.parametrize(("clock", "looks"), [(SystemClock(), 60), (None, 600)], ids=["machine", "virtual"])
async def test_who_waits_looks_at_the_clock_in_time(
    autojump_clock: MockClock, clock: SystemClock | None, looks: float
) -> None:
    """Every minute, but at one that says when it is set."""
    piece, began = Timepiece(clock or VirtualWallClock()), trio.current_time()

    await piece.wait(trio.Event(), 600)

    assert trio.current_time() - began == looks


async def test_a_clock_that_is_set_is_looked_at_within_a_minute(autojump_clock: MockClock) -> None:
    clock, news = VirtualWallClock(), trio.Event()
    piece, looked = Timepiece(clock), list[float]()
    piece.now()

    async def wait(seconds: float) -> None:
        await piece.wait(news, seconds)
        looked.append(trio.current_time() - began)

    began = trio.current_time()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(wait, 86_400)
        nursery.start_soon(wait, 1_010)
        await trio.sleep(1_000)
        clock.set_by(3_600_000)
    assert looked == [1_010, 1_060]
    assert piece.jumped() == 0
    piece.now()
    assert piece.jumped() == 3_600_000
