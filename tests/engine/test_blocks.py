"""Blocks that end: by a deadline, an event, or their own `cancel`."""

from __future__ import annotations

import random

import pytest
import trio

from triobot.engine import LEFT, Returned, Run

from .lives import EPOCH, Lives


def only(word: str) -> object:
    return lambda text: text if text == word else LEFT


async def test_a_deadline_goes_on_while_nothing_runs(autojump_clock: object) -> None:
    """It is a wall time, reckoned from the turn that opened the block."""
    host = Lives()

    async def waits(run: Run) -> object:
        with run.scope(60) as limit:
            await run.wait()
        return [limit.cancelled_caught, limit.expired, run.now() - EPOCH]

    async with host.living(waits):
        await trio.sleep(40)
    await trio.sleep(40)

    assert await host.live(waits) == Returned([True, True, 80_000])
    assert host.tags == "FZ"


async def test_an_overdue_deadline_waits_for_what_is_done_first(autojump_clock: object) -> None:
    """A question that is asked again after a kill is seen before its time is over."""
    host = Lives()

    async def asks(run: Run) -> None:
        with run.scope(10):
            await host.say(run, "a question")
            await run.wait()
        await host.say(run, "too late")

    async with host.living(asks, killed=True):
        pass
    await trio.sleep(100)
    await host.live(asks)

    assert host.sent == ["a question", "a question", "too late"]


@pytest.mark.parametrize("hangs", [True, False])
async def test_what_is_done_again_has_a_minute_before_an_old_deadline(
    autojump_clock: object, hangs: bool
) -> None:
    """A body that never ends doesn't keep a block from ending for ever."""
    host = Lives()
    deaths = 0

    async def body() -> None:
        await trio.sleep_forever() if hangs or not deaths else await trio.sleep(30)

    async def works(run: Run) -> object:
        with run.scope(10) as limit:
            await run.step(body)
        return [limit.cancelled_caught, run.now()]

    async with host.living(works, killed=True):
        await trio.sleep(5)
    deaths = 1
    await trio.sleep(95)
    async with host.living(works):
        await trio.sleep(1000)
    assert host.end == Returned([hangs, EPOCH + (160_000 if hangs else 130_000)])


async def test_no_time_left_ends_a_block_at_its_first_operation(autojump_clock: object) -> None:
    """Without a record, as it was over when it began; the same on replay."""
    host = Lives()

    async def hurries(run: Run) -> object:
        with run.scope(0) as none:
            await host.say(run, "never")
        with run.scope(at=EPOCH) as past:
            await host.say(run, "never")
        await run.wait()
        return [none.expired, past.expired]

    await host.live(hurries)
    await trio.sleep(10)

    assert await host.live(hurries, "go") == Returned([True, True])
    assert host.sent == []


async def test_an_event_ends_the_newest_block_that_takes_it(autojump_clock: object) -> None:
    """Before any wait sees it."""
    host = Lives()

    async def asks(run: Run) -> object:
        with run.scope(takes=only("back")) as outer:
            with run.scope(takes=only("back")) as inner:
                await run.wait()
            await run.wait()
        return [inner.event, inner.row, outer.event, outer.cancelled_caught]

    assert await host.live(asks, "back", "on") == Returned(["back", 1, None, False])
    assert host.rows == [1, 2]


async def test_an_event_stays_with_the_block_that_it_ended(autojump_clock: object) -> None:
    """Even if the block comes to its own end before it feels it."""
    host = Lives()

    async def shields(run: Run) -> object:
        with run.scope(takes=only("stop")) as stop, run.scope(shield=True):
            await run.sleep(5)
        return [stop.event, stop.cancelled_caught]

    async with host.living(shields):
        await host.give("stop")
        assert host.rows == []
        await trio.sleep(6)

    assert host.end == Returned(["stop", False])
    assert host.rows == [1]


async def test_a_block_ends_by_its_cancel(autojump_clock: object) -> None:
    """Without a record."""
    host = Lives()

    async def gives_up(run: Run) -> object:
        with run.scope() as scope:
            scope.cancel()
            await host.say(run, "never")
        return scope.cancelled_caught

    assert await host.live(gives_up) == Returned(True)
    assert host.tags == "Z"


async def test_an_effect_that_is_cut_short_is_recorded(autojump_clock: object) -> None:
    """A body ends when it likes, so its end is a record; after a kill it is not begun again."""
    host, ends = Lives(), list[str]()

    async def slow() -> None:
        try:
            await trio.sleep(100)
        except trio.Cancelled:
            ends.append("cut")
            raise

    async def hurries(run: Run) -> bool:
        with run.scope(5) as limit:
            await run.step(slow)
        await run.wait()
        return limit.cancelled_caught

    async with host.living(hurries):
        await trio.sleep(6)
    assert host.tags == "FC"

    assert await host.live(hurries, "go") == Returned(True)
    assert ends == ["cut"]


