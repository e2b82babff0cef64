"""Random programs, killed at random moments: ``python -m tests.journal.fuzz --seeds 10000``.

Two modes. *equal*: effects are instant and a dead process is back at once; what people saw, what the
program computed and how it ended must be the same as without any crash. *race*: effects, the disk and the
restart take random times; then what was computed differs, but after each crash the replay must stand where
the dead process stood at the last record that was durable, nobody may see two texts for one operation, and
nothing is repeated more often than it crashed.

Everything follows from the seed, and from the order in which Trio runs what is ready: ``--shuffles N`` tries
each seed in N of those.
"""

from __future__ import annotations

import argparse
import random
import sys
import traceback
from collections import Counter
from contextlib import suppress
from itertools import product

import attrs
import trio
from trio.testing import MockClock

from triobot.journal.doubts import PLAIN_PAST, Past
from triobot.journal.incarnation import Evicted, Incarnation, Stuck
from triobot.journal.records import CutShort, Done, Start
from triobot.testing.simulating import seeded

from .listworld import Dead, Disk, ListWorld, People, wall
from .programs import Maker, Node, Runner

COVERED = Counter[str]()
"""Events that were durable together with the record of their being taken, and turns that a crash tore so."""
FOREVER = 10**9
"""Virtual milliseconds after which whoever still waits will wait for ever."""


@attrs.define
class Outcome:
    """What came of a program."""

    end: str = "waits"
    log: list[object] = attrs.Factory(list)
    seen: list[tuple[str, str]] = attrs.Factory(list)
    data: dict[str, str] = attrs.Factory(dict)
    crashes: int = 0
    repeats: int = 0
    actions: int = 0
    problems: list[str] = attrs.Factory(list)
    ambiguous: bool = False
    taken_early: int = 0
    torn: int = 0


def people_of(seed: int) -> People:
    """What is said in a program's life."""
    r = random.Random(f"people {seed}")
    events, at = [], 1_000_000
    for number in range(r.randrange(12)):
        at += r.randrange(1, 3_000_000)
        text = "!" if r.random() < 0.06 else f"{r.choice('ab')}{number}"
        events.append((at, text))
    return People(events)


async def live(
    program: list[Node],
    seed: int,
    crashes: list[int],
    *,
    race: bool,
    write_behind: bool = False,
    early: bool = False,
) -> Outcome:
    """Run a program through all its incarnations."""
    disk, people, outcome = Disk(), people_of(seed), Outcome()
    chance = random.Random(f"race {seed}") if race else None
    soon = random.Random(f"early {seed}") if early else None
    others = random.Random(f"others {seed}") if race and seed % 3 == 0 else None
    snapshots: dict[int, object] = {}
    pending = [*crashes, None]
    while pending:
        crash_at = pending.pop(0)
        async with trio.open_nursery() as nursery:
            world = ListWorld(
                disk, people, nursery, crash_at=crash_at, race=chance, write_behind=write_behind, early=soon
            )
            world.snapshots = snapshots
            fresh = not disk.journal
            journal = [Start(wall(), "fn", 1, f"seed {seed}")] if fresh else disk.records()
            past = Past(data=dict(disk.data)) if others is not None else PLAIN_PAST
            begun = () if fresh else None
            incarnation = Incarnation(world, journal, disk.rows_read(), begun=begun, past=past)
            world.incarnation = incarnation
            runner = Runner(incarnation, world, program, lane=not race)
            world.state = lambda runner=runner: list(runner.log)
            nursery.start_soon(world.feed)
            nursery.start_soon(world.keep_flushing)
            if others is not None:
                nursery.start_soon(world.write, others)
            nursery.start_soon(_give_up, outcome, runner, incarnation)
            end = await incarnation.run(runner.main)
            if isinstance(end, Stuck):
                outcome.problems.append(f"stuck: {end.error}")
                world.dead = True
            elif not isinstance(end, Evicted):
                outcome.end = type(end).__name__
                with suppress(Dead):
                    await world.flush()
            nursery.cancel_scope.cancel()
        outcome.problems += world.problems
        outcome.actions = world.actions
        outcome.taken_early += world.taken_early
        if outcome.end != "waits":
            outcome.log = runner.log
        outcome.data = dict(incarnation.data)
        if outcome.problems or outcome.end != "waits" or not world.dead:
            break
        outcome.crashes += 1
        known = snapshots.get(len(disk.journal))
        if disk.restart():
            outcome.torn += 1
            known = None
        snapshots = {} if known is None else {len(disk.journal): known}
        if chance is not None:
            await trio.sleep(chance.randrange(4000))
    if outcome.end == "Returned" and dict(incarnation.data) != disk.data:
        outcome.problems.append(f"the chat keeps {disk.data}, the conversation {incarnation.data}")
    outcome.ambiguous = any(
        isinstance(record, Done) and isinstance(record.outcome, CutShort) for record in disk.records()
    )
    outcome.seen, outcome.repeats = people.seen, people.repeats
    outcome.problems += people.contradictions
    if people.repeats > outcome.crashes:
        outcome.problems.append(f"{people.repeats} repeats in {outcome.crashes} crashes")
    return outcome


