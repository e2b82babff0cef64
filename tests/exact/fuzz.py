"""Random conversations and random edits: ``python -m tests.exact.fuzz [HOW MANY] [SEED]``.

Each operation has an identity that the alignment can't see. A deploy that is accepted must have given each
recorded value to the operation of the same identity, or to one that says the very same words.
"""

from __future__ import annotations

import random
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Final

import attrs

from tests.exact.small import Outcome, deploy, record
from triobot.exact.sources import Point

WORDS: Final = ("Name?", "City?", "When?", "Size?", "ok?", "Phone?", "Note?", "More?")
FRESH: Final = ("Your {}", "{} please", "And the {}", "Tell me: {}", "نام؟ {}")
NAMES: Final = ("name", "city", "answer", "answer", "x", "when")
STEPS: Final = ("price", "stock", "save", "look")
SAYING: Final = frozenset({"ask", "data", "choose", "send"})
HEAD: Final = (
    "".join(f"async def {fn}(what=''):\n    return {n}\n\n" for n, fn in enumerate(STEPS))
    + "def put(key, value):\n    pass\n\n"
)
NOBODY: Final = "a message or an answer that nobody reads was replaced"


@attrs.define
class Op:
    """An operation; `id` is what nobody sees, `use` says that something is done with the answer, and `usual`
    that an empty answer gets another value first.
    """

    id: int
    kind: str
    words: str = ""
    name: str = ""
    use: bool = False
    wrap: str = ""
    helper: bool = False
    parser: str = ""
    long: bool = False
    usual: bool = False

    @property
    def said(self) -> tuple[str, str]:
        return self.kind, self.words

    @property
    def shown(self) -> object:
        return self.said, self.name, self.use and self.id


class Program:
    """A conversation's code, which can be edited."""

    def __init__(self, rng: random.Random) -> None:
        self.rng, self.count, self.chat = rng, 0, "chat"
        self.ops = [self.fresh() for _ in range(rng.randint(2, 7))]

    def fresh(self) -> Op:
        rng = self.rng
        self.count += 1
        kind = rng.choice(("ask", "ask", "ask", "ask", "data", "choose", "step", "send", "receive", "draw"))
        op = Op(self.count, kind, rng.choice(WORDS), rng.choice(NAMES), rng.random() < 0.6)
        if kind == "step":
            op.words = rng.choice(STEPS) + rng.choice(("", ", 'a'", ", 'b'"))
        if kind in ("receive", "draw"):
            op.words, op.use = "", True
        if kind == "send" or (kind == "ask" and rng.random() < 0.2):
            op.name, op.use = "", False
        if rng.random() < 0.15:
            op.wrap = rng.choice(("if True", "for _ in range(2)", "with"))
        op.helper = kind == "ask" and rng.random() < 0.1
        op.usual = kind in ("ask", "data", "choose") and rng.random() < 0.3
        return op

    def edit(self) -> str:
        """Change something, and return what it was."""
        edits: dict[str, Callable[[Op], None]] = {
            "insert": lambda op: self.ops.insert(self.ops.index(op), self.fresh()),
            "copy": self._copy,
            "delete": lambda op: self.ops.remove(op) if len(self.ops) > 1 else None,
            "swap": self._swap,
            "reword": lambda op: self._say(op, self.rng.choice(FRESH).format(op.words)),
            "collide": lambda op: self._say(op, self.rng.choice(WORDS)),
            "replace": self._replace,
            "rename": lambda op: setattr(op, "name", self.rng.choice(NAMES)) if op.name else None,
            "wrap": lambda op: setattr(op, "wrap", self.rng.choice(("", "if True", "for _ in range(2)"))),
            "format": lambda op: setattr(op, "long", not op.long),
            "parser": lambda op: setattr(op, "parser", ", str.strip") if op.kind == "ask" else None,
            "helper": lambda op: setattr(op, "helper", not op.helper) if op.kind == "ask" else None,
            "chat": lambda _: setattr(self, "chat", self.rng.choice(("chat", "c", "bot"))),
            "words": lambda _: [self._say(op, f"<{op.words}>") for op in self.ops] and None,
        }
        what = self.rng.choice(tuple(edits))
        edits[what](self.rng.choice(self.ops))
        return what

    def _say(self, op: Op, words: str) -> None:
        if op.kind in SAYING:
            op.words = words

    def _copy(self, op: Op) -> None:
        self.count += 1
        self.ops.insert(self.rng.randrange(len(self.ops) + 1), attrs.evolve(op, id=self.count))

    def _swap(self, op: Op) -> None:
        at, other = self.ops.index(op), self.rng.randrange(len(self.ops))
        self.ops[at], self.ops[other] = self.ops[other], self.ops[at]

    def _replace(self, op: Op) -> None:
        new = self.fresh()
        if op.name and op.use and self.rng.random() < 0.5:
            new.name, new.use = op.name, True
        elif op.name:
            new.name = self.rng.choice([name for name in NAMES if name != op.name])
        self.ops[self.ops.index(op)] = new

    def text(self) -> tuple[str, dict[int, Op]]:
        """Return the source, and the operation of each line."""
        lines, where, chat = HEAD.splitlines(), dict[int, Op](), self.chat
        data = [op for op in self.ops if op.kind == "data"]

        def put(line: str, op: Op) -> None:
            lines.append(line)
            where[len(lines)] = attrs.evolve(op)

        for op in self.ops:
            if op.helper:
                lines.append(f"async def help{op.id}({chat}):")
                put(f"    return await {chat}.ask({op.words!r}{op.parser})", op)
                lines.append("")
        lines += [f"QS = {[op.words for op in data]!r}", f"async def order({chat}):"]
        for op in self.ops:
            if op.wrap:
                put(f"    {op.wrap.replace('with', f'with {chat}.move_on_after(9)')}:", op)
            pad = "        " if op.wrap else "    "
            call = self._call(op, data, pad)
            for line in f"{pad}{f'{op.name} = ' if op.name else ''}{call}".split("\n"):
                put(line, op)
            if op.usual and op.name:
                lines += [f"{pad}if not {op.name}:", f"{pad}    {op.name} = 'usual'"]
            if op.use and op.name:
                lines.append(f"{pad}put('k{op.id}', {op.name})")
        lines.append(f"    await {chat}.ask('The end?')")
        where[len(lines)] = Op(0, "ask", "The end?")
        return "\n".join(lines) + "\n", where

    def _call(self, op: Op, data: Sequence[Op], pad: str) -> str:
        chat = self.chat
        if op.helper:
            return f"await help{op.id}({chat})"
        call = {
            "ask": f"await {chat}.ask({op.words!r}{op.parser})",
            "data": f"await {chat}.ask(QS[{data.index(op) if op in data else 0}])",
            "choose": f"await {chat}.choose({op.words!r}, {{'k': 'Key'}})",
            "step": f"await {chat}.step({op.words})",
            "send": f"await {chat}.send({op.words!r})",
            "receive": f"await {chat}.receive()",
            "draw": f"{chat}.random().random()",
        }[op.kind]
        return call.replace("(", f"(\n{pad}    ", 1) if op.long and op.kind != "draw" else call


