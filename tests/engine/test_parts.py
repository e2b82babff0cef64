"""Parts: code around other code has ids of its own, and shifts none."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest
import trio

from triobot.engine import Diverged, Returned, Run

from .lives import Lives


def around(inner: Callable[[Run], Awaitable[object]], *names: str) -> Callable[[Run], Awaitable[object]]:
    """Put parts around a program, the first name outermost; a name in capitals waits before and behind."""

    async def outer(run: Run) -> object:
        if not names:
            with run.part(""):
                return await inner(run)
        with run.part(names[0]):
            if names[0].isupper():
                await run.wait("before")
            value = await around(inner, *names[1:])(run)
            if names[0].isupper():
                await run.wait("behind")
        return value

    return outer


async def talks(run: Run) -> object:
    said = [await run.wait()]
    with run.scope(3600):
        said.append(await run.wait())
    async with run.open_nursery() as nursery:

        async def child() -> None:
            said.append(await run.wait())

        nursery.start_soon(child)
        said.append(run.random().random() < 1)
        said.append(await run.wait())
    return said


async def test_operations_have_the_ids_of_their_parts(autojump_clock: object) -> None:
    host = Lives()
    end = await host.live(around(talks, "A", "b", "C"), *range(1, 9))

    assert end == Returned([3, 4, True, 5, 6])
    ids = [record[2] for record in host.records if record[0] == "D"]
    assert ids == ["A.1", "C.1", 1, 3, "4/1.1", 6, "C.2", "A.2"]
    assert await host.live(around(talks, "A", "b", "C")) == end


@pytest.mark.parametrize("first", range(5))
async def test_parts_without_operations_come_go_and_move(autojump_clock: object, first: int) -> None:
    """Under a run that rests at each place of the code."""
    host, plain = Lives(), Lives()
    await host.live(talks, *range(1, first + 1))
    for event, names in enumerate((("x",), (), ("x", "y"), ("y", "x"), ("z", "x", "y")), first + 1):
        end = await host.live(around(talks, *names), event)
    assert end == await plain.live(talks, *range(1, first + 6))
    assert [line.split(",")[2:] for line in host.lines] == [line.split(",")[2:] for line in plain.lines]


async def test_a_part_with_operations_is_code_like_any_other(autojump_clock: object) -> None:
    host = Lives()
    await host.live(around(talks, "A"), 1, 2)

    assert isinstance(await host.live(around(talks, "x")), Diverged)


async def test_what_is_cancelled_together_feels_it_in_one_order(autojump_clock: object) -> None:
    """That of the ids: parts before what they contain, the inner before the outer, whatever lies between."""

    def program(felt: list[str], *more: str) -> Callable[[Run], Awaitable[object]]:
        async def rests(run: Run, name: str) -> None:
            try:
                await run.sleep(1000)
            finally:
                felt.append(name)

        async def code(run: Run) -> object:
            async with run.open_nursery() as nursery:
                nursery.start_soon(rests, run, "child of the code")
                await rests(run, "code")
            return None

        async def inner(run: Run) -> object:
            with run.part("inner"):
                async with run.open_nursery() as nursery:
                    nursery.start_soon(rests, run, "child of the inner")
                    await around(code, *more)(run)
            return None

        async def outer(run: Run) -> object:
            with run.part("outer"), run.scope(5):
                async with run.open_nursery() as nursery:
                    nursery.start_soon(rests, run, "child of the outer")
                    await inner(run)
            return None

        return outer

    for more in ((), ("x", "y")):
        felt = list[str]()
        host = Lives()
        async with host.living(program(felt, *more)):
            await trio.sleep(10)
        assert felt == ["child of the inner", "child of the outer", "child of the code", "code"]
