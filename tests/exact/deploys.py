"""Random edits are deployed in the runtime itself: ``python -m tests.exact.deploys [HOW MANY] [SEED]``.

Nothing of what compares the builds is asked. Which operation takes which answer follows from the program
itself; each program tells what its variables hold. So an answer that went astray is seen by what the new code
does with it. The process dies between answers at random, and two deploys may follow one another.
"""

from __future__ import annotations

import logging
import random
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

import attrs
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

sys.path.append(str(Path(__file__).parents[1] / "conversations"))

from deployed import router_of, verdict_of
from doubles import FakeOutbox, FakeStore
from town import Town, open_town

from tests.exact.changes import Change
from tests.exact.fuzz import HEAD, Op, Program
from tests.exact.small import Loaded
from triobot.conversations.revival import code as code_module
from triobot.conversations.routes.router import table_of

CHAT: Final = 10
TAKES: Final = frozenset({"ask", "data", "choose", "receive"})
START: Final = Change("fuzz", {}, {}, "", ())

Puts = list[tuple[str, object]]


@attrs.define
class Build:
    """A program as it is deployed.

    Attributes:
        ops: what runs, in its order; what a loop runs twice is there twice.
        puts: what the present run of it has told.
    """

    text: str
    ops: Sequence[Op]
    loaded: Loaded
    puts: Puts = attrs.field(factory=list)

    @property
    def takes(self) -> Sequence[Op]:
        """Return the operation of each answer."""
        return [op for op in self.ops if op.kind in TAKES]

    @property
    def ids(self) -> dict[int, Op]:
        return {op.id: op for op in self.ops}


def build_of(program: Program) -> Build:
    """Load what a program is now."""
    text, _ = program.text()
    source = re.sub(r"\.receive\(\s*\)", ".receive(text())", f"from triobot.filters import text\n{text}")
    ops = [attrs.evolve(op) for op in program.ops for _ in range(2 if "range" in op.wrap else 1)]
    build = Build(text, [*ops, Op(0, "ask", "The end?")], Loaded({"shop": source}))

    def put(key: str, value: object) -> None:
        build.puts.append((key, getattr(value, "content", value)))

    build.loaded.modules["shop"].put = put  # type: ignore[attr-defined]
    return build


def expected(build: Build, answers: Sequence[str]) -> Iterator[tuple[str, object]]:
    """What a program tells of so many answers; None for what is drawn."""
    left = list(answers)
    for op in build.ops:
        if op.kind in TAKES:
            if not left:
                return
            value: object = left.pop(0)
        elif op.kind == "step":
            value = int(("price", "stock", "save", "look").index(op.words.partition(",")[0]))
        else:
            value = None
        if op.use and op.name:
            yield f"k{op.id}", value


def differs(build: Build, answers: Sequence[str]) -> object:
    """Return what a program told that it should not have; None if all is as its text says."""
    told = [(key, value if isinstance(value, str | int) else None) for key, value in build.puts]
    wanted = list(expected(build, answers))
    return None if told == wanted else (told, wanted)


def astray(asked: Sequence[tuple[Op, Build]], new: Build, drawn: Puts) -> object:
    """Return an operation whose answer another one has now; None if there is none.

    Args:
        asked: what each answer was given to, and under which build: that is what the person has read.
        drawn: what the old build told.
    """
    now = new.ids
    for (was, old), is_now in zip(asked, new.takes, strict=False):
        before = old.ids
        if was.id == is_now.id or (is_now.id in before and was.shown == before[is_now.id].shown):
            continue  # of two equal lines nobody can tell which is which
        if was.said == is_now.said and (was.words or was.name == is_now.name):
            continue
        if was.use or is_now.use:
            return was, is_now
    draws = {(key, value) for key, value in drawn if isinstance(value, float)}
    keys = {key for key, _ in draws}
    for key, value in new.puts:
        if isinstance(value, float) and key in keys and (key, value) not in draws:
            same = [op for op in now.values() if op.kind == "draw" and op.name == now[int(key[1:])].name]
            if len(same) == 1:
                return key, value, draws
    return None


async def live(rng: random.Random, build: Build, store: FakeStore, outbox: FakeOutbox, said: Said) -> None:
    """Let one person answer, and the process die in between."""
    while said.left:
        build.puts.clear()
        many = rng.randint(1, len(said.left))
        async with _town(build, store, outbox) as town:
            for _ in range(many):
                await said.next(town, build)
            await trio.sleep(1)


