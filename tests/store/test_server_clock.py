"""The server's time of day, as a process knows it, and how far off the machine's own is."""

from __future__ import annotations

import attrs
import pytest

from triobot.store.server_clock import MOST, RIGHT_AGAIN, ServerClock, how_far

START = 1_700_000_000_000


@attrs.define
class Machine:
    """A clock that a person may set, and a steady one."""

    passed: int = 0
    off: int = 0

    def now(self) -> int:
        return START + self.passed + self.off

    def steady(self) -> int:
        return self.passed


@attrs.define
class Server:
    """Another machine, whose clock is asked."""

    machine: Machine
    off: int = 0

    def ask(self, clock: ServerClock, there: int = 2, back: int = 2) -> None:
        """Ask for its time, with so many milliseconds on the way."""
        asked = clock.steady()
        self.machine.passed += there
        said = START + self.machine.passed + self.off
        self.machine.passed += back
        clock.heard(asked, said, clock.steady())


@pytest.fixture
def server() -> Server:
    return Server(Machine())


def test_a_jump_of_the_machine_s_clock_is_none_of_the_store_s(server: Server) -> None:
    clock = ServerClock(server.machine)
    server.ask(clock)
    before = clock.now()
    server.machine.off = 3_600_000
    server.machine.passed += 10
    server.ask(clock)
    assert clock.now() == before + 14
    assert clock.differs == pytest.approx(3_600_000, abs=4)


def test_a_jump_of_the_server_s_clock_is_the_store_s(server: Server) -> None:
    clock = ServerClock(server.machine)
    server.ask(clock)
    server.off = -60_000
    server.ask(clock)
    assert clock.now() == pytest.approx(START + server.machine.passed - 60_000, abs=4)
    assert clock.differs == pytest.approx(60_000, abs=4)


@pytest.mark.parametrize("sign", [-1, 1])
def test_a_clock_that_was_wrong_is_right_again_when_it_is_nearly_so(server: Server, sign: int) -> None:
    clock = ServerClock(server.machine)
    said: list[bool] = []
    for off in (MOST - 10, MOST + 10, MOST - 10, RIGHT_AGAIN + 10, RIGHT_AGAIN - 10, MOST - 10):
        server.machine.off = sign * off
        server.ask(clock)
        said.append(bool(clock.differs))
        assert clock.differs * sign >= 0
    assert said == [False, True, True, True, False, False]


def test_an_answer_that_was_long_on_its_way_says_little(server: Server) -> None:
    clock = ServerClock(server.machine)
    server.ask(clock)
    before = clock.now() - clock.steady()
    server.ask(clock, there=9_000, back=10)
    server.ask(clock, there=10, back=9_000)
    assert clock.now() - clock.steady() == before
    assert clock.differs == 0
    server.machine.off = 5_000
    server.ask(clock)
    server.machine.off = 0
    server.ask(clock, there=9_000)
    # It may be right; the next answer says so.
    assert clock.differs != 0
    server.ask(clock)
    assert clock.differs == 0


def test_how_far_is_said_in_words() -> None:
    assert (how_far(3_210), how_far(-2_100)) == ("3.2 s ahead of", "2.1 s behind")
