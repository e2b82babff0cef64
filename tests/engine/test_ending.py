"""Interrupts, evictions, and code that doesn't let go."""

from __future__ import annotations

import signal
from contextlib import suppress

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from triobot.base.authors import leaves
from triobot.engine import Crashed, Evicted, Returned, Run, WasInterrupted
from triobot.errors import ExitError

from .lives import EPOCH, Lives
from .plain import JSON


async def test_an_interrupt_lets_it_say_goodbye_under_a_shield_only(autojump_clock: object) -> None:
    host = Lives()

    async def talks(run: Run) -> None:
        try:
            await run.wait()
        finally:
            with run.scope(9, shield=True):
                await host.say(run, "bye")
            await host.say(run, "never")

    async with host.living(talks) as run:
        run.interrupt(host.now(), 7, "stopped")
        await wait_all_tasks_blocked()
        assert run.felt

    assert host.end == WasInterrupted("stopped")
    assert host.sent == ["bye"]
    assert host.rows == [7]
    assert host.tags == "IDZ"
    assert await host.live(talks) == WasInterrupted("stopped")


async def test_an_interrupt_before_the_first_line_is_felt_at_the_first_rest(autojump_clock: object) -> None:
    host, log = Lives(), list[str]()

    async def talks(run: Run) -> None:
        log.append("begins")
        await run.wait()

    async with trio.open_nursery():
        run = host.run = Run(host, host.records, JSON, host, fresh=True)
        run.interrupt(EPOCH)
        end = await run.run(talks)

    assert end == WasInterrupted("interrupted")
    assert log == ["begins"]


async def test_an_interrupt_cuts_an_await_of_something_else(autojump_clock: object) -> None:
    """The record says whose turn it was: so the first such await of that turn is cut on replay, too."""
    host, log = Lives(), list[str]()

    async def dozes(run: Run) -> None:
        await run.wait()
        try:
            await trio.sleep(1000)
        finally:
            log.append(f"woken at {trio.current_time():.0f}")
            with run.scope(5, shield=True):
                await run.wait()

    async with host.living(dozes) as run:
        await host.give("go")
        await trio.sleep(10)
        run.interrupt(host.now())
        await wait_all_tasks_blocked()
    assert await host.live(dozes, "bye") == WasInterrupted("interrupted")

    assert log == ["woken at 10", "woken at 10"]


async def test_one_that_comes_to_its_end_all_the_same_has_not_felt_it(autojump_clock: object) -> None:
    host = Lives()

    async def shields(run: Run) -> str:
        with run.scope(10, shield=True):
            await run.wait()
        return "done"

    async with host.living(shields) as run:
        run.interrupt(host.now())
        await host.give("go")

    assert host.end == WasInterrupted("interrupted")
    assert not run.felt


@pytest.mark.parametrize("shield", ["ours", "plain", "none"])
async def test_an_eviction_does_and_records_nothing(autojump_clock: object, shield: str) -> None:
    """Whatever stands in a `finally`: the run isn't over."""
    host = Lives()

    async def talks(run: Run) -> None:
        try:
            await run.wait()
        finally:
            run.write("key", "never")
            if shield == "ours":
                with run.scope(shield=True):
                    await host.say(run, "never")
            with trio.CancelScope(shield=shield == "plain"):
                await host.say(run, "never")

    assert await host.live(talks) == Evicted()
    assert host.sent == []
    assert host.tags == ""
    assert host.data == {}


async def test_an_eviction_reaches_what_rests_under_a_shield(autojump_clock: object) -> None:
    host = Lives()

    async def rests(run: Run) -> None:
        with trio.CancelScope(shield=True), run.scope(shield=True):
            async with run.open_nursery() as nursery:
                nursery.start_soon(run.wait)
                await run.sleep(1000)

    assert await host.live(rests) == Evicted()