async def test_a_deadline_waits_for_an_effect_that_holds_it(autojump_clock: object) -> None:
    """A while: and the code may take it away meanwhile."""
    host = Lives()

    async def verifies(seconds: float) -> bool:
        await trio.sleep(seconds)
        return seconds < 3

    async def pays(run: Run, seconds: float) -> object:
        with run.scope(1) as limit:
            if await run.effect("verify", verifies, seconds, holds=5000):
                limit.lift()
            await run.sleep(3)
        return limit.cancelled_caught

    for seconds, cut in ((2, False), (4, True), (9, True)):
        host = Lives(seconds)
        async with host.living(pays):
            await trio.sleep(20)
        assert host.end == Returned(cut)
        assert await host.live(pays) == Returned(cut)


@pytest.mark.parametrize("killed", [False, True])
async def test_the_clock_is_set_while_it_is_down(autojump_clock: object, killed: bool) -> None:
    """What was to last a minute lasts a minute; what waits for a time of day waits for that."""
    host = Lives()

    async def waits(run: Run) -> object:
        with run.scope(60) as limit, run.scope(at=EPOCH + 4_000_000) as noon:
            await run.wait()
        return [limit.expired, noon.expired]

    async with host.living(waits, killed=killed):
        await trio.sleep(20)
    host.is_set(3_600_000)
    async with host.living(waits):
        await trio.sleep(39)
        assert host.end is None or not isinstance(host.end, Returned)
        await trio.sleep(2)

    assert host.end == Returned([True, False])


async def test_the_clock_is_set_back_and_no_host_saw_it(autojump_clock: object) -> None:
    """A journal whose newest turn is yet to come by the clock tells by how much."""
    host = Lives()

    async def waits(run: Run) -> bool:
        await run.wait()
        with run.scope(60) as limit:
            await run.wait()
        return limit.expired

    await host.live(waits, 1)
    host.offset -= 3_600_000
    async with host.living(waits):
        await trio.sleep(59)
        assert not isinstance(host.end, Returned)
        await trio.sleep(2)

    assert host.end == Returned(True)


@pytest.mark.parametrize("killed", [False, True])
async def test_a_time_comes_twice(autojump_clock: object, killed: bool) -> None:
    """A deadline that was asked for after the clock was set back has not moved with it."""
    host = Lives()

    async def waits(run: Run) -> list[bool]:
        ended: list[bool] = []
        for _ in range(2):
            with run.scope(60) as limit:
                await run.wait()
                await run.wait()
            ended.append(limit.expired)
        return ended

    async with host.living(waits) as run:
        await trio.sleep(30)
        host.is_set(-40_000)
        run.shift(-40_000)
        run.tick()
        await trio.sleep(15)
        await host.give(1)  # it is as late as once before
        await trio.sleep(16)
    for _ in range(2):
        async with host.living(waits, killed=killed):
            await trio.sleep(20)
            assert not isinstance(host.end, Returned)
    async with host.living(waits):
        await trio.sleep(18)
        assert not isinstance(host.end, Returned)
        await trio.sleep(2)

    assert host.end == Returned([True, True])
    assert [record[1] for record in host.records if isinstance(record[1], list)] == [
        [EPOCH + 5_000, -40_000, 0]
    ]


@pytest.mark.parametrize("seed", range(30))
async def test_a_length_of_time_lasts_whatever_is_done_to_the_clock(
    autojump_clock: object, seed: int
) -> None:
    """It is set and set back, seen by the run or not, between kills and evictions."""
    host, chance, ends = Lives(), random.Random(seed), dict[int, list[float]]()

    async def ended(number: int) -> None:
        await trio.lowlevel.checkpoint()
        ends.setdefault(number, []).append(trio.current_time())

    async def waits(run: Run) -> None:
        for number in range(1, 7):
            with run.scope(100):
                while True:
                    await run.wait()
            await run.effect("ended", ended, number)
            await run.sleep(50)
            await run.effect("slept", ended, -number)

    began = trio.current_time()
    while not isinstance(host.end, Returned):
        async with host.living(waits, killed=chance.random() < 0.3) as run:
            for _ in range(chance.randint(1, 4)):
                await trio.sleep(chance.choice([7, 23, 61]))
                await host.give(*["event"] * chance.randint(0, 1))
                if chance.random() < 0.4:
                    by = chance.choice([-90_000, -20_000, 20_000, 90_000, -86_400_000, 86_400_000])
                    host.is_set(by)
                    run.shift(by)
                    run.tick()
        if chance.random() < 0.3:
            host.is_set(chance.choice([-90_000, 90_000, -86_400_000, 86_400_000]))

    order = [number for n in range(1, 7) for number in (n, -n)]
    for number in order:
        assert ends[number][0] - began == pytest.approx(100 if number > 0 else 50, abs=0.1), (seed, number)
        began = ends[number][-1]


