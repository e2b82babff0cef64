"""Straight-line code: effects, waits, sleeps, and what they return."""

from __future__ import annotations

import pytest
import trio

from triobot.engine import LEFT, ContinuesAs, Crashed, Evicted, Returned, Run
from triobot.errors import ConversationEndedError, ForeignTaskError, NonDurableCancelError, StepError

from .lives import EPOCH, Lives


async def test_it_goes_on_where_it_was(autojump_clock: object) -> None:
    """Variables and loops are there again, and nothing is done twice."""
    host = Lives()

    async def sums(run: Run) -> int:
        total = 0
        for _ in range(3):
            total += await run.wait()
            await host.say(run, f"{total} so far")
        return total

    assert await host.live(sums, 1, 2) == Evicted()
    assert await host.live(sums, 3) == Returned(6)
    assert host.sent == ["1 so far", "3 so far", "6 so far"]
    assert host.tags == "DDDDDDZ"


async def test_a_run_that_is_over_replays_to_its_end(autojump_clock: object) -> None:
    host = Lives()

    async def greets(run: Run) -> str:
        await host.say(run, "hello")
        return "done"

    await host.live(greets)
    lines = list(host.lines)

    assert await host.live(greets) == Returned("done")
    assert host.lines == lines
    assert host.sent == ["hello"]


async def test_an_effect_without_its_outcome_is_done_again(autojump_clock: object) -> None:
    """At least once: the host is told that it may be the second time."""
    host = Lives()

    async def greets(run: Run) -> None:
        await host.say(run, "hello")
        await run.wait()

    async with host.living(greets, killed=True, fresh=True):
        assert host.told == []
    await host.live(greets)

    assert host.sent == ["hello", "hello"]
    assert host.told == ["repeated send 1"]


async def test_an_effect_that_must_not_repeat_says_so(autojump_clock: object) -> None:
    """What it was about to do is durable before it begins."""
    host = Lives()

    async def pays(run: Run) -> str:
        try:
            await host.say(run, "pay", in_doubt=TimeoutError("it may be paid"))
        except TimeoutError as error:
            return str(error)
        await run.wait()
        return "paid"

    async with host.living(pays, killed=True, fresh=True):
        pass

    assert host.tags == "Q"
    assert await host.live(pays) == Returned("it may be paid")
    assert host.sent == ["pay"]


async def test_a_wait_takes_the_first_event_that_fits(autojump_clock: object) -> None:
    """As what its filter says; the others stay in the mailbox."""
    host = Lives()

    def number(text: str) -> object:
        return int(text) if text.isdigit() else LEFT

    async def asks(run: Run) -> list[object]:
        return [await run.wait("number", number), await run.wait()]

    async with host.living(asks):
        await host.give("what?", "7")

    assert host.end == Returned([7, "what?"])
    assert host.rows == [2, 1]


async def test_an_event_that_is_withdrawn_is_taken_by_nothing(autojump_clock: object) -> None:
    host = Lives()

    async def asks(run: Run) -> object:
        await run.sleep(10)
        return await run.wait()

    async with host.living(asks) as run:
        await host.give("a", "b")
        assert run.withdraw(1)
        assert not run.withdraw(1)
        await trio.sleep(11)

    assert host.end == Returned("b")
    assert not run.deliver(9, 9, "too late")


async def test_a_sleep_is_a_wall_time(autojump_clock: object) -> None:
    """It goes on while nothing runs."""
    host = Lives()

    async def sleeps(run: Run) -> int:
        await run.sleep(60)
        await run.sleep(at=EPOCH + 100_000)
        await run.sleep(at=0)
        return run.now()

    async with host.living(sleeps):
        await trio.sleep(30)
    await trio.sleep(50)
    async with host.living(sleeps) as run:
        await trio.sleep(19)
        assert run.resting
        await trio.sleep(2)

    assert host.end == Returned(EPOCH + 100_000)


async def test_a_value_is_a_copy(autojump_clock: object) -> None:
    """What the code changes is not what was recorded."""
    host, given = Lives(), {"names": ["Sara"]}

    async def names(run: Run) -> object:
        got = await run.step(answers)
        got["names"].append("Ali")
        return [given, got]

    async def answers() -> object:
        await trio.lowlevel.checkpoint()
        return given

    assert await host.live(names) == Returned([{"names": ["Sara"]}, {"names": ["Sara", "Ali"]}])
    assert await host.live(names) == Returned([{"names": ["Sara"]}, {"names": ["Sara", "Ali"]}])


class OddError(Exception):
    def __init__(self, what: str, *, depth: int) -> None:
        super().__init__(what)
        self.depth = depth


async def test_errors_are_the_same_live_and_on_replay(autojump_clock: object) -> None:
    """A class is kept where it can be: else it is a `StepError`, live as well."""
    host, seen = Lives(), list[object]()

    async def fails(error: Exception) -> None:
        await trio.lowlevel.checkpoint()
        raise error

    async def tries(run: Run) -> None:
        for error in (
            KeyError("x"),
            trio.TooSlowError(),
            OddError("odd", depth=3),
            ExceptionGroup("both", [ValueError(1), OddError("one", depth=1)]),
        ):
            for raises in ((), (OddError,)):
                try:
                    await run.step(fails, error, raises=raises)
                except* StepError as group:
                    seen.append(repr(group.exceptions))
                except* Exception as group:
                    seen.extend((repr(one), vars(one)) for one in group.exceptions)

    await host.live(tries)
    live, seen[:] = list(seen), []
    await host.live(tries)

    assert seen == live
    assert ("OddError('odd')", {"depth": 3}) in live
    assert "(StepError('OddError', 'odd'),)" in live