async def test_an_interrupt_takes_no_other_event_from_the_mailbox(autojump_clock: object) -> None:
    """What came before it is for others, or for what the code says at its end."""
    host, withdrawn = Lives(), list[bool]()

    async def slow() -> None:
        await trio.sleep(5)

    async def works(run: Run) -> None:
        try:
            await run.step(slow)
        finally:
            withdrawn.append(run.withdraw(1))
            with run.scope(shield=True):
                withdrawn.append(await run.wait() == "two")

    async with host.living(works) as run:
        await host.give("one", "two")
        run.interrupt(host.now(), 9)
        await wait_all_tasks_blocked()

    assert withdrawn == [True, True]
    assert host.rows == [9, 2]


async def test_an_eviction_reaches_an_effect_under_a_shield_around_it(
    autojump_clock: object,
) -> None:
    """What the body shields by itself is the body's own: a write to a disk comes to its end."""
    host, log = Lives(), list[str]()

    async def writes() -> None:
        with trio.CancelScope(shield=True):
            await trio.sleep(5)
            log.append("written")
        await trio.sleep(1000)
        log.append("never")

    async def shields(run: Run) -> None:
        with trio.CancelScope(shield=True):
            await run.step(writes)

    async with trio.open_nursery() as nursery:
        run = host.run = Run(host, host.records, JSON, host)
        nursery.start_soon(run.run, shields)
        await wait_all_tasks_blocked()
        assert run.effects == ["step"]
        run.evict()
    host.flush()

    assert log == ["written"]
    assert trio.current_time() == 5
    assert host.tags == ""


async def test_a_commit_that_fails_evicts_it(autojump_clock: object) -> None:
    """Memory is ahead of the disk: nothing of that leaves, and what comes is revived from the disk."""
    host = Lives()

    async def talks(run: Run) -> object:
        text = await run.wait()
        await host.say(run, text)
        return text

    async with host.living(talks, killed=True) as run:
        host.commits = False
        await host.give("lost")
        assert run.dying
    assert host.end == Evicted()
    assert host.sent == []
    assert host.tags == ""

    host.commits = True
    assert await host.live(talks, "again") == Returned("again")


async def test_a_run_is_evicted_between_a_delivery_and_its_commit(autojump_clock: object) -> None:
    """As every run is that had something in a transaction that failed."""
    host = Lives()

    async def talks(run: Run) -> object:
        return [await run.wait(), await run.wait()]

    async with host.living(talks, killed=True) as run:
        run.deliver(1, host.now(), "lost")
        host.lose()
        run.evict()
        await wait_all_tasks_blocked()

    assert host.end == Evicted()
    assert await host.live(talks, "a", "b") == Returned(["a", "b"])


async def test_code_that_swallows_every_cancellation_is_left(autojump_clock: object) -> None:
    """It is told of, takes no processor, and the run can be revived beside it."""
    host = Lives()

    async def uncancellable(run: Run) -> None:
        while True:
            with suppress(BaseException):
                await run.wait()

    async with trio.open_nursery() as nursery:
        run = host.run = Run(host, host.records, JSON, host)
        nursery.start_soon(run.run, uncancellable)
        await wait_all_tasks_blocked()
        run.evict()

    assert host.told == ["swallowed at 0"]
    assert run.dying


async def test_a_child_that_swallows_every_cancellation_is_left(autojump_clock: object) -> None:
    host = Lives()

    async def uncancellable(run: Run) -> None:
        async def child() -> None:
            while True:
                with suppress(BaseException):
                    await run.wait()

        async with run.open_nursery() as nursery:
            nursery.start_soon(child)

    assert await host.live(uncancellable) == Evicted()
    assert host.told == ["swallowed at 1/1.0"]


async def test_code_that_heeds_no_end_of_a_block_is_evicted(autojump_clock: object) -> None:
    host = Lives()

    async def uncancellable(run: Run) -> None:
        with run.scope(5):
            while True:
                with suppress(BaseException):
                    await run.wait()

    async with trio.open_nursery() as nursery:
        run = host.run = Run(host, host.records, JSON, host)
        host._nursery = nursery
        nursery.start_soon(run.run, uncancellable)
        await trio.sleep(6)
        assert run.dying

    assert host.told[0].startswith("swallowed")