def wrong_in(
    outcome: Outcome, olds: dict[int, Op], news: dict[int, Op], before: dict[int, Op], count: Counter[str]
) -> object:
    """Return a value that went to another operation; None if none did."""
    found: object = None
    for one, other in outcome.pairs:
        p, q = outcome.parts(one)[-1], outcome.parts(other)[-1]
        assert isinstance(p, Point)
        assert isinstance(q, Point)
        was, now = olds[p.line], news[q.line]
        if now.id in before and was.shown == before[now.id].shown:
            continue  # of two equal lines nobody can tell which is which
        if was.id != now.id and not (was.said == now.said and (was.words or was.name == now.name)):
            if was.use or now.use:
                found = p.text, q.text
            else:
                count[NOBODY] += outcome.verdict != "parked"
    return found


def run(seeds: Sequence[int]) -> Counter[str]:
    """Deploy the changes of these seeds; count what became of people, and print what went wrong."""
    count: Counter[str] = Counter()
    for seed in seeds:
        rng = random.Random(seed)
        program = Program(rng)
        old, olds = program.text()
        before = {op.id: op for op in olds.values()}
        edits = [program.edit() for _ in range(rng.choice((1, 1, 2, 3)))]
        new, news = program.text()
        for stand in range(rng.choice((1, 3, 5))):
            world, journal = record({"shop": old}, "shop.order", ["k"] * stand)
            outcome = deploy(world, {"shop": new}, journal)
            count[outcome.verdict] += 1
            wrong = wrong_in(outcome, olds, news, before, count)
            if wrong and outcome.verdict != "parked":
                count["WRONGLY ACCEPTED"] += 1
                print(f"seed {seed}, {stand} answers, {edits}: {wrong}")
                print(f"--- old\n{old[len(HEAD) :]}--- new\n{new[len(HEAD) :]}")
            if outcome.verdict == "parked" and len(edits) == 1 and not wrong:
                count[f"parked by one {edits[0]}"] += 1
    return count


if __name__ == "__main__":
    many, first = (int(one) for one in [*sys.argv[1:3], *("2000", "0")[len(sys.argv) - 1 :]])
    counted = run(range(first, first + many))
    for name, n in sorted(counted.items()):
        print(f"{n:6} {name}")
    sys.exit(1 if counted["WRONGLY ACCEPTED"] else 0)