async def test_what_no_host_saw_counts_once(autojump_clock: object) -> None:
    """The run tells its own next life that the clock was set back."""
    host = Lives()

    async def waits(run: Run) -> bool:
        await run.wait()
        with run.scope(60) as limit:
            await run.wait()
            await run.wait()
        return limit.expired

    await host.live(waits, 1)
    host.offset -= 3_600_000
    async with host.living(waits):
        await trio.sleep(20)
        await host.give(2)
    async with host.living(waits):
        await trio.sleep(39)
        assert not isinstance(host.end, Returned)
        await trio.sleep(2)

    assert host.end == Returned(True)


async def test_the_clock_is_set_while_it_runs(autojump_clock: object) -> None:
    host = Lives()

    async def waits(run: Run) -> object:
        with run.scope(60) as limit:
            await run.wait()
        await run.sleep(60)
        return limit.expired

    async with host.living(waits) as run:
        for _ in range(2):
            await trio.sleep(30)
            host.is_set(3_600_000)
            run.shift(3_600_000)
            run.tick()
            await trio.sleep(29)
            assert not isinstance(host.end, Returned)
            await trio.sleep(1.5)

    assert host.end == Returned(True)


class FindsOut(Lives):
    """A host that finds out that its clock was set when it reads it for the so manieth time."""

    reads = 0

    def now(self) -> int:
        self.reads -= 1
        if self.reads == 0:
            self.is_set(3_600_000)
            self.run.shift(3_600_000)
        return super().now()


@pytest.mark.parametrize("by_block", [False, True])
async def test_the_clock_is_found_to_have_been_set_while_a_time_is_reckoned(
    autojump_clock: object, by_block: bool
) -> None:
    """Whichever reading finds it out: what lasts a minute lasts a minute."""

    async def waits(run: Run) -> None:
        await run.wait()
        if by_block:
            with run.scope(60):
                await run.wait()
        else:
            await run.sleep(60)

    lasted: dict[int, tuple[bool, bool]] = {}
    for reading in range(1, 9):
        host = FindsOut()
        async with host.living(waits) as run:
            host.reads = reading
            await host.give(1)
            found = host.reads <= 0
            host.reads = 0
            run.tick()  # says anew when to look at the clock
            await trio.sleep(59)
            early = isinstance(host.end, Returned)
            await trio.sleep(1.5)
            if found:
                lasted[reading] = not early, isinstance(host.end, Returned)
    assert len(lasted) > 2
    assert set(lasted.values()) == {(True, True)}, lasted


@pytest.mark.parametrize("stopped", range(1, 16))
async def test_two_nested_nurseries_are_left_after_a_deadline(autojump_clock: object, stopped: int) -> None:
    """A branch that leaves them keeps the turn until it rests again: the same on each replay."""
    host = Lives()

    async def forever(run: Run) -> None:
        await run.wait("receive", only("never"))

    async def inner(run: Run, log: list[str]) -> None:
        with run.scope(100):
            async with run.open_nursery() as first:
                first.start_soon(forever, run)
                async with run.open_nursery() as second:
                    second.start_soon(forever, run)
                    second.start_soon(forever, run)
                    await forever(run)
        log.append("left")
        log.append(str(await run.wait("receive", only("a"))))
        await host.say(run, f"inner {log}")

    async def main(run: Run) -> None:
        log: list[str] = []
        async with run.open_nursery() as nursery:
            nursery.start_soon(inner, run, log)
            with run.scope(100):
                await forever(run)
            log.append("main")
            log.append(str(await run.wait("receive", only("b"))))
        await host.say(run, f"{log}")

    said = {200: "a", 300: "b"}
    async with host.living(main):
        await _says(host, said, stopped * 25)
    for _ in range(3):
        async with host.living(main):
            await _says(host, said, 400)
        assert host.end == Returned(None)
        host.lines.pop()

    assert host.sent == ["inner ['left', 'main', 'a']", "['left', 'main', 'a', 'b']"]


async def _says(host: Lives, said: dict[int, str], until: int) -> None:
    """Let time pass up to a second after the beginning, with what is said until then, unless it was taken."""
    for at, text in said.items():
        if at < until:
            await trio.sleep(max(0, EPOCH + at * 1000 - host.now()) / 1000)
            if at not in host.rows:
                host.run.deliver(at, host.now(), text)
    await trio.sleep(max(1, EPOCH + until * 1000 - host.now()) / 1000)
