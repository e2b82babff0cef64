"""``triobot jobs``: list jobs with their next times, or run a job."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from typing import Final

from ..operator.routes import Answer
from .arguments import add_actions, add_json
from .consulting import consult, instant, print_answer, settings_of

DETAILS: Final = """\
list says when each job that the bot declares by @bot.every is due next, by which schedule, and when it ran
last. Without an action, it lists, too. run begins one run now, whenever the job is due; without a running
bot, the next start does it.

examples:
  triobot jobs
  triobot jobs run pizza.weekly
"""

_ACTIONS: Final = {
    "list": "list each job's next due time and last run",
    "run": "start a run of a job now",
}


def declare(parser: argparse.ArgumentParser) -> None:
    actions = add_actions(parser, _ACTIONS, unsaid="list")
    add_json(parser, *actions.values())
    actions["run"].add_argument("name", metavar="NAME", help="the job, as the list names it")


def run(arguments: argparse.Namespace) -> None:
    action = arguments.action
    name = None if action == "list" else arguments.name
    answers = consult(settings_of(arguments), {"ask": f"jobs.{action}", "name": name})
    print_answer(answers, _lines(answers) if name is None else [f"{name} begins"], as_json=arguments.json)


def _lines(jobs: Sequence[Answer]) -> Iterator[str]:
    if not jobs:
        yield "the bot has no job; @bot.every declares one"
    for job in jobs:
        last = "never ran" if job["due"] is None else f"last {instant(job['due'])}"
        missed = f", {job['missed']} left out since" if job["missed"] else ""
        yield f"{job['name']}  due {instant(job['next'])}  {job['spec']}  {last}{missed}"
