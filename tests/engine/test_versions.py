"""Code that has changed since its journal was written."""

from __future__ import annotations

from typing import Any

import pytest
import trio

from triobot.engine import Diverged, Returned, Run, decode_record
from triobot.errors import UnreadableRecordError

from .lives import Lives
from .plain import JSON, PlainCodec
from .replaying import describe, difference, replay


async def test_a_patch_keeps_the_old_way_for_the_old(autojump_clock: object) -> None:
    """A run that came by here without it goes on as it began; a new one goes the new way, for good."""

    async def old(run: Run) -> None:
        for _ in range(2):
            await run.wait()

    async def new(run: Run) -> object:
        went: list[str] = []
        for _ in range(2):
            if run.patched("greet"):
                await host.say(run, "hello")
                went.append("new")
            else:
                went.append("old")
            await run.wait()
        return went

    host = Lives()
    await host.live(old, 1)
    assert await host.live(new) is not None
    assert await host.live(new, 2) == Returned(["old", "old"])

    host = Lives()
    await host.live(new, 1)
    assert await host.live(new, 2) == Returned(["new", "new"])
    assert host.tags == "VDDDDZ"


async def test_other_code_is_found_out_before_it_does_anything(
    autojump_clock: object,
) -> None:
    """The error says what was recorded, what the code does now, and what to do."""

    async def old(run: Run) -> None:
        await host.say(run, "hello")
        await run.wait()
        await run.wait()

    async def shorter(run: Run) -> None:
        await host.say(run, "hello")

    async def other_kind(run: Run) -> None:
        await run.step(host.send, "hello")

    async def other_order(run: Run) -> None:
        await run.wait()
        await host.say(run, "other")

    async def in_a_block(run: Run) -> None:
        with run.scope(5):
            await host.say(run, "other")

    what = []
    for code in (shorter, other_kind, other_order, in_a_block):
        host = Lives()
        await host.live(old, 1)
        lines = list(host.lines)

        async def new(run: Run, code: Any = code) -> None:
            await code(run)

        end = await host.live(new)
        assert isinstance(end, Diverged)
        assert host.lines == lines
        assert host.sent == ["hello"]
        what.append(str(end.error))
        assert "patched()" in what[-1]

    assert what[0].startswith("operation 0: the code ended here, and went on to 2 when it was recorded")
    assert what[1].startswith("operation 1: a send ended here; now it is a step")
    assert what[2].startswith("operation 1: a send ended here; now it is a wait")
    assert what[3].startswith("operation 1: a send ended here; now the code rests in send 2")


async def test_an_effect_that_began_is_missed(autojump_clock: object) -> None:
    """It may have happened: code that would not do it goes no further."""
    host = Lives()

    async def old(run: Run) -> None:
        await host.say(run, "pay", in_doubt=TimeoutError())

    async def new(run: Run) -> None:
        await run.wait()

    async with host.living(old, killed=True, fresh=True):
        pass
    assert host.tags == "Q"

    end = await host.live(new)
    assert isinstance(end, Diverged)
    assert "send" in str(end.error)


async def test_of_other_arguments_the_record_counts(autojump_clock: object) -> None:
    host = Lives()

    async def old(run: Run) -> int:
        n = await host.say(run, "hello")
        await run.wait()
        return n

    async def new(run: Run) -> int:
        n = await host.say(run, "good day")
        await run.wait()
        return n

    await host.live(old, fresh=True)
    assert await host.live(new, "go") == Returned(1)
    assert host.told == []


async def test_a_host_that_compares_has_a_run_that_parts_stuck(autojump_clock: object) -> None:
    """Of the operation that takes the record, or of what its branch rests in; and where the journal ends."""

    class Comparing(Lives):
        parts_at = ""

        def parting(self, record: Any, op: Any) -> str | None:
            self.told.append(f"{record[2]} {op.id}")
            return "it parts" if self.parts_at == record[3] else None

        def reached(self, operations: Any) -> str | None:
            self.told.append(f"reached {[op.kind for op in operations]}")
            return "it rests elsewhere" if self.parts_at == "reached" else None

    async def work(run: Run) -> None:
        await host.say(run, "hello")
        await run.wait()

    for parts_at in ("send", "reached", ""):
        host = Comparing()
        await host.live(work, fresh=True)
        host.told.clear()
        host.parts_at = parts_at
        end = await host.live(work)
        assert isinstance(end, Diverged) is bool(parts_at)
        assert host.told[0] == "1 1"
        assert ("reached ['wait']" in host.told) is (parts_at != "send")


