"""``triobot journal check``: run all stored journals under new code, before that is deployed.

The journals are read in one process, and run in as many as there are processors: ``python -m
triobot.cli.journal_check MODULE:BOT`` is such a one. It gets a journal a line on its standard input, and says
on its standard output what became of it.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Sequence
from contextlib import aclosing, contextmanager, suppress
from functools import partial
from types import FrameType
from typing import Final, TypeAlias, cast, final

import attrs
import trio

from ..authors import leaves
from ..bot import Bot, dry_services_of
from ..conversations.data import Key, declared_keys
from ..conversations.inspection.rerun import open_rerun
from ..conversations.revival.stored import read_stored, survives, why_unfit
from ..conversations.routes.router import table_of
from ..conversations.running.lines import line_above
from ..errors import ConfigError, NondeterminismError, UnreadableRecordError
from ..journals import ConversationId
from ..lines import lines_of
from ..operator.requests import ReadJournals, ReadKept, ShowJournal, Status, Told
from ..rooms import told as named
from ..settings import Settings
from ..wire.ids import ChatId
from .consulting import Ask, gather, open_api
from .exported import exported_journal
from .loading import load_bot
from .terminal import drawn, harmless, redraw

# Each journal has some seconds; code that never waits can't be ended from within.
SPINS: Final = 20.0
FEW: Final = 500
"""Conversations that one process has run before another has imported the bot."""
MOST: Final = 16
"""Processes at most, unless more are asked for: one has to read for all of them."""

BATCH: Final = 32
"""Journals that a process is handed at once: on a busy machine each exchange waits for its turn twice."""

_LONGEST_ANSWER: Final = 64 * 1024

Journals: TypeAlias = AsyncGenerator["list[Told]"]
_Batch: TypeAlias = "list[list[Told]]"


class _RunsOnError(BaseException):
    """Code that runs on and on, without ever waiting; the text is its line."""


@final
@attrs.frozen
class Finding:
    """What became of a journal.

    Attributes:
        because: why its conversation would be parked; None if it goes on.
        line: of the author's code, or "?".
        operation: at which that is.
        reworded: how many of its words have changed.
        checked: it was looked at; otherwise it ends at the next start, with a word to its user.
    """

    because: str | None = None
    line: str = "?"
    operation: str = "0"
    reworded: int = 0
    checked: bool = True


@final
class Report:
    """What was found so far, by route, line and reason.

    Args:
        total: how many there will be, as far as that is known.
    """

    def __init__(self, total: int, *, as_json: bool = False) -> None:
        self.total = total
        self._as_json = as_json
        self.seen = self.checked = self.parked = self.reworded = self.unreadable = 0
        self._groups: Counter[tuple[str, str, str]] = Counter()
        self._examples: dict[tuple[str, str, str], str] = {}
        self._shown = -1

    def add(self, row: Told, found: Finding) -> None:
        """Count what was found in one journal."""
        self.seen += 1
        self.show()
        if not found.checked:
            return
        self.checked += 1
        self.reworded += found.reworded
        if found.because is None:
            return
        self.parked += 1
        group = str(row["route"]), found.line, found.because
        self._groups[group] += 1
        place = named(ChatId(cast("int", row["chat_id"])))
        example = f"{place}, conversation {row['conversation']}, operation {found.operation}"
        self._examples.setdefault(group, example)

    def show(self) -> None:
        """Draw how far it is, at a terminal."""
        whole = max(self.total, self.seen, 1)
        # Not for each: a terminal is slower than a journal.
        if self._shown != (per_mille := self.seen * 1000 // whole):
            self._shown = per_mille
            redraw(f"{drawn(self.seen / whole)}{self.seen:,} of {whole:,}, {self.parked:,} parked")

    def say(self) -> None:
        """Print what was found, the most frequent first."""
        redraw("")
        if self._as_json:
            self._say_json()
            return
        for (route, line, because), count in self._groups.most_common():
            where = "" if line == "?" else f" ({line})"
            print(harmless(f"{count} of {route} would be parked: {because}{where}"))
            print(harmless(f"    such as {self._examples[route, line, because]}"))
        note = f", {self.reworded} with other words than were said" if self.reworded else ""
        asked = f" of {self.total}" if self.checked < self.total else ""
        go_on = self.checked - self.parked
        print(
            f"{self.checked}{asked} conversations: {go_on} go on, {self.parked} would be parked{note}",
            flush=True,
        )

    def _say_json(self) -> None:
        for (route, line, because), count in self._groups.most_common():
            example = self._examples[route, line, because]
            found = {"route": route, "line": line, "because": because, "parked": count, "example": example}
            print(json.dumps(found))
        names = ("total", "checked", "parked", "reworded")
        print(json.dumps({name: getattr(self, name) for name in names}), flush=True)


async def check(
    bot: Bot,
    settings: Settings,
    target: str,
    *,
    sample: int | None = None,
    processes: int | None = None,
    as_json: bool = False,
) -> bool:
    """Check what is stored; False if something would be parked, or a value can't be read.

    Args:
        target: names the bot, for other processes.
        sample: look at so many conversations only.
        as_json: print what was found as JSON, an object a line.
        processes: that run journals; by default as many as there are processors, if that is worth while.
    """
    async with open_api(settings) as ask:
        total = cast("int", (await gather(ask, Status()))[0]["conversations"])
        report = Report(total, as_json=as_json)
        due = total if sample is None else min(sample, total)
        wanted = processes or (min(os.cpu_count() or 1, MOST) if due > FEW else 1)
        several = max(1, min(wanted, due))  # more would only start and end
        journals = _all(ask) if sample is None else _sampled(ask, sample)
        if sample is not None:
            report.total = due
        async with aclosing(journals):
            if several == 1:
                async for lines in journals:
                    report.add(lines[0], await look(bot, settings, lines))
            else:
                await _run_beside(target, several, journals, report.add)
        report.total = max(total, report.seen)
        report.say()
        readable = await _check_values(ask, as_json=as_json)
    return report.parked == 0 and readable


# --- what is stored


async def _all(ask: Ask) -> Journals:
    """Yield the journals of all that have not ended, a page at a time: they may be a million."""
    async for told in _pages(ask, whole=True):
        yield cast("list[Told]", told["journal"])


async def _sampled(ask: Ask, sample: int) -> Journals:
    """Yield so many journals, drawn at random and spread evenly over the routes."""
    found: dict[str, list[int]] = {}
    async for told in _pages(ask, whole=False):
        found.setdefault(str(told["route"]), []).append(cast("int", told["conversation"]))
    # The same ones each time: what was mended is looked at again.
    chance = random.Random(0)
    for ids in found.values():
        chance.shuffle(ids)
    while sample and found:
        for route in list(found):
            if not sample:
                break
            id = found[route].pop()
            if not found[route]:
                del found[route]
            try:
                lines = await gather(ask, ShowJournal(ConversationId(id)))
            except ConfigError:
                continue  # it has ended meanwhile
            sample -= 1
            yield lines


async def _pages(ask: Ask, *, whole: bool) -> AsyncGenerator[Told]:
    after: int | None = 0
    while after is not None:
        *told, end = await gather(ask, ReadJournals(after, whole=whole))
        for one in told:
            yield one
        after = cast("int | None", end["after"])


# --- what chats keep


async def _check_values(ask: Ask, *, as_json: bool) -> bool:
    """Read every stored value of every key; returns whether all can be read."""
    keys = declared_keys()
    values = bad = 0
    for key in keys:
        groups: Counter[str] = Counter()
        examples: dict[str, int] = {}
        after: int | None = None
        while True:
            *told, end = await gather(ask, ReadKept(key.name, after))
            for one in told:
                values += 1
                because = _why_unreadable(key, str(one["value"]))
                if because is not None:
                    groups[because] += 1
                    examples.setdefault(because, cast("int", one["chat_id"]))
            if end["after"] is None:
                break
            after = cast("int", end["after"])
        for because, count in groups.most_common():
            bad += count
            if as_json:
                found = {
                    "key": key.name,
                    "because": because,
                    "unreadable": count,
                    "chat_id": examples[because],
                }
                print(json.dumps(found))
                continue
            print(harmless(f"{count} stored values park who reads them: {because}"))
            print(f"    such as that of {named(ChatId(examples[because]))}")
    if values and not as_json:
        print(f"{values} values of {len(keys)} keys: {values - bad} can be read, {bad} can't")
    return not bad


def _why_unreadable(key: Key[object], text: str) -> str | None:
    try:
        with _bounded():
            key.load(text)
    except UnreadableRecordError as error:
        return error.what
    except _RunsOnError as error:
        return f"what upgrades {key!r} runs on and on ({error})"
    return None


# --- one journal


async def look(bot: Bot, settings: Settings, lines: Sequence[Told]) -> Finding:
    """Run a journal, and return what became of it."""
    table = table_of(bot)
    try:
        journal = exported_journal(lines)
        if (because := why_unfit(journal.row, table)) is not None:
            return Finding(because)  # whatever its records say
        stored = read_stored(journal)
        if not survives(stored, table):
            return Finding(checked=False)
        with _bounded():
            async with open_rerun(dry_services_of(bot, settings), table, stored) as rerun:
                found = rerun.divergence
                if found is None:
                    return Finding(reworded=len(rerun.changed))
                return Finding(found.what, found.line, found.operation, len(rerun.changed))
    except NondeterminismError as error:
        return Finding(error.what)
    except UnreadableRecordError as error:
        return Finding(error.what)
    except BaseExceptionGroup as group:
        spins, rest = group.split(_RunsOnError)
        if rest is not None or spins is None:
            raise
        return Finding("it runs on and on, without ever waiting", str(next(leaves(spins))))


@contextmanager
def _bounded() -> Generator[None]:
    """Raise in code that never waits."""

    def ring(_: int, frame: FrameType | None) -> None:
        raise _RunsOnError(line_above(frame))

    if threading.current_thread() is not threading.main_thread() or not hasattr(signal, "SIGALRM"):
        yield  # no signal comes to another one, nor on Windows
        return
    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, SPINS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


# --- several processes


async def _run_beside(
    target: str, processes: int, journals: Journals, add: Callable[[Told, Finding], None]
) -> None:
    """Run journals in other processes. Reading them waits while all of those have enough to do."""
    send, receive = trio.open_memory_channel["_Batch"](processes)
    async with trio.open_nursery() as nursery, send:
        async with receive:
            for _ in range(processes):
                nursery.start_soon(_feed, target, receive.clone(), add)
        batch: _Batch = []
        async for lines in journals:
            batch.append(lines)
            if len(batch) == BATCH:
                await send.send(batch)
                batch = []
        if batch:
            await send.send(batch)


async def _feed(
    target: str, batches: trio.MemoryReceiveChannel[_Batch], add: Callable[[Told, Finding], None]
) -> None:
    """Have a process run one batch after the other; start another one when it dies."""
    left: _Batch | None = []
    async with batches:
        while left is not None:
            async with trio.open_nursery() as nursery:
                child = await nursery.start(_child, target)
                left = await _feed_one(child, left, batches, add)
                nursery.cancel_scope.cancel()


async def _child(target: str, task_status: trio.TaskStatus[trio.Process]) -> None:
    run: Callable[..., Awaitable[object]] = partial(
        trio.run_process,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        check=False,
    )
    await run([sys.executable, "-m", __name__, target], task_status=task_status)


async def _feed_one(
    child: trio.Process,
    due: _Batch,
    batches: trio.MemoryReceiveChannel[_Batch],
    add: Callable[[Told, Finding], None],
) -> _Batch | None:
    """Feed it until it dies; returns what it has not run then, or None if there is nothing more to run."""
    assert child.stdout is not None
    async with aclosing(lines_of(child.stdout, _LONGEST_ANSWER)) as answers:
        if not await anext(answers, b""):
            raise ConfigError("a process of its own can't import the bot; `--processes 1` does without")
        while True:
            try:
                due = due or await batches.receive()
            except trio.EndOfChannel:
                return None
            await _send(child, due)
            for number, (row, *_) in enumerate(due):
                answer = await anext(answers, b"")
                if not answer.endswith(b"\n"):
                    add(row, Finding("its code ends the process, or takes it down"))
                    return due[number + 1 :]
                add(row, Finding(**json.loads(answer)))
            due = []


async def _send(child: trio.Process, batch: _Batch) -> None:
    assert child.stdin is not None
    # Its answers fit into a pipe: it doesn't wait for us while we wait for it.
    with suppress(trio.BrokenResourceError):  # the answers will tell how far it came
        await child.stdin.send_all(b"".join(json.dumps(lines).encode() + b"\n" for lines in batch))


async def _work(bot: Bot, answers: Callable[[object], None]) -> None:
    settings = bot.settings()
    answers({})
    for line in sys.stdin:
        answers(attrs.asdict(await look(bot, settings, json.loads(line))))


def main() -> None:
    """Answer until the input ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # What the bot's own modules print is no answer.
    out = os.fdopen(os.dup(1), "w")
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)

    def answers(said: object) -> None:
        print(json.dumps(said), file=out, flush=True)

    trio.run(_work, load_bot(sys.argv[1]), answers)


if __name__ == "__main__":
    main()
