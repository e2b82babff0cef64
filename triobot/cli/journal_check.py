"""``triobot journal check``: replay all stored journals on new code, before its deploy.

One process reads the journals, and one process per processor replays journals.
"""

from __future__ import annotations

import json
import os
import random
import signal
import threading
import time
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Generator, Iterator, Mapping, Sequence
from contextlib import aclosing, contextmanager
from functools import lru_cache, partial
from linecache import getline
from pathlib import Path
from statistics import median
from types import FrameType
from typing import Any, Final, TypeAlias, cast, final

import attrs
import trio
from anyio import BrokenWorkerProcess, CapacityLimiter
from anyio.to_process import run_sync

from ..base.authors import leaves
from ..base.clock import SystemClock
from ..base.frozen import guarded
from ..conversations.data import Key, declared_keys
from ..conversations.inspection.rerun import Divergence, open_rerun
from ..conversations.revival.changed import Changed
from ..conversations.revival.code import Code
from ..conversations.revival.stored import read_stored
from ..conversations.routes.router import table_of
from ..conversations.running.lines import line_above
from ..engine.records import time_of
from ..errors import ConfigError, NondeterminismError, UnreadableRecordError
from ..exact.verdicts import INSERTED, Parting
from ..operator.routes import Answer
from ..runtime.bot import Bot, dry_services_of
from ..runtime.settings import Settings
from ..seams.rooms import place_name
from ..wire.ids import ChatId
from .consulting import Ask, ask_bot, gather, open_api, span
from .exported import comparison_of, exported_journal
from .loading import load_bot
from .terminal import drawn, harmless, redraw

# Limit of CPU seconds for each journal. A signal stops the code, since the code may never wait.
SPINS: Final = 20.0
FEW: Final = 500
"""Up to this number of conversations, one process is faster: each further process has to import the bot."""
MOST: Final = 16
"""Default limit for the number of replaying processes: a single process reads the journals for all of them.
"""

BATCH: Final = 32
"""Number of journals in one batch to a process. On a busy machine, each batch waits for the scheduler twice.
"""

Journals: TypeAlias = AsyncGenerator["list[Answer]"]
_Batch: TypeAlias = "list[list[Answer]]"

_WORDS: Final = 20
"""Largest number of pairs of reworded lines in a report."""


class _RunsOnError(BaseException):
    """Raised in code that runs too long without waiting; the text is the code's line."""


@final
@guarded
class Finding:
    """Result of a journal's replay.

    Attributes:
        because: why the conversation would be parked; None if the conversation goes on.
        line: line of the author's code with the difference, or "?".
        operation: operation with the difference.
        parting: difference between the recorded line and the current line; None if no lines differ.
        reworded: pairs of lines that differ only in their texts.
        again: whether the question would be sent again, because the question's buttons have changed.
        stands: line at which the conversation waits; "?" if the conversation doesn't wait, or would be
            parked.
        since: time of the last record, in wall-clock milliseconds; 0: no record.
    """

    because: str | None = None
    line: str = "?"
    operation: str = "0"
    parting: Parting | None = None
    reworded: Sequence[tuple[str, str]] = ()
    again: bool = False
    stands: str = "?"
    since: int = 0


@final
class Funnel:
    """For each route and line of code: how many conversations wait there, and for how long."""

    parked = 0

    def __init__(self, total: int, now: int, *, as_json: bool = False) -> None:
        self.total = total
        self.checked = 0
        self._now = now
        self._as_json = as_json
        self._waits: dict[tuple[str, str], list[int]] = {}

    def add(self, row: Answer, found: Finding) -> None:
        self.checked += 1
        since = self._now - (found.since or cast("int", row["started_at"]))
        stands = "parked" if row["parked_because"] is not None else found.stands
        self._waits.setdefault((str(row["route"]), stands), []).append(max(0, since))

    def say(self) -> None:
        """Print the counts, by route and line."""
        for (route, line), waits in sorted(self._waits.items(), key=_in_order):
            half, longest = int(median(waits)), max(waits)
            if self._as_json:
                row = {"route": route, "line": line, "count": len(waits), "median": half, "longest": longest}
                print(json.dumps(row))
                continue
            file, _, number = line.rpartition(":")
            code = getline(file, int(number)).strip() if number.isdigit() else ""
            where = f"{Path(file).name}:{number}" if file else line
            since = f"half of them for {span(half)}, the longest for {span(longest)}"
            print(harmless(f"{len(waits):>7}  {route}  {where}  {since}  {code}".rstrip()))


