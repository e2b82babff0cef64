"""Children, and what they say to one another."""

from __future__ import annotations

import pytest
import trio

from triobot.engine import Channel, Event, Returned, Run, Scope
from triobot.errors import ForeignTaskError

from .lives import Lives


async def test_children_share_variables_and_end_with_their_block(autojump_clock: object) -> None:
    """Whose turn it was is the journal's order: so what they share is the same on replay."""
    host = Lives()

    async def talks(run: Run) -> object:
        log: list[object] = []

        async def child(name: str) -> None:
            for _ in range(2):
                log.append([name, await run.wait()])
                await host.say(run, f"{name} {log[-1]}")

        async with run.open_nursery() as nursery:
            nursery.start_soon(child, "a")
            nursery.start_soon(child, "b")
        return log

    await host.live(talks, 1, 2, 3)
    end = await host.live(talks, 4)

    # The newest wait takes an event.
    assert end == Returned([["b", 1], ["b", 2], ["a", 3], ["a", 4]])
    assert host.records[1][2] == "1/2.1"
    assert await host.live(talks) == end


async def test_a_childs_error_ends_its_siblings(autojump_clock: object) -> None:
    host = Lives()

    async def talks(run: Run) -> object:
        async def breaks() -> None:
            await run.wait()
            raise KeyError("x")

        async def waits() -> None:
            try:
                await run.sleep(1000)
            finally:
                with run.scope(9, shield=True):
                    await host.say(run, "bye")

        try:
            async with run.open_nursery() as nursery:
                nursery.start_soon(waits)
                nursery.start_soon(breaks)
        except ExceptionGroup as group:
            return repr(group.exceptions)
        return None

    end = await host.live(talks, "go")

    assert end == Returned("(KeyError('x'),)")
    assert host.sent == ["bye"]
    assert await host.live(talks) == end


async def test_an_event_tells_others_that_something_happened(autojump_clock: object) -> None:
    """They go on after the turn that says so, one by one."""
    host = Lives()

    async def talks(run: Run) -> object:
        ready, log = Event(run), list[str]()

        async def waits(name: str) -> None:
            await ready.wait()
            log.append(name)

        async with run.open_nursery() as nursery:
            nursery.start_soon(waits, "a")
            nursery.start_soon(waits, "b")
            await run.wait()
            ready.set()
            log.append("set")
        assert ready.is_set()
        await ready.wait()
        return log

    end = await host.live(talks, "go")

    assert end == Returned(["set", "a", "b"])
    assert host.tags == "DZ"
    assert await host.live(talks) == end


async def test_what_was_passed_stands_though_its_block_is_cut(autojump_clock: object) -> None:
    """In one turn: the cancellation is felt at the next operation, and the run goes on."""
    host = Lives()

    async def talks(run: Run) -> object:
        told, scopes, log = Event(run), list[Scope](), list[str]()

        async def waits() -> None:
            with run.scope() as scope:
                scopes.append(scope)
                await told.wait()
                log.append("told")
                await host.say(run, "never")
            log.append("left")

        async def ends() -> None:
            await run.wait()
            told.set()
            scopes[0].cancel()
            await host.say(run, "ended")

        async with run.open_nursery() as nursery:
            nursery.start_soon(waits)
            nursery.start_soon(ends)
        await host.say(run, "over")
        return log

    end = await host.live(talks, "go")

    assert end == Returned(["told", "left"])
    assert host.sent == ["ended", "over"]
    assert await host.live(talks) == end


async def test_a_channel_gives_values_in_order(autojump_clock: object) -> None:
    """A full one makes its senders wait; a closed one ends."""
    host = Lives()

    async def talks(run: Run) -> object:
        channel, log = Channel[object](run, 1), list[object]()

        async def sends() -> None:
            for number in range(3):
                await channel.send(number)
                log.append(f"sent {number}")
            channel.close()
            with pytest.raises(trio.ClosedResourceError):
                channel.send_nowait(9)

        async with run.open_nursery() as nursery:
            nursery.start_soon(sends)
            await run.wait()
            while True:
                try:
                    log.append(await channel.receive())
                except trio.EndOfChannel:
                    break
        return log

    end = await host.live(talks, "go")

    assert isinstance(end, Returned)
    assert [one for one in end.value if isinstance(one, int)] == [0, 1, 2]  # type: ignore[union-attr,attr-defined]
    assert await host.live(talks) == end


async def test_a_channel_without_room_hands_over(autojump_clock: object) -> None:
    host = Lives()

    async def talks(run: Run) -> object:
        channel, log = Channel[object](run), list[object]()

        async def receives() -> None:
            log.append(await channel.receive())

        async with run.open_nursery() as nursery:
            with pytest.raises(trio.WouldBlock):
                channel.send_nowait("too soon")
            nursery.start_soon(receives)
            await channel.send("a")
            log.append("sent")
        return log

    assert sorted((await host.live(talks)).value) == ["a", "sent"]  # type: ignore[union-attr]


async def test_it_goes_on_as_another_outside_of_its_nurseries_only(autojump_clock: object) -> None:
    host = Lives()

    async def mistaken(run: Run) -> None:
        async with run.open_nursery():
            with pytest.raises(ForeignTaskError):
                run.continue_as("another")

    assert await host.live(mistaken) == Returned(None)


async def test_an_outcome_is_kept_while_another_branch_has_the_turn(autojump_clock: object) -> None:
    """It stands beside the turns: after a kill it is not done again."""
    host = Lives()

    async def talks(run: Run) -> None:
        async def dozes() -> None:
            await run.wait()
            await trio.sleep(10)

        async with run.open_nursery() as nursery:
            nursery.start_soon(dozes)
            await run.step(slow)
            await run.wait()

    async def slow() -> None:
        await trio.sleep(5)
        host.sent.append("slow")

    async with host.living(talks, killed=True):
        await host.give("go")
        await trio.sleep(6)
        host.flush()
    assert host.tags == "DR"
    async with host.living(talks):
        await trio.sleep(20)

    assert host.sent == ["slow"]
    assert host.tags == "DRD"


async def test_effects_of_one_lane_begin_one_after_the_other(autojump_clock: object) -> None:
    host, log = Lives(), list[str]()

    async def slow(name: str) -> None:
        log.append(f"{name} begins")
        await trio.sleep(5)
        log.append(f"{name} ends")

    async def talks(run: Run) -> None:
        async def child(name: str, lane: str) -> None:
            await run.effect("slow", slow, name, lane=lane)

        async with run.open_nursery() as nursery:
            for name, lane in (("a", "one"), ("b", "one"), ("c", "other")):
                nursery.start_soon(child, name, lane)

    async with host.living(talks):
        await trio.sleep(20)

    assert log.index("c begins") < log.index("a ends") < log.index("b begins")