@attrs.define
class Said:
    """What a person says.

    Attributes:
        given: to the present build, as its operations take it; `asked` by what, and under which build.
    """

    left: list[str] = attrs.field(factory=list)
    given: list[str] = attrs.field(factory=list)
    asked: list[tuple[Op, Build]] = attrs.field(factory=list)

    async def next(self, town: Town, build: Build, op: Op | None = None) -> None:
        """Answer what the build asks."""
        word = self.left.pop(0)
        if word == "hi":
            await town.says(word, CHAT)
            return
        op = op or build.takes[len(self.given)]
        if op.kind == "choose":
            word = "k"
            await town.presses("Key", CHAT)
        else:
            await town.says(word, CHAT)
        self.given.append(word)
        self.asked.append((op, build))


def _town(build: Build, store: FakeStore, outbox: FakeOutbox) -> Any:
    route = attrs.evolve(START, old={}, new={})
    return open_town(router_of(build.loaded, route), store=store, outbox=outbox, code=True)


@attrs.frozen
class Came:
    """What came of a deploy: "parked", "again", "reworded" or "same", and what went wrong."""

    verdict: str
    wrong: object = None


async def deploy(
    rng: random.Random, old: Build, new: Build, store: FakeStore, outbox: FakeOutbox, said: Said
) -> Came:
    """Deploy under the person, who answers what is on the screen."""
    table = table_of(router_of(new.loaded, START))
    (row,) = store.journals.conversations(CHAT)
    stood, drawn = old.takes[len(said.given)], list(old.puts)
    letter, parting = await verdict_of(store, table, row)
    new.puts.clear()
    said.left.append(f"w{len(said.given)}")
    async with _town(new, store, outbox) as town:
        await said.next(town, old, stood)
        await trio.sleep(1)
        rows = store.journals.conversations(CHAT)
        parked = bool(rows and rows[0].parked_because)
        if not parked and letter == "A":
            new.puts.clear()
            return Came("again")  # nobody has answered yet: the question is on the screen once more
        if rng.random() < 0.5:
            await wait_all_tasks_blocked()
    if parked is not (letter == "P"):
        return Came("parked", ("the check said otherwise", letter, str(parting)))
    if parked:
        return Came("parked")
    wrong = astray(said.asked, new, drawn) or differs(new, said.given)
    return Came({"S": "same", "R": "reworded"}[letter], wrong)


async def one(seed: int, count: Counter[str], tell: Callable[[str], None]) -> None:
    """Deploy the changes of a seed."""
    rng = random.Random(seed)
    program, said, store, outbox = Program(rng), Said(), FakeStore(), FakeOutbox()
    old = build_of(program)
    stand = rng.randrange(len(old.takes))
    said.left = ["hi", *(f"v{n}" for n in range(stand))]
    await live(rng, old, store, outbox, said)
    for _ in range(rng.choice((1, 1, 2))):
        edits = [program.edit() for _ in range(rng.choice((1, 1, 2, 3)))]
        new = build_of(program)
        came = await deploy(rng, old, new, store, outbox, said)
        count[came.verdict] += 1
        if came.wrong:
            count["WRONG"] += 1
            tell(f"seed {seed}, {stand} answers, {edits}: {came.wrong}")
            tell(f"--- old\n{old.text[len(HEAD) :]}--- new\n{new.text[len(HEAD) :]}")
        if came.verdict not in ("same", "reworded") or len(said.given) >= len(new.takes):
            return
        old = new


def run(seeds: Sequence[int], tell: Callable[[str], None] = print) -> Counter[str]:
    """Deploy the changes of these seeds; count what became of people, and tell what went wrong."""
    count: Counter[str] = Counter()
    before, code_module.loaded_modules = code_module.loaded_modules, lambda: iter(Loaded.newest)
    try:
        for seed in seeds:
            trio.run(partial(one, seed, count, tell), clock=MockClock(autojump_threshold=0))
    finally:
        code_module.loaded_modules = before
    return count


if __name__ == "__main__":
    logging.disable(logging.CRITICAL)
    many, first = (int(one) for one in [*sys.argv[1:3], *("2000", "0")[len(sys.argv) - 1 :]])
    counted = run(range(first, first + many))
    for name, n in sorted(counted.items()):
        print(f"{n:6} {name}")
    sys.exit(1 if counted["WRONG"] else 0)
