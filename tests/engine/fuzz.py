"""Random programs, killed at their actions, their commits failed.

    python -m tests.engine.fuzz MODE --seeds N --first F

Modes:
    equal     effects are instant and a dead process is back at once: what people saw, how it ended, what is
              kept and the journal are those of the run that nothing disturbed
    race      random latencies, commits of 3 ms, downtimes, others that write the shared data: a replay stands
              where the dead process stood, nobody sees two texts for one operation, and nothing is repeated
              more often than it crashed
    directed  some programs in all their kills (the seeds don't matter)
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import traceback
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

from . import mutants

if __name__ == "__main__":
    mutants.plant_from(sys.argv)

from .programs import Runner, Statement, random_program
from .world import COVERED, EPOCH, Lived, Plan, go

MODES = ("equal", "race", "directed")


def lives(program: list[Statement], plan: Plan) -> Lived:
    return go(partial(Runner, program), plan)


def random_events(r: random.Random) -> list[tuple[int, str]]:
    at, events = 0, []
    for number in range(r.randint(0, 7)):
        at += r.choice([250, 1250, 2500])
        events.append((EPOCH + at + 1 + number, r.choice("ab") + str(number)))
    if r.random() < 0.35:
        events.append((EPOCH + at + 111, "!"))
    base = EPOCH + 900_001
    events.append((base, "!"))
    events += [(base + 7_250 * (k + 1) + k, "ab"[k % 2] + f"x{k}") for k in range(60)]
    return events


# --- comparing


def cut_ids(lived: Lived) -> set[tuple[int, Any]]:
    """Effects that were cut short: what they did outside is ambiguous."""
    return {
        (generation, record[2])
        for generation, lines in enumerate(lived.journals)
        for record in map(json.loads, lines)
        if record[0] == "C"
    }


def story(lived: Lived, cut: set[tuple[int, Any]]) -> tuple[Any, ...]:
    disk = lived.disk
    # What must not be sent twice may not be sent at all.
    seen = [one for one in disk.seen if not one[1].startswith("once") and one[0] not in cut]
    return seen, lived.last, disk.data, lived.log


def why_legal(calm: Lived, got: Lived) -> str | None:
    """Return why two runs may differ, judged by their first different turns; None if they may not."""
    mine, others = (
        [json.loads(line) for line in lived.lines if line[2] not in "NPQOV"] for lived in (calm, got)
    )
    for one, other in zip(mine, others, strict=False):
        if one[:3] == other[:3]:
            continue
        if one[0] in "DEC" and other[0] in "DEC" and one[2] == other[2] and "C" in one[0] + other[0]:
            # It ended in the instant in which its block was cut, and its outcome was lost with the process.
            return "cut or done"
        effect = any(record[0] in "DEC" and record[3] in ("send", "step") for record in (one, other))
        swapped = other[:3] in [record[:3] for record in mine] and one[:3] in [
            record[:3] for record in others
        ]
        # An effect took no time where nothing was killed: what is due in that millisecond may go first.
        return "order within one millisecond" if effect and one[1] == other[1] and swapped else None
    return None


def first_difference(one: Sequence[Any], other: Sequence[Any]) -> Any:
    different = [pair for pair in zip(one, other, strict=False) if pair[0] != pair[1]]
    return different[0] if different else (len(one), len(other))


# --- one seed


def check(
    seed: int, mode: str, *, kills: int = 12, straight: bool = False, behind: bool = False
) -> str | None:
    """Run one random program in all that is to happen to it; return what is wrong."""
    r = random.Random(seed)
    program = random_program(r, straight=straight or r.random() < 0.25)
    plan = partial(Plan, seed, random_events(r), race=mode == "race", instant=mode == "equal", behind=behind)
    calm = lives(program, plan())
    COVERED.update(programs=1, records=sum(map(len, calm.journals)))
    if (wrong := calm.problem()) is not None:
        return "undisturbed: " + wrong
    points = _some(r, calm.plan.actions, kills)
    for point in points:
        more = [point + r.randint(1, 12) * n for n in (1, 2)] if r.random() < 0.3 else []
        fails = [r.randint(1, 12)] if r.random() < 0.3 else []
        got = lives(program, plan(kills=[point, *more], fails=fails))
        COVERED.update(runs=1, crashes=got.disk.crashes, repeats=got.disk.repeats)
        wrong = got.problem()
        if wrong is None and got.disk.repeats > got.disk.crashes:
            wrong = f"{got.disk.repeats} REPEATS in {got.disk.crashes} crashes"
        if wrong is None and mode != "race":
            wrong = _compared(program, plan, calm, got)
        if wrong is not None:
            return f"killed at {sorted(got.plan.kills)}, commits {sorted(fails)} failed: {wrong}"
    return None


def _some(r: random.Random, many: int, most: int) -> list[int]:
    points = list(range(1, many + 1))
    return sorted(r.sample(points, most)) if most and many > most else points


def _compared(program: list[Statement], plan: partial[Plan], calm: Lived, got: Lived) -> str | None:
    cut = cut_ids(calm) | cut_ids(got)
    one, other = story(calm, cut), story(got, cut)
    if one == other:
        return None
    if (why := why_legal(calm, got)) is not None:
        COVERED[f"legal: {why}"] += 1
        return None
    # Is it the order in which Trio ran two tasks that were ready at once?
    again = [lives(program, plan()) for _ in range(30)]
    if other in [story(one, cut | cut_ids(one)) for one in again]:
        COVERED["legal: the scheduler's order"] += 1
        return None
    if len({str(story(one, cut)) for one in again}) > 1:
        COVERED["not comparable: undisturbed, it differs from itself"] += 1
        return None
    for name, mine, theirs in zip(("SEEN", "END", "DATA", "LOG"), one, other, strict=True):
        if mine != theirs:
            both = isinstance(mine, list) and isinstance(theirs, list)
            return f"{name} {first_difference(mine, theirs) if both else (mine, theirs)}"
    return None


# --- directed

DIRECTED: list[list[Statement]] = [
    [("f0",)],
    [("f0nested",)],
    [("pass",)],
    [("pass",), ("f0",)],
    [("shieldfin", [("f0",)])],
    [("timeout", 3, [("when2", "", "", [("sleep", 1000)])]), ("recv", ""), ("recv", "")],
    [
        (
            "timeout",
            2,
            [
                (
                    "branches",
                    [[("shieldfin", [(k, w)])] for k, w in (("recv", "q"), ("sleep", 9000), ("recv", "q"))],
                )
            ],
        )
    ],
    [("recv", ""), ("shieldfin", [("doze",), ("send",), ("recv", "")])],
    [("shield", [("recv", ""), ("doze",), ("send",)]), ("send",)],
    [("shieldfin", [("branches", [[("recv", ""), ("doze",), ("send",)], [("recv", ""), ("sleep", 2000)]])])],
    [("timeout", 4, [("full", [("sleep", 2000)])]), ("drain",), ("recv", "")],
    # A block ends by time, and a branch leaves two nurseries.
    [
        (
            "branches",
            [[("timeout", 2, [("branches", [[("branches", [[("recv", "q")]]), ("send",)]])]), ("send",)]],
        )
    ],
]


def directed_plans() -> list[list[tuple[int, str]]]:
    """Return some ways in which events come."""
    plans: list[list[tuple[int, str]]] = []
    for gaps in ((1001, 301, 0), (1, 1), (1001, 1001), (1001, 2001), (1001, 501), (4001, 1001)):
        at, events = EPOCH, []
        for number, gap in enumerate((*gaps, 1007, 3011, 1013, 5003)):
            at += gap
            events.append((at, f"{'ab'[number % 2]}{number}" if gap else "!"))
        events.append((at + 50_000, "!"))
        plans.append(events)
    return plans


def check_directed(program: list[Statement], seed: int, events: list[tuple[int, str]]) -> str | None:
    """Kill one program at each action."""
    calm = lives(program, Plan(seed, events))
    if (wrong := calm.problem()) is not None:
        return f"{program}: {wrong}"
    again = "doze" in str(program)  # what is awaited there begins anew, and so ends later
    for point in range(1, calm.plan.actions + 2):
        got = lives(program, Plan(seed, events, kills=[point]))
        COVERED["runs"] += 1
        wrong = got.problem()
        if wrong is None and not again and story(got, set()) != story(calm, set()):
            wrong = f"STORY {first_difference(story(calm, set()), story(got, set()))}"
        if wrong is not None:
            return f"{program} killed at {point}: {wrong}"
    return None


def check_late_question(point: int) -> str | None:
    """A question that is asked again after a crash is seen, although its time passed meanwhile."""
    program: list[Statement] = [("timeout", 2, [("send",), ("recv", "")]), ("recv", "")]
    events = [(EPOCH + 20_000, "a0"), (EPOCH + 21_000, "a1")]
    got = lives(program, Plan(point, events, race=True, kills=[point], down=4000))
    return got.problem() or (None if got.disk.seen else "the question was NEVER seen")


def check_known(seed: int, point: int) -> str | None:
    """An effect ends while another branch has the turn, and the process dies."""
    one: list[Statement] = [("recv", "a"), ("doze",), ("send",)]
    program: list[Statement] = [("branches", [one, [("recv", "b"), ("send",), ("send",)]]), ("recv", "")]
    events = [(EPOCH + 1_001, "b0"), (EPOCH + 1_003, "a1"), (EPOCH + 90_000, "!")]
    return lives(program, Plan(seed, events, race=True, kills=[point])).problem()


def directed() -> Iterator[str]:
    """Run all directed programs; give what is wrong."""
    for point in range(1, 12):
        yield from _told(check_late_question(point))
    for seed in range(8):
        for point in range(6, 30):
            yield from _told(check_known(seed, point))
    for events in directed_plans():
        for seed, program in enumerate(DIRECTED):
            yield from _told(check_directed(program, seed, events))


def _told(wrong: str | None) -> list[str]:
    return [] if wrong is None else [wrong]


# --- by command


def safely(seed: int, mode: str, **options: Any) -> str | None:
    """Run one seed; what is raised is wrong as well."""
    try:
        return check(seed, mode, **options)
    except BaseException as error:
        return "ERROR " + "".join(traceback.format_exception(error))[-1500:]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("mode", choices=MODES)
    parser.add_argument("--seeds", type=int, default=100)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--kills", type=int, default=12, help="points of each program at most; 0: all")
    parser.add_argument("--straight", action="store_true", help="only programs of one branch, without blocks")
    parser.add_argument("--shown", type=int, default=6, help="failures to print")
    parser.add_argument("--mutant", choices=[*mutants.MUTANTS, "behind"], help="a defect to plant")
    given = parser.parse_args()
    wrong: list[str] = []
    if given.mode == "directed":
        wrong = list(directed())
    else:
        options = {"kills": given.kills, "straight": given.straight, "behind": given.mutant == "behind"}
        for seed in range(given.first, given.first + given.seeds):
            if (found := safely(seed, given.mode, **options)) is not None:
                wrong.append(f"{seed} {found}")
    for one in wrong[: given.shown]:
        print(one[:1700])
    seeds = "" if given.mode == "directed" else f" seeds {given.first}..{given.first + given.seeds - 1}"
    print(f"{given.mode}{seeds} {dict(COVERED)} FAILURES {len(wrong)}")
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