async def _give_up(outcome: Outcome, runner: Runner, incarnation: Incarnation) -> None:
    await trio.sleep(FOREVER)
    # Who waits for ever has got as far as this: what comes now is the order in which branches are let go.
    outcome.log = list(runner.log)
    incarnation.evict()


def check(seed: int, *, race: bool, write_behind: bool = False, shuffle: int = 0) -> str | None:
    """What is wrong with this seed, if anything, when Trio shuffles so."""
    with seeded(f"shuffle {seed} {shuffle}"):
        return _check(seed, race=race, write_behind=write_behind)


def _check(seed: int, *, race: bool, write_behind: bool) -> str | None:
    maker = Maker(seed)
    program = maker.body(3, 5)
    chance = random.Random(f"crashes {seed}")
    calm = _run(program, seed, [], race=race)
    if calm.problems:
        return f"without a crash: {calm.problems}"
    crashes = [chance.randint(1, max(1, calm.actions)) for _ in range(chance.randint(1, 4))]
    # Half of the seeds take events in the transaction that accepts them.
    shaken = _run(program, seed, crashes, race=race, write_behind=write_behind, early=seed % 2 == 1)
    COVERED.update(early=shaken.taken_early, torn=shaken.torn)
    if shaken.problems:
        return f"{shaken.problems}"
    # An effect that was cut short may have ended just before, and a crash decides anew which it was.
    if not race and not calm.ambiguous and not shaken.ambiguous:
        for name in ("end", "log", "seen", "data"):
            if (one := getattr(calm, name)) != (other := getattr(shaken, name)):
                return f"{name} without a crash: {one}\n    with {shaken.crashes}: {other}"
    return None


def _run(
    program: list[Node],
    seed: int,
    crashes: list[int],
    *,
    race: bool,
    write_behind: bool = False,
    early: bool = False,
) -> Outcome:
    async def main() -> Outcome:
        return await live(program, seed, crashes, race=race, write_behind=write_behind, early=early)

    return trio.run(main, clock=MockClock(autojump_threshold=0))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=1000)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--mode", choices=["equal", "race", "both"], default="both")
    parser.add_argument("--shuffles", type=int, default=1, help="orders of Trio's scheduler for each seed")
    parser.add_argument("--stop", action="store_true", help="at the first failure")
    arguments = parser.parse_args()
    failures = 0
    modes = {"equal": [False], "race": [True], "both": [False, True]}[arguments.mode]
    for seed in range(arguments.first, arguments.first + arguments.seeds):
        for race, shuffle in product(modes, range(arguments.shuffles)):
            try:
                wrong = check(seed, race=race, shuffle=shuffle)
            except BaseException:
                wrong = traceback.format_exc()
            if wrong is not None:
                failures += 1
                mode = "race" if race else "equal"
                print(f"seed {seed}, {mode}, shuffle {shuffle}: {wrong}", flush=True)
                if arguments.stop:
                    sys.exit(1)
    print(f"{arguments.seeds * len(modes) * arguments.shuffles} runs, {failures} failures, {dict(COVERED)}")
    sys.exit(bool(failures))


if __name__ == "__main__":
    main()