async def test_cleanup_may_begin_many_operations(autojump_clock: object) -> None:
    host = Lives()

    async def tidies(run: Run) -> str:
        with run.scope(5):
            try:
                await run.wait()
            finally:
                for _ in range(300):
                    with suppress(trio.Cancelled):
                        await run.wait()
        return "done"

    async with host.living(tidies):
        await trio.sleep(6)

    assert host.end == Returned("done")


@pytest.mark.parametrize("inside", ["code", "effect", "child"])
async def test_what_a_signal_raises_is_no_end_of_the_run(inside: str, autojump_clock: object) -> None:
    """It passes through, and nothing is recorded."""
    host = Lives()

    async def interrupted() -> None:
        await trio.lowlevel.checkpoint()
        signal.raise_signal(signal.SIGINT)

    async def exits(run: Run) -> None:
        await run.wait()
        if inside == "effect":
            await run.effect("work", interrupted)
        elif inside == "child":
            async with run.open_nursery() as nursery:
                nursery.start_soon(interrupted)
        await interrupted()

    run = host.run = Run(host, host.records, JSON, host)
    run.deliver(1, EPOCH, "go")
    with pytest.raises(BaseException) as raised:
        await run.run(exits)
    host.flush()

    assert isinstance(next(leaves(raised.value)), KeyboardInterrupt)
    assert host.tags == "D"


async def test_what_is_no_exception_is_a_failure(autojump_clock: object) -> None:
    host = Lives()

    async def exits(run: Run) -> None:
        raise SystemExit(3)

    end = await host.live(exits)
    assert isinstance(end, Crashed)
    assert isinstance(end.error, ExitError)
    assert (end.error.kind, end.error.text) == ("SystemExit", "3")


async def test_a_cancellation_of_another_scope_is_a_failure(autojump_clock: object) -> None:
    host, carried = Lives(), list[BaseException]()

    async def carries(run: Run) -> None:
        with trio.CancelScope() as scope:
            scope.cancel()
            try:
                await trio.lowlevel.checkpoint()
            except trio.Cancelled as cancelled:
                carried.append(cancelled)
                raise
        raise carried.pop()

    end = await host.live(carries)
    assert isinstance(end, Crashed)
    assert isinstance(end.error, ExitError)


async def test_a_cancellation_from_outside_is_not_its_own(autojump_clock: object) -> None:
    """Its owner evicts it: a plain cancellation would look like one of the code's."""
    host = Lives()

    async def waits(run: Run) -> None:
        await run.wait()

    async with trio.open_nursery() as nursery:
        run = host.run = Run(host, host.records, JSON, host)
        nursery.start_soon(run.run, waits)
        await wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()
        with trio.CancelScope(shield=True):
            await wait_all_tasks_blocked()
        assert run.is_waiting
        run.evict()

    assert run.dying


async def test_what_its_cleanup_raises_is_told(autojump_clock: object) -> None:
    host = Lives()

    async def breaks(run: Run) -> None:
        try:
            await run.wait()
        finally:
            raise KeyError("x")

    end = await host.live(breaks)
    assert isinstance(end, Evicted)
    assert isinstance(end.error, KeyError)

    async with host.living(breaks) as run:
        run.interrupt(EPOCH)
        await wait_all_tasks_blocked()
    assert isinstance(host.end, WasInterrupted)
    assert isinstance(host.end.error, KeyError)
    assert not isinstance(host.end, Crashed)


async def test_an_eviction_finds_what_waits_for_children_that_have_ended(autojump_clock: object) -> None:
    """The last child is over, but another branch has the turn by now: the block's end is yet to be given."""
    host = Lives()

    async def has_the_turn() -> None:
        await trio.sleep(60)

    async def main(run: Run) -> None:
        async with run.open_nursery() as outer:

            async def ends() -> None:
                outer.start_soon(has_the_turn)

            async def inner() -> None:
                async with run.open_nursery() as nursery:
                    nursery.start_soon(ends)

            outer.start_soon(inner)

    with trio.fail_after(1000):
        async with host.living(main):
            await trio.sleep(10)
    assert host.end == Evicted()