async def test_what_no_record_holds_is_an_error(autojump_clock: object) -> None:
    host, seen = Lives(), list[str]()

    async def odd(value: object) -> object:
        await trio.lowlevel.checkpoint()
        return value

    async def tries(run: Run) -> None:
        for value in ((1, 2), {1: 2}, float("nan"), "\ud800", 2**70, [[object()]]):
            try:
                await run.step(odd, value)
            except Exception as error:
                seen.append(f"{type(error).__name__}: {error}")

    await host.live(tries)

    assert len(seen) == 6
    assert all(text.startswith("UnrecordableError: ") for text in seen)
    assert "value[0][0] is a object" in seen[-1]


async def test_an_error_ends_it_and_is_recorded(autojump_clock: object) -> None:
    host = Lives()

    async def breaks(run: Run) -> None:
        await run.wait()
        raise KeyError("x")

    end = await host.live(breaks, "go")

    assert isinstance(end, Crashed)
    assert repr(end.error) == "KeyError('x')"
    assert host.records[-1][2] == ["KeyError", ["x"]]


async def test_it_goes_on_as_another(autojump_clock: object) -> None:
    """From within a plain Trio nursery, too."""
    host = Lives()

    async def counts(run: Run, n: int = 0) -> None:
        try:
            async with trio.open_nursery():
                run.continue_as("counts", n + 1)
        finally:
            await host.say(run, "bye")

    assert await host.live(counts) == ContinuesAs("counts", [1])
    assert host.sent == ["bye"]
    assert host.tags == "DA"


async def test_what_is_random_is_the_same_on_replay(autojump_clock: object) -> None:
    host, drawn = Lives(), list[object]()

    async def draws(run: Run) -> None:
        assert run.upcoming() == 1
        drawn.append((run.random().random(), run.uuid(), run.token(8)))
        assert run.upcoming() == 4
        await run.wait()

    await host.live(draws)
    await host.live(draws)

    assert drawn[0] == drawn[1]


async def test_a_scope_that_is_not_ours_is_named(autojump_clock: object) -> None:
    """A restart would know nothing of it: so the operation fails, on replay as well."""
    host, seen = Lives(), list[str]()

    async def slow() -> None:
        await trio.sleep(10)

    async def mistaken(run: Run) -> None:
        for operation in (lambda: run.wait(), lambda: run.sleep(9), lambda: run.step(slow)):
            try:
                with trio.move_on_after(1):
                    await operation()
            except NonDurableCancelError as error:
                seen.append(error.id)

    async with host.living(mistaken):
        await trio.sleep(5)
    await host.live(mistaken)

    assert seen == ["1", "2", "3"] * 2
    assert host.tags == "EEEZ"


async def test_operations_elsewhere_are_refused(autojump_clock: object) -> None:
    """In a task that the run doesn't know, inside an effect, and when it is over."""
    host, seen = Lives(), list[str]()

    async def tries(operation: object) -> None:
        try:
            await operation()  # type: ignore[operator]
        except ForeignTaskError as error:
            seen.append(str(error))

    async def mistaken(run: Run) -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(tries, run.wait)
        await run.step(tries, run.wait)
        await run.step(inside, run)

    async def inside(run: Run) -> None:
        await trio.lowlevel.checkpoint()
        with pytest.raises(ForeignTaskError):
            run.read("key")

    assert await host.live(mistaken) == Returned(None)
    assert [text.split(";")[0] for text in seen] == [
        "an operation from a task that the run doesn't know",
        "an operation inside an effect",
    ]
    with pytest.raises(ConversationEndedError):
        await host.run.wait()


async def test_an_await_between_operations_may_take_time(autojump_clock: object) -> None:
    """The turn just lasts longer; what it returns is not recorded."""
    host = Lives()

    async def dawdles(run: Run) -> int:
        await run.wait()
        await trio.sleep(5)
        return await run.wait()  # type: ignore[no-any-return]

    async with host.living(dawdles):
        await host.give(1, 2)
        await trio.sleep(6)

    assert host.end == Returned(2)


async def test_a_wait_costs_one_record(autojump_clock: object) -> None:
    """And blocks, random draws and the time of day none."""
    host = Lives()

    async def waits(run: Run) -> None:
        with run.scope(5), run.scope():
            run.random()
            run.uuid()
            run.now()
            await run.wait()

    await host.live(waits, "a")

    assert host.tags == "DZ"


async def test_an_outcome_outlives_a_kill_in_an_await_of_something_else(autojump_clock: object) -> None:
    """The turn that it begins may last: the host need not wait for its end to keep it."""
    host, times = Lives(), list[int]()

    async def booked() -> int:
        times.append(1)
        return len(times)

    async def books(run: Run) -> None:
        number = await run.step(booked)
        await trio.sleep(60)
        await host.say(run, f"number {number}")

    async with host.living(books, killed=True):
        await trio.sleep(30)
        host.flush()
    assert (host.sent, host.tags) == ([], "D")
    async with host.living(books):
        await trio.sleep(100)

    assert host.sent == ["number 1"]


async def test_what_goes_on_needs_its_journal_no_more(autojump_clock: object) -> None:
    """A long one would stay in memory as long as the run."""
    host = Lives()
    host.data["key"] = 1

    async def counts(run: Run) -> None:
        while True:
            run.read("key")
            await run.wait()

    await host.live(counts, 1, 2, 3)
    async with host.living(counts) as run:
        assert (len(run.journal.turns), run.journal.stale) == (3, True)
        await host.give(4)
        journal = run.journal
        assert (len(journal.turns), journal.beside, journal.stale, journal.live) == (0, {}, False, True)
    assert host.tags == "NDNDNDND" + "N"
