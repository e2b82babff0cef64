"""Shared data and notes: what a turn does beside its operations."""

from __future__ import annotations

import trio

from triobot.engine import ABSENT, LEFT, Returned, Run

from .lives import Lives


async def test_a_read_is_recorded_once_a_turn_and_key(autojump_clock: object) -> None:
    """What others write meanwhile is seen by the next turn, and by no replay of this one."""
    host, seen = Lives(), list[object]()
    host.data["n"] = 1

    async def reads(run: Run) -> None:
        seen.append(run.read("n"))
        seen.append(run.read("n"))
        await run.wait()
        seen.append(run.read("n"))
        await run.wait()

    async with host.living(reads):
        host.data["n"] = 2
        await host.give("go")
    host.data["n"] = 3
    live, seen[:] = list(seen), []
    await host.live(reads)

    assert live == [1, 1, 2]
    assert seen == live
    assert host.tags == "NDN"


async def test_a_write_happens_once(autojump_clock: object) -> None:
    """With the record that says so; the turn sees it at once."""
    host = Lives()

    async def counts(run: Run) -> int:
        while True:
            run.write("n", run.read("n", 0) + 1)
            if await run.wait() == "end":
                return run.read("n")  # type: ignore[no-any-return]

    await host.live(counts, 1)
    assert host.data == {"n": 2}
    host.data["n"] = 10
    await host.live(counts, 2)
    assert host.data == {"n": 11}
    assert await host.live(counts, "end") == Returned(11)


async def test_a_torn_turn_does_what_is_left_of_it(autojump_clock: object) -> None:
    """Its first write was durable, its second one was not."""
    host = Lives()

    async def writes(run: Run) -> None:
        run.write("a", 1)
        run.write("b", run.read("a"))
        run.write("c", ABSENT)
        await run.wait()

    host.data["c"] = 3
    await host.live(writes)
    assert host.tags == "PPP"
    del host.lines[2:]
    host.data = {"a": 7, "c": 3}
    await host.live(writes)

    assert host.data == {"a": 7, "b": 1}


async def test_new_code_reads_in_an_old_part(autojump_clock: object) -> None:
    """It is answered with what is kept now, noted for good, and shifts no other operation."""
    host, seen = Lives(), list[object]()

    async def old(run: Run) -> None:
        run.write("n", 1)
        await run.wait()
        await host.say(run, f"{run.read('n')}")
        await run.wait()

    async def new(run: Run) -> None:
        seen.append(run.read("language"))
        run.write("n", 1)
        run.write("late", "never")
        await run.wait()
        seen.append(run.read("language"))
        await host.say(run, f"{run.read('n')}")
        await run.wait()
        seen.append(run.read("language"))

    await host.live(old, "a")
    host.data["language"] = "fa"
    await host.live(new)
    host.data["language"] = "en"
    assert await host.live(new, "b") == Returned(None)

    assert seen == ["fa", "fa", "fa", "fa", "en"]
    assert host.data == {"n": 1, "language": "en"}
    assert host.told == []


async def test_a_note_asks_the_world_once_a_turn(autojump_clock: object) -> None:
    host, asked = Lives(), list[int]()

    def ask() -> int:
        asked.append(len(asked))
        return len(asked)

    async def notes(run: Run) -> object:
        found = [run.note("n", ask), run.note("n", ask)]
        await run.wait()
        return [*found, run.note("n", ask)]

    await host.live(notes)

    assert await host.live(notes, "go") == Returned([1, 1, 2])
    assert asked == [0, 1]


async def test_what_the_host_is_to_write_is_written_once(autojump_clock: object) -> None:
    host, written = Lives(), list[object]()

    class Ledger(Lives):
        def append(self, record: object, rows: object = (), write: object = None) -> None:
            written.extend([] if write is None else [write])
            super().append(record, rows, write)  # type: ignore[arg-type]

    async def owes(run: Run) -> None:
        run.also("debt", {"owed": 5})
        run.also("debt", {"owed": 6})
        await run.wait()

    host = Ledger()
    await host.live(owes)
    await host.live(owes)

    assert written == [{"owed": 5}, {"owed": 6}]


async def test_draining_takes_what_is_queued(autojump_clock: object) -> None:
    host = Lives()

    async def drains(run: Run) -> object:
        await run.sleep(10)
        found = run.drain(lambda text: text.upper() if text != "b" else LEFT)
        await run.wait()
        return [*found, *run.drain()]

    async with host.living(drains):
        await host.give("a", "b", "c")
        await trio.sleep(11)

    assert host.end == Returned(["A", "C"])
    assert host.rows == [1, 3, 2]
    assert await host.live(drains) == Returned(["A", "C"])
