"""``triobot simulate``: random people use the bot for a day of virtual time, with crashes and faults."""

from __future__ import annotations

import argparse
import json
import logging
import sys
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Final

import attrs

from ...cli.arguments import add_json, number, whole
from ...cli.loading import load_bot
from ...cli.terminal import drawn, harmless, is_terminal, redraw, set_up_logging
from ...conversations.routes.router import table_of
from ...runtime.bot import Bot
from ...testing import virtual
from ...testing.simulating import Plan, SimulationResult, simulate

DETAILS: Final = """\
Runs the bot on an emulated platform, in one process and in virtual time. People press, write, fill in, pay
and leave, in chats of their own and, with --groups, in groups; who is asked nothing often writes what the
bot's routes wait for. Answers get lost, the platform is slow or down, the process is killed. The bot's steps
are not emulated: they call real services, and write real files. At the end it checks the promises: no
accepted event was forgotten, no press is left unanswered, no alarm was raised without reason, no money was
captured twice. The last sentence says which of these held, which routes people came to, and what went wrong
around the bot. Routes and failures that it doesn't name were not tried. The seed decides what happens: the
same seed gives the same run. TRIOBOT_* variables are not read.

examples:
  triobot simulate pizza.py:bot
  triobot simulate pizza.py:bot --seed 7 --chats 1000 --hours 24 --crashes 50
  triobot simulate group_quiz.py:bot --chats 30 --groups 5
"""


def declare(parser: argparse.ArgumentParser) -> None:
    count = whole("a number, 0 or more", 0, 10**9 - 1)
    # At least 1 for --chats and --runs: an empty simulation would always succeed.
    some = whole("a number from 1", 1, 10**9 - 1)
    hours = number("a number from 0.01 to 100000", 0.01, 100_000)
    faults = number("a number from 0 to 100", 0, 100)
    parser.add_argument("bot", metavar="MODULE:BOT", help="the bot, such as pizza:bot or path/pizza.py:bot")
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="the same seed, the same run")
    parser.add_argument(
        "--runs", type=some, default=1, metavar="N", help="run so many seeds, one after another"
    )
    parser.add_argument("--chats", type=some, default=100, metavar="N", help="how many people (100)")
    parser.add_argument(
        "--groups",
        type=count,
        default=0,
        metavar="N",
        help="how many groups; everybody is in two of them (0)",
    )
    parser.add_argument("--hours", type=hours, default=24.0, metavar="H", help="hours of virtual time (24)")
    parser.add_argument(
        "--crashes", type=count, default=10, metavar="N", help="how often the process is killed (10)"
    )
    parser.add_argument(
        "--faults",
        type=faults,
        default=3.0,
        metavar="N",
        help="how many faults there are at one time, at most (3)",
    )
    add_json(parser, what="an object for each run, for programs")


def run(arguments: argparse.Namespace) -> None:
    """Simulate; exit with 1 if a promise was broken."""
    # Simulated failures would fill the terminal with log lines; the result is printed at the end.
    set_up_logging(debug=arguments.debug, level=logging.CRITICAL)
    bot = load_bot(arguments.bot)
    for seed in range(arguments.seed, arguments.seed + arguments.runs):
        plan = Plan(
            seed=seed,
            chats=arguments.chats,
            groups=arguments.groups,
            hours=arguments.hours,
            crashes=arguments.crashes,
            faults=arguments.faults,
        )
        outcome = virtual.run(partial(simulate, bot, plan, progress=_progress(seed)))
        redraw("")
        if arguments.json:
            print(json.dumps(attrs.asdict(outcome)), flush=True)
        else:
            for line in _lines(outcome, unseen(bot, outcome)):
                print(harmless(line), flush=True)
        if outcome.broken:
            if not arguments.json:
                print(f"  again: {again(arguments.bot, plan)}")
            sys.exit(1)


def again(target: str, plan: Plan) -> str:
    """Return the command line that repeats this simulation."""
    size = f"--chats {plan.chats} --hours {plan.hours:g}"
    size += f" --groups {plan.groups}" if plan.groups else ""
    trouble = f"--crashes {plan.crashes} --faults {plan.faults:g}"
    return f"triobot simulate {target} --seed {plan.seed} {size} {trouble}"


def unseen(bot: Bot, outcome: SimulationResult) -> dict[str, str]:
    """Return the names of the routes that never began, with the names of their filters."""
    return {route.name: route.filter.name for route in table_of(bot).routes if not outcome.routes[route.name]}


def _lines(outcome: SimulationResult, never: Mapping[str, str]) -> Iterator[str]:
    """Yield the lines that report a simulation; the last line summarises the result."""
    plan = outcome.plan
    yield (
        f"seed {plan.seed}: {plan.chats} people, {plan.hours:g} hours, {outcome.acts} acts, "
        f"{outcome.events} events, {outcome.messages} messages, {plan.crashes} crashes, "
        f"{sum(outcome.faults.values())} faults; {outcome.digest}"
    )
    for promise in outcome.broken:
        yield f"  BROKEN: {promise}"
    held = ", ".join(outcome.kept) or "nothing"
    reached = [f"{name} {count} times" for name, count in outcome.routes.items() if count]
    faults = ", ".join(f"{kind} {count} times" for kind, count in outcome.faults.items()) or "none"
    missed = "".join(f"; never {name} (begins with {waits})" for name, waits in never.items())
    yield (
        f"  What held: {held}. Of {len(outcome.routes)} routes {len(reached)} began: "
        f"{', '.join(reached) or 'none'}{missed}. What went wrong around it: {faults}, "
        f"and {plan.crashes} {'kill' if plan.crashes == 1 else 'kills'} of the process."
    )


def _progress(seed: int) -> Callable[[float], None]:
    """Return a function that shows the progress: as a bar at a terminal, else as a line each 10 %."""
    printed = 0

    def show(part: float) -> None:
        nonlocal printed
        redraw(f"{drawn(part)}{part:4.0%}")
        if (tenths := int(part * 10)) > printed and not is_terminal(sys.stderr):
            printed = tenths
            print(f"seed {seed}: {tenths}0 %", file=sys.stderr, flush=True)

    return show