async def test_what_is_known_of_an_effect_goes_to_no_other_line(autojump_clock: object) -> None:
    """It stands beside the journal until its turn comes, with the site of what began it."""

    class Comparing(Lives):
        def parting(self, record: Any, op: Any) -> str | None:
            self.told.append(f"{record[0]} {record[7]} {op.sites}")
            return None if record[7] == op.sites else "it is another line's"

    async def work(run: Run) -> None:
        await host.say(run, "pay", in_doubt=TimeoutError("it may be paid"))

    for now in (17, 18):
        host = Comparing()
        host.here = lambda *_: 17
        async with host.living(work, killed=True, fresh=True):
            pass
        assert host.lines[1].endswith(',"pay",null,0,17]')
        host.here = lambda *_, now=now: now
        end = await host.live(work)
        assert host.told[0] == f"Q 17 {now}"
        assert isinstance(end, Diverged) is (now == 18)


class Money:
    def __init__(self, cents: int) -> None:
        self.cents = cents


class MoneyCodec(PlainCodec):
    """Knows one more type."""

    def dump(self, value: object) -> Any:
        return {"cents": value.cents} if isinstance(value, Money) else super().dump(value)

    def load(self, node: Any) -> object:
        if isinstance(node, dict) and set(node) == {"cents"}:
            return Money(node["cents"])
        if isinstance(node, dict):
            raise UnreadableRecordError("this program knows no such value")
        return super().load(node)


async def test_what_this_program_cannot_read_stops_it(autojump_clock: object) -> None:
    host = Lives(codec=MoneyCodec())

    async def pays(run: Run) -> object:
        return (await run.step(price)).cents

    async def price() -> Money:
        return Money(5)

    assert await host.live(pays) == Returned(5)
    assert await host.live(pays) == Returned(5)
    host.lines = [line.replace("cents", "euros") for line in host.lines]
    assert isinstance(await host.live(pays), Diverged)


async def test_another_format_is_refused(autojump_clock: object) -> None:
    for line in ('["S",1,"main",[],"seed",2]', '["D",1,1,"send","",null]', "[]", "{}", "no"):
        with pytest.raises(UnreadableRecordError):
            Run(Lives(), [decode_record(line)], JSON, Lives())


async def test_a_dry_run_stands_where_the_journal_ends(autojump_clock: object) -> None:
    """Nothing is done, recorded or taken; what the code would record there is told."""
    host = Lives()

    async def talks(run: Run) -> None:
        await host.say(run, "hello")
        with run.scope(60):
            await run.wait("answer")
        run.write("n", 1)
        await host.say(run, "bye", in_doubt=TimeoutError())

    async with host.living(talks) as run:
        stands = describe(run)
        host.flush()
        seen = await replay(host.records, talks)
        assert difference(stands, seen.snapshot) is None
    assert seen.diverged is None
    assert [branch.operation.kind for branch in seen.snapshot.branches if branch.operation] == ["answer"]

    lines = list(host.lines)
    lines.append('["D",1000100,3,"answer","","yes",1]')
    seen = await replay([decode_record(line) for line in lines], talks)
    assert [record[0] for record in seen.beyond] == ["P"]
    assert [branch.operation.kind for branch in seen.snapshot.branches if branch.operation] == ["send"]
    assert host.sent == ["hello"]


async def test_a_dry_run_tells_how_code_and_journal_part(autojump_clock: object) -> None:
    host = Lives()

    async def talks(run: Run) -> None:
        await host.say(run, "hello")
        await run.wait()

    async def other(run: Run) -> None:
        await host.say(run, "good day")
        await run.sleep(5)

    await host.live(talks, "go")
    seen = await replay(host.records, other)
    assert seen.diverged is not None
    assert seen.reworded == (1,)
    assert seen.end is not None

    whole = await replay(host.records, talks)
    assert whole.end == Returned(None)


async def test_a_dry_run_that_never_rests_is_left(autojump_clock: object) -> None:
    host = Lives()

    async def dawdles(run: Run) -> None:
        await trio.sleep(1000)

    seen = await replay(host.records, dawdles, seconds=5)
    assert not seen.rested
    assert seen.snapshot.live


async def test_two_runs_that_stand_apart_are_told_apart(autojump_clock: object) -> None:
    """As code does that asks a clock of its own."""
    host, odd = Lives(), [True, False]

    async def talks(run: Run) -> None:
        if odd.pop():
            await run.sleep(5)
        await run.wait()

    async with host.living(talks) as run:
        seen = await replay(host.records, talks)
        assert difference(describe(run), seen.snapshot) == "branch '' is in wait 1 and in sleep 1"
    assert JSON.node_of("x") == "x"