def _in_order(group: tuple[tuple[str, str], list[int]]) -> tuple[str, str, int]:
    (route, line), _ = group
    file, _, number = line.rpartition(":")
    return route, file, int(number) if number.isdigit() else -1


@final
class Report:
    """Counts of findings by route, line and reason.

    Args:
        total: number of journals to check, as far as known.
    """

    def __init__(self, total: int, *, as_json: bool = False) -> None:
        self.total = total
        self._as_json = as_json
        self.checked = self.parked = self.reworded = self.again = 0
        self._groups: Counter[tuple[str, Finding]] = Counter()
        self._examples: dict[tuple[str, Finding], str] = {}
        self._words: Counter[tuple[str, str]] = Counter()
        self._shown = -1

    def add(self, row: Answer, found: Finding) -> None:
        """Count a journal's finding."""
        self.checked += 1
        self.show()
        self.again += found.again
        if found.because is None:
            self.reworded += bool(found.reworded)
            self._words.update(found.reworded)
            return
        self.parked += 1
        group = str(row["route"]), attrs.evolve(found, operation="", reworded=(), again=False)
        self._groups[group] += 1
        place = place_name(ChatId(cast("int", row["chat_id"])))
        example = f"{place}, conversation {row['conversation']}, operation {found.operation}"
        self._examples.setdefault(group, example)

    def show(self) -> None:
        """Draw the progress, in a terminal."""
        whole = max(self.total, self.checked, 1)
        # The progress isn't drawn for each journal, since a terminal is slower than a replay.
        if self._shown != (per_mille := self.checked * 1000 // whole):
            self._shown = per_mille
            redraw(f"{drawn(self.checked / whole)}{self.checked:,} of {whole:,}, {self.parked:,} parked")

    def say(self) -> None:
        """Print the findings, most frequent first."""
        redraw("")
        for line in self._json() if self._as_json else self._lines():
            print(harmless(line), flush=True)

    def _lines(self) -> Iterator[str]:
        for (route, found), count in self._groups.most_common():
            where = "" if found.line == "?" or found.parting else f" ({found.line})"
            yield f"{count} of {route} would be parked: {found.because}{where}"
            if found.parting is not None:
                yield f"    recorded  {found.parting.was}"
                yield f"    now       {found.parting.now}"
            yield f"    such as {self._examples[route, found]}"
            if found.parting is not None:
                code = found.parting.code
                same = f" The same operation? triobot journal accept {code}" if code else ""
                yield f"    {_remedy(found)}{same}"
        if self.reworded:
            yield f"{self.reworded} would read other words than were said:"
        for (was, now), _ in self._words.most_common(_WORDS):
            yield f"    was       {was}"
            yield f"    now       {now}"
        if len(self._words) > _WORDS:
            yield f"    and {len(self._words) - _WORDS} more lines"
        if self.again:
            yield f"{self.again} would be shown their question again: its buttons have changed"
        asked = f" of {self.total}" if self.checked < self.total else ""
        go_on = self.checked - self.parked
        yield f"{self.checked}{asked} conversations: {go_on} go on, {self.parked} would be parked"

    def _json(self) -> Iterator[str]:
        for (route, found), count in self._groups.most_common():
            row: dict[str, object] = {"route": route, "line": found.line, "because": found.because}
            row |= {"parked": count, "example": self._examples[route, found]}
            if (parting := found.parting) is not None:
                row |= {"was": str(parting.was), "now": str(parting.now), "accept": parting.code}
            yield json.dumps(row)
        for (was, now), count in self._words.most_common():
            yield json.dumps({"reworded": count, "was": was, "now": now})
        names = ("total", "checked", "parked", "reworded", "again")
        yield json.dumps({name: getattr(self, name) for name in names})


def _remedy(found: Finding) -> str:
    if found.because == INSERTED:
        return "New? Put it behind chat.patched(NAME)."
    return "Another one? Keep the old way beside it: chat.patched(NAME)."


async def accept(bot: Bot, settings: Settings, code: str, *, do: bool) -> Sequence[tuple[str, Parting]]:
    """Find the conversations that would be parked for one change of a line. With `do`, store that the change
    is accepted, and try again the conversations already parked for this change.

    Args:
        code: short code that a report prints for the change, such as ``7f3a21``.

    Returns:
        Route and difference of each conversation found.
    """
    found: list[tuple[str, Parting]] = []
    async with open_api(settings) as ask:
        looker = Looker(bot, settings, await gather(ask, {"ask": "journals.code"}))
        async with aclosing(_all(ask)) as journals:
            async for lines in journals:
                parting = (await looker.look(lines)).parting
                if parting is not None and parting.code == code:
                    found.append((str(lines[0]["route"]), parting))
    if do and found:
        was, now = found[0][1].was, found[0][1].now
        given = {"function": was.function, "was": was.call, "now": now.call}
        await gather(partial(ask_bot, settings), {"ask": "journals.accept", **given})
        await gather(partial(ask_bot, settings), {"ask": "parked.retry", "because": code})
    return found


async def check(
    bot: Bot,
    settings: Settings,
    target: str,
    *,
    sample: int | None = None,
    processes: int | None = None,
    as_json: bool = False,
    by_line: bool = False,
) -> bool:
    """Check all stored journals and values. Return False if a conversation would be parked, or a value is
    unreadable.

    Args:
        by_line: print only the lines at which conversations wait, and return True.
        target: name of the bot, for other processes.
        sample: number of conversations to check; None: all.
        as_json: print findings as JSON, an object a line.
        processes: number of replaying processes; by default one per processor, if there are enough journals.
    """
    async with open_api(settings) as ask:
        total = cast("int", (await gather(ask, {"ask": "status"}))[0]["conversations"])
        now = SystemClock().now()
        report = Funnel(total, now, as_json=as_json) if by_line else Report(total, as_json=as_json)
        due = total if sample is None else min(sample, total)
        wanted = processes or (min(os.cpu_count() or 1, MOST) if due > FEW else 1)
        several = max(1, min(wanted, due))  # further processes would get no journal
        journals = _all(ask) if sample is None else _sampled(ask, sample)
        known = await gather(ask, {"ask": "journals.code"})
        if sample is not None:
            report.total = due
        async with aclosing(journals):
            if several == 1:
                looker = Looker(bot, settings, known)
                async for lines in journals:
                    report.add(lines[0], await looker.look(lines))
            else:
                await _run_beside(target, several, known, journals, report.add)
        report.total = max(total, report.checked)
        report.say()
        if by_line:
            return True
        readable = await _check_values(ask, as_json=as_json)
    return report.parked == 0 and readable


# --- stored journals


async def _all(ask: Ask) -> Journals:
    """Yield the journals of conversations that have not ended. Read page by page: a store may have a million
    journals.
    """
    async for answer in _pages(ask, whole=True):
        yield cast("list[Answer]", answer["journal"])


async def _sampled(ask: Ask, sample: int) -> Journals:
    """Yield `sample` journals, drawn at random, as evenly as possible from all routes."""
    found: dict[str, list[int]] = {}
    async for answer in _pages(ask, whole=False):
        found.setdefault(str(answer["route"]), []).append(cast("int", answer["conversation"]))
    # A fixed seed: a second check after a fix checks the same conversations.
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
                lines = await gather(ask, {"ask": "journals.show", "conversation": id})
            except ConfigError:
                continue  # the conversation has ended since its row was read
            sample -= 1
            yield lines


async def _pages(ask: Ask, *, whole: bool) -> AsyncGenerator[Answer]:
    after: int | None = 0
    while after is not None:
        *answers, end = await gather(ask, {"ask": "journals.open", "after": after, "whole": whole})
        for one in answers:
            yield one
        after = cast("int | None", end["after"])


# --- stored values


async def _check_values(ask: Ask, *, as_json: bool) -> bool:
    keys = declared_keys()
    values = bad = 0
    for key in keys:
        groups: Counter[str] = Counter()
        examples: dict[str, int] = {}
        after: int | None = None
        while True:
            *answers, end = await gather(ask, {"ask": "kept", "key": key.name, "after": after})
            for one in answers:
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
            print(f"    such as that of {place_name(ChatId(examples[because]))}")
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


# --- a journal


@final
class Looker:
    """Replays journals on a bot's current code.

    Args:
        known: the store's lines about the code that ran the journals, from the answer to `journals.code`.
    """

    def __init__(self, bot: Bot, settings: Settings, known: Sequence[Answer]) -> None:
        self._bot, self._settings, self._table = bot, settings, table_of(bot)
        self._comparison = comparison_of(Code(self._table), known)

    async def look(self, lines: Sequence[Answer]) -> Finding:
        """Replay a journal."""
        table = self._table
        try:
            journal = exported_journal(lines)
            stored = read_stored(journal)
            changed = Changed(self._comparison, stored.row, stored.records)
            changed.prepare(stored.records)  # before the time limit starts
            services = dry_services_of(self._bot, self._settings)
            with _bounded():
                async with open_rerun(services, table, stored, changed=changed) as rerun:
                    found = _found(rerun.divergence, changed)
                    if rerun.divergence is not None:
                        return found
                    since = time_of(stored.records[-1]) if stored.records else 0
                    return attrs.evolve(found, stands=rerun.standing().line, since=since)
        except (NondeterminismError, UnreadableRecordError) as error:
            return Finding(error.what)
        except BaseExceptionGroup as group:
            spins, rest = group.split(_RunsOnError)
            if rest is not None or spins is None:
                raise
            return Finding("it runs on and on, without ever waiting", str(next(leaves(spins))))


def _found(divergence: Divergence | None, changed: Changed) -> Finding:
    if divergence is None:
        reworded = tuple((str(was), str(now)) for was, now in changed.judge.reworded)
        return Finding(reworded=reworded, again=changed.again)
    because = divergence.what if divergence.parting is None else divergence.parting.because
    return Finding(because, divergence.line, divergence.operation, divergence.parting)


@contextmanager
def _bounded() -> Generator[None]:
    """Raise `_RunsOnError` in a block that uses `SPINS` seconds of CPU, or ten times as many real seconds."""

    began, cpu = time.monotonic(), time.process_time()

    def ring(_: int, frame: FrameType | None) -> None:
        # Compare CPU time: on a busy machine, code may only be waiting for a processor.
        if time.process_time() - cpu < SPINS and time.monotonic() - began < 10 * SPINS:
            signal.setitimer(signal.ITIMER_REAL, SPINS)
            return
        raise _RunsOnError(line_above(frame))

    if threading.current_thread() is not threading.main_thread() or not hasattr(signal, "SIGALRM"):
        yield  # signals reach the main thread only, and Windows has no SIGALRM
        return
    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, SPINS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def lines_of_sites(known: Sequence[Answer]) -> Mapping[int, str]:
    """Return the author's line of each stored site, such as ``shop.py:14``."""
    names = {line["source"]: line["name"] for line in known if "source" in line}
    sites = [cast("Sequence[Any]", line["site"]) for line in known if "site" in line]
    return {site[0]: f"{names[site[2]]}.py:{site[4]}" for site in sites if site[2] in names}


# --- several processes


async def _run_beside(
    target: str,
    processes: int,
    known: Sequence[Answer],
    journals: Journals,
    add: Callable[[Answer, Finding], None],
) -> None:
    """Replay journals in other processes. Reading pauses while all these processes are busy."""
    send, batches = trio.open_memory_channel["_Batch"](processes)
    look = partial(_look_beside, CapacityLimiter(processes), target, json.dumps(known), add=add)

    async def feed() -> None:
        async for batch in batches:
            await look(batch)

    async with trio.open_nursery() as nursery, send:
        for _ in range(processes):
            nursery.start_soon(feed)
        batch: _Batch = []
        async for lines in journals:
            batch.append(lines)
            if len(batch) == BATCH:
                await send.send(batch)
                batch = []
        if batch:
            await send.send(batch)


async def _look_beside(
    limiter: CapacityLimiter, target: str, known: str, batch: _Batch, add: Callable[[Answer, Finding], None]
) -> None:
    """Replay a batch in another process. If the process dies, replay each of the journals by itself."""
    try:
        found = await run_sync(_findings, target, known, batch, cancellable=True, limiter=limiter)
    except BrokenWorkerProcess:
        if len(batch) > 1:
            for lines in batch:
                await _look_beside(limiter, target, known, [lines], add)
            return
        found = [Finding("its code ends the process, or takes it down")]
    for lines, one in zip(batch, found, strict=True):
        add(lines[0], one)


@lru_cache(1)
def _looker(target: str, known: str) -> Looker:
    bot = load_bot(target)
    return Looker(bot, bot.settings(), json.loads(known))


def _findings(target: str, known: str, batch: _Batch) -> list[Finding]:
    # The parent process communicates with this process through descriptors 0 and 1. Libraries in C and
    # started programs could use these descriptors directly, so connect both to the null device during the
    # replays.
    null, kept = os.open(os.devnull, os.O_RDWR), (os.dup(0), os.dup(1))
    for fd in range(3):
        os.dup2(null, fd)
    try:
        return trio.run(_look_at_all, _looker(target, known), batch)
    finally:
        for fd, file in enumerate((*kept, null)):
            os.dup2(file, fd)
            os.close(file)


async def _look_at_all(looker: Looker, batch: _Batch) -> list[Finding]:
    try:
        return [await looker.look(lines) for lines in batch]
    except BaseException:  # the parent then replays each journal by itself, and reports the failing one
        os._exit(1)
